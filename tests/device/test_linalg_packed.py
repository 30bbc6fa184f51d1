"""Packed triangles: layout, Cholesky, solves and products on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from linear_systems import packed_triangle
from reference import assert_within, product_bound, unit_roundoff, wider
from sampling import dealt

import portable_gpu as pg
from portable_gpu import Engine
from portable_gpu.errors import (
    ArgumentError,
    DTypeError,
    NotPositiveDefiniteError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
    SingularMatrixError,
)
from portable_gpu.linalg import packed
from portable_gpu.ops.factor.packed_steps import PackedPartition

SIZES = (0, 1, 5, 127, 128, 129, 255, 256, 300, 400)
#: Sizes for each of the ways below: nothing, one block and about its edges, several blocks.
IN_WAYS = (
    *((n, "own") for n in (0, 5, 127, 129, 256, 300)),
    *((n, "large") for n in (1, 128, 255, 257, 400)),
)
in_both_ways = pytest.mark.parametrize(("n", "way"), IN_WAYS, indirect=["way"])
DTYPES = ("float32", "float64", "complex64", "complex128")
OPS = {"N": lambda x: x, "T": lambda x: x.swapaxes(-1, -2), "C": lambda x: _adjoint(x)}
#: As devices with many compute units go about it.
LARGE = PackedPartition(panel=256, slab=128, panels=True)


def _adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def _random(shape: Any, dtype: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def _positive(shape: Any, dtype: Any, seed: int = 0) -> Any:
    """Positive definite, of a modest condition."""
    x = _random(shape, "complex128" if np.dtype(dtype).kind == "c" else "float64", seed)
    n = shape[-1]
    return (x @ _adjoint(x) / max(n, 1) + np.eye(n)).astype(dtype)


def _triangle(n: int, dtype: Any, lower: bool = True, seed: int = 0) -> Any:
    """A triangle that solves do not grow with."""
    x = np.tril(_random((n, n), dtype, seed) / max(n, 1)) + 2 * np.eye(n, dtype=dtype)
    return x if lower else x.T.copy()


def _check_factor(l: Any, a: Any) -> None:  # noqa: E741
    """Higham, theorem 10.3, with two roundings more for reciprocal roots."""
    n, u = a.shape[-1], unit_roundoff(a.dtype) * (2 * np.sqrt(2) if a.dtype.kind == "c" else 1)
    l, size = wider(l), np.abs(wider(l))  # noqa: E741
    bound = (n + 3) * u / (1 - (n + 3) * u) * (size @ _adjoint(size))
    assert np.all(np.tril(np.abs(l @ _adjoint(l) - wider(a))) <= bound + 1e-300)


def _check_solve(a: Any, x: Any, b: Any, steps: int = 1) -> None:
    """Higham, theorems 8.5 and 10.4 (``steps`` 3), with 2 roundings more."""
    n, u = a.shape[-1], unit_roundoff(x.dtype) * (2 * np.sqrt(2) if x.dtype.kind == "c" else 1)
    k = steps * n + 3
    bound = k * u / (1 - k * u) * (np.abs(wider(a)) @ np.abs(wider(x)))
    assert np.all(np.abs(wider(a) @ wider(x) - wider(b)) <= bound + 1e-300)


@pytest.fixture(params=["own", "large"])
def way(request: Any, monkeypatch: Any, engine: Engine) -> Iterator[str]:
    """The device's own way, and that of devices with many compute units."""
    if request.param == "own":
        yield "own"
        return
    monkeypatch.setattr(PackedPartition, "of", classmethod(lambda cls, n, m, target: LARGE))
    _forget(engine)
    yield "large"
    _forget(engine)


def _forget(engine: Engine) -> None:
    """Drop the plans of an engine, and the remembered calls that keep them."""
    for each in (engine, engine.caller):
        if each is not None:
            each.forget_plans()


