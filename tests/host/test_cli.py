"""The command line, as far as it needs no device."""

import builtins
from typing import Any

import pytest

from portable_gpu.cli import main
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.targets import Target


def build_nothing(target: Target, dtype: Any) -> list[Specialization]:
    return [Specialization("family/one", f"// {dtype}\n", target.options)]


@pytest.fixture(autouse=True)
def _catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("portable_gpu.cli.render.catalogue", lambda: {"one": build_nothing})


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
        (["render", "one", "--target", "vax"], "device class 'vax' is not known; known are"),
        (["render", "one", "--dtype", "float31"], "dtype 'float31' is not known; known are"),
    ],
)
def test_refusal_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"portable-gpu: {message}")
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
        "portable-gpu needs the package typer: pip install 'portable_gpu[cli]'\n"
    )
