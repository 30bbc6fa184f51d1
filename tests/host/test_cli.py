"""The command line, as far as it needs no device."""

import builtins
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import portable_gpu as pg
from portable_gpu.cli import main
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.targets import Target
from portable_gpu.version import __version__

ROOT = Path(__file__).resolve().parents[2]


def build_nothing(target: Target, dtype: Any) -> list[Specialization]:
    return [Specialization("family/one", f"// {dtype}\n", target.options)]


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portable_gpu.cli.render.CATALOGUE", {"one": build_nothing})


def test_render(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "one", "--target", "gcn", "--dtype", "float16"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("// family/one\n// -cl-std=")
    assert "-DDEVICE=GCN_DEVICE" in output
    assert "-DWAVEFRONT_SIZE=64" in output
    assert "// float16" in output


def test_render_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "--list"]) == 0
    assert capsys.readouterr().out == "one\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["render"], "no operation is named; there are: one"),
        (["render", "two"], "no operation 'two'; there are: one"),
        (["render", "one", "--target", "vax"], "target is 'vax'; known are"),
        (["render", "one", "--dtype", "float31"], "dtype 'float31' is not known; known are"),
    ],
)
def test_refusal_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def test_wrong_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", "--no-such-option"]) == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_without_its_packages_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "typer":
            raise ImportError("No module named 'typer'", name="typer")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert main(["info"]) == 1
    assert capsys.readouterr().err == (
        "error: portable-gpu needs the package typer: pip install '.[cli]' in a checkout of "
        "portable_gpu\n"
    )


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"portable-gpu {__version__}\n"


def test_without_arguments_it_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "explain" in capsys.readouterr().out


def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The help on a terminal of 100 columns, without the frames of its tables."""
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*words, "--help"]) == 0
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_help_of_a_benchmark_has_its_options_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from portable_gpu.cli.bench import KINDS

    for kind, command in KINDS.items():
        names = inspect.signature(command).parameters
        own = {"json" if name == "report" else name for name in names}
        help_ = shown(monkeypatch, capsys, "bench", kind)
        assert f"portable-gpu bench {kind} [OPTIONS]" in help_
        assert " ".join((command.__doc__ or "").split()) in help_
        assert own < set(re.findall(r" --([a-z]+) ", help_))
    operations = shown(monkeypatch, capsys, "bench")
    assert "--policy" in operations
    assert not {"--jobs", "--rows", "--ordering"} & set(operations.split())


def test_help_breaks_lines_where_the_terminal_ends(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    from portable_gpu.cli import unwrapped

    assert unwrapped("One.\n\n    Two\n    lines.\n    ") == "One.\n\nTwo lines."
    assert unwrapped(None) == ""


def test_explain_takes_the_sizes_of_bench(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = []
    for size in (["8x3200x4096/NT"], ["8", "3200", "4096", "--trans", "NT"]):
        assert main(["explain", "gemm", *size, "--target", "cpu"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert "(8 x 3200 by 3200 x 4096)" in outputs[0]
    assert main(["explain", "matmul", "7:8x9x10", "--target", "cpu"]) == 0
    assert "7 x (8 x 9 by 9 x 10)" in capsys.readouterr().out
    assert main(["explain", "sum", "2^12x100/0", "--target", "gcn"]) == 0
    assert "sum of 4096 x 100 float32 along axis 0" in capsys.readouterr().out
    assert main(["explain", "conv2d", "1x8x56x56x8x7x7/s2", "--target", "cpu", "--json"]) == 0
    estimates = json.loads(capsys.readouterr().out)["estimates"]
    options = {"stride": 2, "padding": 3}
    expected = pg.explain("conv2d", 1, 8, 56, 56, 8, 7, 7, target="cpu", **options)
    assert estimates == expected.estimates


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemm", "8x8x8/NT", "--trans", "NT"], "SIZE ends in /NT; leave that or"),
        (["gemm", "8x8x8", "--trans", "N"], "--trans is 'N'; gemm takes two of"),
        (["gemm", "8x8"], "gemm takes the sizes m, k and n"),
        (["gemm", "eight"], "SIZE has 'eight'; sizes are like"),
        (["sum", "8", "--target", "gcn", "--device", "0:0"], "--device and --target exclude"),
    ],
)
def test_explain_refuses(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("portable_gpu.cli.options.choose_device", lambda request: None)
    more = [] if "--target" in arguments else ["--target", "cpu"]
    assert main(["explain", *arguments, *more]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


@pytest.mark.divided
@pytest.mark.parametrize("words", [["render", "gemm"], ["render", "--list"]])
def test_a_reader_may_leave(words: list[str]) -> None:
    """As ``portable-gpu ... | head -n 1``, once the pipe is full."""
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, ROOT / "portable_gpu_command.py", *words],
        stdout=writer, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )  # fmt: skip
    os.close(writer)
    assert (process.returncode, process.stderr) == (141, "")
