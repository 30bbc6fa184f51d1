"""Linear layers against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from device_arrays import on_device

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OverlapError,
    ShapeError,
)
from portable_gpu.runtime.engine import Engine


def _check(got: Any, exact: Any, terms: Any, count: int) -> None:
    """The sum of the absolute terms bounds the error in any order."""
    got = pg.asnumpy(got)
    assert got.shape == exact.shape
    eps = np.finfo(np.float32).eps
    bound = (count + 2) * eps * terms
    if got.dtype == np.float16:
        bound = bound + 2.0**-11 * np.abs(exact) + 2.0**-24
    assert np.all(np.abs(got - exact) <= bound + 1e-37)


def _arrays(rng: np.random.Generator, leading: Any, m: int, n: int, dtype: Any, kind: str) -> Any:
    """Input, weight, bias and the gradient: plain, or views of other orders of axes."""
    x, w, b, g = (
        rng.standard_normal(shape).astype(dtype)
        for shape in ((*leading, n), (m, n), (m,), (*leading, m))
    )
    if kind == "turned" and len(leading) == 2:
        x, g = (np.ascontiguousarray(v.transpose(1, 0, 2)).transpose(1, 0, 2) for v in (x, g))
        w = np.asfortranarray(w)
    return x, w, b, g


@pytest.mark.parametrize("kind", ["plain", "turned", "device"])
def test_values_and_gradients(engine: Engine, kind: str) -> None:
    rng = np.random.default_rng(len(kind))
    dtype = np.float16 if kind == "plain" else np.float32
    every = ((7, 5), (), (0,), (3, 0), (33,))
    for leading in every if kind == "plain" else every[:1]:
        m, n = 13, 9
        x, w, b, g = arrays = _arrays(rng, leading, m, n, dtype, kind)
        wide = [array.astype(np.float64) for array in arrays]
        exact, terms = wide[0] @ wide[1].T, np.abs(wide[0]) @ np.abs(wide[1]).T
        flat = [array.reshape(-1, array.shape[-1]) for array in (wide[3], wide[0])]
        weight_terms = np.abs(flat[0]).T @ np.abs(flat[1])
        if kind == "device":
            x, w, b, g = (on_device(engine, array, rim=2) for array in arrays)
        got = nn.linear(x, w, b, engine=engine)
        assert got.dtype == dtype
        _check(got, exact + wide[2], terms + np.abs(wide[2]), n)
        _check(nn.linear(x, w, engine=engine), exact, terms, n)
        by_input, by_weight, by_bias = nn.linear_backward(g, x, w, engine=engine)
        _check(by_input, wide[3] @ wide[1], np.abs(wide[3]) @ np.abs(wide[1]), m)
        _check(by_weight, flat[0].T @ flat[1], weight_terms, len(flat[0]))
        _check(by_bias, flat[0].sum(0), np.abs(flat[0]).sum(0), len(flat[0]))


def test_out_epilogue_and_mask(engine: Engine) -> None:
    rng = np.random.default_rng(0)
    x, w, b, g = _arrays(rng, (7, 5), 9, 6, np.float32, "turned")
    plain = nn.linear(x, w, b, engine=engine)
    out = np.empty((5, 7, 9), np.float32).transpose(1, 0, 2)
    residual = rng.standard_normal((7, 5, 9)).astype(np.float32)
    epilogue = pg.Epilogue().add(residual).relu()
    assert nn.linear(x, w, b, epilogue=epilogue, out=out, engine=engine) is out
    np.testing.assert_allclose(out, np.maximum(plain + residual, 0), atol=1e-5)
    gelu = nn.linear(x, w, b, epilogue=pg.Epilogue().gelu(), engine=engine)
    np.testing.assert_allclose(gelu, nn.gelu(plain, engine=engine), atol=1e-5)
    first = np.empty(9, np.float32)
    assert nn.linear(x[0, 0], w, out=first, engine=engine) is first
    np.testing.assert_allclose(first, plain[0, 0] - b, atol=1e-5)
    grads = nn.linear_backward(g, x, w, engine=engine)
    outs = (np.empty_like(x), None, np.empty(9, np.float32))
    got = nn.linear_backward(g, x, w, output_mask=(1, 0, 1), out=outs, engine=engine)
    assert got[0] is outs[0]
    assert got[1] is None
    assert got[2] is outs[2]
    for item, other in ((got[0], grads[0]), (got[2], grads[2])):
        np.testing.assert_allclose(item, other, atol=1e-5)


def test_wrong_arguments(engine: Engine) -> None:
    x, w, b = (np.ones(shape, np.float32) for shape in ((3, 4), (5, 4), (5,)))
    g = np.ones((3, 5), np.float32)
    for error, message, call in (
        (ShapeError, r"input has shape \(3, 4\) and weight \(4, 5\)", lambda: nn.linear(x, w.T)),
        (ShapeError, r"bias has shape \(4,\); expected \(5,\)", lambda: nn.linear(x, w, x[0])),
        (DTypeError, "weight is int64", lambda: nn.linear(x, w.astype(int))),
        (ArgumentTypeError, "epilogue", lambda: nn.linear(x, w, b, epilogue="relu")),
        (OverlapError, "out", lambda: nn.linear(x[:, :4], w[:4], out=x)),
        (ShapeError, r"expected \(3, 5\)", lambda: nn.linear_backward(x, x, w)),
        (ShapeError, "out", lambda: nn.linear_backward(g, x, w, out=(x, b, b))),
        (ArgumentError, "2 elements", lambda: nn.linear_backward(g, x, w, output_mask=(1, 0))),
        (ArgumentTypeError, "out is", lambda: nn.linear_backward(g, x, w, out=x)),
    ):
        with pytest.raises(error, match=message):
            call()
