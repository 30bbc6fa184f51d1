"""The kernels of factorisations and solves on a CPU: edges of tiles, strides, stacks, reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from sampling import in_pairs

from portable_gpu.errors import NotPositiveDefiniteError, SingularMatrixError
from portable_gpu.ops.factor import cholesky, solve_triangular
from portable_gpu.ops.factor.cpu import CpuPolicy
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.queue_state import QueueState

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
#: About a vector, the rows of a tile (3 or 6), a strip (4 to 16), squares of 4, and a block.
SIZES = (1, 2, 3, 4, 5, 7, 12, 17, 33, 64, 125)
LAYOUTS = ("rows", "columns", "gaps", "reverse")


@pytest.fixture(scope="module", autouse=True)
def _on_cpus_only(engine: Engine) -> None:
    if not engine.target.is_cpu:
        pytest.skip("kernels of CPUs")


@pytest.fixture
def small_blocks(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine on which matrices of more than 16 columns are cut."""
    real = CpuPolicy.default.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        CpuPolicy,
        "default",
        classmethod(lambda cls, target, elem: replace(real(cls, target, elem), block=16)),
    )
    with Engine(queue=engine.queue) as made:
        made.caller = None
        yield made


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def definite(shape: tuple[int, ...], dtype: str) -> Array:
    values, n = random(shape, dtype), shape[-1]
    result = values @ adjoint(values) + n * np.eye(n)
    return (np.tril(result) + adjoint(np.tril(result, -1))).astype(dtype)


def triangle(n: int, dtype: str) -> Array:
    return (np.tril(random((n, n), dtype), -1) / n + 2 * np.eye(n)).astype(dtype)


def adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


def laid(a: Array, layout: str) -> Array:
    """Return a copy with the strides of a layout."""
    if layout == "columns":
        return np.asfortranarray(a)
    if layout == "gaps":
        buffer = np.full([2 * extent for extent in a.shape], np.nan, a.dtype)
        buffer[::2, ::2] = a
        return buffer[::2, ::2]
    return a[::-1, ::-1].copy()[::-1, ::-1] if layout == "reverse" else a.copy()


def poisoned(a: Array, lower: bool) -> Array:
    """Return a matrix with NaN in the triangle that is not read."""
    mask = np.tri(a.shape[-1], dtype=bool)
    return np.where(mask if lower else mask.T, a, a.dtype.type(np.nan))


def exact(a: Array) -> Array:
    return a.astype(np.clongdouble if a.dtype.kind == "c" else np.longdouble)


def check(residue: Array, bound: Array, n: int, dtype: str) -> None:
    """Check Higham's bounds, which are four times as large for complex products."""
    eps = np.finfo(dtype).eps / 2 * (4 if dtype.startswith("complex") else 1)
    assert (np.abs(residue) <= n * eps * bound).all()


def check_factor(a: Array, found: Array, lower: bool) -> None:
    factor = exact(found if lower else adjoint(found))
    assert not np.triu(factor, 1).any()
    bound = np.abs(factor) @ np.abs(adjoint(factor))
    check(exact(a) - factor @ adjoint(factor), bound, a.shape[-1] + 3, a.dtype.name)


def check_solution(a: Array, x: Array, b: Array) -> None:
    bound = np.abs(exact(a)) @ np.abs(exact(x))
    check(exact(b) - exact(a) @ exact(x), bound, a.shape[-1] + 2, x.dtype.name)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "layout", "lower"), in_pairs(SIZES, LAYOUTS, (True, False)))
def test_factors(engine: Engine, dtype: str, n: int, layout: str, lower: bool) -> None:
    a = definite((n, n), dtype)
    operand = laid(poisoned(a, lower), layout)
    result = cholesky(operand, lower=lower, engine=engine)
    check_factor(a, result, lower)
    assert cholesky(operand, lower=lower, overwrite_a=True, engine=engine) is operand
    expected = poisoned(a, lower)
    part = np.tril_indices(n) if lower else np.triu_indices(n)
    expected[part] = result[part]
    np.testing.assert_array_equal(operand, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("n", "count", "order"), in_pairs((1, 3, 4, 9, 16, 40), (2, 8, 21), ("C", "F"))
)
def test_stacks(engine: Engine, dtype: str, n: int, count: int, order: str) -> None:
    a = definite((count, n, n), dtype)
    operand = a if order == "C" else np.swapaxes(np.swapaxes(a, 1, 2).copy(), 1, 2)
    for lower in (True, False):
        result = cholesky(poisoned(operand, lower), lower=lower, engine=engine)
        check_factor(a, result, lower)
    x = solve_triangular(result, operand, lower=False, engine=engine)
    check_solution(result, x, a)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [3, 21])  # one after the other, and side by side