def of_way(way: str, turn: int) -> str:
    """A dtype: each of the ways has two in turn, one of them complex."""
    return DTYPES[turn % 2 * 2 + (way == "large")]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lower", [True, False])
def test_pack_and_unpack(n: int, lower: bool) -> None:
    dtype = DTYPES[(n + lower) % 4]
    a = _random((n, n), dtype)
    ap = packed.pack(a, lower)
    np.testing.assert_array_equal(ap, packed_triangle(a if lower else a.T))
    half = np.tril(a) if lower else np.triu(a)
    np.testing.assert_array_equal(packed.unpack(ap, lower), half)
    other = _adjoint(np.tril(a, -1) if lower else np.triu(a, 1))
    np.testing.assert_array_equal(packed.unpack(ap, lower, symmetric=True), half + other)


def test_small_ones_are_lapacks() -> None:
    a = np.arange(9.0).reshape(3, 3)
    np.testing.assert_array_equal(packed.pack(a, lower=True), [0, 3, 4, 6, 7, 8])
    np.testing.assert_array_equal(packed.pack(a, lower=False), [0, 1, 4, 2, 5, 8])


def test_strided_matrices(engine: Any) -> None:
    a = _random((2, 3, 260, 260), "float32")[:, :, ::2, ::-2]
    ap = packed.pack(a, lower=True)
    np.testing.assert_array_equal(ap, packed_triangle(a))
    np.testing.assert_array_equal(packed.unpack(ap, lower=True), np.tril(a))
    np.testing.assert_array_equal(packed.pack(on_device(engine, a), lower=True).get(), ap)
    np.testing.assert_array_equal(packed.unpack(ap[::-1, 1:], lower=True), np.tril(a[::-1, 1:]))


@in_both_ways
def test_cholesky(n: int, way: str) -> None:
    dtype = of_way(way, IN_WAYS.index((n, way)))
    a = _positive((n, n), dtype, n)
    ap = packed.pack(a, lower=True)
    before = ap.copy()
    _check_factor(packed.unpack(packed.cholesky(ap), lower=True), a)
    np.testing.assert_array_equal(ap, before)
    upper = packed.pack(a, lower=False)
    assert packed.cholesky(upper, overwrite_ap=True) is upper
    _check_factor(_adjoint(packed.unpack(upper, lower=False)), a)


