"""Every option with every kind of wrong value, readers that leave, and Ctrl-C at any moment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer.main

from portable_gpu.cli import _application, main

ROOT = Path(__file__).resolve().parents[2]

#: Wrong values of every option that takes one, by command where it differs.
WRONG = {
    "--axis": ["5", "x"],
    "--budget": ["", "-1", "0s", "soon"],
    "--class": ["vax"],
    "--device": ["no such device", "99:99"],
    "--dtype": ["nope", "", "float31"],
    "--jobs": ["0", "-1", "x"],
    "--json": ["/no/such/folder/x.json", "."],
    "--memory-limit": ["nope", "", "-1", "1.5.5GB", "1TB"],
    "--ordering": ["nope", ""],
    "--output": ["/no/such/folder/x.mtx", "."],
    "--peers": ["nope", "numpy,,"],
    "--picture": ["/no/such/folder/x.png", ".", "x.nope"],
    "--plot": ["/no/such/folder/x.png", ".", "x.nope", "x"],
    "--policy": ["nope=1", "unroll", "unroll=nope", "=3"],
    "--precision": ["nope", ""],
    "--refine": ["nope", "-1", "1.5"],
    "--rows": ["nope", ""],
    "--seed": ["x"],
    "--shapes": ["0x0x0", "nope", "4x", "-3"],
    "bench dispatch --shapes": ["0", "-1", "x"],
    "bench hunt --shapes": ["0", "-1", "x"],
    "--sizes": ["0x0x0", "nope", "", "4x4", "-3"],
    "--spill-dir": ["/no/such/folder", "README.md"],
    "--target": ["nope"],
    "--threads": ["nope", ""],
    "--trans": ["X", "NX"],
    "--triangle": ["nope", ""],
    "--turns": ["0", "x", "-5"],
}
#: What else a command needs.
NEEDS = {
    "explain": ["gemm", "8x8x8"],
    "render": ["gemm"],
    "bench operations": ["gemm"],
    "tune": ["gemm"],
    "solve": ["a.mtx"],
    "explain --axis": ["sum", "8x8"],
}


def wrong_values() -> list[list[str]]:
    result = []
    commands = dict(typer.main.get_command(_application()).commands)  # type: ignore[attr-defined]
    kinds = commands.pop("bench").commands
    commands |= {f"bench {kind}": command for kind, command in kinds.items()}
    for name, command in commands.items():
        for parameter in command.params:
            option = max(parameter.opts, key=len)
            if option.startswith("--") and not parameter.is_flag and option != "--help":
                key = f"{name} {option}"
                needs = NEEDS.get(key, NEEDS.get(name, []))
                for value in WRONG[key] if key in WRONG else WRONG[option]:
                    result.append([*name.split(), *needs, option, value])
    return result


@pytest.mark.parametrize("words", wrong_values(), ids=" ".join)
def test_a_wrong_value_is_refused_before_the_work(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(*_: object) -> None:
        raise AssertionError("the work has begun")

    for name in (
        "bench.measure_roofs", "bench._run", "check_isa.check", "dispatch._run", "hunt._run",
        "multi.MultiBench", "selftest._run", "solve._rows_of", "sparse._run", "transfer.transfers",
        "tune._run",
    ):  # fmt: skip
        monkeypatch.setattr(f"portable_gpu.cli.{name}", work)
    monkeypatch.setattr("portable_gpu.cli.digits.Digits.load", work)
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1


def process_of(words: list[str], folder: Path, **options: object) -> subprocess.Popen[str]:
    """The command, in a group of processes and with caches of its own."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
        "PORTABLE_GPU_CACHE": "off",
        "POCL_CACHE_DIR": str(folder),
    }
    command = [sys.executable, str(ROOT / "portable_gpu_command.py"), *words]
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        command, env=environment, text=True, stderr=subprocess.PIPE, start_new_session=True,
        **options,
    )  # fmt: skip


def test_the_reader_of_info_may_leave(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = process_of(["info", "--json"], tmp_path, stdout=writer)
    os.close(writer)
    assert process.communicate()[1] == ""
    assert process.returncode == 141


@pytest.mark.skipif(not hasattr(signal, "sigwait"), reason="signals of POSIX")
@pytest.mark.parametrize("seconds", [0.15, 0.4, 0.9, 2.2])
def test_interrupted_at_any_moment(seconds: float, tmp_path: Path) -> None:
    """To all processes of the group, as a terminal sends it: to PoCL's linker too."""
    caches, report = tmp_path / "caches", tmp_path / "report.json"
    words = ["bench", "sum", "--peers", "none", "--json", str(report)]
    process = process_of(words, caches, stdout=subprocess.DEVNULL)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors
    if report.exists():
        json.loads(report.read_text())
    assert {path.name for path in tmp_path.iterdir()} <= {"caches", "report.json"}


@pytest.mark.parametrize("words", ["info", "explain gemm 300x300x300", "selftest dot"])
def test_text_fits_80_columns(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(words.split()) == 0
    output = capsys.readouterr().out
    assert all(len(line) <= 80 for line in output.splitlines()), output
    assert "…" not in output
