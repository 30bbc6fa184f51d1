"""Implementations that pip has put into the environment are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portable_gpu.runtime import loader

VARIABLE = "OCL_ICD_VENDORS"
PLACEHOLDER = "/opt/placeholder/lib/libmade_up.so"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with a GPU's driver, and an environment with an implementation from a wheel."""
    system, wheel, library = (
        tmp_path / "system",
        tmp_path / "env/etc/OpenCL/vendors",
        tmp_path / "env/lib",
    )
    for folder in (system, wheel, library):
        folder.mkdir(parents=True)
    (system / "gpu.icd").write_text("libgpu.so.1\n")
    (wheel / "made_up.icd").write_text(PLACEHOLDER)
    (wheel / "left_out.icd").write_text("/opt/placeholder/lib/libleft_out.so")
    (library / "libmade_up.so").touch()
    monkeypatch.setattr(loader, "_SYSTEM", system)
    monkeypatch.setattr(loader, "_is_from_pip", lambda: True)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.delenv(VARIABLE, raising=False)
    return tmp_path


def listed() -> list[str] | None:
    """The files that the loader would read."""
    with loader._list_of_libraries():
        folder = os.environ.get(VARIABLE)
        return None if folder is None else loader._libraries(Path(folder))


def test_both_are_listed_for_the_moment(machine: Path) -> None:
    assert listed() == ["libgpu.so.1", str(machine / "env/lib/libmade_up.so")]
    assert VARIABLE not in os.environ


def test_what_the_user_set_stays(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(machine / "system"))
    assert listed() == ["libgpu.so.1"]
    assert os.environ[VARIABLE] == str(machine / "system")


def test_what_the_system_has_is_listed_once(machine: Path) -> None:
    (machine / "system" / "same.icd").write_text("/usr/lib/libmade_up.so")
    assert listed() is None  # the loader's own list will do


def test_another_loader_is_left_alone(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "_is_from_pip", lambda: False)
    assert listed() is None


def test_unreadable_files_are_left_out(machine: Path) -> None:
    (machine / "system" / "broken.icd").write_bytes(b"\xff\xfe")
    (machine / "system" / "folder.icd").mkdir()
    assert listed() == ["libgpu.so.1", str(machine / "env/lib/libmade_up.so")]


def test_a_signal_before_the_loader_has_read_the_list(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bool] = []

    def get_platforms() -> list[Any]:
        read.append(VARIABLE in os.environ)
        if len(read) == 1:
            raise KeyboardInterrupt
        return []

    monkeypatch.setattr(loader, "_is_listed", False)
    monkeypatch.setattr("pyopencl.get_platforms", get_platforms)
    with pytest.raises(KeyboardInterrupt):
        loader.platforms()
    assert loader.platforms() == loader.platforms() == []
    assert read == [True, True, False]


@pytest.mark.skipif(
    not (Path(sys.prefix) / "lib" / "libintelocl.so").exists(),
    reason="Intel's runtime is not installed (pip install '.[intel]')",
)
def test_the_extra_is_enough() -> None:
    code = "import portable_gpu as pg; print(*{d.platform for d in pg.devices()}, sep='\\n')"
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "Intel(R) OpenCL" in done.stdout.splitlines(), done.stderr
