"""``out=`` of every function: the result is written there, and what does not fit is refused."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from linear_systems import packed_triangle

import portable_gpu as pg
from portable_gpu import Engine, fft, linalg, signal
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    PortableGPUError,
    ShapeError,
)
from portable_gpu.linalg import packed

#: Functions whose result is not an array, or is a list of arrays.
WITHOUT = {
    "portable_gpu": {"asarray", "asnumpy", "default_engine", "devices", "explain", "plan"},
    "portable_gpu.fft": {"next_fast_len", "prev_fast_len", "scipy_backend"},
    "portable_gpu.linalg": set(),
    "portable_gpu.linalg.packed": {"packed_size"},
    "portable_gpu.signal": set(),
}


def values(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if dtype[0] == "c" else x).astype(dtype)


X, V = values(6, 5), values(6, dtype="complex64")
SPD = np.asarray(values(5, 6) @ values(5, 6).T + 6 * np.eye(5, dtype="float32"))
SPD_FACTOR = np.linalg.cholesky(SPD).T.copy()
LINE = values(15) + np.float32(4)
CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = {
    "gemm": (pg.gemm, (X, X), {"trans_b": "T"}),
    "gemv": (pg.gemv, (X, values(5)), {}),
    "matmul": (pg.matmul, (X, X.T), {}),
    "elementwise": (lambda x, **o: pg.elementwise("x + 1", x=x, **o), (X,), {}),
    "reduce": (lambda x, **o: pg.reduce(x, pg.BinaryOp("m", "0", "a + b"), **o), (X,), {"axis": 0}),
    **{
        name: (getattr(pg, name), (X,), {"axis": 1})
        for name in (
            "sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax",
            "count_nonzero", "asum", "nrm2",
        )
    },
    "dot": (pg.dot, (V, V), {}),
    "vdot": (pg.vdot, (V, V), {}),
    **{
        name: (getattr(fft, name), (values(4, 6, dtype="complex64"),), {})
        for name in (
            "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "irfft", "irfft2", "irfftn", "hfft",
            "hfft2", "hfftn", "dct", "idctn",
        )
    },
    **{
        name: (getattr(fft, name), (X,), {})
        for name in (
            "rfft", "rfft2", "rfftn", "ihfft", "ihfft2", "ihfftn", "idct", "dst", "idst", "dctn",
            "dstn", "idstn",
        )
    },
    "cholesky": (linalg.cholesky, (SPD,), {}),
    "cho_factor": (lambda a, **o: linalg.cho_factor(a, **o)[0], (SPD,), {}),
    "solve_triangular": (linalg.solve_triangular, (SPD, values(5, 3)), {}),
    "inv_triangular": (linalg.inv_triangular, (SPD,), {"lower": True}),
    "cho_solve": (linalg.cho_solve, (SPD, values(5, 3)), {}),
    "cho_solve, refined": (
        lambda a, b, **o: linalg.cho_solve(SPD_FACTOR, b, a=SPD.copy(), refine=1, **o)
        if isinstance(b, np.ndarray)
        else linalg.cho_solve(pg.asarray(SPD_FACTOR), b, a=a, refine=1, **o),
        (SPD, values(5, 3)),
        {},
    ),
    "solve": (linalg.solve, (SPD, values(5, 3)), {"assume_a": "pos"}),
    "logdet": (linalg.logdet, (np.stack([SPD, 2 * SPD]),), {}),
    "lstsq": (linalg.lstsq, (X, values(6, 2)), {}),
    "fftconvolve": (signal.fftconvolve, (X, values(2, 3)), {}),
    "fftconvolve along no axes": (signal.fftconvolve, (X, values(1, 5)), {"axes": 0}),
    "oaconvolve": (signal.oaconvolve, (values(400), values(5)), {"mode": "same"}),
    "convolve": (signal.convolve, (X, values(2, 3)), {}),
    "convolve of integers": (
        signal.convolve, (np.arange(9), np.arange(4)), {"method": "fft", "mode": "valid"}
    ),
    "correlate": (signal.correlate, (X, X), {"method": "direct"}),
    "syrk": (linalg.syrk, (X,), {}),
    "herk": (linalg.herk, (X,), {}),
    "syr2k": (linalg.syr2k, (X, X), {}),
    "her2k": (linalg.her2k, (X, X), {}),
    "packed.cholesky": (packed.cholesky, (packed_triangle(SPD.T),), {}),
    "packed.cho_solve": (packed.cho_solve, (LINE, values(5, 3)), {}),
    "packed.solve_triangular": (packed.solve_triangular, (LINE, values(5, 3)), {}),
    "packed.pack": (packed.pack, (SPD,), {}),
    "packed.unpack": (packed.unpack, (LINE,), {}),
    "packed.syrk": (packed.syrk, (X,), {}),
    "packed.herk": (packed.herk, (X,), {}),
}  # fmt: skip
#: Those that write one triangle of ``out`` only, or adjacent elements only.
TRIANGLES = {"syrk", "herk", "syr2k", "her2k"}
ADJACENT = {"packed.cholesky", "packed.pack", "packed.syrk", "packed.herk"}


@pytest.mark.parametrize("where", ["numpy", "device"])
@pytest.mark.parametrize("name", CALLS)
def test_out(engine: Engine, name: str, where: str) -> None:
    function, operand, options = CALLS[name]
    place = (lambda x: x) if where == "numpy" else (lambda x: pg.asarray(x, engine=engine))
    read = (lambda x: x) if where == "numpy" else pg.asnumpy
    arrays = [place(x) for x in operand]
    if where == "numpy":
        options = {**options, "engine": engine}
    fresh = function(*arrays, **options)
    expected = np.asarray(read(fresh))
    for spread in (False, True):
        shape = expected.shape
        if spread and (not shape or name in ADJACENT):
            continue
        whole = np.zeros((*shape[:-1], 2 * shape[-1]) if spread else shape, expected.dtype)
        whole = place(whole)
        out = whole[..., ::2] if spread else whole
        for _ in range(2):
            assert function(*arrays, out=out, **options) is out
            np.testing.assert_array_equal(read(out), expected)
            out[...] = 0
    refused = [
        (place(np.zeros((7, 7, 7), expected.dtype)), ShapeError),
        (place(np.zeros(expected.shape, "int8")), DTypeError),
        ([0.0], ArgumentTypeError),
    ]
    if where == "device":
        refused.append((np.zeros_like(expected), ArgumentError))
    if expected.shape:  # one number without axes
        refused.append((place(np.zeros((), expected.dtype)), ShapeError))
    for wrong, error in refused:
        with pytest.raises(error, match="out"):
            function(*arrays, out=wrong, **options)


def test_every_function_has_out() -> None:
    for module in (pg, fft, linalg, packed, signal):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and function.__module__.startswith("portable_gpu"):
                has_out = "out" in inspect.signature(function).parameters
                assert has_out == (name not in WITHOUT[module.__name__]), f"{module}.{name}"


def test_two_names(engine: Engine) -> None:
    a, c, y = values(6, 6), np.zeros((6, 6), "float32"), np.zeros(6, "float32")
    assert pg.gemm(a, a, c=c, engine=engine) is c
    assert pg.gemv(a, a[0], y=y, engine=engine) is y
    assert linalg.syrk(a, c=c, engine=engine) is c
    for call in (
        lambda: pg.gemm(a, a, out=c, c=c, engine=engine),
        lambda: pg.gemv(a, a[0], out=y, y=y, engine=engine),
        lambda: linalg.her2k(a, a, out=c, c=c, engine=engine),
        lambda: pg.plan("gemm", a, a, out=c, c=c, engine=engine),
    ):
        with pytest.raises(ArgumentError, match=r"out and . are two names"):
            call()
    with pytest.raises(ArgumentError, match=r"beta is 1.0 and there is no out \(c\); pass out="):
        pg.gemm(a, a, beta=1.0, engine=engine)


@pytest.mark.parametrize("where", ["numpy", "device"])
def test_the_input_itself(engine: Engine, where: str) -> None:
    place = (lambda x: x) if where == "numpy" else (lambda x: pg.asarray(x, engine=engine))
    for function in (fft.fft, fft.ifftn, fft.dct, fft.dstn):
        x = values(4, 8, dtype="complex64")
        for dtype in (x, x.real.copy()) if function in (fft.dct, fft.dstn) else (x,):
            array, expected = place(dtype.copy()), function(dtype, engine=engine)
            options = {"engine": engine} if where == "numpy" else {}
            assert function(array, out=array, **options) is array
            np.testing.assert_array_equal(pg.asnumpy(array), expected)
            with pytest.raises((OverlapError, ShapeError), match="out"):
                function(array[1:], out=array[:-1], **options)


def test_solve_in_place(engine: Engine) -> None:
    a, b = SPD.copy(), values(5, 3)
    expected = linalg.solve(a, b, assume_a="pos", engine=engine)
    x = linalg.solve(a, b, False, True, True, assume_a="pos", engine=engine)
    assert x is b
    np.testing.assert_array_equal(b, expected)
    operand = pg.asarray(values(5, 3), engine=engine)
    x = linalg.solve(pg.asarray(SPD, engine=engine), operand, overwrite_b=True, assume_a="pos")
    assert x is operand
    np.testing.assert_allclose(x.get(), expected, rtol=1e-5)


def test_empty_convolution(engine: Engine) -> None:
    out = np.zeros(0)
    assert signal.fftconvolve(np.zeros((0, 2)), np.ones((2, 2)), out=out, engine=engine) is out
    with pytest.raises(ShapeError, match="out has shape"):
        signal.convolve(np.zeros(0), np.ones(2), out=np.zeros(1), engine=engine)


def test_sparse(engine: Engine) -> None:
    pytest.importorskip("llvmlite")
    sp = pytest.importorskip("scipy.sparse")
    matrix = sp.csc_array(np.eye(4) * 4.0)
    b, out = values(4, dtype="float64"), np.zeros(4)
    assert pg.sparse.spsolve(matrix, b, out=out, engine=engine) is out
    np.testing.assert_allclose(out, b / 4)
    stack = pg.sparse.FactorStack(pg.sparse.analyze(matrix), 2, engine=engine)
    stack.refactorize(np.stack([matrix.data, 2 * matrix.data]))
    rhs = values(2, 4, dtype="float64")
    for place in (lambda x: x, lambda x: pg.asarray(x, engine=engine)):
        into = place(np.zeros((2, 4)))
        assert stack.solve(place(rhs), out=into) is into
        np.testing.assert_allclose(pg.asnumpy(into), rhs / [[4], [8]])
    for wrong, error in (
        (np.zeros((2, 3)), ShapeError), (np.zeros((2, 4), "f4"), DTypeError),
        (np.zeros((4, 2)).T, ArgumentError), ([1.0], ArgumentTypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="out"):
            stack.solve(rhs, out=wrong)


def test_overwriting_and_out(engine: Engine) -> None:
    a, out = SPD.copy(), np.zeros_like(SPD)
    for call in (
        lambda: linalg.cholesky(a, overwrite_a=True, out=out, engine=engine),
        lambda: linalg.solve_triangular(a, a.copy(), overwrite_b=True, out=out, engine=engine),
    ):
        with pytest.raises(PortableGPUError, match=r"overwrite_. is True and out is given"):
            call()
    assert linalg.cholesky(a, overwrite_a=True, out=a, engine=engine) is a
