"""cho_factor, cho_solve, solve, logdet and lstsq: backward errors, refinement, late reports."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
from device_arrays import from_device, on_device
from linear_systems import (
    DTYPES,
    LAYOUTS,
    assert_factor,
    assert_least_squares,
    backward_error,
    definite,
    double,
    laid,
    numbers,
    other_nan,
    triangle,
)
from sampling import FORCED, in_pairs, needs, needs_fp64

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    NotPositiveDefiniteError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.linalg import cho_factor, cho_solve, cholesky, logdet, lstsq, refinement, solve
from portable_gpu.linalg import definite as definite_module
from portable_gpu.ops.factor import variants
from portable_gpu.ops.reduce import conversion
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch

SOME = [np.dtype("float32")] if FORCED else DTYPES


@pytest.fixture
def fast(engine: Engine, unoptimised: Engine) -> Engine:
    """On a CPU's own class the optimiser costs little; elsewhere kernels have barriers."""
    return engine if engine.target.is_cpu else unoptimised


def on(engine: Engine, x: Any, kind: str) -> Any:
    return x if kind == "host" else on_device(engine, x, rim=1)


# -- factor and solve


@pytest.mark.parametrize(
    ("n", "dtype", "lower", "layout", "kind", "batch"),
    in_pairs(
        (3, 17) if FORCED else (1, 7, 67), SOME, (True, False), LAYOUTS, ("host", "device"),
        ((), (2, 3)),
    ),
)  # fmt: skip
def test_factor_and_solve(
    fast: Engine, n: int, dtype: Any, lower: bool, layout: str, kind: str, batch: Any
) -> None:
    needs(fast, dtype)
    a, b = definite(n, dtype, 100.0, batch), numbers((n, 4), dtype)
    pair = cho_factor(on(fast, laid(other_nan(a, lower), layout), kind), lower, engine=fast)
    assert pair[1] is lower
    assert_factor(a, pg.asnumpy(pair[0]), lower)
    x = pg.asnumpy(cho_solve(pair, on(fast, laid(b, layout), kind), engine=fast))
    assert x.shape == (*batch, n, 4)
    assert backward_error(a, x, b) < 3 * n + 1
    alone = cho_solve(pair[0], on(fast, b[:, 0], kind), lower=lower, engine=fast)
    assert alone.shape == (*batch, n)
    assert backward_error(a, pg.asnumpy(alone)[..., None], b[:, :1]) < 3 * n + 1


@pytest.mark.tiny
def test_in_place(fast: Engine) -> None:
    a, b = definite(6, "float32"), numbers((6, 2), "float32")
    operand = a.copy()
    c, lower = cho_factor(operand, overwrite_a=True, engine=fast)
    assert c is operand
    assert not lower
    rhs = b.copy()
    assert cho_solve((c, lower), rhs, True, engine=fast) is rhs
    assert backward_error(a, rhs, b) < 20
    there = pg.asarray(b, engine=fast)
    assert cho_solve((pg.asarray(c, engine=fast), lower), there, overwrite_b=True) is there
    np.testing.assert_array_equal(from_device(there), rhs)


def test_like_scipys(fast: Engine) -> None:
    """Positions and names of arguments, and shapes."""
    scipy = pytest.importorskip("scipy.linalg")
    needs_fp64(fast)
    a, b = definite(9, "float64"), numbers((9, 2), "float64")
    for rhs in (b, b[:, 0]):
        ours = cho_solve(cho_factor(a, True, False), rhs, False)
        theirs = scipy.cho_solve(scipy.cho_factor(a, True, False), rhs, False)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        np.testing.assert_allclose(
            solve(a, rhs, assume_a="pos"), scipy.solve(a, rhs, assume_a="pos"), rtol=1e-12
        )


# -- refinement


