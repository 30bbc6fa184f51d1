"""Search texts of OpenCL C for comments, macros, words and blocks."""

from __future__ import annotations

import re

#: A definition of a macro, also over several lines: its name, and what follows.
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|.)*)", re.MULTILINE)
COMMENT = re.compile(r"//.*")  # kernels have no /* */ comments
_WORD = re.compile(r"\w+")
_BRACE = re.compile(r"[{}]")


def words_of(text: str) -> set[str]:
    """Return the names, keywords and numbers in a text."""
    return set(_WORD.findall(text))


def end_of_block(text: str, start: int) -> int:
    """Return the position of the brace that closes the block around ``start``."""
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return len(text)
