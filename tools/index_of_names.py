"""Write docs/index_of_names.md, the index of all public names, from their docstrings.

    python tools/index_of_names.py

``tests/host/test_docs.py`` fails if the page differs from the text that this script writes.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "index_of_names.md"
#: The public modules, each with the page that describes it.
MODULES = {
    "portable_gpu": "core.md",
    "portable_gpu.linalg": "linalg.md",
    "portable_gpu.linalg.packed": "linalg_packed.md#packed-storage",
    "portable_gpu.linalg.ragged": "linalg_packed.md#matrices-of-different-sizes",
    "portable_gpu.fft": "fft.md",
    "portable_gpu.signal": "signal.md",
    "portable_gpu.nn": "nn.md",
    "portable_gpu.multi": "multi.md",
    "portable_gpu.sparse": "sparse.md",
    "portable_gpu.multi.streaming": "streaming.md",
    "portable_gpu.errors": "core.md",
}


def public_names(module: ModuleType) -> list[str]:
    """The names of ``__all__``; without it, the classes that the module defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not name.startswith("_")]
    classes = inspect.getmembers(module, inspect.isclass)
    return [
        name
        for name, value in classes
        if value.__module__ == module.__name__ and not name.startswith("_")
    ]


def summary(value: object) -> str:
    """The first paragraph of a docstring of this library, as Markdown of one line."""
    if isinstance(value, int):
        return f"the number {value}"
    if getattr(value, "__module__", "").startswith("numpy"):
        return "NumPy's function."
    text = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    text = re.sub(r":\w+:`~?([^`]+)`", r"`\1`", text).replace("``", "`")
    return text.replace("|", "\\|")


def text() -> str:
    """The page."""
    lines = [
        "# Index of public names",
        "",
        "`python tools/index_of_names.py` writes this page from the docstrings, which say more:",
        "`help(portable_gpu.gemm)`.",
    ]
    for name, page in MODULES.items():
        module = importlib.import_module(name)
        lines += ["", f"## {name}", "", f"Described in [{page.split('#')[0]}]({page}).", ""]
        lines += ["| name | summary |", "| --- | --- |"]
        lines += [
            f"| `{public}` | {summary(getattr(module, public))} |"
            for public in sorted(public_names(module), key=lambda one: (one.lower(), one))
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    PAGE.write_text(text(), encoding="utf-8")
