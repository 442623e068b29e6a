"""Scatters and their cotangents against loops over groups: every operation, ties, zeros, dropped ids, coordinates, no entries."""

from math import prod

import numpy as np
import pytest
from hypothesis import strategies as st

import sparsetangent as sp
from sparsetangent import rules
from sparsetangent.testing import oracle
from tests.helpers import for_all
from tests.rules.support import array, coarse, dense, dtype_of, narrowest, normal, same

OPS = ("add", "sub", "mul", "div", "min", "max", "mean")
TIES = ("even", "all", "first")
IDENTITY = {"add": 0, "sub": 0, "mean": 0, "mul": 1, "div": 1, "min": np.inf, "max": -np.inf}


def groups(key, size):
    """The positions of the rows of each slot; a key of None belongs to none."""
    return [[k for k, j in enumerate(key) if j == slot] for slot in range(size)]


def fold_loop(op, dst, rows, key):
    """``dst[j] op rows[k1] op rows[k2] ...`` one element at a time."""
    result = np.array(dst, float)
    for slot, members in enumerate(groups(key, len(dst))):
        if op == "mean" and members:
            result[slot] = dst[slot] + sum(rows[k] for k in members) / len(members)
        for k in members:
            for place in np.ndindex(*rows.shape[1:]):
                a, b = result[(slot, *place)], rows[(k, *place)]
                if op != "mean":
                    result[(slot, *place)] = {
                        "add": lambda a, b: a + b,
                        "sub": lambda a, b: a - b,
                        "mul": lambda a, b: a * b,
                        "div": lambda a, b: a / b,
                        "min": lambda a, b: a if a != a else b if b != b else min(a, b),
                        "max": lambda a, b: a if a != a else b if b != b else max(a, b),
                    }[op](a, b)
    return result


def cotangents_loop(op, dy, dst, rows, key, ties):
    """The cotangents of `dst` (None if it takes no part) and `rows`, one slot and one element at a time."""
    d_dst = np.array(dy, float)
    d_rows = np.zeros(rows.shape)
    for slot, members in enumerate(groups(key, len(dy))):
        for place in np.ndindex(*rows.shape[1:]):
            at = (slot, *place)
            held = [] if dst is None else [dst[at]]
            values = held + [rows[(k, *place)] for k in members]
            before = IDENTITY[op] if dst is None else dst[at]
            if op in ("min", "max"):
                shares = share_loop(values, max if op == "max" else min, ties)
            elif op == "mul":
                shares = [prod(values[:i] + values[i + 1 :]) for i in range(len(values))]
            elif op == "div":
                product = prod(rows[(k, *place)] for k in members)
                own = [] if dst is None else [1 / product]
                shares = own + [-before / product / rows[(k, *place)] for k in members]
            elif op == "mean":
                shares = [1.0] * len(held) + [1 / max(len(members), 1)] * len(members)
            else:
                shares = [1.0] * len(held) + [1.0 if op == "add" else -1.0] * len(members)
            if held:
                d_dst[at] = dy[at] * shares[0]
            for k, share in zip(members, shares[len(held) :], strict=True):
                d_rows[(k, *place)] = dy[at] * share
    return d_dst, d_rows


def share_loop(values, extreme, ties):
    if not values:
        return []
    nans = [v != v for v in values]
    winners = nans if any(nans) else [v == extreme(values) for v in values]
    if ties == "first":
        return [float(w and not any(winners[:i])) for i, w in enumerate(winners)]
    return [w / (sum(winners) if ties == "even" else 1) for w in winners]


