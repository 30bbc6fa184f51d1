"""Symmetric and Hermitian updates, and products of a matrix by its own transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference import assert_within, product_bound, wider
from sampling import dealt, in_pairs

import portable_gpu as pg
from portable_gpu import Engine, Epilogue, asarray, asnumpy, explain, gemm, matmul, plan
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    ShapeError,
)
from portable_gpu.linalg import her2k, herk, syr2k, syrk
from portable_gpu.ops.gemm import call
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.variant import bind_best

Array = Any
REALS = [np.float16, np.float32, np.float64]
COMPLEX = [np.complex64, np.complex128]
LAYOUTS = ("C", "F", "reversed", "stepped")


def values(shape: Any, dtype: Any, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-1, 1, shape)
    return x.astype(dtype)


def laid_out(x: Array, layout: str) -> Array:
    """``x`` with the same values and shape, otherwise in memory."""
    if layout == "F":
        return np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2)
    if layout == "reversed":
        return np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1]
    if layout == "stepped":
        buffer = np.zeros((*x.shape[:-2], 2 * x.shape[-2] + 1, 3 * x.shape[-1] + 2), x.dtype)
        view = buffer[..., 1::2, 2::3]
        view[...] = x
        return view
    return np.ascontiguousarray(x)


def inside(n: int, lower: bool) -> Array:
    ones = np.ones((n, n), bool)
    return np.tril(ones) if lower else np.triu(ones)


def swapped(x: Array) -> Array:
    return np.swapaxes(x, -1, -2)


def sums_of(dtype: Any) -> Any:
    return np.float32 if np.dtype(dtype).itemsize == 2 else dtype


def check(got: Array, before: Array, terms: Any, beta: Any, lower: bool, rounds: int = 1) -> None:
    """``terms``: alpha, x and y of each product ``alpha x y``."""
    part = inside(got.shape[-1], lower)
    assert got[..., ~part].tobytes() == before[..., ~part].tobytes(), "the other triangle"
    expected: Any = wider(beta) * wider(before) if beta else 0
    bound: Any = 0
    for alpha, x, y in terms:
        expected = expected + wider(alpha) * (wider(x) @ wider(y))
        bound = bound + product_bound(x, y, sums_of(got.dtype), alpha, beta, before)
    if rounds > 1:  # 16-bit results are rounded after each product
        eps = np.finfo(got.dtype).eps if got.dtype.kind in "fc" else 2.0**-7
        for alpha, x, y in terms:
            bound = bound + eps * abs(alpha) * (np.abs(x) @ np.abs(y))
    assert_within(got[..., part], expected[..., part], bound[..., part])


def takes(engine: Engine, dtype: Any) -> None:
    double = np.dtype(dtype) in (np.dtype(np.float64), np.dtype(np.complex128))
    if double and not engine.target.fp64:
        pytest.skip("no double precision")


@pytest.mark.parametrize(
    ("dtype", "n", "k", "layout", "trans", "lower", "batch"),
    [
        (*dealt((*REALS, *COMPLEX), turn, 1), *case)
        for turn, case in enumerate(
            in_pairs((1, 64, 97), (1, 70), LAYOUTS, ("N", "T"), (True, False), ((), (3,), (2, 2)))
        )
    ],
    ids=str,
)
def test_syrk(
    unoptimised: Engine,
    n: int,
    k: int,
    dtype: Any,
    layout: str,
    trans: str,
    lower: bool,
    batch: Any,
) -> None:
    engine = unoptimised
    takes(engine, dtype)
    x = values((*batch, n, k), dtype)
    a = laid_out(x if trans == "N" else swapped(x), layout)
    c = values((*batch, n, n), dtype, 1)
    got = syrk(a, alpha=-0.5, beta=2.0, c=c.copy(), trans=trans, lower=lower, engine=engine)
    check(got, c, [(-0.5, x, swapped(x))], 2.0, lower)
    fresh = syrk(a, trans=trans, lower=lower, engine=engine)
    check(fresh, np.zeros_like(c), [(1, x, swapped(x))], 0, lower)


@pytest.mark.parametrize(
    ("n", "dtype", "layout", "trans", "lower", "batch"),
    in_pairs((1, 33, 70), [np.float32, *COMPLEX], LAYOUTS, ("N", "C"), (True, False), ((), (3,))),
    ids=str,
)
def test_hermitian(
    unoptimised: Engine, n: int, dtype: Any, layout: str, trans: str, lower: bool, batch: Any
) -> None:
    engine = unoptimised
    takes(engine, dtype)
    x, y = values((*batch, n, 20), dtype), values((*batch, n, 20), dtype, 1)
    a, b = (laid_out(z if trans == "N" else swapped(z), layout) for z in (x, y))
    left = a if trans == "N" else np.conj(swapped(a))
    other = b if trans == "N" else np.conj(swapped(b))
    c = values((*batch, n, n), dtype, 2)
    before = c.copy()
    diagonal = np.einsum("...ii->...i", before)
    diagonal[...] = diagonal.real
    got = herk(a, alpha=0.5, beta=-1.0, c=c.copy(), trans=trans, lower=lower, engine=engine)
    check(got, before, [(0.5, left, np.conj(swapped(left)))], -1.0, lower)
    assert not np.einsum("...ii->...i", got).imag.any()
    alpha = np.complex64(0.5 + 1j) if np.dtype(dtype).kind == "c" else 0.5
    got = her2k(a, b, alpha=alpha, beta=2.0, c=c.copy(), trans=trans, lower=lower, engine=engine)
    terms = [
        (alpha, left, np.conj(swapped(other))),
        (np.conj(alpha), other, np.conj(swapped(left))),
    ]
    check(got, before, terms, 2.0, lower)
    assert not np.einsum("...ii->...i", got).imag.any()


@pytest.mark.parametrize(
    ("dtype", "lower"), [(np.float16, True), (np.float32, False), (np.complex64, True)], ids=str
)
def test_syr2k(engine: Engine, dtype: Any, lower: bool) -> None:
    x, y = values((3, 40, 20), dtype), values((40, 20), dtype, 1)
    got = syr2k(x, y, alpha=0.5, lower=lower, engine=engine)
    y3 = np.broadcast_to(y, x.shape)
    terms = [(0.5, x, swapped(y3)), (0.5, y3, swapped(x))]
    check(got, np.zeros_like(got), terms, 0, lower, rounds=2)


@pytest.mark.tiny
def test_tiny_ones(engine: Engine) -> None:
    x, c = values((5, 3), np.float32), values((5, 5), np.float32, 1)
    got = syrk(x, beta=1.0, c=c.copy(), engine=engine, lower=True)
    check(got, c, [(1, x, x.T)], 1.0, True)
    got = matmul(x, x.T, engine=engine)
    assert_within(got, wider(x) @ wider(x.T), product_bound(x, x.T, np.float32))


@pytest.mark.parametrize("lower", [True, False])
def test_device_arrays_and_repeated_calls(engine: Engine, lower: bool) -> None:
    for seed in range(3):
        x, c = values((37, 20), np.float32, seed), values((37, 37), np.float32, seed + 5)
        a, out = asarray(x, engine=engine), asarray(c, engine=engine)
        assert syrk(a, beta=1.0, c=out, lower=lower) is out
        check(out.get(), c, [(1, x, x.T)], 1.0, lower)
        check(syrk(a, lower=lower).get(), np.zeros_like(c), [(1, x, x.T)], 0, lower)
        check(syrk(x, lower=lower, engine=engine), np.zeros_like(c), [(1, x, x.T)], 0, lower)
        check(syr2k(a, a, lower=lower).get(), np.zeros_like(c), [(2, x, x.T)], 0, lower)


def test_c_of_16_bit_products_may_be_wide(engine: Engine) -> None:
    x, c = values((33, 20), np.float16), values((33, 33), np.float32, 1)
    check(syrk(x, c=c.copy(), beta=1.0, engine=engine, lower=True), c, [(1, x, x.T)], 1.0, True)


def test_empty_and_unread(engine: Engine) -> None:
    assert syrk(np.zeros((0, 4), np.float32), engine=engine, lower=True).shape == (0, 0)
    assert not syrk(np.zeros((4, 0), np.float32), engine=engine, lower=True).any()
    assert syrk(np.zeros((0, 4, 5), np.float32), engine=engine, lower=True).shape == (0, 4, 4)
    x, c = np.full((33, 5), np.nan, np.float32), values((33, 33), np.float32)
    got = syrk(x, alpha=0, beta=2.0, c=c.copy(), engine=engine, lower=True)
    np.testing.assert_array_equal(got, np.where(inside(33, True), 2 * c, c))
    c[inside(33, True)] = np.nan
    got = syrk(np.ones((33, 5), np.float32), c=c.copy(), engine=engine, lower=True)
    assert (got[inside(33, True)] == 5).all()


def test_what_is_refused(engine: Engine) -> None:
    x = np.ones((4, 3), np.float32)
    with pytest.raises(ShapeError, match="two axes"):
        syrk(x[0], engine=engine, lower=True)
    with pytest.raises(ShapeError):
        syrk(x, c=np.zeros((4, 3), np.float32), engine=engine, lower=True)
    with pytest.raises(ShapeError, match="differ"):
        syr2k(x, np.ones((4, 2), np.float32), engine=engine, lower=True)
    with pytest.raises(ShapeError, match="broadcast"):
        syr2k(
            np.ones((2, 4, 3), np.float32),
            np.ones((3, 4, 3), np.float32),
            engine=engine,
            lower=True,
        )
    with pytest.raises(ArgumentError, match="beta"):
        syrk(x, beta=1.0, engine=engine, lower=True)
    with pytest.raises(DTypeError, match="floating"):
        syrk(np.ones((3, 3), np.int32), engine=engine, lower=True)
    with pytest.raises(DTypeError, match="real"):
        herk(x, alpha=1j, engine=engine, lower=True)
    square = np.ones((4, 4), np.float32)
    for function, trans in ((syrk, "C"), (herk, "T")):
        got = function(x, trans=trans, engine=engine, lower=True)  # of a real dtype they are one
        np.testing.assert_array_equal(got, np.tril(x.T @ x))
        with pytest.raises(ArgumentError, match=f"trans is '{trans}' and the product complex"):
            function(x.astype(np.complex64), trans=trans, engine=engine, lower=True)
    with pytest.raises(ArgumentError, match="trans is 'H'; known are N, T, C"):
        syrk(x, trans="H", engine=engine, lower=True)
    with pytest.raises(ArgumentTypeError, match="trans is True"):
        syr2k(x, x, trans=True, engine=engine, lower=True)  # type: ignore[arg-type]
    with pytest.raises(OverlapError):
        syrk(square, c=square, engine=engine, lower=True)


# -- a matrix by its own transpose


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> list[GemmProblem]:
    """Record the problems of plans; each plan is made anew, by the lower triangle if possible."""
    seen: list[GemmProblem] = []

    def make_plan(engine: Engine, problem: GemmProblem) -> Any:
        seen.append(problem)
        every = variants(problem, engine.target, engine.table)
        mirrored = [item for item in every if "mirrored" in item.name]
        assert bool(mirrored) == problem.symmetric
        return bind_best(engine, mirrored or every)

    monkeypatch.setattr(call, "make_plan", make_plan)
    engine._plans.clear()
    engine.state().known.clear()
    return seen


def with_transpose(engine: Engine, x: Array) -> tuple[Array, Array]:
    """``x`` and its transpose, in one memory where the product finds them.

    A device with memory of its own gets a copy of each array of NumPy's: they are two there.
    """
    item = x if engine.maps_host_memory else asarray(x, engine=engine)
    return item, item.transpose((*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64], ids=str)
def test_mirrored(engine: Engine, problems: list[GemmProblem], dtype: Any) -> None:
    takes(engine, dtype)
    for n, k, batch in ((71, 43, ()), (33, 9, (3,)), (2, 2, ())):
        x = values((*batch, n, k), dtype)
        y = np.ascontiguousarray(swapped(x))
        both = with_transpose(engine, x), with_transpose(engine, y)[::-1]
        for left, right in both if dtype == np.float32 else dealt(both, n, 1):
            got = asnumpy(matmul(left, right, engine=engine))
            assert problems.pop().symmetric
            np.testing.assert_array_equal(got, swapped(got))
            expected, bound = (
                wider(x) @ wider(swapped(x)),
                product_bound(x, swapped(x), sums_of(dtype)),
            )
            assert_within(got, expected, bound)
    assert not problems


def test_of_device_arrays_and_by_columns(engine: Engine, problems: list[GemmProblem]) -> None:
    x = values((60, 35), np.float32)
    a = asarray(x, engine=engine)
    got = gemm(a, a, trans_b="T").get()
    assert problems.pop().symmetric
    np.testing.assert_array_equal(got, got.T)
    assert_within(got, wider(x) @ wider(x.T), product_bound(x, x.T, np.float32))
    x = x[:50]  # of another size: copied to a device, C has its layout of before
    c = np.zeros((50, 50), np.float32, order="F")
    gemm(x, x, trans_b="T", c=c, engine=engine)
    assert problems.pop().symmetric
    assert_within(c, wider(x) @ wider(x.T), product_bound(x, x.T, np.float32))


def test_others_are_not_mirrored(engine: Engine, problems: list[GemmProblem]) -> None:
    x, c = values((40, 40), np.float32), values((40, 40), np.float32, 1)
    other = values((40, 40), np.float32, 2)
    gemm(x, x, engine=engine)
    gemm(x, other, trans_b="T", engine=engine)
    gemm(x, x, beta=1.0, c=c, trans_b="T", engine=engine)
    gemm(x, x, trans_b="T", epilogue=Epilogue().relu(), engine=engine)
    gemm(x[:, :30], x[:, 10:], trans_b="T", engine=engine)
    assert problems
    assert not any(problem.symmetric for problem in problems)


def test_explained(engine: Engine) -> None:
    said = str(explain("matmul", 2048, 2048, 2048, engine=engine, symmetric=True))
    assert "mirrored" in said
    assert "mirrored" not in str(explain("matmul", 2048, 2048, 2048, engine=engine))
    with pytest.raises(ArgumentError, match="square"):
        explain("gemm", 5, 6, 7, engine=engine, symmetric=True)


def test_like_calls_on_other_arrays(engine: Engine) -> None:
    """A plan for an array and its transpose is not reused for two different arrays."""
    x, y = values((600, 600), np.float32), values((600, 600), np.float32, 1)
    wide = {id(array): array.astype(np.float64) for array in (x, y)}
    bound = 601 * 2.0**-24 * max(float((np.abs(w) @ np.abs(w.T)).max()) for w in wide.values())
    planned = plan("matmul", x, x.T, engine=engine)
    for _ in range(2):
        for left, right in ((x, x), (x, y), (y, y), (y, x)):
            expected = wide[id(left)] @ wide[id(right)].T
            assert_within(matmul(left, right.T, engine=engine), expected, bound)
            assert_within(planned(left, right.T), expected, bound)
    a, b = asarray(x, engine=engine), asarray(y, engine=engine)
    host = {id(a): wide[id(x)], id(b): wide[id(y)]}
    for _ in range(3):
        for left, right in ((a, a), (a, b), (b, b)):
            expected = host[id(left)] @ host[id(right)].T
            assert_within(gemm(left, right, trans_b="T").get(), expected, bound)
    assert isinstance(gemm(a, a, trans_b="T"), pg.Array)
