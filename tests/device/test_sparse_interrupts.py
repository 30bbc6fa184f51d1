"""Factors whose calls are left by exceptions of signal handlers, or are made by several threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from interruptions import Interrupted, handler, interrupted, stop
from sparse_matrices import grid

import portable_gpu as pg
from portable_gpu.errors import ArgumentError
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor, FactorStack, analyze, out_of_core, spill
from portable_gpu.sparse.out_of_core import SpilledFactor
from portable_gpu.sparse.spill import Spill

ROOT = Path(__file__).parents[2]
A = grid(23, 21).astype(np.float32)
OTHER = 3 * A
B = np.random.default_rng(0).standard_normal((A.shape[0], 2)).astype(np.float32)
needs_timer = pytest.mark.skipif(
    not hasattr(signal, "setitimer"), reason="this system has no timer that raises a signal"
)
needs_list = pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="this system does not list a process's descriptors"
)


def spilled(engine: Engine, share: float = 0.3) -> Factor:
    """A factor most of which is on the disk."""
    symbolic = analyze(A, "amd")
    size = Factor(symbolic, np.float32, engine).stats.factor_bytes
    factor = Factor(symbolic, np.float32, engine, memory_limit=int(share * size))
    assert len(factor._numeric.schedule.chunks) > 2
    return factor.refactorize(A)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@needs_timer
def test_at_random_moments() -> None:
    """The tool for many interrupts, a few of them."""
    tool = ROOT / "tools" / "interrupt_stress.py"
    command = [sys.executable, str(tool), "--interrupts", "80", "--seconds", "10"]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  a third on the device: " in done.stdout


STEPS = [
    (Spill, "read"), (Spill, "write"), (SpilledFactor, "_copy"),
    (SpilledFactor, "_allocate_chunks"), (SpilledFactor, "_finish"),
    (out_of_core, "host_memory"), (spill, "_without_name"),
]  # fmt: skip


@needs_list
@pytest.mark.parametrize(("owner", "name"), STEPS, ids=[name for _, name in STEPS])
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
def test_at_every_step(
    engine: Engine, owner: Any, name: str, is_done: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor = spilled(engine)
    queue = factor.queue
    wants = [{"solve": factor.refactorize(m).solve(B), "inverse": factor.inv_diag()}
             for m in (OTHER, A)]  # fmt: skip
    before, original, turns = descriptors(), getattr(owner, name), [0]

    def step(*arguments: Any) -> Any:
        turns[0] -= 1
        if turns[0] == 0 and not is_done:
            raise Interrupted
        result = original(*arguments)
        if turns[0] == 0:
            raise Interrupted
        return result

    calls: list[tuple[Callable[[], Any], bool]] = [
        (lambda: factor.solve(B), False),
        (factor.inv_diag, False),
        (factor.logdet, False),
        (lambda: factor.refactorize(A), True),
        (lambda: factor.refactorize(A, progress=lambda *_: None), True),
    ]
    left = 0
    for call, replaces in calls:
        for turn in (1, 3):
            turns[0] = turn
            with monkeypatch.context() as patch:
                patch.setattr(owner, name, step)
                try:
                    call()
                except Interrupted:
                    left += 1
                    if replaces:
                        with pytest.raises(ArgumentError, match="interrupted"):
                            factor.solve(B)
                        factor.refactorize(A)
            np.testing.assert_array_equal(factor.solve(B), wants[1]["solve"])
            np.testing.assert_array_equal(factor.inv_diag(), wants[1]["inverse"])
            assert descriptors() == before
            assert not engine.state(queue).in_flight
    assert left
    np.testing.assert_array_equal(factor.refactorize(OTHER).solve(B), wants[0]["solve"])


@needs_timer
@needs_list
@pytest.mark.parametrize("has_names", [False, True])
def test_files_that_are_made(
    tmp_path: Path, has_names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a descriptor nor a name is left, wherever the exception comes."""
    if has_names:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    before, rng, left = descriptors(), np.random.default_rng(1), 0
    with handler(stop):
        for _ in range(400):
            left += interrupted(
                lambda: Spill(tmp_path, 1000, "f8").close(), rng.uniform(1e-6, 2e-4)
            )
    assert left > 10
    assert descriptors() == before
    assert not list(tmp_path.iterdir())
    values = np.arange(12) + 1j
    whole = Spill(tmp_path, 20, values.dtype)
    whole.write(7, values)
    result = np.zeros(5, values.dtype)
    whole.read(9, result)
    np.testing.assert_array_equal(result, values[2:7])
    assert not list(tmp_path.iterdir())
    whole.close()


