"""The documentation: its HTML, its links, and the index of names."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "portable_gpu"
REFERENCE = re.compile(r":(?:attr|class|data|func|meth|mod):`[~.]*([\w.]+)`")
#: Libraries whose names docstrings refer to.
OTHERS = ("dask", "numpy", "time", "warnings")


@pytest.mark.divided("types, pages and texts")
def test_pages(tmp_path: Path) -> None:
    pytest.importorskip("pdoc", reason="pdoc (extra docs) is not installed")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, ROOT / "tools" / "build_docs.py", tmp_path]
    subprocess.run(command, env=environment, check=True, cwd=tmp_path, capture_output=True)
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert start.index("Try it") < start.index("A short tour") < start.index("Documentation")
    assert '<span class="kn">import</span>' in start  # coloured
    assert ".pdoc-code .kn {" in start
    assert "white-space: pre-wrap" in start
    functions = (tmp_path / "portable_gpu.html").read_text(encoding="utf-8")
    places = [functions.index(f'id="{name}"') for name in ("gemm", "sum", "BinaryOp", "Engine")]
    assert places == sorted(places)
    assert 'id="Engine.queue"' in functions
    for internal in ("Engine.programs", "Engine.state", "Engine.plan", "__version__"):
        assert f'id="{internal}"' not in functions
    for name in ("linalg", "linalg/packed", "fft", "nn", "signal", "sparse"):
        assert (tmp_path / "portable_gpu" / f"{name}.html").exists()
    experiments = (tmp_path / "experiments.html").read_text(encoding="utf-8")
    assert 'href="experiments_gemv.html"' in experiments
    gemv = (tmp_path / "experiments_gemv.html").read_text(encoding="utf-8")
    assert 'href="performance.html"' in gemv
    for page in tmp_path.rglob("*.html"):
        up = "../" * (len(page.relative_to(tmp_path).parts) - 1)
        assert f'<a href="{up}index.html">Start</a>' in page.read_text(encoding="utf-8"), page


def test_index_of_names() -> None:
    """``python tools/index_of_names.py`` writes the page anew where it is out of date."""
    pytest.importorskip("llvmlite", reason="llvmlite (extra sparse) is not installed")
    script = runpy.run_path(str(ROOT / "tools" / "index_of_names.py"))
    assert script["PAGE"].read_text(encoding="utf-8") == script["text"]()


def test_links() -> None:
    """Every link of a Markdown file to another leads to a file, and to a heading of it."""
    for source in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = source.read_text(encoding="utf-8")
        for path, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", text):
            target = source.parent / path if path else source
            assert target.exists(), f"{source}: {path}"
            if heading:
                assert heading in anchors(target), f"{source}: {path}#{heading}"


def test_pages_that_the_code_names() -> None:
    """Comments, docstrings and evidence name pages that exist."""
    for folder in ("portable_gpu", "cl_kernels", "tests", "tools", "examples"):
        for source in (ROOT / folder).rglob("*.*"):
            if source.suffix in (".py", ".mako", ".json"):
                for page in re.findall(r"\bdocs/[\w/]+\.md", source.read_text(encoding="utf-8")):
                    assert (ROOT / page).exists(), f"{source}: {page}"


def anchors(page: Path) -> set[str]:
    """The names under which a Markdown page's headings are found."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_references_of_docstrings_exist() -> None:
    """A name with the package's resolves; the last part of any other is defined in the package."""
    texts = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    defined = set().union(*(names(ast.parse(text)) for text in texts.values()))
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        for name in REFERENCE.findall(text)
        if not exists(name, defined)
    ]
    assert wrong == []


def names(tree: ast.AST) -> set[str]:
    """Return the names of functions, classes, variables and attributes that a module defines."""
    result: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            result.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            result.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            result.add(node.attr)
    return result


def exists(name: str, defined: set[str]) -> bool:
    """Return whether a reference names something; instances have further attributes."""
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return parts[-1] in defined or parts[0] in OTHERS
    depth = len(parts)
    while not is_module(ROOT.joinpath(*parts[:depth])):
        depth -= 1
    try:
        owner = importlib.import_module(".".join(parts[:depth]))
    except ModuleNotFoundError as error:  # of an extra that is not installed
        return error.name is not None and not error.name.startswith(PACKAGE.name)
    for part in parts[depth:]:
        if not hasattr(owner, part):
            return isinstance(owner, type) and part in defined
        owner = getattr(owner, part)
    return True


def is_module(path: Path) -> bool:
    """Return whether a path without its suffix is a module or a package."""
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()
