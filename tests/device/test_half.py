"""float16 is converted as NumPy does it, in vectors and element by element."""

from __future__ import annotations

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

#: Distances of elements: adjacent ones are moved in vectors.
STEPS = (1, 3)


def floats() -> np.ndarray:
    """float32 of every sign, exponent and leading fraction, between and halfway between halves.

    A million others, at equal distances, follow.
    """
    leading = np.arange(1 << 19, dtype=np.uint32) << 13  # 10 bits of the fraction
    # Exactly a half, its neighbours, halfway to the next half, and the neighbours of that.
    following = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF], np.uint32)
    spread = np.arange(0, 1 << 32, 4099, dtype=np.uint64).astype(np.uint32)
    near = (leading[:, None] | following).reshape(-1)
    return np.concatenate((near, spread)).view(np.float32)


@pytest.mark.parametrize("step", STEPS)
def test_stores_round_as_numpy_does(engine: Engine, step: int) -> None:
    """Subnormal numbers, infinities, what overflows; NaN stays NaN."""
    x = floats()
    out = np.zeros(step * x.size, np.float16)[::step]
    got = pg.elementwise("x", x=np.repeat(x, step)[::step], out=out, dtype=out.dtype, engine=engine)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(np.isnan(got), ~number)
    bits, wanted = (np.ascontiguousarray(item).view(np.uint16) for item in (got, expected))
    np.testing.assert_array_equal(bits[number], wanted[number])


@pytest.mark.parametrize("step", STEPS)
def test_loads_are_exact(engine: Engine, step: int) -> None:
    """All halves."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    out = np.zeros(step * x.size, np.float32)[::step]
    got = pg.elementwise("x", x=np.repeat(x, step)[::step], out=out, dtype=out.dtype, engine=engine)
    np.testing.assert_array_equal(got, x.astype(np.float32))
