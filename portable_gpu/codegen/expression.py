"""Checks of the C text that users write, before it goes into a kernel.

A compiler reports what is wrong inside an expression.  It cannot report that a text is not an
expression: a text that ends its statement, its bracket or its line early makes another program of
the kernel.
"""

from __future__ import annotations

import re
from typing import Any

from portable_gpu.arguments import of_kind
from portable_gpu.errors import ArgumentError

_BRACKETS = {")": "(", "]": "[", "}": "{"}
# What no expression needs: further statements, comments, string literals, directives, and what C
# reads as one of these (a backslash that joins lines; digraphs and trigraphs).
_FOREIGN = re.compile(r";|//|/\*|\*/|[\"'`\\#@$]|%:|\?\?|<%|%>|<:|:>|[^\t\n\r -~]")


def check_expression(text: Any, name: str) -> str:
    """``text``, if it may be one expression of OpenCL C.

    Args:
        text: The user's text.
        name: The argument's name, for messages.

    Raises:
        DTypeError: It is not text.
        ArgumentError: It is empty, its brackets do not match, or it contains something that ends or
            hides an expression.
    """
    of_kind(text, str, name, "an expression in OpenCL C, as text,")
    if not text.strip():
        raise ArgumentError(f"{name} is empty; an expression in OpenCL C would do")
    foreign = _FOREIGN.search(text)
    if foreign:
        raise ArgumentError(
            f"{name} is {text!r}: {foreign[0]!r} is no part of an expression; "
            "a single expression in OpenCL C, without comments or texts, would do"
        )
    open_ones: list[str] = []
    for character in text:
        if character in "([{":
            open_ones.append(character)
        elif character in ")]}" and (not open_ones or open_ones.pop() != _BRACKETS[character]):
            raise ArgumentError(f"{name} is {text!r}: {character!r} closes no bracket")
    if open_ones:
        raise ArgumentError(f"{name} is {text!r}: {open_ones[-1]!r} is never closed")
    return str(text)


def check_identifier(text: Any, name: str) -> str:
    """``text``, if it is an identifier of C.

    Raises:
        DTypeError, ArgumentError: It is not.
    """
    of_kind(text, str, name, "an identifier of C, as text,")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ArgumentError(f"{name} is {text!r}; letters of a to z, digits and _ would do")
    return str(text)


def check_label(text: Any, name: str) -> str:
    """``text``, if it can stand in a comment of one line.

    Raises:
        DTypeError, ArgumentError: It cannot.
    """
    of_kind(text, str, name, "text")
    if not text.isprintable() or "\\" in text or "??" in text:
        raise ArgumentError(f"{name} is {text!r}; one line of text without a backslash would do")
    return str(text)
