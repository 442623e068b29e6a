"""Deliberate bugs in the real kernels: each must turn some part of the workload red, in the mode that it names."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MUTANTS", "Mutant"]


class Mutant(NamedTuple):
    """A change of the source, where it is, the part of the workload that shows it, and the mode in which it must be seen."""

    file: str
    change: tuple[str, str]
    part: str
    mode: str


MUTANTS = {
    # Races, which only the thread sanitizer sees: the emulator itself interleaves threads at barriers alone.
    "scatter without atomics": Mutant(
        "scatter", ("atomicAdd(place + j, value.v[j]);", "place[j] += value.v[j];"), "scatter", "thread"
    ),
    "bitmap without atomics": Mutant("bitmap", ("atomicOr(word, bit);", "*word |= bit;"), "distinct", "thread"),
    "plain read of a shared word": Mutant("bitmap", ("!(relaxed_load(word) & bit)", "!(*word & bit)"), "distinct", "thread"),
    # Barriers.
    "accumulator written before all have read it": Mutant("optimizer", ("__syncwarp();", ";"), "steps", "plain"),
    # Bounds.
    "ids unchecked": Mutant("common", ("if (id >= 0 && id < size) return true;", "return true;"), "gather", "address"),
    "negative ids unchecked": Mutant("common", ("id >= 0 && id < size", "id < size"), "scatter", "address"),
    "padding written": Mutant("fold", ("|| run.key >= f.size", ""), "fold", "address"),
    "last row of a batch unchecked": Mutant("gather", ("if (first + j * step < n) out", "out"), "gather", "address"),
    "capacity unchecked": Mutant("keys", ("key < size && place < capacity", "key < size"), "distinct", "address"),
    "capacity of the bitmap unchecked": Mutant(
        "bitmap", ("if (place < capacity) distinct", "if (true) distinct"), "distinct", "address"
    ),
    "neighbour past the end": Mutant("fold", ("end < f.n && run_of", "run_of"), "fold", "address"),
    "faults not flagged": Mutant("common", ("if (id != size) atomicOr(flag, BAD_ID);", ""), "gather", "plain"),
    # Arithmetic.
    "32-bit offset of a gathered row": Mutant(
        "gather", ("src[id[j] * packs + x]", "src[int(id[j]) * int(packs) + x]"), "large", "undefined"
    ),
    "32-bit offset of a placed row": Mutant(
        "gather", ("dst[id * packs + x]", "dst[int(id) * int(packs) + x]"), "large", "undefined"
    ),
    "32-bit offset of a folded row": Mutant(
        "fold", ("run.key * f.packs * V", "int(run.key) * int(f.packs) * V"), "large", "undefined"
    ),
    "halves rounded down": Mutant("common", ("rest > tie || (rest == tie && (kept & 1))", "false"), "fold", "plain"),
    "nan lost": Mutant("fold", ("a != a || a >= b", "a >= b"), "fold", "plain"),
    "rank counts its own bit": Mutant("bitmap", ("(1u << (id & 31)) - 1u", "(2u << (id & 31)) - 1u"), "distinct", "plain"),
    # The fold's bookkeeping.
    "run from the left stored": Mutant(
        "fold", ("if (run.open_left) carry_run<Op>(f, run, slot, x, &left);\n        else", ""), "fold", "plain"
    ),
    "run to the right stored": Mutant(
        "fold", ("else if (open_right) carry_run<Op>(f, run, slot + 1, x, &right);", ""), "fold", "plain"
    ),
    "empty carry breaks a run": Mutant("fold", ("return key < 0 ? ~key : key;", "return key;"), "fold", "plain"),
    "carried lengths forgotten": Mutant("fold", ("f.lengths ? f.lengths[first + j] : 1", "1"), "fold", "plain"),
    "target left out": Mutant("fold", ("if (f.combine) before", "if (false) before"), "fold", "plain"),
}
