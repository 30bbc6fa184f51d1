"""Random sparse systems: patterns, dtypes, forms of the matrix, orderings, columns of b.

PORTABLE_GPU_TEST_CALLS=300 makes so many, of every dtype; PORTABLE_GPU_TEST_SEED=1 others.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from sampling import FEW, computes

pytest.importorskip("scipy.sparse")
pytest.importorskip("portable_gpu.sparse")

import random_sparse

from portable_gpu.runtime.engine import Engine

_MANY = int(os.environ.get("PORTABLE_GPU_TEST_CALLS", "0"))
_SEED = int(os.environ.get("PORTABLE_GPU_TEST_SEED", "0"))
_DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.mark.path
@pytest.mark.parametrize("dtype", _DTYPES)
def test_random_systems(dtype: str, unoptimised: Engine) -> None:
    """Backward errors stay within a few roundings, whatever is drawn."""
    _systems(unoptimised, dtype, _MANY or (4 if FEW else 8), 400)


@pytest.mark.tiny
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_tiny_systems(dtype: str, unoptimised: Engine) -> None:
    _systems(unoptimised, dtype, 6, 24)


def _systems(engine: Engine, dtype: str, count: int, most: int) -> None:
    """Factorise and solve ``count`` systems of up to about ``most`` unknowns."""
    if not computes(engine, dtype):
        pytest.skip("the device does not compute in it")
    draw, rng = random.Random(f"{dtype} {_SEED}"), np.random.default_rng(_SEED)
    for _ in range(count):
        random_sparse.solve(engine, np.dtype(dtype), draw, rng, most)
