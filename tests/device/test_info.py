"""``portable-gpu info`` on this machine's device."""

import json

import pytest

from portable_gpu.cli import main
from portable_gpu.runtime.engine import Engine


def test_json(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["chosen"]["target"]["device_class"] == engine.target.device_class
    assert result["chosen"]["reason"]
    chosen = [d for d in result["devices"] if d["index"] == result["chosen"]["index"]]
    assert [device["name"] for device in chosen] == [engine.target.facts.name]
    for device in result["devices"]:
        assert {"subgroup_size", "exchange", "fp64", "fp16"} <= set(device["target"]["facts"])


def test_text(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    output = capsys.readouterr().out
    assert engine.target.facts.name in output
    assert "exchange" in output
    assert f"as {engine.target.device_class}." in output


def test_absent_device_lists_what_there_is(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORTABLE_GPU_DEVICE", "no such device")
    assert main(["info"]) == 1
    output = capsys.readouterr().out
    assert "PORTABLE_GPU_DEVICE=no such device matches no OpenCL device" in output
    assert engine.target.facts.name in output


@pytest.mark.parametrize("forced", ["nvidia-sm90", "no-such-class"])
def test_impossible_class_is_explained(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, capsys: pytest.CaptureFixture[str], forced: str
) -> None:
    if engine.target.facts.vendor_id == 0x10DE and forced == "nvidia-sm90":
        pytest.skip("possible here")
    monkeypatch.setenv("PORTABLE_GPU_DEVICE_CLASS", forced)
    assert main(["info"]) == 1
    assert f"PORTABLE_GPU_DEVICE_CLASS is '{forced}'" in capsys.readouterr().out


def test_devices_that_form_no_group_are_explained(
    monkeypatch: pytest.MonkeyPatch, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    name = engine.target.facts.name
    monkeypatch.setenv("PORTABLE_GPU_DEVICE", f"{name},{name}")
    assert main(["info"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert f"opens none: devices has {name} twice" in output