@pytest.mark.parametrize(
    ("name", "kind"), [("float64", "host"), ("complex128", "device")][: 2 - FORCED]
)
def test_a_narrow_factor_refined(fast: Engine, name: str, kind: str) -> None:
    needs_fp64(fast)
    n = 12
    a, b = definite(n, name, 1e4, (2,)), numbers((n, 3), name)
    operand = on(fast, a, kind), on(fast, b, kind)
    x = pg.asnumpy(solve(*operand, assume_a="pos", refine="auto", engine=fast))
    assert x.dtype == name
    assert backward_error(a, x, b) < 2 * n**0.5
    assert backward_error(a, pg.asnumpy(solve(*operand, assume_a="pos", engine=fast)), b) < 3 * n
    narrow = a.astype("float32" if name == "float64" else "complex64")
    pair = cho_factor(on(fast, narrow, kind), engine=fast)
    for refine in ("auto", 3):
        x = pg.asnumpy(cho_solve(pair, operand[1], a=operand[0], refine=refine, engine=fast))
        assert backward_error(a, x, b) < 2 * n**0.5
    rough = pg.asnumpy(cho_solve(pair, operand[1], a=operand[0], refine=0, engine=fast))
    assert backward_error(a, rough, b) > 1e3
    item = cho_solve(pair, on(fast, b[:, 0], kind), a=operand[0], refine="auto", engine=fast)
    assert item.shape == (2, n)
    assert backward_error(a, pg.asnumpy(item)[..., None], b[:, :1]) < 2 * n**0.5


