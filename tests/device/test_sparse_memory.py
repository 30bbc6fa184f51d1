"""An analysis's estimate of device memory, compared with the use by a factor."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from device_arrays import on_device
from sparse_matrices import grid

from portable_gpu.errors import (
    ArgumentTypeError,
    DeviceMemoryError,
    DeviceNotFoundError,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.sparse import Factor, analyze, cholesky, numeric, schedule


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("share", [None, 0.6, 0.25])
@pytest.mark.parametrize("is_cut", [False, True])
def test_what_a_factor_holds(
    engine: Engine, dtype: str, share: float | None, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_cut:  # CPUs: small trees would have no fronts above their subtrees
        monkeypatch.setattr(schedule, "_LAUNCH_FLOPS", 0.0)
    A = grid(31, 30).astype(dtype)
    symbolic = analyze(A, "amd")
    whole = Factor(symbolic, dtype, engine).stats.factor_bytes
    limit = None if share is None else int(share * whole)
    allocated: list[int] = []
    original = Engine.allocate
    monkeypatch.setattr(
        Engine, "allocate", lambda self, size: allocated.append(size) or original(self, size)
    )
    factor = Factor(symbolic, dtype, engine, memory_limit=limit).refactorize(A)
    estimate = symbolic.memory_estimate(dtype, engine, limit)
    [result] = estimate.devices
    assert result.device == engine.target.facts.name
    assert result.fits
    assert result.available == engine.target.facts.global_mem_size
    assert result.total == sum(
        (result.panels, result.updates, result.scratch, result.tables, result.values)
    )
    if limit is None:
        assert result.panels == whole
    else:
        assert result.panels <= limit
        rooms, last = allocated[:-1], allocated[-1]
        assert result.panels == max(sum(rooms), last)
    stats = factor.stats
    status_bytes = 16 * stats.fronts
    smallest = result.updates + result.scratch + status_bytes
    assert smallest <= stats.workspace_bytes <= 1.05 * smallest + 2**16  # kernels of dense matrices
    retained = result.tables - status_bytes
    assert retained <= stats.table_bytes <= 1.1 * retained + 2**16  # tables of launches
    assert result.values == symbolic.pattern.nnz * np.dtype(dtype).itemsize
    plain = symbolic.memory_estimate(dtype)
    assert plain == replace(estimate, devices=())


@pytest.mark.parametrize("share", [None, 0.5])
def test_plans_of_solves_are_dropped(engine: Engine, share: float | None, tmp_path: Any) -> None:
    A = grid(13, 12).astype(np.float32)
    symbolic = analyze(A, "amd")
    whole = Factor(symbolic, np.float32, engine).stats.factor_bytes
    limit = None if share is None else int(share * whole)
    factor = Factor(symbolic, np.float32, engine, memory_limit=limit, spill_dir=tmp_path)
    factor.refactorize(A)
    gc.collect()
    rng, max_plans, before = np.random.default_rng(1), 0, permutations()
    for count in (*range(1, 26), 1, 20):
        b = rng.standard_normal((A.shape[0], count)).astype(np.float32)
        x = factor.solve(b, refine=1)
        scale = abs(A).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max()
        assert np.abs(A @ x - b).max() <= 120 * np.finfo(np.float32).eps * scale
        max_plans = max(max_plans, permutations() - before)
    assert 2 <= max_plans <= 2 * 16  # two for each number of columns


def test_plans_of_solves_with_other_strides_are_dropped(engine: Engine) -> None:
    A = grid(13, 12).astype(np.float32)
    factor = Factor(analyze(A, "amd"), np.float32, engine).refactorize(A)
    gc.collect()
    rng, largest, before = np.random.default_rng(2), 0, permutations()
    for width in range(3, 50):
        b = rng.standard_normal((A.shape[0], width)).astype(np.float32)[:, 1:3]
        x = factor.solve(on_device(engine, b)).get()
        scale = abs(A).sum(axis=1).max() * np.abs(x).max() + np.abs(b).max()
        assert np.abs(A @ x - b).max() <= 120 * np.finfo(np.float32).eps * scale
        largest = max(largest, permutations() - before)
    assert 2 < largest <= 40  # of 48 with one for the result


def permutations() -> int:
    """Return the number of plans of permutations of right-hand sides."""
    return len([x for x in gc.get_objects() if isinstance(x, Launch) and x._source[1] == "permute"])


def test_several_devices(engine: Engine) -> None:
    symbolic = analyze(grid(9, 8))
    name = engine.target.facts.name
    for devices in ([engine, engine.device, name], engine.device, name):
        result = symbolic.memory_estimate("float32", devices).devices
        assert len(result) == (3 if isinstance(devices, list) else 1)
        assert len(set(result)) == 1 or engine.target.facts.type == "cpu"  # a class may be forced
    assert symbolic.memory_estimate().devices == ()
    for wrong, error in (
        (3, ArgumentTypeError),
        ([3], ArgumentTypeError),
        ("no such", DeviceNotFoundError),
    ):
        with pytest.raises(error):
            symbolic.memory_estimate(devices=wrong)


@pytest.mark.parametrize("change", [{"available": 7000}, {"largest_available": 5000}])
def test_a_device_that_is_too_small(
    engine: Engine, change: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error has the figures, and nothing is allocated before it."""
    original = numeric.memory_on

    def small(*arguments: Any) -> Any:
        return replace(original(*arguments), **change)

    A = grid(20, 20).astype(np.float32)
    symbolic = analyze(A)
    [result] = symbolic.memory_estimate("float32", engine).devices
    monkeypatch.setattr(numeric, "memory_on", small)
    monkeypatch.setattr(Engine, "allocate", lambda *_: pytest.fail("it was not looked at before"))
    monkeypatch.setattr(Engine, "upload", lambda *_: pytest.fail("it was not looked at before"))
    message = f"takes {result.total} bytes of .*{result.panels} for L, {result.updates} for update"
    with pytest.raises(DeviceMemoryError, match=message):
        cholesky(A, symbolic=symbolic, engine=engine)
