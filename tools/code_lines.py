"""Count the code lines of the package, and tell later capabilities from those of one revision.

    python tools/code_lines.py              # this working tree, as a table of Markdown
    python tools/code_lines.py main         # a revision

A line of Python counts if it has a token that is not a comment, outside of docstrings. A line of
a template counts if it is not blank and not a comment (``##``, ``//``, ``/* */``). A file of
``LATER`` serves only what the package could not do at ``BASE``. Of a module of ``EXTENDED``, the
lines that it had at ``BASE`` count as the capabilities of then. All other lines count as these,
so their number is an upper bound.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import tarfile
import tokenize
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The revision at which the package was first counted, on 2026-11-25.
BASE = "2c663d68"
#: Files of capabilities that came after ``BASE``.
LATER = (
    "portable_gpu/nn/*",
    "portable_gpu/multi/*",
    "portable_gpu/progress.py",
    "portable_gpu/side_by_side.py",
    "portable_gpu/host_memory.py",
    "portable_gpu/bench/calibration.py",
    "portable_gpu/bench/first_calls*.py",
    "portable_gpu/bench/links.py",
    "portable_gpu/bench/multi*.py",
    "portable_gpu/bench/on_cores.py",
    "portable_gpu/bench/revision*.py",
    "portable_gpu/bench/transfer.py",
    "portable_gpu/bench/verdict.py",
    "portable_gpu/bench/worker_*.py",
    "portable_gpu/cli/calibrate.py",
    "portable_gpu/cli/first_calls.py",
    "portable_gpu/cli/multi.py",
    "portable_gpu/cli/transfer.py",
    "portable_gpu/codegen/complex_terms.py",
    "portable_gpu/codegen/names.py",
    "portable_gpu/codegen/syntax.py",
    "portable_gpu/ops/composed.py",
    "portable_gpu/ops/ordered.py",
    "portable_gpu/ops/public_call.py",
    "portable_gpu/ops/elementwise/commands/activations.py",
    "portable_gpu/runtime/calibrated.py",
    "portable_gpu/runtime/host_copy.py",
    "portable_gpu/runtime/layout.py",
    "portable_gpu/sparse/formats.py",
    "portable_gpu/sparse/loops/*",
    "portable_gpu/sparse/partition.py",
    "portable_gpu/sparse/parts.py",
    "portable_gpu/tuning/calibration.py",
    "portable_gpu/ops/arrays/*",
    "*/attention/*",
    "*/conv/*",
    "*/embedding/*",
    "*/normalize/*",
    "*/optim/*",
    "*/random/*",
    "*/sampling/*",
)
#: Modules that had capabilities at ``BASE`` and have later ones as well.
EXTENDED = ("portable_gpu/runtime/array.py",)


def code_lines(name: str, text: str) -> int:
    """The code lines of a module or of a template."""
    return lines_of_template(text) if name.endswith(".mako") else lines_of_python(text)


def lines_of_python(text: str) -> int:
    """The lines with a token of code, without docstrings."""
    layout = {
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENDMARKER,
    }  # fmt: skip
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            lines.update(range(token.start[0], token.end[0] + 1))
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, owners) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(lines)


def lines_of_template(text: str) -> int:
    """The lines that are neither blank nor a comment."""
    text = re.sub(r"/\*.*?\*/|<%doc>.*?</%doc>", "", text, flags=re.S)
    stripped = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith(("##", "//")) for line in stripped)


def is_later(name: str) -> bool:
    """Whether a file serves only capabilities that came after ``BASE``."""
    return any(fnmatch(name, pattern) for pattern in LATER)


def counts(revision: str | None) -> dict[str, int]:
    """The code lines of each file of the package at a revision; ``None`` is the working tree."""
    if revision is None:
        folders = (ROOT / "portable_gpu", ROOT / "cl_kernels")
        paths = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
        texts = {
            path.relative_to(ROOT).as_posix(): path.read_text()
            for path in paths
            if path.suffix in {".py", ".mako"}
        }
    else:
        command = ["git", "archive", revision, "portable_gpu", "cl_kernels"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
            texts = {
                member.name: file.read().decode()
                for member in archive
                if member.name.endswith((".py", ".mako"))
                and (file := archive.extractfile(member)) is not None
            }
    return {name: code_lines(name, text) for name, text in texts.items()}


def area(name: str) -> str:
    """The row of a file: its family of kernels, its folder, or the package's own modules."""
    parts = name.split("/")
    if parts[0] == "cl_kernels":
        return "cl_kernels"
    if parts[1] == "ops":
        return f"ops/{parts[2]}" if len(parts) > 3 else "ops (call path, records)"
    return parts[1] if len(parts) > 2 else "modules of the package"


def table(base: dict[str, int], now: dict[str, int]) -> str:
    """The rows: lines at ``BASE``, lines of the same capabilities now, and lines of later ones."""
    rows: dict[str, Counter[str]] = {}
    for name, lines in base.items():
        rows.setdefault(area(name), Counter())["base"] += lines
    for name, lines in now.items():
        row = rows.setdefault(area(name), Counter())
        if name in EXTENDED:
            before = min(base.get(name, 0), lines)
        else:
            before = 0 if is_later(name) else lines
        row["before"] += before
        row["later"] += lines - before
    templates = rows.pop("cl_kernels")
    python = sum(rows.values(), Counter())
    columns = ("base", "before", "later")
    text = [f"| part | {BASE} | the same capabilities | later ones |", "| --- | --- | --- | --- |"]
    for label, row in (*sorted(rows.items()), ("**Python**", python), ("**templates**", templates)):
        text.append(f"| {label} | " + " | ".join(f"{row[column]:,}" for column in columns) + " |")
    return "\n".join(text)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("revision", nargs="?", help="a revision in place of the working tree")
    revision = parser.parse_args().revision
    print(table(counts(BASE), counts(revision)))


if __name__ == "__main__":
    main()
