"""Cases of memory: views, read-only and overlapping targets, ids that change later, and what may be written at all."""

import copy
import operator
import pickle

import numpy as np
import pytest

import sparsetangent as sp
from sparsetangent import IndexedSlices, OneHot, Zero
from tests.cases.support import array, dense, dtype_of, ids, random, same, slices, writable

SIZE = 4


def test_broadcast_rows_accumulate(xp):
    """C138, pytorch/pytorch#17919."""
    for value in (1.0, 0.75):
        rows = xp.broadcast_to(array(xp, value), (3, 2))
        t = IndexedSlices(ids(xp, [3, 0, 1]), rows, (4, 2))
        u = t
        u += t
        same(u, value * np.array([[2, 2], [2, 2], [0, 0], [2, 2]]))
        same(t, value * np.array([[1, 1], [1, 1], [0, 0], [1, 1]]))
        assert (dense(rows) == value).all()


def overlapping(xp, kind):
    """Two rows of three that share memory, and the buffer below."""
    if kind == "stride 0":
        base = array(xp, [[2.0, -1.0, 0.5]])
        if xp.backend_name == "torch":
            return base, base.expand(2, 3)
        return base, np.lib.stride_tricks.as_strided(base, (2, 3), (0, 8))
    base = array(xp, [2.0, -1.0, 0.5, 4.0])
    if xp.backend_name == "torch":
        return base, base.as_strided((2, 3), (1, 1))
    return base, np.lib.stride_tricks.as_strided(base, (2, 3), (8, 8))


@pytest.mark.parametrize("kind", ["stride 0", "windows"])
@pytest.mark.parametrize("xp", ["numpy", "torch"], indirect=True)
def test_targets_that_overlap_themselves(xp, kind):
    """C139, pytorch/pytorch#22513."""
    base, target = overlapping(xp, kind)
    before, t = dense(base).copy(), slices(xp, [0], [[0.0, 1.0, 0.0]], (2, 3))
    expected = dense(target) + np.array([[0, 1, 0], [0, 0, 0]])
    same(t + target, expected)
    for write in (lambda: sp.add_into(target, t), lambda: operator.iadd(target, t), lambda: t.densify(out=target)):
        with pytest.raises(ValueError, match="overlap"):
            write()
        assert (dense(base) == before).all()


def test_out_of_place_sum_with_an_expanded_array(xp):
    """C139, pytorch/pytorch#22513."""
    target = xp.broadcast_to(array(xp, [[0.0, 0.0, 0.0]]), (2, 3))
    same(slices(xp, [0], [[0.0, 1.0, 0.0]], (2, 3)) + target, [[0, 1, 0], [0, 0, 0]])


READ_ONLY = {
    "all rows": ((3,), 0, [0]),
    "points": ((2, 3), (0, 1), ([1, 1], [2, 0])),
    "rows": ((3, 2), 0, [0, 2]),
    "columns": ((3, 2), 1, [1]),
}


@pytest.mark.parametrize("shape, axis, index", READ_ONLY.values(), ids=READ_ONLY)
def test_read_only_targets(shape, axis, index):
    """C140, numpy/numpy#17871: `np.add.at` writes through the flag, even into a bytes object."""
    memory = np.zeros(shape).tobytes()
    target = np.frombuffer(memory).reshape(shape)
    n = len(index[0]) if isinstance(index, tuple) else len(index)
    inner = [m for a, m in enumerate(shape) if a not in (axis if isinstance(axis, tuple) else (axis,))]
    t = IndexedSlices(index, random((n, *inner)), shape, axis=axis)
    for write in (
        lambda: sp.add_into(target, t),
        lambda: operator.iadd(target, t),
        lambda: operator.isub(target, t),
        lambda: t.densify(out=target),
        lambda: np.add(target, t, out=target),
        lambda: np.multiply(t, 2.0, out=target),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert memory == bytes(len(memory))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "bool"])
