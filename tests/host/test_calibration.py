"""Calibrations: for what they hold, when they are dropped, and what an exception leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from recorded_devices import RECORDED

from portable_gpu.bench.calibration import Sample, corrections
from portable_gpu.errors import PortableGPUError, TuningFileError
from portable_gpu.ops.gemm.commands.cases import CONTESTED
from portable_gpu.ops.gemm.variants import fastest, variants
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.calibrated import calibrated, calibration_of, versions
from portable_gpu.targets import Target, detect
from portable_gpu.tuning import calibration, store
from portable_gpu.tuning.calibration import Calibration, calibrations, clear, exclusive
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.figures import origins
from portable_gpu.tuning.table import VARIABLE, TuningTable

TARGET = detect(RECORDED["H200"][0])
COSTS = replace(
    DeviceCosts.of("device", TARGET), launch=3e-6, starts={"direct": 1e-6}, factors={"direct": 1.5}
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "tuning.json"))
    return tmp_path / "calibration.json"


def measured(target: Target = TARGET, **changes: str) -> Calibration:
    fields = {
        "device": target.facts.name,
        "device_class": target.device_class,
        **versions(target),
        "date": "2026-11-27",
        "evidence": "a test",
    }
    return Calibration(**fields | changes, figures={"device": asdict(COSTS)})


def test_figures_of_a_calibration_are_used_and_named(path: Path) -> None:
    assert calibrated(TARGET) == TARGET
    assert origins(TARGET)["device"] == "inherited from class:nvidia"
    with exclusive():
        assert calibration.store(measured()) == path
    target = calibrated(TARGET)
    assert DeviceCosts.of("device", target) == COSTS
    assert DeviceCosts.of("device", TARGET) != COSTS
    assert origins(target)["device"] == "measured on this device, 2026-11-27"
    assert origins(target)["tiles"] == "inherited from any"
    assert path.stat().st_mode & 0o077 == 0


def test_another_device_or_class_does_not_take_them(path: Path) -> None:
    calibration.store(measured())
    for other in (
        replace(TARGET, facts=replace(TARGET.facts, name="NVIDIA B200")),
        replace(TARGET, device_class="generic"),
    ):
        assert calibrated(other) == other
        assert calibration_of(other) is None


@pytest.mark.parametrize("name", ["platform", "driver", "library", "texts"])
def test_an_upgrade_drops_a_calibration(path: Path, name: str) -> None:
    calibration.store(measured(**{name: "earlier"}))
    assert calibrated(TARGET) == TARGET
    found = calibration_of(TARGET)
    assert found is not None
    assert len(found[1]) == 1
    assert name in found[1][0]


def test_figures_of_another_version_are_dropped_in_silence(path: Path) -> None:
    """Also where that version had other figures, or figures with other fields."""
    with_others = replace(measured(library="earlier"), figures={"device": {"waking": 1.0}, "x": {}})
    other = replace(TARGET, facts=replace(TARGET.facts, name="NVIDIA B200"))
    calibration.store(with_others)
    calibration.store(measured(other))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = calibration_of(TARGET)
        assert found is not None
        assert "library" in found[1][0]
        assert calibrated(TARGET) == TARGET
        assert DeviceCosts.of("device", calibrated(other)) == COSTS
    assert clear(*with_others.key)
    assert list(calibrations()) == [measured(other).key]


def test_clear_removes_the_calibration_of_one_device(path: Path) -> None:
    other = replace(TARGET, facts=replace(TARGET.facts, name="NVIDIA B200"))
    assert not clear(*measured().key)
    calibration.store(measured())
    calibration.store(measured(other))
    assert clear(*measured().key)
    assert list(calibrations()) == [measured(other).key]
    assert calibrated(TARGET) == TARGET


def changed(path: Path, **values: object) -> None:
    calibration.store(measured())
    content = json.loads(path.read_text())
    content["calibrations"][0]["figures"]["device"].update(values)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "values",
    [
        {"launch": 0},
        {"launch": "1"},
        {"factors": {"direct": -1}},
        {"nonsense": 1},
        {"starts": 2},
        {"launch": {}},
    ],
)
def test_figures_that_estimates_cannot_use_are_ignored(path: Path, values: object) -> None:
    changed(path, **values)  # type: ignore[arg-type]
    with pytest.warns(UserWarning, match="calibration file .* ignored"):
        assert calibrated(TARGET) == TARGET


@pytest.mark.parametrize("text", ["", "[]", '{"format": 9}', '{"format": 1, "calibrations": [1]}'])
def test_a_damaged_file_is_ignored_and_replaced(path: Path, text: str) -> None:
    path.write_text(text)
    with pytest.warns(UserWarning, match="calibration file .* ignored"):
        assert calibrated(TARGET) == TARGET
    calibration.store(measured())
    assert DeviceCosts.of("device", calibrated(TARGET)) == COSTS


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX")
def test_a_file_that_others_may_write_is_not_read_and_not_replaced(path: Path) -> None:
    calibration.store(measured())
    path.chmod(0o666)
    before = path.read_bytes()
    with pytest.warns(UserWarning, match="may be written by other users"):
        assert calibrated(TARGET) == TARGET
    with pytest.raises(TuningFileError):
        calibration.store(measured())
    assert path.read_bytes() == before


def test_an_interrupt_while_it_is_stored_leaves_the_old_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration.store(measured(evidence="before"))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store.os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt), exclusive():
        calibration.store(measured(evidence="after"))
    monkeypatch.undo()
    monkeypatch.setenv(VARIABLE, str(path.with_name("tuning.json")))
    assert calibrations()[measured().key].evidence == "before"
    assert {file.name for file in path.parent.iterdir()} == {path.name, ".calibration.lock"}
    with exclusive():  # the lock is free again
        pass


def test_a_second_calibration_is_refused_until_the_first_ends_or_dies(path: Path) -> None:
    with exclusive(), pytest.raises(PortableGPUError, match="another calibration"), exclusive():
        pass
    text = (
        "from portable_gpu.tuning.calibration import exclusive\n"
        "with exclusive():\n    print('held', flush=True)\n    input()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", text], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == b"held"
        with pytest.raises(PortableGPUError, match="another calibration"), exclusive():
            pass
        process.kill()
        process.wait()
        with exclusive():
            pass


def test_a_folder_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "file" / "tuning.json"))
    with pytest.raises(PortableGPUError, match="file"), exclusive():
        pass


def samples(kind: str, start: float, factor: float, count: int) -> list[Sample]:
    rng = np.random.default_rng(count)
    estimates = 10 ** rng.uniform(-5.5, -3, count)
    noise = rng.uniform(0.97, 1.03, count)
    return [
        Sample(kind, float(e), 1, float((start + factor * e) * k) + 2e-6)
        for e, k in zip(estimates, noise, strict=True)
    ]


def test_corrections_are_those_that_the_times_were_made_with() -> None:
    outliers = [Sample("tiled", 1e-4, 1, 5e-3), Sample("tiled", 1e-5, 1, 1e-3)]
    passed = [*samples("tiled", 3e-6, 1.4, 60), *outliers, *samples("direct", -1e-6, 0.8, 60)]
    starts, factors = corrections(passed, launch=2e-6)
    assert factors["tiled"] == pytest.approx(1.4, rel=0.05)
    assert starts["tiled"] == pytest.approx(3e-6, rel=0.25)
    assert "direct" not in starts
    assert 0.6 < factors["direct"] < 0.9


def test_few_samples_change_an_estimate_little() -> None:
    assert corrections(samples("rare", 0.0, 3.0, 3), launch=2e-6) == ({}, {})
    _, factors = corrections(samples("few", 0.0, 2.0, 4), launch=2e-6)
    assert 1.0 < factors["few"] < 1.9


@pytest.mark.parametrize("seed", range(3))
def test_pruned_variants_are_not_the_best_by_corrected_estimates(seed: int) -> None:
    rng, table = Random(seed), TuningTable.shipped()
    drawn = CONTESTED.draw(rng, False)
    from portable_gpu.bench.cases import cases

    (case, *_) = cases("gemm", ["float16"], [drawn], False)
    problem = CONTESTED.problem(case)
    kinds = sorted({variant.kind for variant in variants(problem, TARGET, table)})
    for _ in range(8):
        costs = replace(
            COSTS,
            starts={kind: rng.uniform(0, 1e-5) for kind in kinds},
            factors={kind: rng.uniform(0.25, 4) for kind in kinds},
        )
        target = replace(TARGET, figures=(("device", json.dumps(asdict(costs)), "a test"),))
        of_all = best_of(variants(problem, target, table), target)
        assert best_of(fastest(problem, target, table), target).name == of_all.name
