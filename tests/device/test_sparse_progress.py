"""Progress reports of a factorisation, and the bar on a terminal."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from sparse_matrices import grid

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentTypeError,
    NotPositiveDefiniteError,
    UnsupportedError,
)
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, FactorStack, analyze, cholesky, schedule


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("limit", [None, 0.5])
@pytest.mark.parametrize("is_cut", [False, True])
def test_what_is_told(
    engine: Engine, dtype: str, limit: float | None, is_cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_cut:  # CPUs: small trees would have no fronts above their subtrees
        monkeypatch.setattr(schedule, "_LAUNCH_FLOPS", 0.0)
    A = grid(19, 17, 2).astype(dtype)
    symbolic = analyze(A, "amd")
    whole = Factor(symbolic, dtype, engine).refactorize(A)
    limit = None if limit is None else int(limit * whole.stats.factor_bytes)
    factor = Factor(symbolic, dtype, engine, memory_limit=limit)
    result: list[tuple[float, float]] = []
    assert factor.refactorize(A, progress=lambda *told: result.append(told)) is factor
    done, total = np.array(result).T
    assert (total == total[0]).all()
    assert done[0] == 0
    assert (np.diff(done) > 0).all()
    assert done[-1] == total[0]
    times = 4 if dtype == "complex64" else 1
    fronts = symbolic.fronts
    ends = fronts.columns + fronts.rows
    counts = [np.arange(m - c + 1, m + 1) for c, m in zip(fronts.columns, ends, strict=True)]
    squares = times * float((np.concatenate(counts) ** 2.0).sum())
    assert 0.8 * squares <= total[0] <= 1.1 * squares  # plans of large fronts leave roots out
    np.testing.assert_array_equal(factor.L().data, whole.L().data)


def test_memory_of_what_fronts_tell_outlives_the_last_step(engine: Engine) -> None:
    """The last step has no operations, and reads it: without a wait, one call in 20 had garbage."""
    A = grid(60, 60).astype(np.float32)
    factor = Factor(analyze(A), np.float32, engine)
    for _ in range(100):
        factor.refactorize(A, progress=lambda *_: None)


def test_steps_are_told_when_they_are_done(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more than what the queue has done: it is blocked here until the test releases it."""
    A = grid(9, 8).astype(np.float32)
    gate = cl.UserEvent(engine.context)
    factor = Factor(analyze(A), np.float32, engine)
    values = pg.asarray(A.data, engine=engine)
    values.events.append(gate)
    result: list[float] = []

    def tell(done: float, total: float) -> None:
        result.append(done)

    seen: list[list[float]] = []

    def sleep(_: float) -> None:
        if not seen:
            gate.set_status(cl.command_execution_status.COMPLETE)
        seen.append(result.copy())

    with monkeypatch.context() as patch:
        patch.setattr("portable_gpu.sparse.progress.time", SimpleNamespace(sleep=sleep))
        factor.refactorize(values, progress=tell)
    assert seen[0] == [0]
    assert result[-1] > 0


def test_whoever_is_told_may_raise(engine: Engine) -> None:
    A = grid(9, 8).astype(np.float32)
    factor = cholesky(A, engine=engine)
    b = np.ones(72, np.float32)
    x = factor.solve(b)

    def stop(done: float, total: float) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        factor.refactorize(A, progress=stop)
    np.testing.assert_array_equal(factor.refactorize(A).solve(b), x)
    broken = A.copy()
    broken[17, 17] = -1
    reported: list[float] = []
    with pytest.raises(NotPositiveDefiniteError) as info:
        factor.refactorize(broken, progress=lambda done, total: reported.append(done / total))
    assert info.value.variable == 17
    assert reported[-1] == 1


def test_a_stack_and_nothing(engine: Engine) -> None:
    A = grid(5, 4).astype(np.float32)
    reported: list[float] = []
    stack = FactorStack(analyze(A), 3, np.float32, engine)
    values = np.stack([A.data] * 3)
    stack.refactorize(values, progress=lambda done, total: reported.append(done / total))
    assert reported[-1] == 1
    empty = grid(3)[:0, :0].astype(np.float32)
    cholesky(empty, engine=engine, progress=lambda *found: reported.append(found))
    assert reported[-1] == (0, 0)


def test_a_bar_on_a_terminal(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich")
    A = grid(9, 8).astype(np.float32)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for stream, progress, is_shown in (
        (Terminal(), True, True), (io.StringIO(), True, False), (Terminal(), False, False),
        (Terminal(), None, False),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", stream)
            cholesky(A, engine=engine, progress=progress)
        assert ("factorisation" in stream.getvalue() and "flop" in stream.getvalue()) == is_shown
        assert bool(stream.getvalue()) == is_shown


def test_without_rich(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich.console", None)
    A = grid(9, 8).astype(np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Terminal())
        with pytest.raises(UnsupportedError, match=r"package rich: pip install .*\[cli\]"):
            cholesky(A, engine=engine, progress=True)
    cholesky(A, engine=engine, progress=True)  # there is no display


@pytest.mark.parametrize("progress", [3, "yes", np.ones(3)])
def test_what_is_refused(engine: Engine, progress: Any) -> None:
    factor = Factor(analyze(grid(3)), np.float32, engine)
    with pytest.raises(ArgumentTypeError, match="progress is"):
        factor.refactorize(grid(3), progress=progress)
