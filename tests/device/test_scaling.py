"""alpha and beta scale alike on every path: what infinities and NaN become, above all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

#: Rows and columns of C: gemv of one vector and of several, either way round, and tiles.
SHAPES = [(9, 1), (9, 2), (9, 9), (1, 9), (2, 9), (1, 1), (65, 3), (65, 70)]
FACTORS = [(2, 0), (1, 0), (-0.5, 3), (1, 1), (2j, 0), (0.5 + 2j, 0), (1 + 1j, 2 - 1j), (2, 1j)]
SPECIAL = [complex(np.inf, 0), complex(0, -np.inf), complex(np.nan, 1), complex(np.inf, np.nan), 3]


def whole_numbers(shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return (rng.integers(-3, 4, shape) + 1j * rng.integers(-3, 4, shape)).astype(np.complex64)


def scaled(factor: complex, values: Any) -> Any:
    """The rule: a real factor scales each part, another one multiplies as numbers do."""
    real, imag = values.real, values.imag
    x, y = np.float32(factor.real), np.float32(factor.imag)
    with np.errstate(invalid="ignore"):
        return (x * real, x * imag) if y == 0 else (x * real - y * imag, x * imag + y * real)


def summed(a: Any, b: Any) -> Any:
    """A @ B by plain complex products, which are exact except for infinities and NaN."""
    out = np.empty((a.shape[0], b.shape[1]), np.complex64)
    with np.errstate(invalid="ignore"):
        out.real = a.real @ b.real - a.imag @ b.imag
        out.imag = a.real @ b.imag + a.imag @ b.real
    return out


@pytest.mark.parametrize("trans", ["NN", "TT"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_one_scaling_on_every_path(engine: Engine, shape: tuple[int, int], trans: str) -> None:
    (m, n), k = shape, 40
    a, b, c = whole_numbers((m, k), 1), whole_numbers((k, n), 2), whole_numbers((m, n), 3)
    for i, value in enumerate(SPECIAL[:m]):
        a[i, i % k] = value
    c.reshape(-1)[: len(SPECIAL)] = SPECIAL[: c.size]
    inputs = [
        np.ascontiguousarray(x.T) if t == "T" else x for x, t in zip((a, b), trans, strict=True)
    ]
    for alpha, beta in FACTORS:
        got = c.copy()
        options = {"trans_a": trans[0], "trans_b": trans[1], "engine": engine}
        pg.gemm(*inputs, alpha=alpha, beta=beta, c=got, **options)
        expected = scaled(complex(alpha), summed(a, b))
        with np.errstate(invalid="ignore"):
            if beta:
                expected = [x + y for x, y in zip(expected, scaled(complex(beta), c), strict=True)]
        for part, want in zip((got.real, got.imag), expected, strict=True):
            np.testing.assert_array_equal(part, want, f"alpha {alpha}, beta {beta}")
        if n == 1:
            y = c[:, 0].copy()
            pg.gemv(inputs[0], b[:, 0], alpha=alpha, beta=beta, y=y, trans=trans[0], engine=engine)
            np.testing.assert_array_equal(y.view("f4"), got[:, 0].view("f4"))
