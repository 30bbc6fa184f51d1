"""Many threads at once in fresh processes: no crash, no hang, no wrong bit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from portable_gpu.runtime.engine import Engine

TOOL = Path(__file__).resolve().parents[2] / "tools" / "thread_stress.py"
#: Some of the tool's: a program to build costs more than all its calls.
DENSE = ("sum", "columns", "std", "elementwise", "gemm", "fft", "cholesky")


@pytest.fixture(scope="module")
def bits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file for the results of the first run."""
    return tmp_path_factory.mktemp("threads") / "bits.json"


@pytest.mark.parametrize(
    ("options", "calls"),
    [  # a process that draws a sparse call compiles its loops for seconds
        (["--engines", "1"], [*DENSE, "sparse"]),
        (["--engines", "2", "--interrupts"], DENSE),
    ],
    ids=["one engine", "two engines, signals"],
)
def test_threads_in_fresh_processes(
    engine: Engine, bits: Path, options: list[str], calls: list[str]
) -> None:
    if Engine(engine.device).caller is None or engine.target.forced:
        pytest.skip("the time is spent on PoCL, whose calls run on two drivers")
    chosen = ["--calls", ",".join(calls), "--each", "3", "--turns", "2", "--bits", str(bits)]
    command = [sys.executable, str(TOOL), "--processes", "2", "--jobs", "2", *chosen, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
