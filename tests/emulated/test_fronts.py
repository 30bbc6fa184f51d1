"""NVIDIA's kernels of fronts, run from their PTX; groups run in the order of their tickets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from random_fronts import Problem, lower, place, tree
from reference import factor_bound, solve_bound, wider

from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.factor.policy import on_matrix_units
from portable_gpu.ops.fronts.device import DeviceFronts
from portable_gpu.ops.fronts.inverse import inverse_steps, square_sizes
from portable_gpu.ops.fronts.solve import substitution_steps
from portable_gpu.ops.fronts.stages import last_step, stage_steps
from portable_gpu.runtime.plan import Steps
from portable_gpu.sparse.schedule import Schedule, by_levels, top_down_levels

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

F64, F32 = np.float64, np.float32
#: Small ones, and two of several tiles.
COLUMNS = (3, 2, 14, 70, 80)
PARENTS = (2, 2, 4, 4, -1)


def problem(dtype: Any) -> Problem:
    return tree(COLUMNS, PARENTS, 20, dtype, seed=3)


def on(gpu: Emulator, fronts: Problem) -> tuple[DeviceFronts, Schedule]:
    s = by_levels(fronts.fronts)
    elem = element(fronts.values.dtype)
    engine: Any = gpu
    return DeviceFronts(engine, fronts.fronts, elem, s.update, s.arena, s.contribution_start), s


@pytest.mark.parametrize(("name", "dtype"), [("sm_90", F64), ("sm_80", F64), ("sm_60", F32)])
def test_factor(name: str, dtype: Any) -> None:
    gpu, operand = Emulator.of(name, races=True), problem(dtype)
    device, schedule = on(gpu, operand)
    assert on_matrix_units(device.elem, gpu.target) == (dtype == F64)
    steps = [step for stage in schedule.stages for step in stage_steps(device, stage)]
    factor, report = np.full(device.size, np.nan, dtype), np.full(2, -7, np.int64)
    state: Any = gpu
    arena = np.full(device.arena_bytes // factor.itemsize, np.nan, dtype)
    status = np.full(device.pivot_status_bytes // 8, -7, np.int64)
    buffers = [operand.values, factor, report, arena, status]
    Steps([*steps, last_step(device)]).enqueue(state, buffers, (0,) * len(buffers))
    assert {"fronts/small", "fronts/assemble", "fronts/tiles"} <= set(gpu.launches)
    assert not gpu.counters.any()
    assert report[0] == -1
    result, _ = lower(device, factor)
    error = np.abs(wider(operand.dense) - wider(result) @ wider(result).T)
    assert np.all(error <= factor_bound(result))


@pytest.mark.parametrize(("name", "dtype"), [("sm_90", F64), ("sm_60", F32)])
@pytest.mark.parametrize(("count", "kernel"), [(2, "vector"), (5, "solve")])
def test_substitution(name: str, dtype: Any, count: int, kernel: str) -> None:
    gpu, operand = Emulator.of(name, races=True), problem(dtype)
    device, schedule = on(gpu, operand)
    triangle = np.linalg.cholesky(operand.dense)
    factor = place(device, triangle)
    b = np.random.default_rng(count).standard_normal((len(triangle), count)).astype(dtype)
    stages = [[stage] for stage in schedule.stages]
    state: Any = gpu
    for backward, whole in ((False, triangle), (True, triangle.T)):
        x = b.copy()
        steps = substitution_steps(device, stages, schedule.rows, count, 0, 1, backward=backward)
        Steps(steps).enqueue(state, [factor, x], (0, 0))
        assert not gpu.counters.any()
        error = np.abs(wider(whole) @ wider(x) - wider(b))
        assert np.all(error <= solve_bound(whole, x))
    assert f"fronts/{kernel}" in gpu.launches


@pytest.mark.parametrize(("name", "dtype"), [("sm_90", F64), ("sm_60", F32)])
def test_inverse(name: str, dtype: Any) -> None:
    gpu, operand = Emulator.of(name, races=True), problem(dtype)
    device, schedule = on(gpu, operand)
    factor = place(device, np.linalg.cholesky(operand.dense))
    sizes = square_sizes(operand.fronts, gpu.target, device.elem)
    stages, places, buffer = top_down_levels(operand.fronts, schedule.chunks, sizes)
    at = gpu.upload(places)
    steps = [step for stage in stages[0] for step in inverse_steps(device, stage, places, at)]
    diagonal, squares = np.full(len(operand.dense), np.nan, dtype), np.full(buffer, np.nan, dtype)
    state: Any = gpu
    Steps(steps).enqueue(state, [factor, diagonal, squares], (0, 0, 0))
    assert "fronts/inverse" in gpu.launches
    inverse = np.linalg.inv(operand.dense.astype(F64))
    n, norm = len(inverse), np.linalg.norm(operand.dense, 2)
    condition = norm * np.linalg.norm(inverse, 2)
    bound = 4 * n * np.finfo(dtype).eps * condition * np.abs(inverse).max()
    assert np.all(np.abs(diagonal - np.diag(inverse)) <= bound)
