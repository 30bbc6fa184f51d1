"""Reductions over axes: every subset, layout and stride, ``keepdims`` and ``out``."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from device_arrays import from_device, on_device
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import add, assert_within, norm, norm_bound, sum_bound, variance, variance_bound
from sampling import FEW, OCLGRIND, dealt, sample

import portable_gpu as pg
from portable_gpu.codegen.reductions import Request, reduction
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.problem import analyse
from portable_gpu.ops.reduce.variants import kernels_of
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import View
from portable_gpu.targets import example_target
from portable_gpu.tuning.table import PolicyRow

RNG = np.random.default_rng(0)


def subsets(ndim: int) -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(ndim), k) for k in range(ndim + 1)))


def check_sum(engine: Engine, x: Any, axis: Any, keepdims: bool = False) -> None:
    got = pg.sum(x, axis=axis, keepdims=keepdims, engine=engine)
    if x.dtype.kind in "biu":
        np.testing.assert_array_equal(got, np.sum(x, axis=axis, keepdims=keepdims))
    else:
        bound = sum_bound(x, x.dtype, axis, keepdims)
        assert_within(got, add(x, axis, keepdims), bound)


SHAPES = [(18,), (17, 18), (3, 17, 18), (3, 4, 17, 18)]


@pytest.mark.parametrize("shape", sample(SHAPES, "(3, 17, 18)"), ids=str)
def test_every_set_of_axes(engine: Engine, shape: tuple[int, ...]) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    for axes in subsets(len(shape)):
        for keepdims in (False, True):
            check_sum(engine, x, axes, keepdims)
    for axis in range(-len(shape), len(shape)):
        check_sum(engine, x, axis)


def test_every_axis_of_a_transpose(engine: Engine) -> None:
    x = RNG.integers(-99, 99, (5, 17, 18)).astype(np.int32)
    for order in ((2, 1, 0), (1, 2, 0), (0, 2, 1)):
        y = x.transpose(order)
        for axes in subsets(3):
            check_sum(engine, y, axes)


EXTREMES = ["argmin", "argmax", "min"]


@pytest.mark.parametrize("name", sample(EXTREMES, "argmin"))
def test_index_over_each_axis(engine: Engine, name: str) -> None:
    x = RNG.integers(0, 4, (4, 17, 18)).astype(np.int16)
    numpys, ours = getattr(np, name), getattr(pg, name)
    layouts = (x, np.asfortranarray(x), x[::-1, ::2, ::-1])
    for y in layouts if name == "argmin" else dealt(layouts, EXTREMES.index(name), 1):
        for axis in (None, 0, 1, 2, -1):
            got = ours(y, axis=axis, engine=engine)
            np.testing.assert_array_equal(got, numpys(y, axis=axis))
            retained = ours(y, axis=axis, keepdims=True, engine=engine)
            assert retained.shape == numpys(y, axis=axis, keepdims=True).shape


@pytest.mark.parametrize("dtype", sample(["float32", "complex128"], "float32"))
def test_moments_and_norms_over_axes(engine: Engine, dtype: str) -> None:
    x = (RNG.standard_normal((4, 17, 18)) * (2 if dtype == "float32" else 1 - 2j)).astype(dtype)
    for axis in (0, 2) if dtype == "float32" else (1,):
        got = pg.var(x, axis=axis, ddof=1, engine=engine)
        assert got.dtype == x.real.dtype
        assert_within(got, variance(x, axis, 1), variance_bound(x, dtype, axis, 1))
        assert_within(
            pg.nrm2(x, axis=axis, engine=engine), norm(x, axis), norm_bound(x, dtype, axis)
        )
        count = np.count_nonzero(x > 0, axis=axis)
        np.testing.assert_array_equal(pg.count_nonzero(x > 0, axis=axis, engine=engine), count)


@pytest.mark.path
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1 << 20, 3), 1), ((1 << 20, 3), 0), ((3, 1 << 20), 1), ((3, 1 << 20), 0),
     ((64, 4099, 5), 1), ((300, 2, 301), (0, 2)), ((2, 300, 257), (0, 1))],
    ids=str,
)  # fmt: skip
def test_long_and_flat(engine: Engine, shape: tuple[int, ...], axis: Any) -> None:
    x = RNG.standard_normal(shape).astype(np.float32)
    check_sum(engine, x, axis)
    if isinstance(axis, int):
        got = pg.argmax(x, axis=axis, engine=engine)
        np.testing.assert_array_equal(got, np.argmax(x, axis=axis))


@pytest.mark.path
def test_widths_of_rows_and_columns(engine: Engine) -> None:
    sub = engine.target.subgroup_size
    for n in sorted({1, 2, 3, 15, 16, 17, sub - 1, sub + 1, 2 * sub + 3, 127, 129, 1000} - {0}):
        x = RNG.integers(-9, 9, (37, n)).astype(np.int32)
        check_sum(engine, x, 1)
        check_sum(engine, x, 0)


def views() -> dict[str, Any]:
    """Views of one array that no axes of can be merged, or that only some can."""
    big = RNG.integers(-99, 99, (9, 40, 50)).astype(np.int32)
    return {
        "offset": big[1:, 3:, 5:],
        "steps": big[::2, ::3, ::4],
        "upside down": big[::-1, ::-1, ::-1],
        "some upside down": big[:, ::-1, 3:],
        "last upside down": big[1:, :, 44:3:-1],
        "F order": np.asfortranarray(big[1:]),
        "middle of F order": np.asfortranarray(big)[:, 3:33, 1:],
        "broadcast rows": np.broadcast_to(big[:, :1, :], big.shape),
        "broadcast columns": np.broadcast_to(big[:, :, :1], big.shape),
        "broadcast all": np.broadcast_to(big[0, 0, 0], (9, 40, 50)),
        "diagonal": np.einsum("ijj->ij", big[:, :40, :40]),
        "swapped": big.swapaxes(0, 1)[:, :, 7:23],
    }


@pytest.mark.parametrize("where", ["host", "device"])
@pytest.mark.parametrize("kind", views())
def test_views(engine: Engine, kind: str, where: str) -> None:
    x = views()[kind]
    data = x if where == "host" else on_device(engine, x, rim=3)
    for axis in (None, *range(x.ndim)):
        got = pg.sum(data, axis=axis, engine=engine)
        got = got if where == "host" else got.get()
        np.testing.assert_array_equal(got, np.sum(x, axis=axis))
    got = pg.argmax(data, engine=engine)
    assert (got if where == "host" else got.get()) == np.argmax(x)


@pytest.mark.parametrize("start", range(4))
def test_alignment_of_reversed_rows(engine: Engine, start: int) -> None:
    memory = RNG.standard_normal(1100).astype(np.float32)
    for n in (1000, 1003):
        for x in (memory[start : start + n], memory[start : start + n][::-1]):
            for data in (x, on_device(engine, x), on_device(engine, x, rim=4)):
                got = pg.sum(data, engine=engine)
                bound = sum_bound(x, np.float32)
                assert_within(got if data is x else got.get(), add(x), bound)
    pairs = memory[start : start + 800].reshape(2, 400)
    assert_within(pg.sum(pairs, axis=0, engine=engine), add(pairs, 0), sum_bound(pairs, "f4", 0))


MANY = 1 << 20  # rows, so that bandwidth counts and not latency
PEELED = 0  # of whatever alignment, whole vectors after the first elements of a row


def test_vector_loads_need_aligned_rows() -> None:
    """x86 forgives what a GPU does not, so that this asks the plan and not the device."""
    target = example_target("gcn")
    elem = element(np.float32)
    fold = reduction(Request("sum", elem, elem, elem))
    policy = ReducePolicy.default(target, elem)

    def vector(shape: Any, strides: Any, reduced: set[int], alignment: int = 128) -> int:
        retained = tuple(range(len(shape) - len(reduced)))  # the result's strides do not matter
        geometry = analyse(shape, frozenset(reduced), [strides], retained, False)
        form = kernels_of(PolicyRow(policy, ""), target, fold, geometry, alignment)[-1].form
        assert form.aligned == (form.vector > 1)
        return PEELED if form.peel else form.vector

    assert vector((1000,), (1,), {0}) == 4
    assert vector((64,), (1,), {0}) == 1  # a sub-group has an element a lane
    assert vector((65,), (1,), {0}, alignment=8) == PEELED
    assert vector((MANY, 14), (14, 1), {1}, alignment=8) == 2
    assert vector((MANY, 14), (14, -1), {1}) == 1  # where it now starts, at its last element
    assert vector((1001,), (-1,), {0}) == 4
    assert vector((1000,), (-1,), {0}) == PEELED
    assert vector((9, 400), (404, 1), {1}) == 4
    assert vector((MANY, 14), (14, 1), {1}) == 2
    assert vector((MANY, 15), (15, 1), {1}) == 1
    assert vector((9, 400), (403, 1), {1}) == PEELED
    assert vector((400, 256), (256, 1), {0}) == 4
    assert vector((400, 254), (256, 1), {0}) == 2  # the last block is moved back by two
    assert View(None, 3, (8,), (1,), np.dtype(np.float32)).alignment == 4
    assert View(None, 4, (8,), (1,), np.dtype(np.float32)).alignment == 16
    assert View(None, 3, (8,), (1,), np.dtype(np.float32), address=20).alignment == 32


def test_dot_of_views(engine: Engine) -> None:
    a, b = RNG.integers(-99, 99, (2, 5000)).astype(np.int64)
    for x, y in (
        (a[::2], b[::-2]),
        (a[::-1], b[::-1]),
        (a[3:], b[:-3]),
        (a, np.broadcast_to(b[5], 5000)),
    ):
        assert pg.dot(x, y, engine=engine) == np.dot(x, y)
        got = pg.dot(on_device(engine, x), on_device(engine, y), engine=engine)
        assert got.get() == np.dot(x, y)
    grid = a[:4800].reshape(60, 80)
    assert pg.vdot(grid.T, np.asfortranarray(grid.T), engine=engine) == np.vdot(grid, grid)


# -- axis arguments


@pytest.mark.parametrize("axis", [1.5, "0", [0], (0, 1.0), True, (True,), {}], ids=repr)
def test_axis_of_a_wrong_kind(engine: Engine, axis: Any) -> None:
    for x in (np.ones((2, 3)), on_device(engine, np.ones((2, 3)))):
        for _ in range(2):
            with pytest.raises(ArgumentTypeError, match="axis"):  # a TypeError, as NumPy's
                pg.sum(x, axis=axis)


def test_axis_of_any_integer_kind(engine: Engine) -> None:
    class Second:
        __hash__ = None  # type: ignore[assignment]

        def __index__(self) -> int:
            return 1

    x = np.arange(6.0).reshape(2, 3)
    for axis in (Second(), np.uint8(1), np.array(1), (Second(),), (np.int64(-1),)):
        for _ in range(2):
            np.testing.assert_array_equal(pg.sum(x, axis=axis, engine=engine), x.sum(1))
    np.testing.assert_array_equal(pg.argmax(x, axis=Second(), engine=engine), [2, 2])


def test_axis_out_of_range(engine: Engine) -> None:
    x = np.ones((2, 3))
    for axis in (2, -3, (0, 2)):
        with pytest.raises(AxisError, match="out of range"):
            pg.sum(x, axis=axis, engine=engine)
        with pytest.raises(IndexError):
            pg.sum(x, axis=axis, engine=engine)
    with pytest.raises(ShapeError, match="twice"):
        pg.sum(x, axis=(0, -2), engine=engine)
    for axis in (1, (0,)):
        with pytest.raises(AxisError, match="out of range"):
            pg.sum(np.float32(1), axis=axis, engine=engine)
    assert pg.sum(np.float32(1), axis=0, engine=engine) == 1  # as in NumPy
    with pytest.raises(ArgumentTypeError, match="axis"):
        pg.argmax(x, axis=(0, 1), engine=engine)  # type: ignore[arg-type]  # on purpose
    assert pg.sum(x, axis=np.int64(1), engine=engine).shape == (2,)


# -- empty input and scalars


EMPTY = [((0,), None), ((0,), 0), ((0, 3), None), ((0, 3), 0), ((0, 3), 1), ((3, 0), (0, 1)),
         ((2, 0, 4), 1), ((2, 0, 4), 2), ((0, 0), 0)]  # fmt: skip
OF_NOTHING = ["sum", "prod", "all", "mean", "std", "max", "argmin"]


@pytest.mark.tiny
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, on the mean of nothing
@pytest.mark.parametrize("name", OF_NOTHING)
def test_empty(unoptimised: Engine, name: str) -> None:
    numpys, ours = getattr(np, name), getattr(pg, name)
    for shape, axis in EMPTY if OCLGRIND else dealt(EMPTY, OF_NOTHING.index(name), 5):
        if name == "argmin" and isinstance(axis, tuple):
            continue
        x = np.zeros(shape, np.float32)
        for data in (x, on_device(unoptimised, x)):
            try:
                expected = np.asarray(numpys(x, axis=axis))
            except ValueError:
                with pytest.raises(ShapeError, match="no elements"):
                    ours(data, axis=axis, engine=unoptimised)
                continue
            got = ours(data, axis=axis, engine=unoptimised)
            got = np.asarray(got if data is x else from_device(got))
            assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(got, expected)


@pytest.mark.tiny
def test_norms_and_products_of_nothing(engine: Engine) -> None:
    x = np.zeros((0, 3), np.float32)
    assert pg.nrm2(x, engine=engine) == 0
    assert pg.asum(x, engine=engine) == 0
    assert pg.vdot(x, x, engine=engine) == 0
    assert pg.var(x, axis=1, engine=engine).shape == (0,)


@pytest.mark.tiny
def test_scalars(engine: Engine) -> None:
    assert pg.sum(np.float32(3), engine=engine) == 3
    assert pg.sum(5, engine=engine) == 5
    assert pg.argmax(np.float32(2), engine=engine) == 0
    ones = np.ones((2, 2), np.float32)
    assert isinstance(pg.sum(ones, engine=engine), np.float32)
    assert pg.sum(ones, keepdims=True, engine=engine).shape == (1, 1)
    assert pg.sum([[1, 2], [3, 4]], axis=0, engine=engine).tolist() == [4, 6]


# -- out=


@pytest.mark.parametrize("where", ["host", "device", "staged"])
def test_out(engine: Engine, where: str) -> None:
    if where == "staged":  # as on a device with memory of its own
        engine = Engine(queue=engine.queue)
        engine.maps_host_memory = engine.takes_host_pointers = False
    x = RNG.integers(-99, 99, (17, 18, 19)).astype(np.int32)
    rims = {
        "C order": lambda big: big[2:19, 3:22],
        "steps": lambda big: big[1:35:2, 0:57:3],
        "transposed": lambda big: big.T[4:21, 3:22],
        "upside down": lambda big: big[20:3:-1, 22:3:-1],
    }
    for view in rims.values():
        big = np.full((64, 64), -7, np.int64)
        expected = big.copy()
        out = view(big)
        view(expected)[...] = np.sum(x, axis=1)
        if where == "device":
            array = on_device(engine, out)
            assert pg.sum(on_device(engine, x), axis=1, out=array, engine=engine) is array
            np.testing.assert_array_equal(from_device(array), view(expected))
            continue
        assert pg.sum(x, axis=1, out=out, engine=engine) is out
        np.testing.assert_array_equal(big, expected)
    retained = np.zeros((17, 1, 19), np.int64)
    whole = np.zeros((), np.int64)
    if where != "device":
        pg.sum(x, axis=1, keepdims=True, out=retained, engine=engine)
        np.testing.assert_array_equal(retained, np.sum(x, axis=1, keepdims=True))
        assert pg.sum(x, out=whole, engine=engine) is whole
        assert whole == np.sum(x)


def test_out_of_every_operation(engine: Engine) -> None:
    x = RNG.standard_normal((6, 5))
    names = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "any", "all"]
    for name in sample(names, "sum", "std", "argmax"):
        expected = getattr(np, name)(x, axis=1)
        out = np.zeros(expected.shape, expected.dtype)
        assert getattr(pg, name)(x, axis=1, out=out, engine=engine) is out
        np.testing.assert_allclose(out, expected, rtol=1e-13)
    out = np.zeros((), float)
    assert pg.dot(x[0], x[1], out=out, engine=engine) is out
    np.testing.assert_allclose(out, np.dot(x[0], x[1]), rtol=1e-13)


def bad_outputs() -> dict[str, tuple[Any, type[Exception]]]:
    read_only = np.full(6, 7.0)
    read_only.flags.writeable = False
    wide = np.full(12, 7.0)
    return {
        "shape": (np.full(5, 7.0), ShapeError),
        "axes": (np.full((6, 1), 7.0), ShapeError),
        "dtype": (np.full(6, 7, np.float32), DTypeError),
        "bytes swapped": (np.full(6, 7, ">f8"), DTypeError),
        "read-only": (read_only, ReadOnlyError),
        "zero stride": (np.lib.stride_tricks.as_strided(wide, (6,), (0,)), OverlapError),
        "half a stride": (np.lib.stride_tricks.as_strided(wide, (6,), (4,)), OverlapError),
        "list": ([7.0] * 6, ArgumentTypeError),
    }


@pytest.mark.parametrize("kind", bad_outputs())
def test_bad_outputs(engine: Engine, kind: str) -> None:
    x = np.ones((6, 4))
    out, error = bad_outputs()[kind]
    before = np.array(out)
    for _ in range(2):
        with pytest.raises(error, match="out"):
            pg.sum(x, axis=1, out=out, engine=engine)
        np.testing.assert_array_equal(np.array(out), before)
    if isinstance(out, np.ndarray) and kind not in ("read-only", "bytes swapped", "half a stride"):
        with pytest.raises(error, match="out"):
            pg.sum(on_device(engine, x), axis=1, out=on_device(engine, out), engine=engine)
    np.testing.assert_array_equal(pg.sum(x, axis=1, engine=engine), np.full(6, 4.0))


def test_outputs_that_overlap(engine: Engine) -> None:
    x = np.arange(24.0).reshape(6, 4)
    before = x.copy()
    square = np.lib.stride_tricks.as_strided(np.zeros(12), (4, 3), (8, 8))
    for operand, out, axis in ((x, x[:, 1], 1), (x, x[2], 0), (np.ones((2, 4, 3)), square, 0)):
        with pytest.raises(OverlapError, match="out"):
            pg.sum(operand, axis=axis, out=out, engine=engine)
    device = on_device(engine, x)
    with pytest.raises(OverlapError, match="shares memory with x"):
        pg.sum(device, axis=0, out=device[3], engine=engine)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(device.get(), before)
    line = np.zeros(12)
    pg.sum(np.ones((2, 6)), axis=0, out=line[::2], engine=engine)  # a stride of two: no overlap
    np.testing.assert_array_equal(line, np.tile([2.0, 0.0], 6))
    shared = np.arange(12.0)
    pg.sum(shared[::2].reshape(2, 3), axis=0, out=shared[1:6:2], engine=engine)  # interleaved
    np.testing.assert_array_equal(shared[1:6:2], [6.0, 10.0, 14.0])


def test_kinds_of_out(engine: Engine) -> None:
    x = np.ones((6, 4))
    with pytest.raises(ArgumentError, match="a portable_gpu"):
        pg.sum(on_device(engine, x), axis=1, out=np.zeros(6), engine=engine)
    out = on_device(engine, np.zeros(6))
    assert pg.sum(x, axis=1, out=out, engine=engine) is out
    np.testing.assert_array_equal(out.get(), np.full(6, 4.0))


# -- random cases


@st.composite
def strided(draw: st.DrawFn) -> Any:
    """A view of up to three axes: permuted, sliced with steps of either sign, broadcast."""
    extents = st.sampled_from([1, 2, 19, 33])
    shape = tuple(draw(st.lists(extents, min_size=1, max_size=3)))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -3, 0])) for _ in shape]
    memory = [n if not s else 1 + abs(s) * (n - 1) for n, s in zip(shape, steps, strict=True)]
    rim = draw(st.integers(0, 3))
    size = int(np.prod(memory)) + rim
    base = (np.arange(size, dtype=np.int64) * 2654435761 % 1009 - 500).astype(np.int32)
    x = base[rim:].reshape(memory)
    for axis, (n, step) in enumerate(zip(shape, steps, strict=True)):
        index = [slice(None)] * len(shape)
        index[axis] = slice(0, 1) if step == 0 else slice(None, None, step)
        x = x[tuple(index)]
        if step == 0:
            x = np.broadcast_to(x, (*x.shape[:axis], n, *x.shape[axis + 1 :]))
    return x.transpose(draw(st.permutations(range(len(shape)))))


@pytest.mark.path
@settings(max_examples=15 if FEW else 40, deadline=None, derandomize=True)
@given(x=strided(), data=st.data())
def test_random_cases(engine: Engine, x: Any, data: st.DataObject) -> None:
    axes = data.draw(st.sets(st.integers(0, x.ndim - 1)))
    keepdims = data.draw(st.booleans())
    got = pg.sum(x, axis=tuple(axes), keepdims=keepdims, engine=engine)
    expected = np.sum(x, axis=tuple(axes), keepdims=keepdims)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    if data.draw(st.booleans()):
        axis = data.draw(st.integers(0, x.ndim - 1))
        got = pg.argmin(on_device(engine, x), axis=axis, engine=engine)
        np.testing.assert_array_equal(from_device(got), np.argmin(x, axis=axis))


@pytest.mark.path
def test_vectors_of_two(engine: Engine) -> None:
    """Rows a multiple of two elements apart, and a last block that is moved back by two."""
    for shape, axis in (((40, 402), 1), ((300, 254), 0), ((3, 70_002), 0)):
        x, y = (RNG.integers(-99, 99, shape).astype(np.float32) for _ in range(2))
        device = on_device(engine, x), on_device(engine, y)
        for name in ("sum", "max", "argmax", "nrm2"):
            got = from_device(getattr(pg, name)(device[0], axis=axis, engine=engine))
            reference = np.linalg.norm if name == "nrm2" else getattr(np, name)
            expected = reference(x.astype(np.float64), axis=axis)
            np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=f"{name} {shape}")
    even = on_device(engine, RNG.integers(-99, 99, 1002).astype(np.float32))[2:]
    host = from_device(even).astype(np.float64)
    assert float(from_device(pg.dot(even, even, engine=engine))) == float(host @ host)


@pytest.mark.path
def test_windows_that_slide_by_an_element(engine: Engine) -> None:
    line = on_device(engine, RNG.integers(-99, 99, 2047).astype(np.float32))
    itemsize = 4
    windows = cla.Array(
        line.queue, (1000, 1024), np.float32, data=line.base_data, strides=(itemsize, itemsize)
    )
    expected = np.lib.stride_tricks.sliding_window_view(from_device(line), 1024)[:1000]
    for axis in (0, 1):
        np.testing.assert_array_equal(
            from_device(pg.sum(windows, axis=axis, engine=engine)), expected.sum(axis)
        )


ADD = pg.BinaryOp("add", "0", "a + b")


def test_maps_of_several_arrays(engine: Engine) -> None:
    """Broadcast along the folded axis, along the kept one, along both; rows and columns."""
    x = RNG.integers(-4, 5, (19, 133)).astype(np.float32)
    m, s = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((19, 1), (133,)))
    expected = (x - m) * s
    for axis in (0, 1, None, (-1,)):
        for a in (x, np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2]):
            operand = {"m": m, "s": s}
            got = pg.reduce(a, ADD, "(x - m) * s", axis=axis, engine=engine, **operand)
            np.testing.assert_array_equal(got, expected.sum(axis=axis))
    there = {name: on_device(engine, value) for name, value in (("m", m), ("s", s))}
    for _ in range(2):
        got = pg.reduce(on_device(engine, x), ADD, "(x - m) * s", axis=1, **there)
        np.testing.assert_array_equal(from_device(got), expected.sum(axis=1))


def test_maps_that_broadcast_x(engine: Engine) -> None:
    """Squared distances of all pairs, and x with a larger array."""
    a, b = (RNG.integers(-4, 5, (n, 6)).astype(np.float32) for n in (13, 21))
    got = pg.reduce(a[:, None], ADD, "(x - y) * (x - y)", axis=2, keepdims=True, y=b, engine=engine)
    expected = ((a[:, None] - b) ** 2).sum(axis=2, keepdims=True)
    np.testing.assert_array_equal(got, expected)
    got = pg.reduce(a[0], ADD, "x * y", axis=0, y=b, engine=engine)
    np.testing.assert_array_equal(got, a[0] * b.sum(axis=0))


def test_dtypes_of_maps(engine: Engine) -> None:
    x, y = (RNG.integers(0, 9, 301).astype(dtype) for dtype in ("int8", "int16"))
    got = pg.reduce(x, ADD, "x * y - t", y=y, t=2, engine=engine)
    assert got.dtype == np.int16
    assert got == (x * y - 2).sum(dtype=np.int16)
    got = pg.reduce(x, ADD, "x * 0.5", dtype="float32", engine=engine)
    assert got == x.sum() / 2
    half = x.astype(np.float16)
    got = pg.reduce(half, ADD, "x > t ? x : 0", t=half[:1], dtype="float32", engine=engine)
    assert got == half[half > half[0]].sum(dtype=np.float32)


def test_wrong_maps(engine: Engine) -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(ShapeError, match=r"x has shape \(3, 4\), m has shape \(3,\)"):
        pg.reduce(x, ADD, "x - m", m=x[:, 0], engine=engine)
    with pytest.raises(ArgumentError, match="t is 300; expected a number that int8"):
        pg.reduce(np.ones(3, np.int8), ADD, "x - t", t=300, engine=engine)
    m = np.ones(4, np.float32)
    with pytest.raises(OverlapError, match="out shares memory with m"):
        pg.reduce(x, ADD, "x - m", axis=0, m=m, out=m, engine=engine)
    with pytest.raises(AxisError):
        pg.reduce(x, ADD, "x - m", axis=2, m=x, engine=engine)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("length", [67, 131, 1031])
def test_rows_that_begin_anywhere(engine: Engine, dtype: Any, length: int) -> None:
    """Each row begins at another distance from the grid of vectors, and so does the array."""
    rng = np.random.default_rng(length)
    memory = rng.integers(-9, 9, 37 * length + 8).astype(dtype)
    for start in (0, 1, 5):
        x = memory[start : start + 37 * length].reshape(37, length)
        for cut in (x, x[:, 1:], x[::-1, : length - 3]):
            np.testing.assert_array_equal(
                pg.sum(
                    cut, axis=1, dtype=np.float64 if dtype == np.float16 else None, engine=engine
                ),
                cut.sum(1, dtype=np.float64).astype(np.int64),
            )
            np.testing.assert_array_equal(pg.argmax(cut, axis=1, engine=engine), cut.argmax(1))


@pytest.mark.parametrize("shape", [(1, 700), (3, 700), (300, 5), (45, 131), (809, 11)])
def test_few_rows_and_what_whole_steps_leave(engine: Engine, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(1).integers(-9, 9, shape).astype(np.float32)
    np.testing.assert_array_equal(pg.sum(x, axis=0, engine=engine), x.sum(0))
    np.testing.assert_array_equal(pg.argmin(x, axis=0, engine=engine), x.argmin(0))
