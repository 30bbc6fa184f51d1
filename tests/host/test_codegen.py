"""Rendering, its errors, and the key of a specialization."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from portable_gpu.codegen import source
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.errors import RenderError
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.targets import class_names, example_target

Template = Callable[[str], str]


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Template:
    """Write the text of a template into a folder of its own; gives its name."""
    (tmp_path / "family").mkdir()
    monkeypatch.setattr(source, "kernel_folder", lambda: tmp_path)
    monkeypatch.setattr(source, "_templates", source._Templates())

    def write(text: str) -> str:
        (tmp_path / "family" / "sample.cl.mako").write_text(text)
        return "family/sample"

    return write


def test_kernels_are_found() -> None:
    folder = source.kernel_folder()
    assert (folder / "common" / "prelude.cl.mako").is_file()
    for name in source.kernel_names():
        assert (folder / f"{name}.cl.mako").is_file()
        assert name.partition("/")[0] not in ("common", "subgroup", "group")


def test_render_squeezes_blank_lines(template: Template) -> None:
    name = template("a\n% for i in range(2):\n\n\n${i}   \n% endfor\n\n\nb\n")
    assert source.render(name) == "a\n\n0\n\n1\n\nb\n"


def test_undefined_name_is_an_error_with_its_line(template: Template) -> None:
    name = template("first\nsecond\n${tile_m}\nfourth\n")
    with pytest.raises(RenderError, match="tile_m") as caught:
        source.render(name)
    message = str(caught.value)
    assert name in message
    assert "    3  ${tile_m}" in message
    assert "    1  first" in message
    assert "    4  fourth" in message


def test_failing_expression_is_an_error_with_its_line(template: Template) -> None:
    name = template("first\n${1 // zero}\nthird\n")
    with pytest.raises(RenderError, match="ZeroDivisionError") as caught:
        source.render(name, zero=0)
    assert "    2  ${1 // zero}" in str(caught.value)


def test_syntax_error_is_an_error(template: Template) -> None:
    name = template("first\n% for i in range(3):\n${i}\n")
    with pytest.raises(RenderError, match=name):
        source.render(name)


def test_the_library_imports_what_templates_import() -> None:
    """An exception of a signal handler in the middle of an import leaves Python's lock locked."""
    texts = [path.read_text() for path in source.kernel_folder().rglob("*.mako")]
    named = {
        n
        for text in texts
        for n in re.findall(r"^\s*(?:from|import) (portable_gpu\S*)", text, re.M)
    }
    assert named
    code = f"import portable_gpu, sys; print({named} - set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_absent_template_is_an_error() -> None:
    with pytest.raises(RenderError, match="no/such"):
        source.render("no/such")


def test_rendering_goes_on_after_an_error(template: Template) -> None:
    name = template("${value}\n")
    with pytest.raises(RenderError):
        source.render(name)
    assert source.render(name, value=7) == "7\n"


def test_numbered() -> None:
    text = "\n".join("abcdefgh")
    assert source.numbered("x\ny") == "    1  x\n    2  y"
    assert source.numbered(text, around=4, context=1) == "    3  c\n    4  d\n    5  e"
    assert source.numbered(text, around=1, context=1) == "    1  a\n    2  b"


@pytest.mark.parametrize("device_class", class_names())
def test_specialize_hands_on_the_targets_options(template: Template, device_class: str) -> None:
    target = example_target(device_class)
    spec = specialize(template("${target.subgroup_size} ${tile}\n"), target, {}, tile=8)
    assert spec.text == f"{target.subgroup_size} 8\n"
    assert spec.options == target.options


def test_key_depends_on_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    base = Specialization("a/b", "text", ("-DX=1", "-DY=2"))
    others = [
        Specialization("a/c", "text", ("-DX=1", "-DY=2")),
        Specialization("a/b", "text ", ("-DX=1", "-DY=2")),
        Specialization("a/b", "text", ("-DX=1",)),
        Specialization("a/b", "text", ("-DY=2", "-DX=1")),
    ]
    keys = {spec.key for spec in [base, *others]}
    assert len(keys) == 5
    assert Specialization("a/b", "text", ("-DX=1", "-DY=2")).key == base.key
    monkeypatch.setattr("portable_gpu.codegen.specialization.__version__", "0.0.0")
    assert Specialization("a/b", "text", ("-DX=1", "-DY=2")).key not in keys


# -- templates that an earlier process has compiled


@pytest.fixture
def file_of_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a template in a folder of its own, and a store next to it."""
    folder = tmp_path / "kernels"
    (folder / "one").mkdir(parents=True)
    monkeypatch.setattr(source, "kernel_folder", lambda: folder)
    return folder / "one" / "it.cl.mako"


def compiled_by(file_of_template: Path, store: Any) -> str:
    """Render by a new process's templates."""
    with pytest.MonkeyPatch.context() as patch:
        templates = source._Templates()
        templates.store = store
        patch.setattr(source, "_templates", templates)
        return source.render("one/it", n=3)


def test_modules_of_templates_are_kept(
    file_of_template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed template, a truncated file and a forged one are compiled again."""
    store, parsed = (
        DiskCache(file_of_template.parents[2] / "store"),
        source._Templates._module_source,
    )
    compiled: list[str] = []

    def counted(self: Any, uri: str, path: Path, text: str) -> Any:
        compiled.append(uri)
        return parsed(self, uri, path, text)

    monkeypatch.setattr(source._Templates, "_module_source", counted)
    file_of_template.write_text("% for k in range(n):\nint x${k};\n% endfor\n")
    texts = [compiled_by(file_of_template, store) for _ in range(3)]
    assert texts == ["int x0;\nint x1;\nint x2;\n"] * 3
    assert len(compiled) == 1
    assert store.folder is not None
    (file,) = store.folder.iterdir()
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-1] + b"x", b""):
        file.write_bytes(damaged)
        assert compiled_by(file_of_template, store) == texts[0]
    assert len(compiled) == 4
    file_of_template.write_text("int y${n};\n")
    assert compiled_by(file_of_template, store) == "int y3;\n"
    assert len(compiled) == 5
    assert compiled_by(file_of_template, DiskCache(None)) == "int y3;\n"
    assert len(compiled) == 6
    for name, value in (
        ("_PYTHON", "other"),
        ("_OPTIONS", source._OPTIONS | {"strict_undefined": False}),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(source, name, value)
            assert compiled_by(file_of_template, store) == "int y3;\n"
    assert len(compiled) == 8


def test_a_template_that_changes_while_it_is_compiled(
    file_of_template: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The module that is kept for a text is a module of that text."""
    store, parsed = (
        DiskCache(file_of_template.parents[2] / "store"),
        source._Templates._module_source,
    )
    old = "int old${n};\n"

    def changing(self: Any, *arguments: Any) -> Any:
        file_of_template.write_text("int new${n};\n")
        return parsed(self, *arguments)

    file_of_template.write_text(old)
    with monkeypatch.context() as patch:
        patch.setattr(source._Templates, "_module_source", changing)
        assert compiled_by(file_of_template, store) == "int old3;\n"
    assert compiled_by(file_of_template, store) == "int new3;\n"
    file_of_template.write_text(old)
    assert compiled_by(file_of_template, store) == "int old3;\n"


def test_errors_of_kept_modules_name_the_line(file_of_template: Path) -> None:
    file_of_template.write_text("int a;\n\nint b = ${n.missing};\n")
    store, messages = DiskCache(file_of_template.parents[2] / "store"), []
    for _ in range(2):
        with pytest.raises(RenderError) as caught:
            compiled_by(file_of_template, store)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    assert "it.cl.mako:3" in messages[0]
