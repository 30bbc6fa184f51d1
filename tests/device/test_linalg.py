"""cholesky, solve_triangular and inv_triangular against theory's bounds, in higher precision."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from device_arrays import from_device, on_device
from linear_systems import (
    CANARY,
    DTYPES,
    LAYOUTS,
    adjoint,
    assert_factor,
    assert_solution,
    definite,
    double,
    laid,
    numbers,
    one_norm,
    other_nan,
    ratio,
    triangle,
)
from sampling import FORCED, OCLGRIND, in_pairs, needs, needs_fp64, sample

import portable_gpu as pg
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NotPositiveDefiniteError,
    OverlapError,
    PortableGPUError,
    ReadOnlyError,
    ShapeError,
    SingularMatrixError,
)
from portable_gpu.linalg import cho_solve, cholesky, inv_triangular, packed, solve_triangular
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.policy import largest
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch

SOME = [np.dtype("float32")] if FORCED else DTYPES
_HERE = "host", "device", "host over a", "device over a"


@pytest.fixture
def fast(engine: Engine, unoptimised: Engine) -> Engine:
    """On a CPU's own class the optimiser costs little; elsewhere kernels have barriers."""
    return engine if engine.target.is_cpu else unoptimised


@pytest.fixture
def halved(unoptimised: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that works by halves from 9 columns on: on every class with small kernels."""
    small = BlockSizes(small=8, small_solve=8, tiled=False, block=8, solved=8)
    monkeypatch.setattr(BlockSizes, "of", classmethod(lambda cls, target, elem: small))
    return unoptimised


def factor(engine: Engine, a: Any, lower: bool, where: str) -> Any:
    """A factor computed in one of the ways, as a NumPy array."""
    overwrite = "over" in where
    if "host" in where:
        result = cholesky(a, lower=lower, overwrite_a=overwrite, engine=engine)
        assert (result is a) == overwrite
        return result
    operand = on_device(engine, a, rim=3)
    result = cholesky(operand, lower=lower, overwrite_a=overwrite, engine=engine)
    assert (result is operand) == overwrite
    return from_device(result)


# -- factors


@pytest.mark.tiny
@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_factors_of_every_small_size(fast: Engine, dtype: Any) -> None:
    needs(fast, dtype)
    sizes = (1, 2, 5, 9) if OCLGRIND or FORCED else range(21)
    for n in sizes:
        a = definite(n, dtype, 10.0, (2,), seed=n)
        lower = bool(n % 2)
        got = cholesky(other_nan(a, lower), lower=lower, engine=fast)
        assert got.shape == a.shape
        assert got.dtype == dtype
        assert_factor(a, got, lower)
        assert np.all(triangle(got, lower) == got)


@pytest.mark.parametrize(
    ("n", "dtype", "lower", "layout", "where", "batch"),
    in_pairs(
        (3, 31, 67) if FORCED else (2, 31, 64, 97, 128, 129, 130),
        SOME, (True, False), LAYOUTS, _HERE, ((), (3,), (2, 1, 2)),
    ),
)  # fmt: skip
def test_factors(
    fast: Engine, n: int, dtype: Any, lower: bool, layout: str, where: str, batch: Any
) -> None:
    needs(fast, dtype)
    a = definite(n, dtype, 100.0, batch, seed=n)
    operand = laid(other_nan(a, lower), layout)
    before = operand.copy()
    got = factor(fast, operand, lower, where)
    assert_factor(a, got, lower)
    if "over" not in where:
        np.testing.assert_array_equal(operand, before)
        assert np.all(triangle(got, lower) == got)
    else:
        strict = ~np.tri(n, dtype=bool) if lower else np.tri(n, k=-1, dtype=bool)
        assert np.all(np.isnan(got[..., strict]))
    if layout == "stepped" and where == "host over a":
        memory = operand.base
        memory[..., 1 : 2 * n + 1 : 2, 2::3] = CANARY
        assert np.all(memory == CANARY)


@pytest.mark.path
@pytest.mark.parametrize(("n", "name"), sample([(1000, "float64"), (2049, "float32")]))
def test_large_factors_and_solves(fast: Engine, n: int, name: str) -> None:
    needs(fast, name)
    a = definite_by_diagonal(n, name)
    got = cholesky(pg.asarray(a, engine=fast), lower=True).get()
    assert_factor(a, got, True, rows=np.arange(0, n, 97))
    b = numbers((n, 3), name)
    x = solve_triangular(got, b, lower=True, engine=fast)
    assert_solution(triangle(got, True), x, b)


def definite_by_diagonal(n: int, dtype: Any) -> Any:
    """Quick to make: random numbers that are symmetric, and a diagonal that dominates."""
    a = numbers((n, n), dtype)
    a = (a + adjoint(a)) / 2
    a[np.arange(n), np.arange(n)] = 2 * n**0.5 + np.arange(n) % 7
    return a


def recipes(n: int, dtype: Any) -> dict[str, Any]:
    """LAPACK's matrices for xPOTRF (Lawn 41, section 6.3)."""
    eps, real = float(np.finfo(dtype).eps), np.finfo(dtype)
    near = float(real.smallest_normal) / eps * 4, float(real.max) * eps / 4
    return {
        "diagonal": np.diag(np.arange(1, n + 1)).astype(dtype),
        "cond 2": definite(n, dtype, 2.0),
        "cond sqrt(0.1 / eps)": definite(n, dtype, (0.1 / eps) ** 0.5),
        "cond 0.1 / eps": definite(n, dtype, 0.1 / eps / n),
        "near underflow": definite(n, dtype, 2.0) * real.dtype.type(near[0]),
        "near overflow": definite(n, dtype, 2.0) * real.dtype.type(near[1]),
    }


@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_lapacks_matrices(fast: Engine, dtype: Any) -> None:
    needs(fast, dtype)
    for n, lower in (
        ((5, True), (20, False))
        if FORCED
        else ((5, True), (largest(fast.target, element(dtype)) + 3, False))
    ):
        for name, a in recipes(n, dtype).items():
            c = triangle(cholesky(a, lower=lower, engine=fast), lower)
            wide = np.clongdouble if c.dtype.kind == "c" else np.longdouble
            left = c.astype(wide) if lower else adjoint(c).astype(wide)
            residual = (left @ adjoint(left) - a.astype(wide)).astype(np.result_type(a, wide))
            scaled = (residual / one_norm(a)).astype(dtype)  # xPOT01
            assert ratio(scaled) < 30, (n, name)
            b = numbers((n, 2), dtype) * a.dtype.type(one_norm(a))
            first, second = ("N", "C") if lower else ("C", "N")
            y = solve_triangular(c, b, first, lower, engine=fast)
            x = solve_triangular(c, y, second, lower, engine=fast)
            off = (double(b) / one_norm(a) - double(a) / one_norm(a) @ double(x)).astype(dtype)
            eps = float(np.finfo(dtype).eps)
            assert one_norm(off) / (one_norm(x) * eps) < 30, (n, name)  # xPOT02


@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_graded_matrices(fast: Engine, dtype: Any) -> None:
    needs(fast, dtype)
    n = 20 if FORCED else 67
    steps = np.geomspace(1, 1e-12, n).astype(dtype)
    for grades in (steps, steps[::-1]):
        a = definite(n, dtype, 10.0) * grades[:, None] * grades
        a = (a + adjoint(a)) / 2
        got = cholesky(a, engine=fast, lower=True)
        assert_factor(a, got, True)
        b = numbers((n, 2), dtype)
        assert_solution(triangle(got, True), solve_triangular(got, b, lower=True, engine=fast), b)


@pytest.mark.tiny
@pytest.mark.parametrize(
    "dtype", [np.dtype("float32"), np.dtype("complex64")][: 2 - FORCED], ids=str
)
def test_all_by_halves(halved: Engine, dtype: Any) -> None:
    for n in (30,) if OCLGRIND or FORCED else (9, 16, 17, 41):
        for lower in (True, False) if n in (30, 41) else (n == 16,):
            a, b = definite(n, dtype, 10.0, (2,)), numbers((2, n, 5), dtype)
            got = cholesky(other_nan(a, lower), lower=lower, engine=halved)
            assert_factor(a, got, lower)
            t = triangle(got, lower)
            operand = other_nan(t, lower)
            x = solve_triangular(operand, b, lower=lower, engine=halved)
            assert_solution(t, x, b)
            x = solve_triangular(operand, adjoint(b), "C", lower, side="right", engine=halved)
            assert_solution(t.conj(), np.swapaxes(x, -2, -1), b.conj())
            x = inv_triangular(operand, lower, engine=halved)
            assert np.all(triangle(x, lower) == x)
            off = (double(t[1]) @ double(x[1]) - np.eye(n)).astype(dtype)
            assert ratio(off, t[1], x[1]) < 30


# -- triangles


@pytest.mark.parametrize(
    ("n", "m", "dtype", "trans", "lower", "unit", "side", "layout", "where"),
    in_pairs(
        (3, 17) if FORCED else (1, 2, 17, 64, 65, 127), (1, 5) if FORCED else (1, 5, 70), SOME,
        ("N", 1, "C"), (True, False), (True, False), ("left", "right"), LAYOUTS, _HERE,
    ),
)  # fmt: skip
def test_solves(
    fast: Engine, n: int, m: int, dtype: Any, trans: Any, lower: bool, unit: bool, side: str,
    layout: str, where: str,
) -> None:  # fmt: skip
    needs(fast, dtype)
    a = numbers((n, n), dtype) / n + 2 * np.eye(n, dtype=dtype)
    b = numbers((n, m) if side == "left" else (m, n), dtype, 1)
    overwrite = "over" in where
    given_a, given_b = laid(other_nan(a, lower, unit), layout), laid(b, layout)
    options = {"side": side, "overwrite_b": overwrite, "engine": fast}
    if "host" in where:
        x = got = solve_triangular(given_a, given_b, trans, lower, unit, **options)
        assert (x is given_b) == overwrite
        assert overwrite or np.all(given_b == b)
    else:
        there = on_device(fast, given_b, rim=2)
        x = solve_triangular(on_device(fast, given_a, rim=1), there, trans, lower, unit, **options)
        assert (x is there) == overwrite
        got = from_device(x)
    t = triangle(a, lower, unit)
    t = {"N": t, 1: t.T, "C": t.conj().T}[trans]
    if side == "left":
        assert_solution(t, got, b)
    else:
        assert_solution(t.T, got.T, b.T)
    if layout == "stepped" and where == "host over a":
        memory = given_b.base
        given_b[...] = CANARY
        assert np.all(memory == CANARY)


@pytest.mark.tiny
def test_solves_of_every_small_size(fast: Engine) -> None:
    for n in (1, 2, 5, 9) if OCLGRIND or FORCED else range(21):
        a = numbers((n, n), "float32") + 4 * np.eye(n, dtype="float32")
        b = numbers((n, 3), "float32")
        for lower in (True, False):
            x = solve_triangular(other_nan(a, lower), b, lower=lower, engine=fast)
            assert_solution(triangle(a, lower), x, b)
            assert_solution(
                triangle(a, lower),
                solve_triangular(a, b[:, 0], 0, lower, engine=fast)[:, None],
                b[:, :1],
            )


def test_batches_of_triangles_broadcast(fast: Engine) -> None:
    n = 7
    a = numbers((3, 1, n, n), "float32") + 4 * np.eye(n, dtype="float32")
    b = numbers((2, n, 4), "float32")
    for operand in ((a, b), (pg.asarray(a, engine=fast), b), (a, pg.asarray(b, engine=fast))):
        x = pg.asnumpy(solve_triangular(*operand, lower=True))
        assert x.shape == (3, 2, n, 4)
        assert_solution(triangle(a, True), x, b)
    x = solve_triangular(a, b[0, :, 0], lower=True, engine=fast)
    assert x.shape == (3, 1, n)
    assert_solution(triangle(a, True), x[..., None], b[0, :, :1])
    x = solve_triangular(a[0, 0], b, "T", engine=fast)
    assert_solution(triangle(a[0, 0], False).T, x, b)


def test_dtypes_mix(fast: Engine) -> None:
    needs_fp64(fast)
    a, b = 4 * np.eye(3, dtype="float32"), np.ones((3, 2))
    for operand in ((a, b), (pg.asarray(a), pg.asarray(b)), (b[:2, :2] + np.eye(2), a[:2])):
        x = solve_triangular(*operand)
        assert x.dtype == "float64"
    assert solve_triangular(a, b.astype("complex64")).dtype == "complex64"


@pytest.mark.parametrize(
    ("n", "dtype", "lower", "unit", "layout"),
    in_pairs(
        (3, 17) if FORCED else (1, 16, 64, 67, 131), SOME, (True, False), (True, False), LAYOUTS
    ),
)
def test_inverses(fast: Engine, n: int, dtype: Any, lower: bool, unit: bool, layout: str) -> None:
    needs(fast, dtype)
    a = numbers((2, n, n), dtype) / n + 2 * np.eye(n, dtype=dtype)
    x = inv_triangular(laid(other_nan(a, lower, unit), layout), lower, unit, engine=fast)
    assert np.all(triangle(x, lower) == x)
    t = triangle(a, lower, unit)
    for k in range(2):  # xTRT01
        off = (double(t[k]) @ double(x[k]) - np.eye(n)).astype(dtype)
        assert ratio(off, t[k], x[k]) < 30
    repeated = inv_triangular(on_device(fast, laid(other_nan(a, lower, unit), layout)), lower, unit)
    np.testing.assert_array_equal(repeated.get(), x)


def test_bits_repeat(halved: Engine) -> None:
    a = definite(30, "float32", batch=(2,))
    b = numbers((30, 9), "float32")
    first = cholesky(a, engine=halved, lower=True)
    np.testing.assert_array_equal(cholesky(a, engine=halved, lower=True), first)
    x = solve_triangular(first, b, lower=True, engine=halved)
    np.testing.assert_array_equal(solve_triangular(first, b, lower=True, engine=halved), x)


# -- what has no result


@pytest.mark.tiny
def test_not_positive_definite(fast: Engine) -> None:
    a = np.stack([np.eye(5, dtype="float32") * (k + 1) for k in range(6)]).reshape(2, 3, 5, 5)
    a[0, 2, 3, 3] = -4
    a[1, 1, 0, 0] = np.nan
    with pytest.raises(NotPositiveDefiniteError, match="2 matrices") as result:
        cholesky(a, engine=fast, lower=True)
    error = pickle.loads(pickle.dumps(result.value))
    assert (error.index, error.column, error.pivot) == ((0, 2), 3, -4)
    assert isinstance(error, np.linalg.LinAlgError)
    late = cholesky(pg.asarray(a, engine=fast), lower=True)
    view = late[0].T
    for look in (late.get, lambda: pg.asnumpy(view), late.check, late.__dlpack__):
        with pytest.raises(NotPositiveDefiniteError, match=r"matrix \(0, 2\)"):
            look()
    with pytest.raises(NotPositiveDefiniteError):
        float(late[0, 0, 0, 0])
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(pg.asarray(a, engine=fast), check="now", lower=True)
    got = from_device(late)  # the others have theirs
    for index in ((0, 0), (0, 1), (1, 0), (1, 2)):
        assert_factor(a[index], got[index], True)
    assert np.all(np.isnan(np.diagonal(got[0, 2])[3:]))
    with pytest.raises(NotPositiveDefiniteError) as result:
        cholesky(a[1, 1], engine=fast, lower=True)
    assert result.value.index == ()
    assert np.isnan(result.value.pivot)
    assert_factor(a[0, 0], cholesky(a[0, 0], engine=fast, lower=True), True)


@pytest.mark.tiny
def test_not_positive_definite_by_halves(halved: Engine) -> None:
    n = 30
    for column in (0, 9, n - 3):
        a = np.eye(n, dtype="float32")
        a[column, column] = 0
        with pytest.raises(NotPositiveDefiniteError) as result:
            cholesky(a, engine=halved, lower=True)
        assert (result.value.column, result.value.pivot) == (column, 0)


def test_pyopencls_own_array_is_checked_at_once(fast: Engine) -> None:
    a = cla.to_device(fast.queue, -np.eye(3, dtype="float32"))
    with pytest.raises(NotPositiveDefiniteError):
        cholesky(a, overwrite_a=True, lower=True)


def test_what_depends_on_a_factor_tells_too(fast: Engine) -> None:
    factor = cholesky(pg.asarray(-np.eye(3, dtype="float32"), engine=fast), lower=True)
    x = solve_triangular(factor, pg.asarray(np.ones(3, "float32"), engine=fast), lower=True)
    y = solve_triangular(pg.asarray(np.eye(3, dtype="float32"), engine=fast), x)
    for late in (x, y, cholesky(factor)):
        with pytest.raises(NotPositiveDefiniteError):
            late.get()


@pytest.mark.parametrize("n", [5, 30])
def test_singular_triangles(halved: Engine, n: int) -> None:
    for lower in (True, False):
        for trans in ("N", "T"):
            a = np.stack([np.eye(n, dtype="float32")] * 3)
            a[1, n - 2, n - 2] = a[1, n - 1, n - 1] = a[2, 1, 1] = 0
            options = {"trans": trans, "lower": lower, "engine": halved}
            with pytest.raises(SingularMatrixError) as result:
                solve_triangular(a, np.ones(n, "float32"), **options)
            assert (result.value.index, result.value.column) == ((1,), n - 2)
            late = solve_triangular(
                pg.asarray(a, engine=halved), pg.asarray(np.ones(n, "float32"), engine=halved),
                trans, lower,
            )  # fmt: skip
            with pytest.raises(SingularMatrixError, match=f"column {n - 2}"):
                late.get()
            np.testing.assert_array_equal(from_device(late)[0], np.ones(n, "float32"))
            solve_triangular(a, np.ones(n, "float32"), unit_diagonal=True, **options)
        with pytest.raises(SingularMatrixError) as result:
            inv_triangular(a, lower, engine=halved)
        assert (result.value.index, result.value.column) == ((1,), n - 2)


# -- what is refused


@pytest.mark.parametrize("kind", ["host", "device"])
def test_bad_input_is_refused(fast: Engine, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def as_given(x: Any) -> Any:
        return x if kind == "host" else pg.asarray(x, engine=fast)

    eye = as_given(np.eye(3, dtype="float32"))
    b = as_given(np.ones((3, 2), "float32"))
    wide = as_given(np.ones((3, 4), "float32"))
    whole = as_given(np.ones((3, 3), "int32"))
    batches = as_given(np.ones((2, 3, 3), "float32")), as_given(np.ones((5, 3, 1), "float32"))
    half = as_given(np.ones((3, 3), "float16"))
    four = as_given(np.ones(4, "float32"))
    number = as_given(np.float32(1))

    def launched(*_: Any) -> None:
        raise AssertionError("launched")

    monkeypatch.setattr(Launch, "__call__", launched)
    refused: list[tuple[type[PortableGPUError], str, Any]] = [
        (ShapeError, r"a has shape \(3, 4\)", lambda: cholesky(wide)),
        (ShapeError, r"a has shape \(4,\)", lambda: cholesky(four)),
        (DTypeError, "a is int32", lambda: cholesky(whole)),
        (DTypeError, "a is float16", lambda: cholesky(half)),
        (ArgumentError, "check is 'soon'", lambda: cholesky(eye, check="soon")),
        (ArgumentTypeError, "lower is", lambda: cholesky(eye, lower="yes")),
        (ArgumentError, "precision", lambda: cholesky(eye, precision="low")),
        (ShapeError, "4", lambda: solve_triangular(eye, four)),
        (ShapeError, r"b \(\)", lambda: solve_triangular(eye, number)),
        (ShapeError, "2 columns|3 columns, not 2", lambda: solve_triangular(eye, b, side="right")),
        (ShapeError, "do not broadcast", lambda: solve_triangular(*batches)),
        (DTypeError, "b is int32", lambda: solve_triangular(eye, whole)),
        (ArgumentError, "trans is 'X'", lambda: solve_triangular(eye, b, "X")),
        (ArgumentTypeError, "trans is True", lambda: solve_triangular(eye, b, True)),
        (ArgumentError, "side is 'up'", lambda: solve_triangular(eye, b, side="up")),
        (OverlapError, "b shares", lambda: solve_triangular(eye, eye, overwrite_b=True)),
        (ShapeError, r"a has shape \(3, 4\)", lambda: inv_triangular(wide)),
        (ArgumentTypeError, "check", lambda: inv_triangular(eye, check=None)),
    ]
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()


def test_arrays_that_cannot_be_overwritten(fast: Engine) -> None:
    a = np.eye(3, dtype="float32")
    a.flags.writeable = False
    with pytest.raises(ReadOnlyError):
        cholesky(a, overwrite_a=True, engine=fast)
    with pytest.raises(OverlapError):
        cholesky(
            np.lib.stride_tricks.as_strided(np.ones(9, "float32"), (3, 3), (4, 4)), overwrite_a=True
        )
    with pytest.raises(ShapeError):
        solve_triangular(np.ones((2, 3, 3)), np.ones((3, 1)), overwrite_b=True, engine=fast)
    eye, swapped = np.eye(3), np.eye(3).astype(np.dtype(float).newbyteorder())
    line = packed.pack(eye).astype(swapped.dtype)
    for call in (
        lambda: cholesky(swapped, overwrite_a=True, engine=fast),
        lambda: cho_solve((eye, True), swapped, overwrite_b=True, engine=fast),
        lambda: solve_triangular(eye, swapped, overwrite_b=True, engine=fast),
        lambda: packed.cholesky(line, overwrite_ap=True, engine=fast),
        lambda: packed.solve_triangular(line, swapped, overwrite_b=True, engine=fast),
    ):
        with pytest.raises(ArgumentError, match="byte order"):
            call()
