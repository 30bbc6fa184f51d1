"""If folders cannot be written, or there is no home, there is one warning, and calls work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import portable_gpu as pg
from portable_gpu.errors import DeviceNotFoundError
from portable_gpu.runtime import devices
from portable_gpu.runtime.pocl_cache import cache_variable

pytestmark = pytest.mark.divided("folders that cannot be written")
_NOBODY = 54321  # no entry in the password database
_SUM = """
import os, sys
import numpy as np
import portable_gpu as pg
import pyopencl as cl

assert pg.sum(np.ones(1000, np.float32)) == 1000
assert pg.sum(np.ones((40, 50), np.float32), axis=0).sum() == 2000
print(os.environ.get("POCL_CACHE_DIR"), pg.default_engine().device.platform.name)
"""


def as_nobody() -> list[str]:
    """The start of a command line whose process may read everything, and write what is its own."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("root can write everywhere, and there is no setpriv to be somebody else")
    caps = "+dac_read_search"  # the interpreter may be in root's home
    prefix = [
        "setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups",
        f"--inh-caps={caps}", f"--ambient-caps={caps}",
    ]  # fmt: skip
    if subprocess.run([*prefix, "true"], capture_output=True).returncode:
        pytest.skip("setpriv may not change the user here")
    # access(), by which PoCL looks for its files, knows nothing of such rights.
    code = f"import os, sys; sys.exit(not os.access({pg.__file__!r}, os.R_OK))"
    if subprocess.run([*prefix, sys.executable, "-c", code], capture_output=True).returncode:
        pytest.skip(f"another user may not look into {Path(pg.__file__).parent}")
    return prefix


def run(folder: Path, prefix: list[str], **changes: str | None) -> tuple[str, list[str]]:
    """The output of a sum, and its warnings, with variables changed (``None``: not set)."""
    without = {"PORTABLE_GPU_CACHE", "PORTABLE_GPU_TUNING", "POCL_CACHE_DIR", "XDG_CACHE_HOME"}
    names = {**dict.fromkeys(without), **changes}
    environment = {k: v for k, v in os.environ.items() if k not in names}
    environment |= {k: v for k, v in names.items() if v is not None}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(pg.__file__).parents[1]), *sys.path])
    done = subprocess.run(
        [*prefix, sys.executable, "-B", "-W", "always", "-c", _SUM],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout, [line for line in done.stderr.splitlines() if "Warning:" in line]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may look into; pytest's own belong to one user."""
    with tempfile.TemporaryDirectory(prefix="portable_gpu-tests-") as name:
        place = Path(name)
        place.chmod(0o755)
        yield place


@pytest.fixture
def closed(place: Path) -> Path:
    """A folder that may be read, and not written."""
    folder = place / "home"
    folder.mkdir(mode=0o555)
    return folder


def test_home_that_cannot_be_written(closed: Path) -> None:
    _, warnings = run(closed, as_nobody(), HOME=str(closed))
    assert len(warnings) == 1
    assert "compiled programs are not kept" in warnings[0]


def test_no_home_and_no_entry_in_the_password_database(closed: Path) -> None:
    prefix = as_nobody()
    if not prefix:
        pytest.skip("only root can be a user without an entry")
    _, warnings = run(closed, prefix, HOME=None)
    assert len(warnings) == 1
    assert "no home folder" in warnings[0]


def test_temporary_folder_that_cannot_be_written(closed: Path, place: Path) -> None:
    folder = place / "own"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, _NOBODY, _NOBODY)
    _, warnings = run(closed, as_nobody(), HOME=str(folder), TMPDIR=str(closed))
    assert not warnings
    assert list((folder / ".cache" / "portable_gpu" / "programs").iterdir())
    assert (folder / ".cache" / "portable_gpu" / "programs").stat().st_mode & 0o777 == 0o700


def test_private_folders_go_when_the_process_ends(closed: Path, place: Path) -> None:
    temporary = place / "temporary"
    temporary.mkdir()
    temporary.chmod(0o777)
    run(closed, as_nobody(), HOME=str(closed), TMPDIR=str(temporary))
    assert not list(temporary.iterdir())


def test_no_writable_place_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {device.platform.name for _, device in devices._enumerate()}
    if names != {"Portable Computing Language"}:
        pytest.skip("PoCL is not the only platform")
    cache_variable.cache_clear()
    monkeypatch.setattr("portable_gpu.runtime.pocl_cache._own_folder", lambda: None)
    monkeypatch.setattr("portable_gpu.folders.temporary_folder", lambda: None)
    try:
        with (
            pytest.warns(UserWarning, match="POCL_CACHE_DIR=FOLDER"),
            pytest.raises(DeviceNotFoundError, match="Portable Computing Language"),
        ):
            devices.choose_device()
    finally:
        cache_variable.cache_clear()
