"""Calls that are like ones met before in all but one respect, and calls in random order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from numpy.lib.stride_tricks import as_strided

import portable_gpu as pg
from portable_gpu import fft
from portable_gpu.errors import ArgumentError, OverlapError
from portable_gpu.linalg import solve_triangular
from portable_gpu.runtime.engine import Engine


def misaligned(array: np.ndarray) -> np.ndarray:
    """Return the values with the same strides, one byte off their alignment."""
    memory = np.zeros(array.nbytes + 1, np.uint8)[1:]
    order = "F" if array.flags.f_contiguous else "C"
    copy = np.ndarray(array.shape, array.dtype, memory, order=order)
    copy[...] = array
    assert not copy.flags.aligned
    return copy


def fortran(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).integers(-9, 10, shape)
    return np.asfortranarray(values.astype(np.float32))


SQUARE = fortran((5, 5), 1)
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (lambda a: pg.sum(a, axis=0), lambda a: np.sum(a, axis=0)),
    "max": (lambda a: pg.max(a, axis=0), lambda a: np.max(a, axis=0)),
    "mean": (lambda a: pg.mean(a, axis=1), lambda a: np.mean(a, axis=1, dtype=np.float64)),
    "gemv": (lambda a: pg.gemv(a, SQUARE[0]), lambda a: a @ SQUARE[0]),
    "matmul": (lambda a: pg.matmul(a, SQUARE), lambda a: a @ SQUARE),
    "gemm": (lambda a: pg.gemm(a, SQUARE, trans_a="T"), lambda a: a.T @ SQUARE),
    "vdot": (lambda a: pg.vdot(a, SQUARE), lambda a: np.vdot(a, SQUARE)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_copy_was_taken_for_the_first(engine: Engine, name: str) -> None:
    """A call that copied a misaligned array must not copy an aligned one."""
    ours, numpys = CALLS[name]
    # A shape of its own: nothing of the kind has been called before.
    SQUARE[...] = fortran((5, 5), 1)
    first, second = (fortran((5, 5), seed) for seed in (2, 3))
    np.testing.assert_allclose(ours(misaligned(first)), numpys(first), rtol=1e-6)
    for _ in range(2):
        np.testing.assert_allclose(ours(second), numpys(second), rtol=1e-6)
        np.testing.assert_allclose(ours(misaligned(first)), numpys(first), rtol=1e-6)


def test_strides_that_are_no_whole_elements(engine: Engine) -> None:
    """An axis of one element may have any stride: aligned, and yet no view of elements."""
    x = np.asfortranarray(np.arange(15, dtype=np.float32).reshape(5, 3))
    y = as_strided(x, (5, 1, 3), (4, 7, 20))
    for _ in range(3):
        np.testing.assert_array_equal(pg.sum(y, axis=0), x.sum(axis=0)[None])


@pytest.mark.filterwarnings("error")
def test_nothing_says_that_inputs_may_be_written(engine: Engine) -> None:
    """NumPy warns of whatever may write to what ``broadcast_arrays`` gives."""
    row = np.arange(5, dtype=np.float32)
    for _ in range(3):
        x, _ = np.broadcast_arrays(row, np.zeros((1, 5)))
        np.testing.assert_array_equal(pg.sum(x, axis=0), row)


def test_plans_of_arrays_that_are_converted(engine: Engine) -> None:
    a, b = fortran((5, 5), 4), fortran((5, 5), 5)
    plan = pg.plan("gemm", misaligned(a), b)
    for left in (a, misaligned(a), b):
        np.testing.assert_array_equal(plan(left, b), left @ b)


@pytest.mark.parametrize("kind", ["list", "byte order", "unaligned", "strided"])
def test_arrays_of_an_epilogue_are_read_at_each_call(engine: Engine, kind: str) -> None:
    rng = np.random.default_rng(0)
    a, b = fortran((12, 9), 6), fortran((9, 40), 7)
    values = rng.integers(-50, 50, 40).astype(np.float32)
    bias: Any = {
        "list": values.tolist(),
        "byte order": values.astype(">f4"),
        "unaligned": misaligned(values),
        "strided": np.repeat(values, 2)[::2],
    }[kind]
    plan = pg.plan("gemm", a, b, epilogue=pg.Epilogue().bias(bias))
    for turn in range(12):
        clutter = [rng.integers(0, 99, 40).astype(np.float32) for _ in range(8)]
        want = a @ b + np.asarray(bias, np.float32)
        np.testing.assert_array_equal(plan(a, b), want, err_msg=f"call {turn}")
        del clutter
        bias[turn] = 1000 + turn


def test_plans_do_not_write_over_their_epilogue(engine: Engine) -> None:
    a, b = fortran((6, 6), 8), fortran((6, 6), 9)
    c = np.zeros((6, 6), np.float32)
    plan = pg.plan("gemm", a, b, c=np.empty_like(c), epilogue=pg.Epilogue().add(c))
    with pytest.raises(OverlapError, match="epilogue"):
        plan(a, b, c)
    assert not c.any()


def test_plans_wait_for_their_epilogues_arrays(engine: Engine) -> None:
    a, b = (cla.to_device(engine.queue, fortran((6, 6), seed)) for seed in (8, 9))
    bias = cla.zeros(engine.queue, 6, np.float32)
    plan = pg.plan("gemm", a, b, epilogue=pg.Epilogue().bias(bias))
    other = cl.CommandQueue(engine.context, engine.device)
    gate = cl.UserEvent(engine.context)
    ones = np.ones(6, np.float32)
    bias.events.append(
        cl.enqueue_copy(other, bias.base_data, ones, wait_for=[gate], is_blocking=False)
    )
    other.flush()
    result = plan(a, b)
    gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(result.get(), a.get() @ b.get() + 1)


def test_a_buffer_that_is_too_small(engine: Engine) -> None:
    """Pyopencl makes such arrays without a word; both the first call and a like one refuse."""
    good = cla.to_device(engine.queue, np.ones((7, 11), np.float32))
    small = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, 200)
    bad = cla.Array(engine.queue, (7, 11), np.float32, data=small)
    late = cla.Array(engine.queue, (7, 11), np.float32, data=good.base_data, offset=16)
    for first, second in ((bad, good), (good, bad), (good, late), (late, good)):
        for array in (first, second):
            if array is good:
                assert pg.sum(array, axis=0).get().tolist() == [7] * 11
            else:
                with pytest.raises(ArgumentError, match="of its buffer, which has"):
                    pg.sum(array, axis=0)
    out = cla.Array(engine.queue, 11, np.float32, data=small.get_sub_region(0, 32))
    with pytest.raises(ArgumentError, match="out takes bytes 0 to 44"):
        pg.sum(good, axis=0, out=out)


def test_random_calls_in_random_order(engine: Engine) -> None:
    """Few shapes, so that most calls are like an earlier one except for an array's alignment."""
    rng = np.random.default_rng(5)
    memory = rng.integers(-9, 10, 4000).astype(np.float32)

    def lie(shape: tuple[int, ...]) -> np.ndarray:
        """An array of ``shape`` somewhere in memory: any order, step, sign, byte and byte order."""
        values = rng.integers(-9, 10, shape).astype(np.float32)
        kind = rng.integers(7)
        if kind == 0:
            return values
        if kind == 1:
            return np.asfortranarray(values)
        if kind == 2:
            return misaligned(values)
        if kind == 3:
            return misaligned(np.asfortranarray(values))
        if kind == 4:
            return values[::-1]
        if kind == 5:
            start = int(rng.integers(0, 64))
            return memory[start : start + values.size].reshape(shape)
        return values.astype(">f4")

    calls = [
        lambda a, b: (pg.sum(a, axis=0), np.sum(a, axis=0, dtype=np.float32)),
        lambda a, b: (pg.max(a, axis=1), np.max(a, axis=1)),
        lambda a, b: (pg.matmul(a, b), a.astype("f4") @ b.astype("f4")),
        lambda a, b: (pg.gemm(a, b), a.astype("f4") @ b.astype("f4")),
        lambda a, b: (pg.gemv(a, b[0]), a.astype("f4") @ b[0].astype("f4")),
        lambda a, b: (pg.vdot(a, b), np.vdot(a.astype("f4"), b.astype("f4"))),
        lambda a, b: (pg.elementwise("a - 2 * b", a=a, b=b), a.astype("f4") - 2 * b.astype("f4")),
        lambda a, b: (solve_triangular(a, b, lower=True, unit_diagonal=True), forwards(a, b)),
        lambda a, b: (fft.fft(a), np.fft.fft(a.astype("f8"))),
    ]
    error = 32 * 6 * 9 * 2.0**-24  # of transforms; all else is whole, and so are its sums
    for turn in range(1500):
        a, b = lie((6, 6)), lie((6, 6))
        ours, numpys = calls[rng.integers(len(calls))](a, b)
        np.testing.assert_allclose(ours, numpys, rtol=0, atol=error, err_msg=f"call {turn}")