@pytest.mark.parametrize("kind", ["host", "device"])
def test_where_refinement_fails_the_whole_dtype_is_factorised(
    fast: Engine, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_fp64(fast)
    n, dtypes, plain = 12, [], definite_module.cholesky

    def recorded(a: Any, **options: Any) -> Any:
        dtypes.append(a.dtype.name)
        return plain(a, **options)

    monkeypatch.setattr(definite_module, "cholesky", recorded)
    b = numbers((n, 2), "float64")
    cases = {1e3: ["float32"], 1e12: ["float32", "float64"]}
    for cond, expected in cases.items():
        a = definite(n, "float64", cond)
        dtypes.clear()
        x = solve(on(fast, a, kind), on(fast, b, kind), assume_a="pos", refine="auto")
        assert dtypes == expected
        assert backward_error(a, pg.asnumpy(x), b) < 3 * n
    tiny = definite(n, "float64", 10.0) * 1e-60  # 0 in float32
    x = solve(on(fast, tiny, kind), on(fast, b, kind), assume_a="pos", refine="auto")
    assert backward_error(tiny, pg.asnumpy(x), b) < 3 * n
    wrong = cho_factor(np.eye(n, dtype="float32"), engine=fast)  # of another matrix
    x = cho_solve(wrong, on(fast, b, kind), a=on(fast, a, kind), refine="auto")
    assert backward_error(a, pg.asnumpy(x), b) < 3 * n


@pytest.mark.parametrize("limit", [0, 1 << 18])
def test_only_columns_that_improve_are_corrected(
    fast: Engine, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By NumPy and by kernels; one column of zeros, one whose corrections diverge, one right."""
    needs_fp64(fast)
    monkeypatch.setattr(refinement, "_COMPUTED_BY_NUMPY", limit)
    a = np.diag([4.0, 1.0 + 1e-3j, 4.0])
    wrong = np.eye(3, dtype=complex)
    b = np.zeros((3, 3), complex)
    b[0, 1], b[1, 2] = 1, 1j
    first = cho_solve(wrong, b, a=a, refine=0, engine=fast)
    x = cho_solve(wrong, b, a=a, refine=4, engine=fast)
    np.testing.assert_array_equal(x[:, :2], first[:, :2])
    assert abs(x[1, 2] - b[1, 2] / a[1, 1]) < 1e-14 < abs(first[1, 2] - b[1, 2] / a[1, 1])


@pytest.mark.parametrize("formula", ["CORRECTED", "BETTER", "SMALLER", "BACKWARD_ERROR"])
def test_formulas_of_refinement(fast: Engine, formula: str) -> None:
    """Kernels and NumPy compute the same function, also of zeros, NaN and infinity."""
    needs_fp64(fast)
    expression, by_numpy = getattr(refinement, f"_{formula}")
    names = [name for name in "abdefrxy" if re.search(rf"\b{name}\b", expression)]
    values = np.array([0.0, 1.5, -2.25, 3.0, np.nan, np.inf])
    grid = np.stack(np.meshgrid(*[values] * len(names)), axis=-1).reshape(-1, len(names))
    operands = {
        name: np.ascontiguousarray(column) for name, column in zip(names, grid.T, strict=True)
    }
    with np.errstate(all="ignore"):
        expected = by_numpy(**operands)
    got = pg.elementwise(expression, **operands, engine=fast)
    np.testing.assert_allclose(got, expected, rtol=4 * np.finfo(float).eps)


@pytest.mark.parametrize(
    ("source", "to"), [("float64", "float32"), ("complex64", "complex128"), ("float16", "float32")]
)
def test_conversions_by_numpy_and_by_a_kernel(engine: Engine, source: str, to: str) -> None:
    """The largest array that NumPy converts, one that a kernel converts, and special values."""
    needs(engine, source)
    needs(engine, to)
    limit = conversion._HALVES_BY_NUMPY if source == "float16" else conversion._CONVERTED_BY_NUMPY
    for more in (0, 1):
        x = numbers((limit // np.dtype(source).itemsize + more, 1), source)
        x[:6, 0] = [0, -0.0, np.nan, np.inf, 1e-42, 1e39 if source == "float64" else 1e4]
        with np.errstate(all="ignore"):
            expected = x.astype(to)
        np.testing.assert_array_equal(
            conversion.converted(x, np.dtype(to), engine=engine), expected
        )


def test_fixed_corrections_wait_for_nothing(fast: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_fp64(fast)
    a = pg.asarray(definite(8, "float64"), engine=fast)
    b = pg.asarray(numbers((8, 2), "float64"), engine=fast)

    def looked(*_: Any, **__: Any) -> None:
        raise AssertionError("waited")

    monkeypatch.setattr(pg.Array, "get", looked)
    solve(a, b, assume_a="pos", refine=2)
    lstsq(a, b)
    logdet(a)
    with pytest.raises(AssertionError, match="waited"):
        solve(a, b, assume_a="pos", refine="auto")


# -- determinants


@pytest.mark.tiny
@pytest.mark.parametrize("dtype", SOME, ids=str)
def test_logdet(fast: Engine, dtype: Any) -> None:
    needs(fast, dtype)
    a = definite(6, dtype, 50.0, (3,))
    expected = np.linalg.slogdet(double(a))[1]
    close = {"rtol": 300 * float(np.finfo(dtype).eps)}
    for kind in ("host", "device"):
        got = logdet(on(fast, other_nan(a, True), kind), engine=fast, lower=True)
        assert got.dtype == np.empty(0, dtype).real.dtype
        np.testing.assert_allclose(pg.asnumpy(got), expected, **close)
        pair = cho_factor(on(fast, a, kind), engine=fast)
        np.testing.assert_allclose(pg.asnumpy(logdet(pair, engine=fast)), expected, **close)
    item = logdet(a[0], lower=False, engine=fast)
    assert np.ndim(item) == 0
    np.testing.assert_allclose(item, expected[0], **close)


# -- least squares


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(dtype, ("host", "device", "device", "host")[turn]) for turn, dtype in enumerate(SOME)],
    ids=str,
)
def test_least_squares(fast: Engine, dtype: Any, kind: str) -> None:
    needs(fast, dtype)
    m, n = 40, 12
    eps = float(np.finfo(dtype).eps)
    cond = 0.03 / eps**0.5
    u, _ = np.linalg.qr(numbers((m, n), np.result_type(dtype, "float64")))
    v, _ = np.linalg.qr(numbers((n, n), np.result_type(dtype, "float64"), 1))
    a = (u * np.geomspace(1, 1 / cond, n) @ v).astype(dtype)
    b = numbers((2, m, 3), dtype, 2)
    operand = laid(a, "stepped")
    x = pg.asnumpy(lstsq(on(fast, operand, kind), on(fast, b, kind), engine=fast))
    assert x.dtype == dtype
    np.testing.assert_array_equal(operand, a)
    for k in range(2):
        assert_least_squares(a, x[k], b[k], cond)
    item = pg.asnumpy(lstsq(on(fast, a, kind), on(fast, b[0, :, 0], kind), engine=fast))
    assert item.shape == (n,)
    assert np.linalg.norm(item - x[0, :, 0]) <= 100 * eps * cond * np.linalg.norm(item)


def test_dependent_columns(fast: Engine) -> None:
    a = numbers((3, 10, 4), "float32")
    a[1, :, 2] = a[1, :, 0] - a[1, :, 1]
    b = numbers((10, 2), "float32")
    with pytest.raises(NotPositiveDefiniteError, match="full rank") as result:
        lstsq(a, b, engine=fast)
    assert (result.value.index, result.value.column) == ((1,), 2)
    assert 0 <= result.value.pivot < 1e-5
    for value in (np.nan, np.inf, 1e30):
        odd = a.copy()
        odd[1, 7, 1] = value
        with pytest.raises(NotPositiveDefiniteError, match="has NaN, infinity or") as result:
            lstsq(odd, b, engine=fast)
        assert (result.value.index, result.value.column) == ((1,), 1)
        assert np.isnan(result.value.pivot)
    late = lstsq(pg.asarray(a, engine=fast), pg.asarray(b, engine=fast))
    with pytest.raises(NotPositiveDefiniteError, match=r"matrix \(1,\).*column 2"):
        late.get()
    with pytest.raises(NotPositiveDefiniteError):
        lstsq(pg.asarray(a, engine=fast), pg.asarray(b, engine=fast), check="now")
    with pytest.raises(NotPositiveDefiniteError, match="column 0"):
        lstsq(0 * a[0], b, engine=fast)


# -- what all share


@pytest.mark.parametrize("refine", [None, 2])
def test_reports_travel(fast: Engine, refine: Any) -> None:
    needs_fp64(fast)
    a = pg.asarray(np.diag([1.0, -1.0, 1.0]), engine=fast)
    b = pg.asarray(np.ones((3, 1)), engine=fast)
    pair = cho_factor(a)
    options = {} if refine is None else {"a": a, "refine": refine}
    x = solve(a, b, assume_a="pos", refine=refine)
    results = [pair[0], cho_solve(pair, b, **options), x, logdet(a), logdet(pair), x[0]]
    results += [cho_solve(cho_factor(pg.asarray(np.eye(3), engine=fast)), x), lstsq(a, x)]
    for late in results:
        with pytest.raises(NotPositiveDefiniteError, match="column 1 is -1"):
            late.get()
    for call in (
        lambda: cho_factor(a, check="now"),
        lambda: cho_solve(pair, b, check="now", **options),
        lambda: solve(a, b, assume_a="pos", refine=refine, check="now"),
        lambda: logdet(a, check="now"),
    ):
        with pytest.raises(NotPositiveDefiniteError):
            call()
    with pytest.raises(NotPositiveDefiniteError):
        solve(np.diag([1.0, -1.0]), np.ones(2), assume_a="pos", refine=refine, engine=fast)


def test_no_zeros_are_looked_for_in_a_fresh_factor(
    fast: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel that finds zeros on a diagonal is neither built nor launched for it."""
    looked = []
    plan = variants.zeros_plan
    monkeypatch.setattr(variants, "zeros_plan", lambda *rest: looked.append(0) or plan(*rest))
    a, b = definite(61, np.dtype("float32")), np.ones(61, np.float32)
    x = solve(a, b, assume_a="pos", engine=fast)
    y = lstsq(a, b, engine=fast)
    assert not looked
    np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)
    cho_solve((np.zeros_like(a), True), on_device(fast, b), engine=fast)
    assert looked


@pytest.mark.parametrize("kind", ["host", "device"])
def test_empty_arrays(fast: Engine, kind: str) -> None:
    for shape in ((0, 0), (0, 3, 3), (2, 0, 0)):
        n = shape[-1]
        a = on(fast, np.zeros(shape, "float32"), kind)
        for b_shape in ((*shape[:-1], 2), (n,), (*shape[:-1], 0)):
            b = on(fast, np.zeros(b_shape, "float32"), kind)
            expected = (*shape[:-2], n) if b_shape == (n,) else b_shape
            for x in (
                cho_solve(cho_factor(a, engine=fast), b, engine=fast),
                cho_solve(cholesky(a, engine=fast), b, a=a, refine="auto", engine=fast),
                solve(a, b, assume_a="pos", refine="auto", engine=fast),
                lstsq(a, b, engine=fast),
            ):
                assert x.shape == expected
        assert logdet(a, engine=fast).shape == shape[:-2]
    wide = on(fast, np.ones((4, 0), "float32"), kind), on(fast, np.ones((4, 2), "float32"), kind)
    assert lstsq(*wide, engine=fast).shape == (0, 2)


def test_host_and_device_arrays_mix(fast: Engine) -> None:
    a, b = definite(5, "float32"), numbers((5, 2), "float32")
    there = pg.asarray(a, engine=fast)
    for x in (
        cho_solve(cho_factor(there), b),
        cho_solve(cho_factor(a), pg.asarray(b, engine=fast), a=there, refine=1),
        solve(there, b, assume_a="pos", refine=1),
        lstsq(there, b),
    ):
        assert isinstance(x, pg.Array)
        assert backward_error(a, x.get(), b) < 200
    with pytest.raises(ArgumentError, match="b is an array of NumPy"):
        cho_solve(cho_factor(there), b, True)


@pytest.mark.parametrize("kind", ["host", "device"])
def test_bad_input_is_refused(fast: Engine, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def operand(*shape: int, dtype: str = "float32") -> Any:
        return on(fast, np.ones(shape, dtype), kind)

    eye, b, four = on(fast, np.eye(3, dtype="float32"), kind), operand(3, 2), operand(4)
    wide, tall, whole = operand(3, 4), operand(4, 3), operand(3, 3, dtype="int32")
    batches = operand(2, 3, 3), operand(5, 3, 1)

    def launched(*_: Any) -> None:
        raise AssertionError("launched")

    monkeypatch.setattr(Launch, "__call__", launched)
    refused: list[tuple[type[PortableGPUError], str, Any]] = [
        (ShapeError, r"a has shape \(3, 4\)", lambda: cho_factor(wide)),
        (ArgumentTypeError, "overwrite_a", lambda: cho_factor(eye, overwrite_a="yes")),
        (ShapeError, r"c_and_lower has shape \(3, 4\)", lambda: cho_solve(wide, b)),
        (ShapeError, "3 rows, not 4", lambda: cho_solve(eye, four)),
        (DTypeError, "b is int32", lambda: cho_solve(eye, whole)),
        (ArgumentError, "tuple of 3", lambda: cho_solve((eye, True, 1), b)),
        (ArgumentError, "tuple of 2", lambda: cho_solve((eye, True), b, lower=True)),
        (ArgumentError, "a and refine", lambda: cho_solve(eye, b, refine=1)),
        (ArgumentError, "a and refine", lambda: cho_solve(eye, b, a=eye)),
        (ArgumentError, "refine is 'often'", lambda: cho_solve(eye, b, a=eye, refine="often")),
        (ArgumentError, "refine is -1", lambda: cho_solve(eye, b, a=eye, refine=-1)),
        (ArgumentTypeError, "refine is True", lambda: cho_solve(eye, b, a=eye, refine=True)),
        (ArgumentError, "overwrite_b", lambda: cho_solve(eye, b, True, a=eye, refine=1)),
        (ShapeError, "its factor", lambda: cho_solve(eye, b, a=batches[0], refine=1)),
        (ArgumentError, "assume_a is None", lambda: solve(eye, b)),
        (ArgumentError, "assume_a is 'sym'", lambda: solve(eye, b, assume_a="sym")),
        (ShapeError, "do not broadcast", lambda: solve(*batches, assume_a="pos")),
        (ArgumentError, "check", lambda: solve(eye, b, assume_a="pos", check="never")),
        (ArgumentError, "precision", lambda: solve(eye, b, assume_a="pos", precision="low")),
        (ShapeError, r"a has shape \(3, 4\)", lambda: logdet(wide)),
        (ShapeError, "as many rows", lambda: lstsq(wide, b)),
        (ShapeError, "4 rows", lambda: lstsq(tall, b)),
        (DTypeError, "a is int32", lambda: lstsq(whole, b)),
        (ShapeError, "do not broadcast", lambda: lstsq(*batches)),
        (ArgumentError, "refine is 65", lambda: cho_solve(eye, b, a=eye, refine=65)),
        (ArgumentError, "assume_a is of type", lambda: solve(eye, b, assume_a=eye)),
        (ArgumentTypeError, "precision is of type", lambda: lstsq(eye, b, precision=eye)),
        (ArgumentTypeError, "n is 'four'", lambda: pg.linalg.packed.packed_size("four")),
        (ArgumentError, "n is -1", lambda: pg.linalg.packed.packed_size(-1)),
    ]
    for function, inputs in (
        (cholesky, (eye,)), (pg.linalg.inv_triangular, (eye,)),
        (pg.linalg.solve_triangular, (eye, eye)), (pg.linalg.her2k, (eye, eye)),
        (logdet, (eye,)), (cho_factor, (eye,)),
    ):  # fmt: skip
        wrong: Any = functools.partial(function, *inputs, wait_for=np.ones(2))
        refused.append((ArgumentTypeError, "an element of wait_for", wrong))
    for error, words, call in refused:
        with pytest.raises(error, match=words):
            call()


def test_bits_repeat(fast: Engine) -> None:
    needs_fp64(fast)
    a, b = definite(12, "float64", 1e3), numbers((12, 5), "float64")
    first = solve(a, b, assume_a="pos", refine="auto", engine=fast)
    np.testing.assert_array_equal(solve(a, b, assume_a="pos", refine="auto", engine=fast), first)
    np.testing.assert_array_equal(
        triangle(cho_factor(a, engine=fast)[0], False), triangle(cholesky(a, lower=False), False)
    )
