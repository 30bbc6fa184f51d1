"""The check of lane exchange before its first use: what passes, what fails, and what follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from sampling import compile_fast

import portable_gpu as pg
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.runtime import engine as engine_module
from portable_gpu.runtime import exchange, program
from portable_gpu.runtime.disk_cache import CACHE_VARIABLE, DiskCache
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import DeviceFacts, Target, detect

X = np.arange(5000, dtype=np.float32) % 13


@pytest.fixture(autouse=True)
def nothing_known(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict from earlier, and none left behind; engines that compile fast."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    compile_fast(monkeypatch, engine)
    monkeypatch.setattr(program, "_verdicts", {})


def trusting(facts: DeviceFacts, *_asked: str | None) -> Target:
    """A wavefront of 64 in lock-step, whatever the device is."""
    return replace(detect(facts, "gcn"), lockstep=True)


def wrong(name: str, target: Target, kernels: Any, **context: Any) -> Specialization:
    """The check, with a sum that is a difference."""
    spec = real(name, target, kernels, **context)
    return replace(spec, text=spec.text.replace("a.wide += b.wide", "a.wide -= b.wide"))


real = exchange.specialize


@pytest.mark.path
def test_mechanisms_with_barriers_pass(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts: list[str] = []

    class Watched(program.ProgramCache):
        def remembered(self, spec: Specialization, find_out: Any) -> str:
            verdicts.append(find_out())
            return verdicts[-1]

    programs = Watched(engine.context, engine.device, DiskCache(None))
    for name in ("gcn", "nvidia-sm20", "rdna"):
        target = detect(engine.target.facts, name)
        assert (
            exchange.with_checked_exchange(target, engine.context, engine.device, programs)
            is target
        )
        assert not verdicts, "barriers need no check"
        with_check = replace(target, exchange="wavefront_dpp")  # same text: options decide
        monkeypatch.setattr(exchange, "specialize", lambda n, t, k, **c: real(n, target, k, **c))  # noqa: B023
        assert (
            exchange.with_checked_exchange(with_check, engine.context, engine.device, programs)
            is with_check
        )
        assert verdicts == [""]
        verdicts.clear()


def test_the_devices_own_mechanism_passes(engine: Engine) -> None:
    new_engine = Engine(engine.device, caller=False)
    assert new_engine.target.exchange == engine.target.exchange
    assert pg.sum(X, engine=new_engine) == X.sum()


@pytest.mark.path
def test_falls_back_says_so_once_and_remembers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "detect", trusting)
    monkeypatch.setattr(exchange, "specialize", wrong)
    with pytest.warns(UserWarning, match="wavefront_lds failed its check: 64-bit sums over 2"):
        first = Engine(engine.device, caller=False)
    target = first.target
    assert target.device_class == "generic"
    assert not target.lockstep
    assert "failed its check" in target.provenance["exchange"].why
    assert target.facts == engine.target.facts
    assert pg.sum(X, engine=first) == X.sum()
    assert pg.argmax(X, engine=first) == X.argmax()

    monkeypatch.setattr(program, "_verdicts", {})  # as a later process

    def never(*_arguments: Any) -> str:
        raise AssertionError("the verdict is on disk")

    monkeypatch.setattr(exchange, "_trouble", never)
    with pytest.warns(UserWarning, match="failed its check"):
        assert Engine(engine.device, caller=False).target == target


def test_a_check_that_does_not_build_counts_as_failed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "detect", trusting)
    monkeypatch.setattr(
        exchange, "specialize", lambda n, t, k, **c: replace(real(n, t, k, **c), text="not OpenCL")
    )
    with pytest.warns(UserWarning, match=r"failed its check: kernel .* failed to build"):
        assert pg.sum(X, engine=Engine(engine.device, caller=False)) == X.sum()


def test_what_could_not_be_run_is_not_remembered(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "detect", trusting)

    def no_memory(*_arguments: Any) -> str:
        raise cl.MemoryError("out of memory")

    with monkeypatch.context() as short:
        short.setattr(exchange, "_trouble", no_memory)
        with pytest.warns(UserWarning, match="failed its check: out of memory"):
            Engine(engine.device, caller=False)
    monkeypatch.setattr(exchange, "_trouble", lambda *_arguments: "")
    assert Engine(engine.device, caller=False).target.device_class == "gcn"


def test_the_callers_queue_is_left_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, gate = cl.CommandQueue(engine.context), cl.UserEvent(engine.context)
    cl.enqueue_marker(queue, wait_for=[gate])
    monkeypatch.setattr(engine_module, "detect", trusting)
    monkeypatch.setattr(exchange, "specialize", wrong)
    with pytest.warns(UserWarning, match="failed its check"):
        Engine(queue=queue)
    gate.set_status(cl.command_execution_status.COMPLETE)
