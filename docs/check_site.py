"""Opens the built site in a headless browser: ``make docs-check``.

Serves docs/_build/html on this machine, opens every page, follows every link inside the site (its anchors too), fails on errors in the
console, on anything asked of another host, on a page that is wider than the window, and on an entry that is missing in the inventory. It then
takes pictures of four pages at two widths into docs/_build/screenshots, to be looked at.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import urldefrag, urljoin

from playwright.sync_api import BrowserContext, Page, sync_playwright

BUILD = Path(__file__).parent / "_build"
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PICTURED = {
    "home": "index.html",
    "quickstart": "quickstart.html",
    "structure": "structure.html",
    "benchmarks": "benchmarks.html",
}
WIDTHS = (1280, 390)
# What is not documentation of ours: Sphinx's own indices, and source files.
NOT_FOLLOWED = ("_sources/", "_modules/", "_downloads/")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()


@contextmanager
def browser(width: int) -> Iterator[BrowserContext]:
    executable = which("chromium") or which("chromium-browser") or which("google-chrome")
    if executable is None:
        sys.exit("make docs-check needs Chromium (apt-get install chromium)")
    with sync_playwright() as play, tempfile.TemporaryDirectory() as profile:
        context = play.chromium.launch_persistent_context(
            profile, executable_path=executable, headless=True, args=list(FLAGS), viewport={"width": width, "height": 900}
        )
        yield context
        context.close()


def _watched(context: BrowserContext, home: str, faults: list[str]) -> Page:
    """A page that notes errors in its console and requests to other hosts."""
    page = context.new_page()
    page.on("console", lambda m: faults.append(f"{page.url}: console: {m.text}") if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda e: faults.append(f"{page.url}: script: {e}"))
    # What is aborted is aborted by the next page that is asked for.
    page.on(
        "requestfailed", lambda r: None if "ERR_ABORTED" in r.failure else faults.append(f"{page.url}: {r.failure}: {r.url}")
    )
    page.on("response", lambda r: faults.append(f"{page.url}: {r.status}: {r.url}") if r.status >= 400 else None)
    page.on(
        "request",
        lambda r: (
            None if r.url.startswith((home, "data:", "blob:")) else faults.append(f"{page.url}: asks another host: {r.url}")
        ),
    )
    return page


def crawl(home: str, faults: list[str]) -> tuple[int, int]:
    """Every page that can be reached, and every link on it; how many there were of either."""
    with browser(WIDTHS[0]) as context:
        page = _watched(context, home, faults)
        waiting = [urljoin(home, "index.html")]
        anchors: dict[str, set[str]] = {}
        wanted: dict[tuple[str, str], str] = {}
        while waiting:
            url = waiting.pop()
            if url in anchors:
                continue
            page.goto(url)
            anchors[url] = set(page.eval_on_selector_all("[id]", "nodes => nodes.map(n => n.id)"))
            for link in page.eval_on_selector_all("a[href]", "nodes => nodes.map(n => n.href)"):
                target, anchor = urldefrag(link)
                if not target.startswith(home) or any(part in target for part in NOT_FOLLOWED):
                    continue
                wanted.setdefault((target, anchor), url)
                if target.endswith(".html"):
                    waiting.append(target)
        for (target, anchor), source in wanted.items():
            if target.endswith(".html") and anchor and anchor not in anchors[target]:
                faults.append(f"{source}: no anchor {anchor} in {target}")
            elif not target.endswith(".html") and page.request.get(target).status != 200:
                faults.append(f"{source}: no file {target}")
    missing = {p.name for p in (BUILD / "html").rglob("*.html")} - {url.rpartition("/")[2] for url in anchors}
    faults += [f"no link leads to {name}" for name in sorted(missing - {"search.html", "genindex.html", "py-modindex.html"})]
    return len(anchors), len(wanted)


def picture(home: str, faults: list[str]) -> list[Path]:
    """Every page fits into every width; four of them are pictured."""
    folder = BUILD / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    taken = []
    pages = sorted(str(p.relative_to(BUILD / "html")) for p in (BUILD / "html").rglob("*.html"))
    for width in WIDTHS:
        with browser(width) as context:
            page = _watched(context, home, faults)
            for name in pages:
                page.goto(urljoin(home, name))
                over = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
                if over > 0:
                    faults.append(f"{name} is {over} pixels wider than {width}")
            for title, name in PICTURED.items():
                page.goto(urljoin(home, name))
                path = folder / f"{title}-{width}.png"
                page.screenshot(path=path, full_page=True)
                taken.append(path)
    return taken


def main() -> int:
    faults: list[str] = []
    with served(BUILD / "html") as home:
        pages, links = crawl(home, faults)
        taken = picture(home, faults)
    print(f"{pages} pages, {links} links, {len(taken)} pictures in {BUILD / 'screenshots'}")
    print(*faults, sep="\n")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