def test_calls_in_the_midst_of_calls(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a signal handler makes them: right values, or a refusal; no deadlock, and no mixture."""
    factor = spilled(engine)
    x, inverse, local = factor.solve(B), factor.inv_diag(), Spill.read
    seen: list[int] = []

    def within(self: Spill, *arguments: Any) -> None:
        seen.append(0)
        if len(seen) < 12 and len(seen) % 2:
            np.testing.assert_array_equal(factor.solve(B), x)
            with pytest.raises(ArgumentError, match="in the midst"):
                factor.refactorize(OTHER)
        local(self, *arguments)
        if len(seen) < 12:
            np.testing.assert_array_equal(factor.solve(B), x)

    with monkeypatch.context() as patch:
        patch.setattr(Spill, "read", within)
        np.testing.assert_array_equal(factor.inv_diag(), inverse)
    assert len(seen) > 12

    for solver in (factor, Factor(factor.symbolic, np.float32, engine).refactorize(A)):

        def tell(done: float, total: float, solver: Factor = solver) -> None:
            with pytest.raises(ArgumentError, match="goes on"):
                solver.solve(B)
            with pytest.raises(ArgumentError, match="in the midst"):
                solver.refactorize(OTHER)

        np.testing.assert_array_equal(solver.refactorize(A, progress=tell).solve(B), x)

    def close(self: Spill, *arguments: Any) -> None:
        factor.close()
        local(self, *arguments)

    factor = spilled(engine)
    with monkeypatch.context() as patch:
        patch.setattr(Spill, "read", close)
        np.testing.assert_array_equal(factor.solve(B), x)
    with pytest.raises(ArgumentError, match="closed"):
        factor.solve(B)


def in_core(engine: Engine) -> Factor:
    return Factor(analyze(A, "amd"), np.float32, engine).refactorize(A)


def out_of_order(engine: Engine) -> Factor:
    kind = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    queue = cl.CommandQueue(engine.context, engine.device, kind)
    return Factor(analyze(A, "amd"), np.float32, engine, queue).refactorize(A)


@pytest.mark.parametrize("make", [in_core, out_of_order, spilled])
@pytest.mark.parametrize("on_device", [False, True])
def test_threads_while_another_factorises(
    engine: Engine, make: Callable[[Engine], Factor], on_device: bool
) -> None:
    """Each call sees the one factor or the other, whole: none fails, and none mixes them."""
    factor = make(engine)
    operator = factor.as_linear_operator()
    inputs: list[Any] = [m.data if on_device else m for m in (A, OTHER)]
    if on_device:
        inputs = [pg.asarray(data, queue=factor.queue) for data in inputs]
    right = pg.asarray(B, queue=factor.queue)
    calls: list[Callable[[], Any]] = [
        lambda: factor.solve(B),
        lambda: factor.solve(right).get(),
        lambda: factor.solve(B, refine=1),
        lambda: operator.matmat(B),
        factor.inv_diag,
        factor.logdet,
        lambda: factor.L().data,
        factor.check,
    ]
    expected: list[set[bytes]] = [set() for _ in calls]
    for values in inputs:
        factor.refactorize(values)
        for k, call in enumerate(calls):
            expected[k].add(np.asarray(call()).tobytes())
    wrong: list[Any] = []
    done = threading.Event()

    def work(first: int) -> None:
        for turn in range(16):
            k = (first + turn) % len(calls)
            try:
                if np.asarray(calls[k]()).tobytes() not in expected[k]:
                    wrong.append(k)
            except BaseException as error:
                wrong.append(error)
        done.set()

    threads = [threading.Thread(target=work, args=(k,)) for k in (0, 3, 5)]
    for thread in threads:
        thread.start()
    turn = 0
    while not done.is_set() or turn < 10:
        factor.refactorize(
            inputs[turn % 2]
        ).check()  # else the queue is filled faster than worked off
        turn += 1
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_of_a_stack(engine: Engine) -> None:
    small = grid(9, 8).astype(np.float32)
    values = np.stack([small.data, 2 * small.data])
    stack = FactorStack(analyze(small), 2, np.float32, engine)
    b = np.ones((2, 72), np.float32)
    expected = {stack.refactorize(v).solve(b).tobytes() for v in (values, 3 * values)}
    determinants = {stack.refactorize(v).logdet().tobytes() for v in (values, 3 * values)}
    wrong: list[Any] = []

    def work() -> None:
        try:
            for _ in range(40):
                if stack.solve(b).tobytes() not in expected:
                    wrong.append("solve")
                if stack.logdet().tobytes() not in determinants:
                    wrong.append("logdet")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(40):
        stack.refactorize(values * (1 + 2 * (turn % 2)))
    for thread in threads:
        thread.join()
    assert not wrong


def test_solutions_before_another_factorisation(engine: Engine) -> None:
    """On a queue without an order the new factor is made when solutions by the old one are done."""
    factor = out_of_order(engine)
    values = pg.asarray(OTHER.data, queue=factor.queue)
    x = factor.solve(B)
    gate = cl.UserEvent(engine.context)
    b = pg.asarray(B, queue=factor.queue)
    b.events.append(gate)
    late = factor.solve(b)
    factor.refactorize(values)
    factor.queue.flush()
    gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(late.get(), x)
    np.testing.assert_allclose(factor.solve(B), x / 3, rtol=1e-3, atol=1e-5)