def test_floats_are_not_added_into_integers(xp, dtype):
    """`np.add.at` truncates them."""
    target = array(xp, [3, 0, 7, 1], dtype)
    before = dense(target).tolist()
    t = slices(xp, [0, 2, 0], [0.5, 1.5, 0.75], (4,))
    writes = [
        (TypeError, lambda: sp.add_into(target, t)),
        (TypeError, lambda: sp.add_into(target, t.astype(dtype_of(xp, "int32")), alpha=0.5)),
    ]
    if writable(xp):
        # torch's own class, which it raises for ``int_tensor += float_tensor`` too.
        writes.append((RuntimeError if xp.backend_name == "torch" else TypeError, lambda: operator.iadd(target, t)))
    for error, write in writes:
        with pytest.raises(error, match="cannot be added into|does not fit"):
            write()
        assert dense(target).tolist() == before


@pytest.mark.parametrize("shape", [(1, 2), (2,), (3, 1), (1,), (), (4, 2), (3, 2, 1)])
def test_rows_of_the_wrong_shape_are_refused(xp, shape):
    """`np.add.at` spreads them by broadcasting."""
    with pytest.raises(ValueError):
        IndexedSlices(ids(xp, [0, 1, 1]), array(xp, random(shape)), (SIZE, 2))
    with pytest.raises(ValueError):
        IndexedSlices(ids(xp, [0, 1, 1]), array(xp, random(shape)), (SIZE, 2), validate=False)


@pytest.mark.parametrize("shape", [(5, 2), (4, 3), (2, 4, 2)])
def test_targets_of_the_wrong_shape_are_refused(xp, shape):
    target = array(xp, random((SIZE, 2)))
    before = dense(target).copy()
    with pytest.raises(ValueError):
        sp.add_into(target, slices(xp, [1], random((1, *shape[1:])), shape))
    assert (dense(target) == before).all()


@pytest.mark.parametrize("xp", ["numpy", "torch", "array_api_strict"], indirect=True)
def test_ids_that_change_later(xp):
    """C143, pytorch/pytorch#6227: ids are shared, as documented, and nothing that was known of them is kept."""
    given = ids(xp, [0, 1])
    t = IndexedSlices(given, array(xp, [5.0, 6.0]), (2,))
    merged = t.coalesce()
    t * t, t.densify()
    given[0] = 1
    same(t, [0, 11])
    same(t.coalesce(), [0, 11])
    same(t * t, [0, 121])
    assert float(t.__array_namespace__().max(t)) == 11
    same(merged, [5, 6])


def test_a_packed_field_as_rows():
    """C149, numpy/numpy#13317: unaligned and strided."""
    for kind in ("i4", "f8", "f4"):
        records = np.zeros(4, [("a", "i4"), ("b", kind), ("c", "i1")])
        records["b"], records["a"], records["c"] = [1, 2, 3, 4], -9, 7
        assert not records["b"].flags.aligned
        t = IndexedSlices([0, 2, 0, 1], records["b"], (3,))
        for u in (t, t.coalesce(), t * 1, np.zeros(3) + t, sp.add_into(np.zeros(3), t)):
            assert np.asarray(sp.densify(u), np.float64).tolist() == [4, 4, 2]
        wide = IndexedSlices([0, 2, 0, 1], np.broadcast_to(records["b"][:, None], (4, 900)), (3, 900))
        assert wide.densify().astype(np.float64)[:, 17].tolist() == [4, 4, 2]


def test_unaligned_ids():
    """C149, numpy/numpy#13317, for the ids."""
    records = np.zeros(4, [("c", "i1"), ("id", "i8")])
    records["id"] = [0, 2, 0, -1]
    same(IndexedSlices(records["id"], np.array([1.0, 2.0, 3.0, 4.0]), (3,)), [4, 0, 6])


# What a caller, or a file, may do to us: nothing may crash or write outside of the target.