def forwards(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The X of A X = B, by a lower triangle with ones on the diagonal."""
    x = b.astype(np.float64)
    for k in range(len(x)):
        x[k] -= a[k, :k].astype(np.float64) @ x[:k]
    return x


@pytest.fixture
def svm(engine: Engine) -> Iterator[Callable[[np.ndarray], Any]]:
    """Makes device arrays in shared virtual memory, which stay until the queue is done.

    Freed between calls, PoCL has crashed in pyopencl's ``to_device`` on a busy machine.
    """
    if not engine.target.facts.svm:
        pytest.skip(f"{engine.device.name} has no shared virtual memory")
    allocator = cl.tools.SVMAllocator(engine.context, alignment=0, queue=engine.queue)
    made: list[Any] = []

    def make(x: np.ndarray) -> Any:
        made.append(cla.to_device(engine.queue, x, allocator=allocator))
        return made[-1]

    yield make
    engine.queue.finish()


def test_shared_virtual_memory(engine: Engine, svm: Callable[[np.ndarray], Any]) -> None:
    """As input, and as out=, c= and y=; arrays that share memory are distinguished from others."""
    a, b, v = fortran((6, 6), 1), fortran((6, 6), 2), fortran((6, 6), 3)[0].copy()
    for _ in range(2):
        da, db, dv = svm(a), svm(b), svm(v)
        row, square = svm(np.zeros(6, np.float32)), svm(np.zeros((6, 6), np.float32))
        np.testing.assert_array_equal(pg.sum(da, axis=0, out=row).get(), a.sum(axis=0))
        np.testing.assert_array_equal(pg.gemm(da, db, c=square).get(), a @ b)
        np.testing.assert_array_equal(pg.matmul(da, b, out=square).get(), a @ b)
        np.testing.assert_array_equal(pg.gemv(da, dv, y=row).get(), a @ v)
        np.testing.assert_array_equal(
            pg.plan("gemm", da, db, c=square)(da, db, square).get(), a @ b
        )
        both = svm(np.zeros((2, 6, 6), np.float32))
        pg.gemm(both[0], db, c=both[1])
        assert not both.get().any()
        with pytest.raises(OverlapError):
            pg.gemm(both[0], db, c=both[0])
        with pytest.raises(OverlapError):
            pg.gemm(da, db, c=da)


def test_buffers_over_the_same_memory_of_the_host(engine: Engine) -> None:
    """Two buffers of one NumPy array are two objects, and one memory."""
    if not engine.maps_host_memory:
        pytest.skip(f"{engine.device.name} copies such buffers")
    x = fortran((6, 6), 1)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    first, second = (
        cla.Array(engine.queue, x.shape, x.dtype, data=cl.Buffer(engine.context, flags, hostbuf=x))
        for _ in range(2)
    )
    with pytest.raises(OverlapError):
        pg.gemm(first, first, c=second)


def test_stacks_of_transposed_matrices_are_remembered(engine: Engine) -> None:
    """Memory without gaps is taken in place, in whatever order its axes are."""
    stack, other = np.random.default_rng(1).random((2, 3, 4, 5), np.float32)
    out = np.zeros((5, 3, 5), np.float32).transpose(1, 0, 2)
    for count in range(3):
        a = stack + count
        transposed = a.transpose(0, 2, 1)
        np.testing.assert_allclose(
            pg.matmul(transposed, other, engine=engine), transposed @ other, rtol=1e-5
        )
        pg.matmul(transposed, other, out=out, engine=engine)
        np.testing.assert_allclose(out, transposed @ other, rtol=1e-5)
        gaps = np.repeat(a, 2, axis=2)[:, :, ::2]
        np.testing.assert_allclose(pg.sum(gaps, axis=0, engine=engine), a.sum(axis=0), rtol=1e-5)
        np.testing.assert_allclose(
            pg.sum(transposed, axis=(0, 2), engine=engine), transposed.sum(axis=(0, 2)), rtol=1e-5
        )


def test_a_result_that_is_not_aligned(engine: Engine) -> None:
    """A CPU device writes the caller's memory itself."""
    x, out = fortran((5, 5), 1), misaligned(np.zeros(5, np.float32))
    for _ in range(2):
        if engine.maps_host_memory:
            with pytest.raises(ArgumentError, match="out is not aligned for float32"):
                pg.sum(x, axis=0, out=out)
        else:
            np.testing.assert_array_equal(pg.sum(x, axis=0, out=out), x.sum(axis=0))
