"""``portable-gpu calibrate``: when it stores figures, and what info and explain say of them."""

from __future__ import annotations

import json
import signal
import time
from concurrent.futures import Future
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from portable_gpu.bench import builders as builders_module
from portable_gpu.bench import calibration as measuring
from portable_gpu.bench.builders import Builders
from portable_gpu.bench.calibration import Calibrated
from portable_gpu.bench.noise import Listener, Noise
from portable_gpu.bench.statistics import Statistic
from portable_gpu.cli import calibrate as command
from portable_gpu.cli import main
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError, DeviceMemoryError, PortableGPUError
from portable_gpu.ops.explain import explain
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuning.calibration import calibrations, exclusive
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import VARIABLE


@pytest.fixture(autouse=True)
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of calibrations for each test, on a machine that is not busy."""
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tuning.json"))
    busy(monkeypatch, 0.0)
    return tmp_path / "calibration.json"


def busy(monkeypatch: pytest.MonkeyPatch, cores: float) -> None:
    monkeypatch.setattr(Listener, "noise", lambda *_: Noise(1, cores, 0.0, True))


def costs_of(engine: Engine) -> DeviceCosts:
    return replace(DeviceCosts.of("device", engine.target), launch=1e-5, factors={"packed": 1.5})


def result_of(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, relative: float, held_back: int = 16
) -> None:
    result = Calibrated(costs_of(engine), relative, 8, held_back, 4, Statistic.of([1.0]))
    monkeypatch.setattr(command, "measure", lambda *_: result)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch, engine: Engine) -> None:
    result_of(monkeypatch, engine, 0.98)
    assert main(["calibrate"]) == 0


@pytest.mark.usefixtures("stored")
def test_accepted_figures_are_in_use_from_then_on(
    engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = Engine(engine.device, caller=False)
    assert DeviceCosts.of("device", opened.target) == costs_of(engine)
    assert main(["info"]) == 0
    assert "measured on this device" in " ".join(capsys.readouterr().out.split())
    explanation = explain("gemm", 64, 64, 64, engine=opened)
    assert explanation.figures["device"].startswith("measured on this device")
    assert "inherited from" in str(explanation)
    assert explain("gemm", 64, 64, 64, target="gcn").figures["device"] == "inherited from any"


@pytest.mark.usefixtures("stored")
def test_an_upgrade_makes_info_say_that_they_are_ignored(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = json.loads(path.read_text())
    content["calibrations"][0]["driver"] = "an earlier one"
    path.write_text(json.dumps(content))
    assert main(["info"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "is ignored, changed: the driver (was an earlier one" in text
    assert "measured on this device" not in text


@pytest.mark.usefixtures("stored")
def test_clear_removes_them(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--clear"]) == 0
    assert "Removed" in capsys.readouterr().out
    assert not calibrations()
    assert Engine(engine.device, caller=False).target.figures == ()


@pytest.mark.usefixtures("stored")
def test_slower_choices_or_too_few_are_not_stored(
    path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = path.read_bytes()
    for relative, held_back in ((1.01, 16), (0.98, 7)):
        result_of(monkeypatch, engine, relative, held_back)
        assert main(["calibrate"]) == 0
        assert "Nothing is stored" in capsys.readouterr().out
        assert path.read_bytes() == before


def test_a_busy_machine_stores_nothing(
    path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result_of(monkeypatch, engine, 0.98)
    busy(monkeypatch, 0.5)
    assert main(["calibrate", "--json", str(path.with_name("rows.json"))]) == 1
    assert "nothing is stored" in capsys.readouterr().err
    assert not path.exists()
    rows = json.loads(path.with_name("rows.json").read_text())["rows"]
    assert rows[0]["values"] == asdict(costs_of(engine))


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_what_ends_a_calibration_stores_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(command, "measure", fail)
    if error is KeyboardInterrupt:
        assert main(["calibrate"]) == 130
    else:
        with pytest.raises(error):
            main(["calibrate"])
    assert not path.exists()
    with exclusive():  # another calibration may run now
        assert main(["calibrate"]) == 1  # and there is no second one


def test_a_device_is_measured_and_its_choices_compared(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One product is fitted to, and one held back, which is too few."""
    monkeypatch.setattr(measuring, "_DRAWN", {("gemm", "float32"): (1, 1)})
    monkeypatch.setattr(measuring, "_SUM_BYTES", 1 << 22)
    opened = Engine(engine.device, caller=False)
    before = opened.target
    steps: list[str] = []
    with Builders(opened, None, processes=1) as builders:
        result = measuring.calibrate(opened, time.monotonic() + 300, builders, steps.append)
        with pytest.raises(PortableGPUError, match="budget is too short"):
            measuring.calibrate(opened, time.monotonic(), builders)
    assert opened.target == before
    assert (result.timed, result.held_back) == (1, 1)
    for value in (result.costs.launch, result.costs.multiply_adds, result.costs.bandwidth):
        assert value > 0
    assert 0.1 < result.relative < 10
    assert "enough for 1 cases" in result.refusal
    assert sum(step.startswith("gemm") for step in steps) == 4


