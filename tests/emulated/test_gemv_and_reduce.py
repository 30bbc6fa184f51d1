"""NVIDIA's gemv and reduction kernels, run from their PTX: shuffles, and folds of groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from sampling import in_pairs

from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.gemv.variants import variants
from portable_gpu.ops.reduce import call
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import make_plan
from portable_gpu.ops.variant import bind_best

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))


GPUS = ("sm_60", "sm_90")


@pytest.fixture
def gpu(request: pytest.FixtureRequest) -> Emulator:
    return Emulator.of(request.param, races=True)


def whole_numbers(shape: Any, dtype: str) -> Any:
    return np.random.default_rng(1).integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "gpu", "dtype", "order"),
    in_pairs(((70, 16), (1000, 5), (9, 3000), (3, 40000), (301, 301)), GPUS, ("f4", "f8"), "CF"),
    indirect=["gpu"],
    ids=str,
)
def test_gemv(gpu: Emulator, shape: tuple[int, int], dtype: str, order: str) -> None:
    m, n = shape
    a, x = whole_numbers((m, n), dtype), whole_numbers(n, dtype)
    y = np.full(m + 8, 7, dtype)
    strides = (n, 1) if order == "C" else (1, m)
    p = GemvProblem(element(dtype), m, n, *strides, 1, 1)
    memory = np.ascontiguousarray(a if order == "C" else a.T)
    plan = bind_best(gpu, variants(p, gpu.target, gpu.table))  # type: ignore[arg-type]
    plan.enqueue(gpu, [memory, x, y], (0, 0, 4), (2.0, 0.0))  # type: ignore[arg-type]
    np.testing.assert_array_equal(y[4:-4], 2 * (a @ x))
    assert np.all(y[:4] == 7)
    assert np.all(y[-4:] == 7)
    assert not gpu.counters.any()


@pytest.mark.parametrize("gpu", ["sm_90"], indirect=True)
@pytest.mark.parametrize(
    ("vectors", "apart"),
    [(3, False), (4, False), (6, False), (8, False), (3, True), (7, True)],
    ids=str,
)
def test_several_vectors(gpu: Emulator, vectors: int, apart: bool) -> None:
    """Interleaved or one after the other; kernels hold 4 or 8 sums, whose last ones are left."""
    m, n = 37, 530
    a, x = whole_numbers((m, n), "f4"), whole_numbers((n, vectors), "f4")
    steps = {"x_step": 1, "x_pitch": n} if apart else {"x_step": vectors, "x_pitch": 1}
    p = GemvProblem(element("f4"), m, n, n, 1, y_step=vectors, vectors=vectors, y_pitch=1, **steps)
    memory = np.ascontiguousarray(x.T if apart else x)
    expected = 2 * (a @ x)
    for variant in variants(p, gpu.target, gpu.table):
        y = np.full((m + 8, vectors), 7, "f4")
        plan = variant.bind(gpu)  # type: ignore[arg-type]
        plan.enqueue(gpu, [a, memory, y], (0, 0, 4 * vectors), (2.0, 0.0))  # type: ignore[arg-type]
        np.testing.assert_array_equal(y[4:-4], expected, variant.name)
        assert np.all(y[:4] == 7)
        assert np.all(y[-4:] == 7)


REDUCTIONS = {
    "sum": (call.sum_like("sum", None), np.sum), "max": (call.maximum, np.max),
    "argmin": (call.argmin, np.argmin),
}  # fmt: skip


#: What is folded, and along which axis.
FOLDS = (
    ((100_003,), 0), ((37, 130), 1), ((500, 33), 0), ((2, 50_000), 1), ((3, 70_000), 0),
    ((1600, 90), 1),
)  # fmt: skip


@pytest.mark.parametrize(
    ("fold", "gpu", "name", "dtype"),
    in_pairs(FOLDS, GPUS, list(REDUCTIONS), ("f4", "f8", "i4")),
    indirect=["gpu"],
    ids=str,
)
def test_reductions(
    gpu: Emulator, name: str, dtype: str, fold: tuple[tuple[int, ...], int]
) -> None:
    shape, axis = fold
    rule, oracle = REDUCTIONS[name]
    x = whole_numbers(shape, dtype)
    request, result = rule(x.dtype)
    expected = oracle(x, axis=axis)
    out = np.full(expected.size + 8, 7, result)
    strides = tuple(s // x.itemsize for s in x.strides)
    p = Problem(request, shape, (strides,), frozenset({axis}), (1,) * (x.ndim - 1), 16)
    plan = make_plan(gpu, p)  # type: ignore[arg-type]
    plan.enqueue(gpu, [x, out], (0, 4))  # type: ignore[arg-type]
    np.testing.assert_array_equal(out[4:-4].reshape(expected.shape), expected)
    assert np.all(out[:4] == 7)
    assert np.all(out[-4:] == 7)
    assert not gpu.counters.any()