@pytest.mark.parametrize("xp", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize("width", [1, 700])
def test_rows_that_lie_in_the_target(xp, width):
    """A tangent whose rows, or ids, are views of the array that it is added into."""
    start = random((5, width))
    table = array(xp, start)
    expected = start.copy()
    np.add.at(expected, [1, 3, 1], start[:3])
    sp.add_into(table, IndexedSlices(ids(xp, [1, 3, 1]), table[:3], (5, width)))
    np.testing.assert_allclose(dense(table), expected, rtol=1e-12)
    counts = ids(xp, [1, 2, 2, 0])
    sp.add_into(counts, IndexedSlices(counts[1:], ids(xp, [10, 20, 30]), (4,)))
    assert dense(counts).tolist() == [31, 2, 32, 0]


@pytest.mark.parametrize("xp", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize("width", [1, 700])
def test_densify_into_the_rows(xp, width):
    start = random((4, width))
    rows = array(xp, start)
    t = IndexedSlices(ids(xp, [3, 3, 0, 1]), rows, (4, width))
    expected = np.zeros((4, width))
    np.add.at(expected, [3, 3, 0, 1], start)
    t.densify(out=rows)
    np.testing.assert_allclose(dense(rows), expected, rtol=1e-12)


BAD = [4, 7, -1, -9, 2**31 - 1, -(2**31)]
HOW = ["unchecked", "overwritten"]


def corrupted(xp, how, bad, axis=0):
    """A tangent of shape (4, 4) with one id out of range beside good ones at 1 and 2; None where ids cannot be written."""
    good = ids(xp, [1, 2, 1])
    rows = random((3, SIZE) if axis != (0, 1) else (3,))
    if how == "unchecked":
        good, first = ids(xp, [1, bad, 1]), ids(xp, [1, 2, 1])
    elif xp.backend_name.startswith("jax"):
        return None
    else:
        first = ids(xp, [1, 2, 1])
    index = (first, good) if axis == (0, 1) else good
    t = IndexedSlices(index, array(xp, rows), (SIZE, SIZE), axis=axis, validate=how != "unchecked")
    if how == "overwritten":
        good[1] = bad
    return t


def without_the_bad_entry(t):
    """The dense array of the entries in range: what remains where a bad one is skipped."""
    full = np.zeros((SIZE, SIZE))
    for k in (0, 2):
        place = [slice(None)] * 2
        for axis, coordinate in zip(t.axis, t.coords, strict=True):
            place[axis] = int(coordinate[k])
        full[tuple(place)] += dense(t.values)[k]
    return full


def skipped_or_refused(t, operate, expected):
    """Run an operation, which may raise an IndexError and nothing else; what it gives must leave the bad entry out."""
    try:
        result = sp.densify(operate(t))
    except IndexError:
        return
    np.testing.assert_allclose(dense(result), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
@pytest.mark.parametrize("how", HOW)
def test_bad_ids_are_skipped_or_refused(xp, how, bad, axis):
    t = corrupted(xp, how, bad, axis)
    if t is None:
        return
    expected, x = without_the_bad_entry(t), random((SIZE, SIZE), seed=9)
    skipped_or_refused(t, lambda u: u, expected)
    skipped_or_refused(t, lambda u: u.coalesce(), expected)
    skipped_or_refused(t, lambda u: u + array(xp, x), expected + x)
    skipped_or_refused(t, lambda u: u + u, 2 * expected)
    skipped_or_refused(t, lambda u: sp.add_into(array(xp, x), u), expected + x)


OPERATIONS = {
    "times array": lambda t, x, nx: t * x,
    "times tangent": lambda t, x, nx: t * t,
    "square": lambda t, x, nx: nx.square(t),
    "matmul": lambda t, x, nx: nx.matmul(t, x),
    "matmul from the left": lambda t, x, nx: nx.matmul(x, t),
    "transpose": lambda t, x, nx: t.T,
    "sum": lambda t, x, nx: nx.sum(t, axis=0),
    "max": lambda t, x, nx: nx.max(t, axis=0),
    "norm": lambda t, x, nx: nx.vector_norm(t),
    "row": lambda t, x, nx: t[1],
    "rows": lambda t, x, nx: t[1:3],
    "element": lambda t, x, nx: t[1, 2],
    "take": lambda t, x, nx: nx.take(t, t.coords[0][:1], axis=0),
    "not equal": lambda t, x, nx: t != t,
    "less than array": lambda t, x, nx: t < x,
    "reshape": lambda t, x, nx: nx.reshape(t, (-1,)),
    "flip": lambda t, x, nx: nx.flip(t),
    "roll": lambda t, x, nx: nx.roll(t, 1, axis=0),
    "concat": lambda t, x, nx: nx.concat([t, t], axis=0),
    "stack": lambda t, x, nx: nx.stack([t, t]),
    "cast": lambda t, x, nx: t.astype(nx.int32),
    "retain": lambda t, x, nx: t.retain(t.coords[0][:1]) if len(t.axis) == 1 else t,
    "sum_to_shape": lambda t, x, nx: sp.sum_to_shape(t, (1, SIZE)),
}


@pytest.mark.parametrize("axis", [0, (0, 1)])
@pytest.mark.parametrize("how", HOW)
def test_no_operation_crashes_on_bad_ids(xp, how, axis):
    for bad in (SIZE, -1, 2**31 - 1):
        for name, operate in OPERATIONS.items():
            t = corrupted(xp, how, bad, axis)
            if t is None:
                return
            try:
                dense(sp.densify(operate(t, array(xp, random((SIZE, SIZE))), t.__array_namespace__())))
            except IndexError:
                pass
            except Exception as error:
                raise AssertionError(f"{name} with id {bad}: {error!r}") from error


@pytest.mark.parametrize("xp", ["numpy", "torch"], indirect=True)
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_nothing_is_written_around_the_target(xp, axis, how, bad):
    """The target is a window in the middle of a larger buffer; a refusal leaves the window as it was, too."""
    start = random((3 * SIZE, 3 * SIZE))
    buffer = array(xp, start)
    window = (slice(SIZE, 2 * SIZE),) * 2
    t = corrupted(xp, how, bad, axis)
    expected = start.copy()
    try:
        sp.add_into(buffer[window], t)
        expected[window] += without_the_bad_entry(t)
    except IndexError:
        pass
    np.testing.assert_allclose(dense(buffer), expected, rtol=1e-12)
    try:
        t.densify(out=buffer[window])
        expected[window] = without_the_bad_entry(t)
    except IndexError:
        pass
    np.testing.assert_allclose(dense(buffer), expected, rtol=1e-12)


def test_unchecked_rules_are_safe(xp):
    for bad in BAD:
        index, dy = ids(xp, [1, bad]), array(xp, random((2, 2)))
        for use in (
            lambda index=index: sp.rules.take(array(xp, random((SIZE, 2))), index, validate=False),
            lambda index=index: sp.rules.embedding(array(xp, random((SIZE, 2))), index, validate=False),
            lambda index=index: OneHot(index, SIZE, validate=False) @ array(xp, random((SIZE, 2))),
            lambda index=index: OneHot(index, SIZE, validate=False).densify(),
            lambda index=index, dy=dy: sp.rules.embedding_vjp(dy, (SIZE, 2), index, validate=False).densify(),
            lambda index=index, dy=dy: sp.rules.take_along_axis_vjp(
                dy, (SIZE, 2), xp.stack([index, index], axis=1), 0, validate=False
            ).densify(),
        ):
            try:
                dense(use())
            except IndexError:
                continue


class Forged:
    """Pickles as a call, as a file that was tampered with does."""

    def __init__(self, call, *arguments):
        self.reduced = call, arguments

    def __reduce__(self):
        return self.reduced


TAMPERED = {
    "id past the end": lambda xp, i, v, s: ((ids(xp, [1, 4]),), v, s, (0,), False, False),
    "id far past the end": lambda xp, i, v, s: ((ids(xp, [1, 2**31 - 1]),), v, s, (0,), False, False),
    "floating ids": lambda xp, i, v, s: ((array(xp, [1.0, 2.0]),), v, s, (0,), False, False),
    "fewer rows": lambda xp, i, v, s: ((i,), v[:1, ...], s, (0,), False, False),
    "narrower rows": lambda xp, i, v, s: ((i,), v[:, :1], s, (0,), False, False),
    "axis out of range": lambda xp, i, v, s: ((i,), v, s, (5,), False, False),
    "longer shape": lambda xp, i, v, s: ((i,), v, (*s, 3), (0,), False, False),
    "negative size": lambda xp, i, v, s: ((i,), v, (-4, 2), (0,), False, False),
    "repeats called unique": lambda xp, i, v, s: ((ids(xp, [1, 1]),), v, s, (0,), True, False),
    "padded, id past the padding": lambda xp, i, v, s: ((ids(xp, [1, 5]),), v, s, (0,), False, True),
    "padded, negative size": lambda xp, i, v, s: ((ids(xp, [1, 1]),), v, (-2, 2), (0,), False, True),
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_tampered_pickles_are_refused(xp, tamper):
    t = slices(xp, [1, 3], random((2, 2)), (SIZE, 2))
    restore, _ = t.__reduce__()
    forged = pickle.dumps(Forged(restore, *tamper(xp, t.indices, t.values, t.shape)))
    with pytest.raises((IndexError, ValueError, TypeError)):
        pickle.loads(forged)


def test_padded_pickles_keep_their_value(xp):
    """Padding that a file calls real rows is blanked: it stands for nothing."""
    t = slices(xp, [1, 3, 1], random((3, 2)), (SIZE, 2)).coalesce(size=4)
    restore, arguments = t.__reduce__()
    index, _, *rest = arguments
    forged = pickle.loads(pickle.dumps(Forged(restore, index, array(xp, random((4, 2))), *rest)))
    expected = np.zeros((SIZE, 2))
    expected[[1, 3]] = random((4, 2))[:2]
    np.testing.assert_allclose(dense(forged), expected, rtol=1e-6)
    np.testing.assert_allclose(dense(forged.__array_namespace__().sum(forged, axis=0)), expected.sum(0), rtol=1e-5)
    same(pickle.loads(pickle.dumps(t)), dense(t))


def test_a_changed_byte_in_a_pickle():
    t = IndexedSlices(np.array([1, 1234567]), random((2, 2)), (2000000, 2))
    data = pickle.dumps(t)
    forged = data.replace(np.int64(1234567).tobytes(), np.int64(1234567 << 32).tobytes())
    assert forged != data
    with pytest.raises(IndexError):
        pickle.loads(forged)


def test_tampered_pickles_of_the_other_types(xp):
    restore, arguments = OneHot(ids(xp, [0, 2]), 3).__reduce__()
    for bad in (ids(xp, [0, 3]), ids(xp, [0, -1]), array(xp, [0.0, 2.0])):
        with pytest.raises((IndexError, TypeError)):
            pickle.loads(pickle.dumps(Forged(restore, bad, *arguments[1:])))
    restore, arguments = sp.Fill(array(xp, 2.5), (3,)).__reduce__()
    for bad in ((array(xp, [2.5, 1.5]), (3,)), (array(xp, 2.5), (-3,)), (array(xp, 2.5), (1.5,))):
        with pytest.raises((ValueError, TypeError)):
            pickle.loads(pickle.dumps(Forged(restore, *bad)))
    restore, arguments = Zero((3,), like=array(xp, 2.5)).__reduce__()
    for bad in ((arguments[0], (-3,)), (arguments[0], (1.5,)), (array(xp, [2.5, 1.5]), (3,)), ("text", (3,))):
        with pytest.raises((ValueError, TypeError)):
            pickle.loads(pickle.dumps(Forged(restore, *bad)))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_copies_check_as_the_original_does(xp, duplicate):
    """A copy of a tangent with bad ids is refused, or as safe as the original."""
    t = IndexedSlices(ids(xp, [1, 7]), array(xp, random((2,))), (SIZE,), validate=False)
    try:
        result = dense(duplicate(t).densify())
    except IndexError:
        return
    np.testing.assert_allclose(result[[0, 2, 3]], 0)