@in_both_ways
def test_solve_triangular(n: int, way: str) -> None:
    dtype = of_way(way, IN_WAYS.index((n, way)))
    for number, trans in enumerate("NTC"):
        lower, side = bool((n + number) % 2), ("left", "right")[n // 2 % 2]
        a = _triangle(n, dtype, lower)
        b = _random((n, 37), dtype, 1)
        right = side == "right"
        x = packed.solve_triangular(
            packed.pack(a, lower), b.T if right else b, trans, lower, side=side
        )
        if right:
            _check_solve(OPS[trans](a).T, x.T, b)
        else:
            _check_solve(OPS[trans](a), x, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_unit_diagonal_and_vectors(dtype: str) -> None:
    n = 200
    a = _triangle(n, dtype) - 2 * np.eye(n, dtype=dtype)
    ones = np.tril(a, -1) + np.eye(n, dtype=dtype)
    b = _random(n, dtype)
    ap = packed.pack(np.tril(a, -1), lower=True)  # zeros on the diagonal are not read
    for trans, op in OPS.items():
        x = packed.solve_triangular(ap, b, trans, unit_diagonal=True, lower=True)
        assert x.shape == b.shape
        _check_solve(op(ones), x[:, None], b[:, None])


@pytest.mark.parametrize(("n", "lower"), [(5, True), (128, False), (300, True), (400, False)])
def test_cho_solve(n: int, lower: bool, way: str) -> None:
    dtype = of_way(way, n // 100)
    a = _positive((n, n), dtype, n)
    factor = packed.cholesky(packed.pack(a, lower))
    b = _random((n, 40), dtype, 2)
    x = packed.cho_solve(factor, b, lower)
    l = packed.unpack(factor, lower)  # noqa: E741
    size = np.abs(wider(l if lower else _adjoint(l)))
    u = unit_roundoff(dtype) * (2 * np.sqrt(2) if dtype[0] == "c" else 1)
    bound = (3 * n + 5) * u * (size @ size.T @ np.abs(wider(x)))
    assert np.all(np.abs(wider(a) @ wider(x) - wider(b)) <= bound)


@in_both_ways
def test_rank_k(n: int, way: str) -> None:
    dtype, k = of_way(way, IN_WAYS.index((n, way))), 50
    a = _random((n, k), dtype)
    products = [
        (packed.syrk, a, a.T),
        (partial(packed.herk, lower=True), a, _adjoint(a)),
        (packed.herk, a.conj(), a.T),  # of an upper triangle, the transpose is stored
    ]
    for product, left, right in products if dtype[0] == "c" else dealt(products, n, 1):
        expected = wider(left) @ wider(right)
        bound = product_bound(left, right, dtype, 2, 3, expected)
        got = product(a)
        assert_within(got, packed_triangle(expected), packed_triangle(bound))
        c = got.copy()
        assert product(a, alpha=2, beta=3, out=got) is got
        assert_within(got, packed_triangle(2 * expected) + 3 * wider(c), packed_triangle(bound))
        got[:] = np.nan  # C is not read
        assert_within(product(a, out=got), packed_triangle(expected), packed_triangle(bound))
        assert_within(
            product(a, alpha=0, beta=1, out=c.copy()), wider(c), 0 * packed_triangle(bound)
        )


def test_batches(engine: Any, way: str) -> None:
    n = 150
    a = _positive((2, 3, n, n), "float64")
    ap = packed.pack(a, lower=True)
    factor = packed.cholesky(ap)
    _check_factor(packed.unpack(factor, lower=True), a)
    b = _random((3, n, 4), "float64")
    _check_solve(a, packed.cho_solve(factor, b, lower=True), np.broadcast_to(b, (2, 3, n, 4)), 6)
    x = packed.solve_triangular(factor[0, 0], b, lower=True)  # one triangle, several B
    _check_solve(np.broadcast_to(packed.unpack(factor[0, 0], lower=True), (3, n, n)), x, b)
    rows = _random((3, n, 9), "float64")
    got = packed.herk(rows, lower=True)
    np.testing.assert_allclose(got, packed_triangle(rows @ _adjoint(rows)), rtol=1e-12, atol=1e-12)
    spread = np.zeros((2, 6, 2 * ap.shape[-1]))[:, ::2, : ap.shape[-1]]
    spread[...] = ap
    packed.cholesky(spread, overwrite_ap=True)
    np.testing.assert_array_equal(spread, factor)


@pytest.mark.parametrize("n", [5, 129, 300])
def test_device_arrays_and_canaries(engine: Any, n: int, way: str) -> None:
    a = _positive((n, n), "float32")
    ap = packed.pack(a, lower=True)
    array = on_device(engine, ap, rim=64)
    whole = np.empty(array.base_data.size, np.uint8)
    result = packed.cholesky(array, overwrite_ap=True)
    assert result is array
    import pyopencl as cl

    cl.enqueue_copy(engine.queue, whole, array.base_data, wait_for=array.events)
    rim = 64 * 4
    assert not whole[:rim].any()
    assert not whole[-rim:].any()
    np.testing.assert_array_equal(from_device(array), packed.cholesky(ap))
    b = _random((n, 3), "float32")
    on = on_device(engine, b, rim=64)
    got = packed.cho_solve(array, on, lower=True)
    assert isinstance(got, pg.Array)
    np.testing.assert_allclose(got.get(), np.linalg.solve(a, b), rtol=1e-3, atol=1e-3)
    assert packed.cho_solve(array, on, overwrite_b=True, lower=True) is on
    np.testing.assert_array_equal(from_device(on), got.get())


@pytest.mark.parametrize("column", [0, 3, 127, 128, 250, 299])
def test_not_positive_definite(engine: Any, column: int, way: str) -> None:
    a = np.stack([np.eye(300)] * 3)
    a[1, column, column] = -2.0
    a[1, 299, 299] = -1.0
    ap = packed.pack(a, lower=True)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        packed.cholesky(ap)
    pivot = -1.0 if column == 299 else -2.0
    assert (caught.value.index, caught.value.column, caught.value.pivot) == ((1,), column, pivot)
    result = packed.cholesky(on_device(engine, ap))
    with pytest.raises(NotPositiveDefiniteError):
        result.get()
    with pytest.raises(NotPositiveDefiniteError):
        packed.unpack(result, lower=True).get()
    with pytest.raises(NotPositiveDefiniteError):
        packed.cho_solve(result, on_device(engine, np.ones((300, 2))), lower=True).get()
    with pytest.raises(NotPositiveDefiniteError):
        packed.cholesky(on_device(engine, ap), check="now")


@pytest.mark.parametrize("trans", ["N", "T"])
def test_singular(trans: str, way: str) -> None:
    a = np.stack([np.eye(300), np.eye(300)])
    a[1, 200, 200] = a[1, 290, 290] = 0
    with pytest.raises(SingularMatrixError) as caught:
        packed.solve_triangular(packed.pack(a, lower=True), np.ones((300, 2)), trans, lower=True)
    assert (caught.value.index, caught.value.column) == ((1,), 200)


def test_empty() -> None:
    assert packed.cholesky(np.zeros((3, 0))).shape == (3, 0)
    assert packed.cholesky(np.zeros((0, 3))).shape == (0, 3)
    assert packed.solve_triangular(np.zeros(6) + 1, np.zeros((3, 0)), lower=True).shape == (3, 0)
    assert packed.syrk(np.zeros((0, 4))).shape == (0,)
    np.testing.assert_array_equal(packed.syrk(np.zeros((3, 0))), np.zeros(6))
    got = packed.syrk(np.zeros((3, 0)), beta=2, out=np.ones(6))
    np.testing.assert_array_equal(got, 2 * np.ones(6))


def test_wrong_arguments(engine: Any) -> None:
    with pytest.raises(ShapeError, match=r"9 elements are not a triangle; nearest is 10, of 4"):
        packed.cholesky(np.ones(9))
    with pytest.raises(ShapeError, match="nearest is 6, of 3 rows"):
        packed.unpack(np.ones(7), lower=True)
    with pytest.raises(ShapeError, match="one number"):
        packed.unpack(np.float32(1), lower=True)
    with pytest.raises(DTypeError):
        packed.cholesky(np.ones(6, int))
    with pytest.raises(ShapeError):
        packed.pack(np.ones((3, 4)), lower=True)
    with pytest.raises(ShapeError, match="4 rows"):
        packed.solve_triangular(np.ones(10), np.ones((3, 2)), lower=True)
    with pytest.raises(ArgumentError, match="adjacent"):
        packed.cholesky(np.ones(12)[::2], overwrite_ap=True)
    np.testing.assert_array_equal(
        packed.unpack(np.arange(6.0)[::-1], lower=True), [[5, 0, 0], [4, 3, 0], [2, 1, 0]]
    )
    with pytest.raises(ArgumentError, match="pass out="):
        packed.syrk(np.ones((3, 2)), beta=2)
    with pytest.raises(ShapeError):
        packed.syrk(np.ones((3, 2)), out=np.ones(10))
    x = np.ones(100)
    with pytest.raises(OverlapError):
        packed.syrk(x[:6].reshape(3, 2), out=x[:6])
    with pytest.raises(OverlapError):
        packed.solve_triangular(x[:10], x[:4], overwrite_b=True, lower=True)
    frozen = np.ones(6)
    frozen.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        packed.cholesky(frozen, overwrite_ap=True)