def test_one_bad_matrix_disturbs_no_other(engine: Engine, dtype: str, count: int) -> None:
    a = definite((count, 7, 7), dtype)
    operand = a.copy()
    operand[1, 4, 4], operand[2, 2, 2] = -1, np.nan
    with pytest.raises(NotPositiveDefiniteError) as messages:
        cholesky(operand, overwrite_a=True, engine=engine, lower=True)
    assert (messages.value.index, messages.value.column) == ((1,), 4)
    assert messages.value.pivot < 0
    good = [k for k in range(count) if k not in (1, 2)]
    check_factor(a[good], np.tril(operand[good]), True)
    part = np.tril_indices(7)
    lost = np.isnan(operand[1][part])
    assert (lost == (part[1] >= 4)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("n", "m", "layout_a", "layout_b", "lower", "trans"),
    in_pairs(SIZES, (1, 3, 16, 67), LAYOUTS, LAYOUTS, (True, False), ("N", "T", "C")),
)
def test_solves(
    engine: Engine,
    dtype: str,
    n: int,
    m: int,
    layout_a: str,
    layout_b: str,
    lower: bool,
    trans: str,
) -> None:
    a = triangle(n, dtype) if lower else triangle(n, dtype).T
    b = random((n, m), dtype, 1)
    operand, right = laid(poisoned(a, lower), layout_a), laid(b, layout_b)
    applied = {"N": a, "T": a.T, "C": adjoint(a)}[trans]
    x = solve_triangular(operand, right, trans, lower, engine=engine)
    check_solution(applied, x, b)
    y = solve_triangular(operand, right.T, trans, lower, side="right", engine=engine)
    check_solution(applied.T, y.T, b)
    np.testing.assert_array_equal(right, b)
    solve_triangular(operand, right, trans, lower, overwrite_b=True, engine=engine)
    np.testing.assert_array_equal(right, x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_unit_diagonal_is_not_read(engine: Engine, dtype: str) -> None:
    a, b = triangle(19, dtype), random((19, 5), dtype, 1)
    np.fill_diagonal(a, np.nan)
    x = solve_triangular(a, b, lower=True, unit_diagonal=True, engine=engine)
    np.fill_diagonal(a, 1)
    check_solution(a, x, b)


@pytest.mark.parametrize(
    ("dtype", "n", "layout", "lower"),
    [
        ("float32", 17, "rows", True), ("float32", 32, "columns", False),
        ("float32", 75, "gaps", True), ("float32", 17, "reverse", False),
        ("float64", 32, "rows", False), ("complex64", 17, "columns", True),
        ("complex128", 75, "reverse", False),
    ],
)  # fmt: skip
def test_halves(small_blocks: Engine, dtype: str, n: int, layout: str, lower: bool) -> None:
    a = definite((n, n), dtype)
    result = cholesky(laid(a, layout), lower=lower, engine=small_blocks)
    factor = np.tril(result) if lower else np.triu(result)
    check_factor(a, factor, lower)
    b = random((n, 9), dtype, 1)
    x = solve_triangular(laid(factor, layout), laid(b, layout), lower=lower, engine=small_blocks)
    check_solution(factor, x, b)


def test_later_blocks_tell_their_columns(engine: Engine, small_blocks: Engine) -> None:
    a = definite((50, 50), "float64")
    a[40, 40] = a[45, 45] = -1
    with pytest.raises(NotPositiveDefiniteError) as messages:
        cholesky(a, engine=small_blocks, lower=True)
    assert messages.value.column == 40
    t = triangle(50, "float64")
    t[37, 37] = t[48, 48] = 0
    for lower in (True, False):
        for whole in (engine, small_blocks):
            with pytest.raises(SingularMatrixError) as zero:
                solve_triangular(t if lower else t.T, a, lower=lower, engine=whole)
            assert zero.value.column == 37


def test_repeated_calls_look_at_their_own_report(engine: Engine) -> None:
    good, bad = definite((9, 9), "float32"), -np.eye(9, dtype="float32")
    for _ in range(3):
        check_factor(good, cholesky(good, engine=engine, lower=True), True)
        with pytest.raises(NotPositiveDefiniteError):
            cholesky(bad, engine=engine, lower=True)
        with pytest.raises(SingularMatrixError):
            solve_triangular(np.zeros_like(bad), good, engine=engine)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operation", ["cholesky", "solve"])
def test_nothing_is_computed_with_what_stood_in_memory(
    engine: Engine, operation: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lanes beyond a matrix compute too; numbers below the normal range take 10 to 60 times."""
    floats = np.float32 if dtype in ("float32", "complex64") else np.float64
    tiny = np.nextafter(floats(0), floats(1))
    take, selected = QueueState.from_pool, []

    def take_tiny(self: QueueState, nbytes: int) -> Any:
        buffer = take(self, nbytes)
        cl.enqueue_fill_buffer(self.queue, buffer, tiny, 0, nbytes // 8 * 8)
        selected.append((buffer, nbytes))
        return buffer

    monkeypatch.setattr(QueueState, "from_pool", take_tiny)
    a = definite((3, 37, 37), dtype)
    if operation == "cholesky":
        cholesky(a, engine=engine, lower=True)
    else:
        solve_triangular(
            np.linalg.cholesky(a), random((3, 37, 5), dtype), lower=True, engine=engine
        )
    result = 0
    for buffer, nbytes in selected:
        values = np.empty(nbytes // 8 * 8 // np.dtype(floats).itemsize, floats)
        cl.enqueue_copy(engine.queue, values, buffer)
        result += np.count_nonzero((values != 0) & (abs(values) < np.finfo(floats).tiny))
    assert selected
    assert not result
