"""Fronts on GPUs: assembled and factorised in local memory, by tiles, by plans; substitution.

A device of class gcn takes these paths.  Each kernel takes PoCL seconds to build.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from random_fronts import Problem, lower, place, tree
from reference import factor_bound, solve_bound, wider
from sampling import compile_fast

from portable_gpu import Engine
from portable_gpu.dtypes import element
from portable_gpu.ops.fronts import group
from portable_gpu.ops.fronts.device import DeviceFronts
from portable_gpu.ops.fronts.solve import substitution_steps
from portable_gpu.ops.fronts.stages import last_step, stage_steps
from portable_gpu.runtime.devices import CLASS_VARIABLE
from portable_gpu.runtime.plan import Step, Steps
from portable_gpu.sparse.schedule import Schedule, by_levels

pytestmark = [
    pytest.mark.path,
    pytest.mark.skipif(
        os.environ.get(CLASS_VARIABLE) != "gcn", reason="the job pocl-gcn of test_matrix.py does it"
    ),
]
Array = Any
CANARY = 7
#: Canaries before an array, and behind it: plans rely on aligned ones.
RIM = 16
F64, C64 = np.float64, np.complex64
#: Fronts of up to 16 and to 96 rows, and of several tiles, three of which are not full.
COLUMNS = (3, 5, 1, 4, 40, 2, 70, 30, 50, 130, 9, 64, 100)
PARENTS = (3, 3, 5, 4, 6, 6, 7, 9, 9, 12, 12, 12, -1)
#: Their rows are no more than this many on the average, in addition to their children's.
MORE = 15


@pytest.fixture(scope="module")
def waiting(engine: Engine) -> Iterator[Engine]:
    """An engine whose groups wait for each other, and which has two classes of small fronts."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        patch.setattr(group, "_CLASSES", ((16, 32, 8), (96, 64, 8)))
        yield Engine(queue=engine.queue, device_class="gcn-gfx90a")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return tree(COLUMNS, PARENTS, MORE, F64, seed=1)


def on(engine: Engine, problem: Problem) -> tuple[DeviceFronts, Schedule]:
    schedule = by_levels(problem.fronts)
    elem = element(problem.values.dtype)
    result = DeviceFronts(
        engine, problem.fronts, elem, schedule.update, schedule.arena, schedule.contribution_start
    )
    return result, schedule


def enqueue(engine: Engine, steps: list[Step], *arrays: Array) -> list[Array]:
    """Return the arrays, which are between canaries, when the steps are done."""
    framed = [np.pad(array.ravel(), RIM, constant_values=CANARY) for array in arrays]
    memory = [cla.to_device(engine.queue, array) for array in framed]
    plan = Steps(steps)
    plan.enqueue(engine.state(engine.queue), [item.data for item in memory], (RIM,) * len(arrays))
    result = [item.get() for item in memory]
    for item in result:
        assert np.all(item[:RIM] == CANARY)
        assert np.all(item[-RIM:] == CANARY)
    return [item[RIM:-RIM].reshape(array.shape) for item, array in zip(result, arrays, strict=True)]


def factorise(engine: Engine, problem: Problem) -> tuple[Array, Array]:
    """L, and the report; nothing but L is written."""
    device, schedule = on(engine, problem)
    steps = [step for stage in schedule.stages for step in stage_steps(device, stage)]
    factor = np.full(device.size, CANARY, problem.values.dtype)
    report = np.full(2, -7, np.int64)
    arena = np.full(device.arena_bytes // factor.itemsize, CANARY, factor.dtype)
    status = np.full(device.pivot_status_bytes // 8, -7, np.int64)
    _, factor, report, *_ = enqueue(
        engine, [*steps, last_step(device)], problem.values, factor, report, arena, status
    )
    result, selected = lower(device, factor)
    above = np.zeros_like(selected)
    for s in range(len(problem.fronts)):
        i, j = np.triu_indices(int(problem.fronts.columns[s]), 1)
        above[device.panel[s] + i * device.leading[s] + j] = True
    assert np.all(factor[~selected & ~above] == CANARY)
    return result, report


def check(found: Array, dense: Array) -> None:
    error = np.abs(wider(dense) - wider(found) @ wider(found).conj().T)
    assert np.all(error <= factor_bound(found))


def test_factor(waiting: Engine, problem: Problem) -> None:
    result, report = factorise(waiting, problem)
    check(result, problem.dense)
    assert report[0] == -1
    repeated, _ = factorise(waiting, problem)
    np.testing.assert_array_equal(result, repeated)


def test_complex_factor(waiting: Engine) -> None:
    hermitian = tree(COLUMNS, PARENTS, MORE, C64, seed=2)
    result, _ = factorise(waiting, hermitian)
    check(result, hermitian.dense)
    assert not result.diagonal().imag.any()


def test_large_fronts_have_plans_of_their_own(
    waiting: Engine, problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group, "_is_large", lambda device, one, *_: device.fronts.columns[one] > 64)
    result, report = factorise(waiting, problem)
    check(result, problem.dense)
    assert report[0] == -1


@pytest.mark.parametrize("front", [1, 8, 9])
def test_the_first_bad_pivot_is_reported(waiting: Engine, problem: Problem, front: int) -> None:
    fronts = problem.fronts
    values, columns = problem.values.copy(), [int(fronts.first[front]), int(fronts.first[12])]
    for s, column in ((front, 0), (12, 0)):
        entries = range(fronts.entry_start[s], fronts.entry_start[s + 1])
        at = next(k for k in entries if fronts.entry_row[k] == fronts.entry_column[k] == column)
        values[fronts.entry_source[at]] = -1e6
    _, report = factorise(waiting, Problem(fronts, values, problem.dense))
    assert report[0] == columns[0]
    pivot = report[1:].view(F64)[0]
    assert -2e6 < pivot < -5e5


@pytest.mark.parametrize("count", [1, 2, 5, 70])
def test_substitution(waiting: Engine, problem: Problem, count: int) -> None:
    device, schedule = on(waiting, problem)
    triangle = np.linalg.cholesky(problem.dense)
    factor = place(device, triangle)
    rng = np.random.default_rng(count)
    b = rng.standard_normal((len(triangle), count))
    stages = [[stage] for stage in schedule.stages]
    forward = substitution_steps(device, stages, schedule.rows, count, 0, 1, backward=False)
    backward = substitution_steps(device, stages, schedule.rows, count, 0, 1, backward=True)
    for steps, whole in ((forward, triangle), (backward, triangle.T)):
        _, x = enqueue(waiting, steps, factor, b)
        error = np.abs(wider(whole) @ wider(x) - wider(b))
        assert np.all(error <= solve_bound(whole, x))
        _, repeated = enqueue(waiting, steps, factor, b)
        np.testing.assert_array_equal(x, repeated)