def test_other_processes_leave_programs_in_the_cache(engine: Engine) -> None:
    """If one of them is killed, the others end and this process builds."""
    opened = Engine(engine.device, caller=False)
    hold = Specialization("hold", "__kernel void hold() {}", opened.target.options)
    first, second, third = (replace(hold, text=f"{hold.text}\n// {uuid4()}") for _ in range(3))
    wrong = replace(hold, text="no OpenCL")
    later = time.monotonic() + 300
    others = set(active_children())
    with Builders(opened, None, processes=1) as builders:
        assert builders.build({"a": [first, wrong], "b": [first]}, later) == ["a", "b"]
        programs = opened.programs.compiled["programs"]
        opened.programs.program(first)
        if opened.programs.keeps_binaries:
            assert opened.programs.compiled["programs"] == programs
        for process in set(active_children()) - others:
            process.kill()
        with pytest.warns(UserWarning, match="processes that build programs has failed"):
            assert builders.build({"c": [second]}, later) == ["c"]
        assert not set(active_children()) - others
        assert builders.build({"c": [second], "d": [third]}, time.monotonic()) == ["c"]


def test_programs_that_lack_memory_or_a_device_are_not_built(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a stub of the pool, whose calls run here; a process without a device causes a warning."""
    specs = {name: [Specialization(name, f"// {name}", ())] for name in ("a", "b", "c", "d")}
    errors = {
        "// b": DeviceMemoryError("none left"), "// c": OSError("disk"), "// d": BuildError("no"),
    }  # fmt: skip

    def program(spec: Specialization) -> None:
        if spec.text in errors:
            raise errors[spec.text]

    class Done(Future[bool]):
        def __init__(self, build: Any, spec: Specialization) -> None:
            super().__init__()
            try:
                self.set_result(build(spec))
            except Exception as error:
                self.set_exception(error)

    stub: Any = SimpleNamespace(programs=SimpleNamespace(program=program, keeps_binaries=False))
    later = time.monotonic() + 300
    monkeypatch.setattr(builders_module, "_workers", [])
    monkeypatch.setattr(builders_module, "settle", lambda: None)
    for opens in (True, False):
        pool: Any = SimpleNamespace(submit=Done, shutdown=lambda **_: None)
        with Builders(stub, None) as builders:
            monkeypatch.setattr(builders, "_pool", pool)
            if opens:
                builders_module._workers[:] = [(stub, builders._is_stopped)]
                assert builders.build(specs, later) == ["a", "d"]
            else:
                builders_module._workers.clear()
                builders_module._open("no such device", builders._is_stopped)
                with pytest.warns(UserWarning, match="has failed .*no such device.* builds alone"):
                    assert builders.build(specs, later) == ["a", "d"]
            assert (builders._pool is None) != opens


def test_no_process_can_start(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError("no more processes")

    programs = SimpleNamespace(program=lambda _: None, keeps_binaries=False)
    stub: Any = SimpleNamespace(programs=programs)
    with Builders(stub, None) as builders:
        pool: Any = SimpleNamespace(submit=refuse, shutdown=lambda **_: None)
        monkeypatch.setattr(builders, "_pool", pool)
        spec = Specialization("hold", "", ())
        with pytest.warns(UserWarning, match="no more processes"):
            assert builders.build({"a": [spec]}, time.monotonic() + 300) == ["a"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_is_queued_is_not_built_after_the_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, interrupted: bool
) -> None:
    """A pool cannot cancel what is in its queue, so its processes see that the time is over."""
    texts: list[Specialization] = []
    programs = SimpleNamespace(program=texts.append, keeps_binaries=False)
    stub: Any = SimpleNamespace(programs=programs)

    class Queued(Future[bool]):
        def __init__(self, build: Any, spec: Specialization) -> None:
            super().__init__()
            self._build = partial(build, spec)

        def cancel(self) -> bool:
            return False

        def exception(self, timeout: float | None = None) -> None:
            self.set_result(self._build())

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    spec = Specialization("hold", "__kernel void hold() {}", ())
    with Builders(stub, None) as builders:
        pool: Any = SimpleNamespace(submit=Queued, shutdown=lambda **_: None)
        monkeypatch.setattr(builders, "_pool", pool)
        monkeypatch.setattr(builders_module, "_workers", [(stub, builders._is_stopped)])
        if interrupted:
            monkeypatch.setattr(builders_module, "wait", interrupt)
            with pytest.raises(KeyboardInterrupt):
                builders.build({"a": [spec]}, time.monotonic() + 300)
            assert not builders_module._build(spec)
        else:
            assert builders.build({"a": [spec]}, time.monotonic()) == []
    assert texts == []
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
