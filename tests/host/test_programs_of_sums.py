"""How many programs random work asks for on PoCL: each costs a user 0.4 s when it is first used."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from recorded_devices import POCL_ZEN4

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.ops.gemv.plan import specialization_of
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.random_sizes import RANDOM as MATRICES
from portable_gpu.ops.reduce.catalogue import problem, texts
from portable_gpu.ops.reduce.random_sizes import ALONG_AN_AXIS, WHOLE
from portable_gpu.targets import detect

TARGET = detect(POCL_ZEN4)
SIZES = 60
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
SEEDS = pytest.mark.parametrize("seed", [7, 31])


def _programs(specializations: Iterable[Specialization]) -> int:
    return len({specialization.key for specialization in specializations})


def _reductions(operation: str, dtype: str, seed: int, *, whole: bool) -> Iterator[Specialization]:
    source = random.Random(seed)
    for _ in range(SIZES):
        size = (WHOLE if whole else ALONG_AN_AXIS).draw(source, True)
        axis = None if whole else int(size.variant)
        yield from texts(problem(operation, size.extents, axis, np.dtype(dtype), TARGET), TARGET)


@DTYPES
@SEEDS
def test_sums(dtype: str, seed: int) -> None:
    """Of all elements and along an axis: rows, short rows, columns, few columns."""
    of_all = list(_reductions("sum", dtype, seed, whole=True))
    along = list(_reductions("sum", dtype, seed, whole=False))
    assert _programs(of_all) == 1
    assert _programs([*of_all, *along]) <= 4


@DTYPES
@pytest.mark.parametrize(("operation", "most"), [("max", 4), ("argmax", 4), ("std", 8)])
def test_other_reductions(operation: str, most: int, dtype: str) -> None:
    """As many as sums; variances have two passes."""
    assert _programs(_reductions(operation, dtype, 31, whole=False)) <= most


@DTYPES
@SEEDS
def test_gemv(dtype: str, seed: int) -> None:
    """Rows: long, short, shorter, with parts, a few lengths written out; columns: long, short."""
    source, elem = random.Random(seed), element(np.dtype(dtype))
    found = []
    for _ in range(SIZES):
        size = MATRICES[0].draw(source, True)
        m, n = size.extents
        lies = (m, n, n, 1) if size.variant == "N" else (n, m, 1, n)
        found.append(specialization_of(GemvProblem(elem, *lies, 1, 1), TARGET))
    assert _programs(found) <= 8
