"""Damaged files in PoCL's own cache: calls give the right result, and the process ends well."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError
from portable_gpu.runtime import pocl_entries
from portable_gpu.runtime.engine import Engine

_SUM = """
import numpy as np
import portable_gpu as pg
print(pg.sum(np.ones(1000, "f4")))
"""

DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: os.truncate(path, 100),
    "half": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "zeros at the end": lambda path: path.write_bytes(path.read_bytes()[:-3000] + bytes(3000)),
    "others": lambda path: path.write_bytes(b"\x5a" * 3000),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


def run(folder: Path, own: str, script: str = _SUM) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"POCL_CACHE_DIR": str(folder), "PORTABLE_GPU_CACHE": own}
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def intact(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """PoCL's cache and this library's, with the program of a sum."""
    if engine.target.facts.platform_name != "Portable Computing Language":
        pytest.skip("is of PoCL")
    folder = tmp_path_factory.mktemp("caches")
    (folder / "pocl").mkdir()
    assert run(folder / "pocl", str(folder / "own")).returncode == 0
    return folder


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("suffix", [".bc", ".so"])
def test_damage_is_found(name: str, suffix: str, intact: Path, tmp_path: Path) -> None:
    (file, *_) = intact.glob(f"pocl/*/*/**/*{suffix}")
    copy = tmp_path / file.name
    shutil.copy(file, copy)
    assert pocl_entries._is_intact(str(copy))
    DAMAGES[name](copy)
    assert not pocl_entries._is_intact(str(copy))


@pytest.mark.parametrize(
    ("name", "suffix", "own"),
    [("half", ".so", "on"), ("cut", ".bc", "off")],
)
def test_calls_go_on(name: str, suffix: str, own: str, intact: Path, tmp_path: Path) -> None:
    shutil.copytree(intact, tmp_path / "caches")
    damaged = list(tmp_path.glob(f"caches/pocl/*/*/**/*{suffix}"))
    assert damaged
    for file in damaged:
        DAMAGES[name](file)
    done = run(
        tmp_path / "caches" / "pocl", str(tmp_path / "caches" / "own") if own == "on" else "off"
    )
    assert (done.returncode, done.stdout) == (0, "1000.0\n"), done.stderr


_SUM_AND_TRANSFORM = """
import numpy as np
import portable_gpu as pg
print(pg.sum(np.ones(1000, "f4")), pg.fft.fft(np.ones(4, "c8"))[0].real)
"""


def test_bitcode_of_another_program_does_not_come_into_our_cache(
    intact: Path, tmp_path: Path
) -> None:
    """The files keep their structure, and the program has no kernel of the expected name."""
    pocl, own = tmp_path / "pocl", tmp_path / "own"
    pocl.mkdir()
    right = "1000.0 4.0\n"
    done = run(pocl, "off", _SUM_AND_TRANSFORM)
    assert (done.returncode, done.stdout) == (0, right), done.stderr
    files = sorted(pocl.glob("*/*/program.bc"))
    contents = [file.read_bytes() for file in files]
    assert len(set(contents)) > 1
    for file, content in zip(files, [*contents[1:], contents[0]], strict=True):
        file.write_bytes(content)
        for kernel in file.parent.glob("*/"):
            shutil.rmtree(kernel)
    for _ in range(2):  # the second process reads this library's cache
        done = run(pocl, str(own), _SUM_AND_TRANSFORM)
        assert (done.returncode, done.stdout) == (0, right), done.stderr


def test_a_kernel_that_is_not_there_is_an_error_with_a_hint(intact: Path, engine: Engine) -> None:
    text = "__kernel void there(__global int *out) { out[0] = 1; }"
    with pytest.raises(BuildError, match="PoCL's cache are damaged, delete its folder"):
        engine.programs.kernel(Specialization("no template", text, ()), "missing")