@st.composite
def scatters(draw):
    """An operation, ids of any rank or coordinates, sizes, kept axes, with ids that are negative or dropped."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    op = draw(st.sampled_from(OPS))
    rank = draw(st.sampled_from([1, 1, 1, 2, 3]))
    # Few shapes, since JAX compiles for each.
    sizes = tuple(draw(st.sampled_from([3, 3, 1, 0])) for _ in range(rank))
    entries = draw(st.sampled_from([(6,), (6,), (2, 3), (), (0,), (2, 0)]))
    rest = draw(st.sampled_from([(), (2,), (2,), (0,)]))
    mode = draw(st.sampled_from(["raise", "drop"]))
    if mode == "raise" and 0 in sizes:
        entries = (0,)
    low, high = (lambda n: -n, lambda n: n) if mode == "raise" else (lambda n: -2, lambda n: n + 2)
    empty = 0 in entries
    ids = tuple(np.zeros(entries, int) if empty else rng.integers(low(n), high(n), entries) for n in sizes)
    src = coarse(rng, (*entries, *rest), zero=op != "div")
    dst = coarse(rng, (*sizes, *rest))
    dy = np.round(rng.standard_normal((*sizes, *rest)), 3)
    return op, ids, sizes, src, dst, dy, mode, draw(st.sampled_from(TIES))


def flat_key(ids, sizes, mode):
    """The flat slot of each entry by a loop, None where it is dropped."""
    key = []
    for place in np.ndindex(*ids[0].shape):
        coordinates = [int(i[place]) for i in ids]
        if any(not 0 <= c < n for c, n in zip(coordinates, sizes, strict=True)) and mode == "drop":
            key.append(None)
            continue
        flat = 0
        for c, n in zip(coordinates, sizes, strict=True):
            flat = flat * n + c % n
        key.append(flat)
    return key


def test_scatters_and_their_cotangents(xp):
    def body(case):
        op, ids, sizes, src, dst, dy, mode, ties = case
        key, bound, n = flat_key(ids, sizes, mode), prod(sizes), prod(ids[0].shape)
        rest = src.shape[ids[0].ndim :]
        rows, slots, cotangent = src.reshape(n, *rest), dst.reshape(bound, *rest), dy.reshape(bound, *rest)
        given = tuple(array(xp, i) for i in ids)
        given, size = (given, sizes) if len(ids) > 1 else (given[0], sizes[0])
        a_src, a_dst, a_dy = array(xp, src), array(xp, dst), array(xp, dy)

        start = np.full(slots.shape, IDENTITY[op], float)
        y = rules.scatter(op, a_src, given, size, mode=mode)
        same(y, fold_loop(op, start, rows, key).reshape(dst.shape), note=case)
        _, d_src = cotangents_loop(op, cotangent, None, rows, key, ties)
        for out in (None, y):
            dx = rules.scatter_vjp(op, a_dy, a_src, given, size, ties=ties, out=out, mode=mode)
            assert dx.dtype == a_src.dtype
            same(dx, d_src.reshape(src.shape), note=case)

        into = rules.scatter_into(op, a_dst, a_src, given, mode=mode)
        same(into, fold_loop(op, slots, rows, key).reshape(dst.shape), note=case)
        same(a_dst, dst)
        d_dst, d_src = cotangents_loop(op, cotangent, slots, rows, key, ties)
        for out in (None, into):
            dx = rules.scatter_into_vjp_src(op, a_dy, a_dst, a_src, given, ties=ties, out=out, mode=mode)
            same(dx, d_src.reshape(src.shape), note=case)
            dx = rules.scatter_into_vjp_dst(op, a_dy, a_dst, a_src, given, ties=ties, out=out, mode=mode)
            same(dx, d_dst.reshape(dst.shape), note=case)

    for_all(xp, body, scatters(), examples=160)


@pytest.mark.parametrize("op", OPS)
def test_a_number_to_start_with_is_a_filled_destination(xp64, op):
    xp = xp64
    rng = np.random.default_rng(3)
    src, ids = coarse(rng, (7, 2), zero=op != "div"), rng.integers(-4, 4, 7)
    a_src, a_ids, dy = array(xp, src), array(xp, ids), array(xp, normal((4, 2)))
    full = array(xp, np.full((4, 2), 1.5))
    for init in (1.5, np.float64(1.5), array(xp, np.asarray(1.5))):
        same(rules.scatter(op, a_src, a_ids, 4, init=init), dense(rules.scatter_into(op, full, a_src, a_ids)))
        for ties in TIES if op in ("min", "max") else TIES[:1]:
            same(
                rules.scatter_vjp(op, dy, a_src, a_ids, 4, init=init, ties=ties),
                dense(rules.scatter_into_vjp_src(op, dy, full, a_src, a_ids, ties=ties)),
            )


@pytest.mark.parametrize("op", ["sub", "mul", "max"])
def test_compact_cotangents_stay_compact(xp64, op):
    xp = xp64
    rng = np.random.default_rng(4)
    src, dst, ids = coarse(rng, (8, 3), zero=op != "div"), coarse(rng, (5, 3)), rng.integers(-1, 6, 8)
    a_src, a_dst, a_ids = array(xp, src), array(xp, dst), array(xp, ids)
    rows = sp.IndexedSlices(array(xp, np.array([1, 3, 1])), array(xp, normal((3, 3))), (5, 3))
    columns = sp.IndexedSlices(array(xp, np.array([2, 0])), array(xp, normal((2, 5))), (5, 3), axis=1)
    for dy in (rows, columns, sp.Fill(array(xp, np.asarray(0.5)), (5, 3)), sp.Zero((5, 3), like=a_dst)):
        expected = cotangents_loop(op, dense(dy), dst, src, flat_key((ids,), (5,), "drop"), "even")
        d_dst = rules.scatter_into_vjp_dst(op, dy, a_dst, a_src, a_ids, mode="drop")
        d_src = rules.scatter_into_vjp_src(op, dy, a_dst, a_src, a_ids, mode="drop")
        for actual, wanted in zip((d_dst, d_src), expected, strict=True):
            same(actual, wanted)
            assert isinstance(actual, sp.Tangent) or isinstance(dy, sp.Fill)  # Fill * dense is dense
    grid = tuple(array(xp, i) for i in np.indices((2, 2)))
    src, dy = array(xp, normal((2, 2))), sp.IndexedSlices(array(xp, np.array([1])), array(xp, normal((1, 2))), (2, 2))
    same(
        rules.scatter_vjp(op, dy, src, grid, (2, 2)),
        cotangents_loop(op, dense(dy).reshape(4), None, dense(src).reshape(4), range(4), "even")[1].reshape(2, 2),
    )


def test_nan_propagates_and_takes_the_cotangent(xp):
    src, ids = array(xp, [1.0, np.nan, np.nan, 2.0, np.inf]), array(xp, np.array([0, 0, 0, 1, 1]))
    for op, second in (("max", [0, 1]), ("min", [1, 0])):
        same(rules.scatter(op, src, ids, 3)[:1], [np.nan])
        same(rules.scatter_vjp(op, array(xp, [4.0, 8.0, 1.0]), src, ids, 3), [0, 2, 2, *(8 * s for s in second)])
    base = array(xp, [np.nan, -np.inf, np.inf])
    d_base = rules.scatter_into_vjp_dst(
        "max", array(xp, [3.0, 3.0, 3.0]), base, array(xp, [1.0, -np.inf]), array(xp, np.array([0, 1]))
    )
    same(d_base, [3, 1.5, 3])


def test_infinite_and_zero_factors(xp64):
    xp = xp64
    """Siblings are multiplied, never divided out: an infinity beside a zero says what it is, and no other group hears of it."""
    src, ids = array(xp, [np.inf, 2.0, 0.0, 3.0, 5.0]), array(xp, np.array([0, 0, 1, 1, 2]))
    same(rules.scatter_vjp("mul", array(xp, [1.0, 1.0, 1.0]), src, ids, 3), [2, np.inf, 3, 0, 1])
    with np.errstate(all="ignore"):
        same(
            rules.scatter_vjp("div", array(xp, [1.0, 0.0, 1.0]), array(xp, [2.0, 0.5]), array(xp, np.array([0, 2])), 3),
            [-0.25, -4],
        )


def test_complex_numbers_pair_with_the_conjugate(xp64):
    xp = xp64
    rng = np.random.default_rng(5)
    src, dst, dy = (rng.standard_normal(s) + 1j * rng.standard_normal(s) for s in ((4,), (3,), (3,)))
    ids = np.array([0, 2, 0, 0])
    a_src, a_dst, a_dy, a_ids = (array(xp, x) for x in (src, dst, dy, ids))
    same(rules.scatter_into("mul", a_dst, a_src, a_ids), [dst[0] * src[0] * src[2] * src[3], dst[1], dst[2] * src[1]])
    d_src = [dst[0] * src[2] * src[3], dst[2], dst[0] * src[0] * src[3], dst[0] * src[0] * src[2]]
    same(rules.scatter_into_vjp_src("mul", a_dy, a_dst, a_src, a_ids), np.conj(d_src) * dy[ids])
    quotient = [dst[0] / src[0] / src[2] / src[3], dst[1], dst[2] / src[1]]
    same(rules.scatter_into_vjp_src("div", a_dy, a_dst, a_src, a_ids), np.conj(-np.take(quotient, ids) / src) * dy[ids])
    product = [src[0] * src[2] * src[3], 1, src[1]]
    same(rules.scatter_into_vjp_dst("div", a_dy, a_dst, a_src, a_ids), dy / np.conj(product))
    with pytest.raises(TypeError, match="complex numbers have no order"):
        rules.scatter("max", a_src, a_ids, 3)


@pytest.mark.parametrize("name", ["int64", "int8", "uint8", "bool", "float16"])
def test_dtypes_and_their_identities(xp, name):
    name = narrowest(xp) if name == "float16" else name
    dtype = dtype_of(xp, name)
    src = xp.asarray(np.array([1, 0, 1]).tolist(), dtype=dtype)
    ids = array(xp, np.array([0, 0, 2]))
    limits = {"bool": (False, True), "float16": (-np.inf, np.inf), "float32": (-np.inf, np.inf)}.get(name)
    low, high = limits or (xp.iinfo(dtype).min, xp.iinfo(dtype).max)
    for op, expected in (("add", [1, 0, 1]), ("mul", [0, 1, 1]), ("max", [1, low, 1]), ("min", [0, high, 1])):
        y = rules.scatter(op, src, ids, 3)
        assert y.dtype == dtype and dense(y).tolist() == np.array(expected).astype(dense(y).dtype).tolist()
    if name in ("int64", "int8", "uint8", "bool"):
        for op in ("div", "mean"):
            with pytest.raises(TypeError, match=f"'{op}' needs a floating or complex dtype"):
                rules.scatter(op, src, ids, 3)
        with pytest.raises(TypeError, match="'mul' has a derivative in floating and complex dtypes"):
            rules.scatter_vjp("mul", src, src, ids, 3)
    if name == "bool":
        with pytest.raises(TypeError, match="no 'sub'"):
            rules.scatter("sub", src, ids, 3)


def test_half_types_are_rounded_once(xp64):
    xp = xp64
    half = narrowest(xp)
    src = array(xp, np.full(3000, 1.0), half)
    ids = array(xp, np.zeros(3000, int))
    assert float(rules.scatter("add", src, ids, 1)[0]) == 3000
    assert float(rules.scatter("mean", src, ids, 1)[0]) == 1
    small = array(xp, np.full(20, 0.5), half)
    grown = rules.scatter_vjp("mul", array(xp, [2.0**14], half), small, array(xp, np.zeros(20, int)), 1)
    assert grown.dtype == small.dtype and np.allclose(dense(grown).astype(float), 2.0**-5)


def test_errors_leave_everything_as_it_was(xp):
    src, ids = array(xp, normal((3, 2))), array(xp, np.array([0, 1, 1]))
    dst, dy = array(xp, normal((2, 2))), array(xp, normal((2, 2)))
    before = dense(dst).copy()
    for bad, name in (((0, 1, 2), 2), ((0, -3, 1), -3)):
        with pytest.raises(IndexError, match=f"ids holds {name} at position.*size 2"):
            rules.scatter_into("add", dst, src, array(xp, np.array(bad)))
    with pytest.raises(ValueError, match="op must be one of 'add'.*not 'set'"):
        rules.scatter("set", src, ids, 2)
    with pytest.raises(ValueError, match='mode must be "raise" or "drop"'):
        rules.scatter("add", src, ids, 2, mode="clip")
    with pytest.raises(ValueError, match='ties must be "even", "all" or "first", not "?\'?last'):
        rules.scatter_vjp("max", dy, src, ids, 2, ties="last")
    with pytest.raises(ValueError, match="begins with that of ids"):
        rules.scatter("add", src, array(xp, np.array([0, 1])), 2)
    with pytest.raises(ValueError, match="dy must have the shape"):
        rules.scatter_vjp("add", src, src, ids, 2)
    with pytest.raises(ValueError, match="out must have the shape"):
        rules.scatter_vjp("max", dy, src, ids, 2, out=src)
    with pytest.raises(ValueError, match="tuple size"):
        rules.scatter("add", src, (ids, ids), 2)
    with pytest.raises(ValueError, match="tuple size"):
        rules.scatter("add", src, ids, (2,))
    with pytest.raises(ValueError, match="not be negative"):
        rules.scatter("add", src, ids, -1)
    with pytest.raises(TypeError, match="ids must have an integer dtype"):
        rules.scatter("add", src, array(xp, [0.0, 1.0, 1.0]), 2)
    with pytest.raises(TypeError, match=r"init=1j is no number that fits"):
        rules.scatter("add", src, ids, 2, init=1j)
    with pytest.raises(TypeError, match="one dtype"):
        rules.scatter_into("add", dst, array(xp, np.zeros((3, 2), int)), ids)
    with pytest.raises(ValueError, match="src must have the shape"):
        rules.scatter_into("add", array(xp, normal((2, 5))), src, ids)
    assert (dense(dst) == before).all()


def test_the_first_of_equals_comes_after_what_the_slot_held(xp):
    dst, src = xp.asarray([5.0, 1.0]), xp.asarray([5.0, 2.0, 5.0, 2.0])
    ids, dy = xp.asarray([0, 1, 0, 1]), xp.asarray([10.0, 100.0])
    got = rules.scatter_into_vjp_src("max", dy, dst, src, ids, ties="first")
    assert oracle.to_numpy(got).tolist() == [0, 100, 0, 0]
    assert oracle.to_numpy(rules.scatter_into_vjp_dst("max", dy, dst, src, ids, ties="first")).tolist() == [10, 0]


def test_dropped_rows_get_nothing_even_beside_infinities(xp):
    src, ids = xp.asarray([float("inf"), float("inf"), 2.0, 3.0]), xp.asarray([9, 9, 0, 0])
    got = rules.scatter_vjp("mul", xp.asarray([1.0, 1.0, 1.0]), src, ids, 3, mode="drop")
    assert oracle.to_numpy(got).tolist() == [0, 0, 3, 2]
