"""The picture of `word_vectors.py`: the loss as it fell, and what a step and its gradient cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import matplotlib
import numpy as np

matplotlib.use("Agg")  # draws into files, wherever this runs

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

__all__ = ["draw"]

COMPACT, DENSE, INK = "#0b6e75", "#c8c2b8", "#2b2b2b"


class Cost(Protocol):
    @property
    def seconds(self) -> float: ...
    @property
    def gradient_bytes(self) -> int: ...


def draw(losses: Sequence[float], compact: Cost, dense: Cost, path: Path) -> None:
    """Save three panels: the loss, the time of a step, the bytes of a gradient."""
    with plt.rc_context({"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": "#999999"}):
        figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.2), width_ratios=[2, 1, 1], layout="constrained")
        _curve(left, losses)
        _bars(middle, "Time of a step", "ms", "faster", compact.seconds * 1e3, dense.seconds * 1e3)
        _bars(right, "Memory of its gradient", "MiB", "less", compact.gradient_bytes / 2**20, dense.gradient_bytes / 2**20)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130, bbox_inches="tight", pad_inches=0.2)
        plt.close(figure)


def _curve(axes: Axes, losses: Sequence[float]) -> None:
    span = max(1, len(losses) // 200)
    means = np.convolve(losses, np.full(span, 1 / span), mode="valid")
    axes.plot(losses, color=DENSE, linewidth=0.4, alpha=0.6)
    axes.plot(np.arange(means.size) + span // 2, means, color=COMPACT, linewidth=1.8)
    axes.set(title="Training loss", xlabel="step", xlim=(0, len(losses)))
    axes.set_ylim(0.97 * means.min() - 0.05, 1.05 * means.max())
    axes.text(0.98, 0.94, f"a batch, and the mean of {span}", transform=axes.transAxes, ha="right", va="top", color="#777777")
    _plain(axes)


def _bars(axes: Axes, title: str, unit: str, gain: str, compact: float, dense: float) -> None:
    bars = axes.bar(["compact", "dense"], [compact, dense], color=[COMPACT, DENSE], width=0.6)
    axes.bar_label(bars, labels=[f"{compact:.3g} {unit}", f"{dense:.3g} {unit}"], padding=3)
    axes.set(title=title, ylabel=unit, ylim=(0, 1.1 * dense))
    axes.text(0, 0.3 * dense, f"{dense / compact:.0f}x\n{gain}", ha="center", color=COMPACT, fontsize=15, fontweight="bold")
    axes.tick_params(axis="x", length=0)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.title.set_fontweight("bold")
