"""Kernels as wrappers of one function each, because PoCL compiles a kernel's body three times.

PoCL makes three functions of a kernel and inlines the body in each, though one of them is called.
A function that is not inlined is compiled once::

    static __attribute__((noinline, min_vector_width(256))) void fft_body(PARAMETERS,
        const size_t group_id_0)
    {
        the body, with group_id_0 for get_group_id(0)
    }
    __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fft(PARAMETERS)
    {
        fft_body(ARGUMENTS, get_group_id(0));
    }

PoCL inlines each function that calls a work-item function, and those that call it.  So the kernel
calls them.  A kernel stays as it is if it has a barrier or ``__local`` memory, or if a macro or a
function that it uses calls a work-item function, or if its text has ``//@whole_kernel``:
LLVM assigns registers to a function otherwise than to a kernel, which can be slower.

clang marks a function with the widest vector that its arguments need, and LLVM may split wider
ones: hence ``min_vector_width``, without which products took 1.8 times as long.

Lines keep their numbers, for messages of the compiler.
"""

from __future__ import annotations

import re

#: Of what this module makes of a text: part of the key of a program on disk.
VERSION = 1

_HEAD = re.compile(
    r"__kernel\s+__attribute__\(\(reqd_work_group_size\(1, 1, 1\)\)\)\s+"
    r"void\s+(\w+)\s*\(([^()]*)\)\s*\{"
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|.)*)", re.MULTILINE)
_COMMENT = re.compile(r"//.*")
_QUESTION = re.compile(
    r"\bget_(global_id|global_size|global_offset|group_id|num_groups|local_id|local_size)\((\d)\)"
)
_ASKS = re.compile(
    r"\b(?:get_(?:global|group|local|num|work|enqueued)_\w+|barrier|work_group_\w+|__local)\b"
)
_KEPT = "//@whole_kernel"
_SUFFIX = "_body"


def wrapped(text: str, vector_bits: int) -> str:
    """The text, whose kernels of one work-item a group call a function each.

    Args:
        text: OpenCL C.
        vector_bits: Of the processor's vectors.
    """
    plain = _COMMENT.sub("", text)
    asking = _asking(_MACRO.findall(plain))
    blank = _COMMENT.sub(lambda found: " " * len(found[0]), text)
    kernels = [(head, _end_of_block(blank, head.end())) for head in _HEAD.finditer(text)]
    others = _COMMENT.sub("", _MACRO.sub("", _outside(text, kernels)))
    if _ASKS.search(others) or asking.intersection(re.findall(r"\w+", others)):
        return text
    parts, calls, done = list[str](), list[str](), 0
    for head, end in kernels:
        name, parameters = head[1], head[2]
        body = text[head.end() : end]
        asked = sorted({(match[1], match[2]) for match in _QUESTION.finditer(body)})
        body = _QUESTION.sub(r"\1_\2", body)
        bare = _COMMENT.sub("", body)
        if (
            _KEPT in body
            or _ASKS.search(parameters + bare)
            or asking.intersection(re.findall(r"\w+", bare))
        ):
            continue
        takes = [parameters, *(f"const size_t {what}_{axis}" for what, axis in asked)]
        lines = "\n" * (head[0].count("\n") - parameters.count("\n"))
        attributes = f"noinline, min_vector_width({vector_bits})"
        parts += [
            text[done : head.start()],
            f"static __attribute__(({attributes})) void {name}{_SUFFIX}",
            f"({', '.join(takes)}){lines}{{{body}",
        ]
        given = [one.split()[-1].lstrip("*") for one in parameters.split(",")]
        given += [f"get_{what}({axis})" for what, axis in asked]
        calls.append(f"\n{head[0]}\n    {name}{_SUFFIX}({', '.join(given)});\n}}\n")
        done = end
    return "".join([*parts, text[done:], *calls])


def wrappers(text: str) -> list[str]:
    """The kernels of a text that call a function each, by name."""
    return [
        head[1]
        for head in _HEAD.finditer(text)
        if text.startswith(f"\n    {head[1]}{_SUFFIX}(", head.end())
    ]


def _outside(text: str, kernels: list[tuple[re.Match[str], int]]) -> str:
    """The text without the bodies of kernels."""
    parts, done = list[str](), 0
    for head, end in kernels:
        parts.append(text[done : head.start()])
        done = end
    return "".join([*parts, text[done:]])


def _asking(macros: list[tuple[str, str]]) -> set[str]:
    """The macros whose meaning calls a work-item function, or has another such macro."""
    found = {name for name, meaning in macros if _ASKS.search(meaning)}
    while True:
        more = {
            name
            for name, meaning in macros
            if name not in found and found.intersection(re.findall(r"\w+", meaning))
        }
        if not more:
            return found
        found |= more


def _end_of_block(text: str, start: int) -> int:
    """Where the block ends that is open at ``start``."""
    depth = 1
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    return len(text)
