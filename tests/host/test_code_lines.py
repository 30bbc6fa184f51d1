"""The count of code lines in ``tools/code_lines.py``."""

from __future__ import annotations

import importlib.util
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "tools" / "code_lines.py"

spec = importlib.util.spec_from_file_location("code_lines", SCRIPT)
assert spec is not None
assert spec.loader is not None
code_lines = importlib.util.module_from_spec(spec)
spec.loader.exec_module(code_lines)

MODULE = '''"""A docstring
of two lines."""

# A comment.
VALUE = """a string
of two lines"""  # code with a comment


def function(
    first: int,
) -> int:
    """A docstring."""

    return first
'''
TEMPLATE = """## A comment.
/* A comment
   of two lines. */
% if ahead:
    // Another one.
x = 1; // code
% endif

"""


def test_code_lines_leave_out_comments_docstrings_and_blank_lines() -> None:
    assert code_lines.code_lines("a.py", MODULE) == 6
    assert code_lines.code_lines("a.cl.mako", TEMPLATE) == 3


def test_patterns_of_later_capabilities_name_files() -> None:
    names = code_lines.counts(None)
    for pattern in (*code_lines.LATER, *code_lines.EXTENDED):
        assert any(fnmatch(name, pattern) for name in names), pattern


def test_table_splits_lines_of_before_from_later_ones() -> None:
    base = {"portable_gpu/runtime/array.py": 10, "portable_gpu/fft/real.py": 5}
    now = {
        "portable_gpu/runtime/array.py": 17,
        "portable_gpu/fft/real.py": 4,
        "portable_gpu/nn/layers.py": 3,
        "cl_kernels/nn.cl.mako": 2,
    }
    rows = code_lines.table(base, now).splitlines()
    assert "| runtime | 10 | 10 | 7 |" in rows
    assert "| fft | 5 | 4 | 0 |" in rows
    assert "| nn | 0 | 0 | 3 |" in rows
    assert "| **Python** | 15 | 14 | 10 |" in rows
