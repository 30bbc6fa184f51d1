"""Make each kernel call one function, because PoCL compiles the body of a kernel three times.

PoCL makes three functions of a kernel and inlines the body in each, although launches call only
one.  It compiles a function that is not inlined only once::

    static __attribute__((noinline, min_vector_width(256))) void fft_body(PARAMETERS,
        const size_t group_id_0)
    {
        the body, with group_id_0 for get_group_id(0)
    }
    __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void fft(PARAMETERS)
    {
        fft_body(ARGUMENTS, get_group_id(0));
    }

PoCL inlines a function that calls a work-item function, and every function that calls that one.
So only the kernel calls work-item functions, and passes the results on.  A kernel stays unchanged
if it has a barrier or ``__local`` memory, if it calls a work-item function whose argument is not a
digit, or if it uses a macro that has one of these.  A text stays unchanged if any code outside its
kernels of one work-item has one of these, or calls a work-item function.

A ``static void`` function whose body begins with ``//@noinline`` is not inlined either.  LLVM
compiles two functions faster than one that contains the other, and allocates their registers
separately.

clang records in a function the widest vector that its arguments need, and LLVM may split wider
vectors.  ``min_vector_width`` prevents this; without it matrix products took 1.8 times as long.

clang optimises a text, and PoCL optimises each kernel of the result once more.  With the option of
:func:`options` only PoCL does, which saves a sixth of the time of compilation.  PoCL then inlines
less, so short functions become ``always_inline``.  If a loop has its increments in its head, PoCL's
first pass moves the sums that an iteration passes to the next one there too.  That is behind all
loads of the iteration, so registers are spilled.  So such loops have their increments in their
bodies.  A text with the mark ``//@optimised_twice`` is compiled without the option, with which
registers of its other loops would be spilled.

Line numbers of the bodies do not change, so that messages of the compiler stay right.
"""

from __future__ import annotations

import re
from functools import lru_cache

from portable_gpu.codegen.c_text import COMMENT, MACRO, end_of_block, words_of

#: The version of the texts that this module makes, which is part of the key of a program on disk.
VERSION = 4

_HEAD = re.compile(
    r"__kernel\s+__attribute__\(\(reqd_work_group_size\(1, 1, 1\)\)\)\s+"
    r"void\s+(\w+)\s*\(([^()]*)\)\s*\{"
)
_WORK_ITEM_CALL = re.compile(
    r"\bget_(global_id|global_size|global_offset|group_id|num_groups|local_id|local_size)\((\d)\)"
)
_WORK_ITEM_USE = re.compile(
    r"\b(?:get_(?:global|group|local|num|work|enqueued)_\w+|barrier|work_group_\w+|__local)\b"
)
_INLINE = re.compile(r"^static inline (?=[^{};]*\)\n\{\n(?:    .*\n){1,4}\}\n)", re.MULTILINE)
_NOINLINE = re.compile(
    r"^static (?:inline )?(void \w+\([^{};]*\)\s*\{\s*//@noinline\b)", re.MULTILINE
)
_SUFFIX = "_body"
_TWICE = "//@optimised_twice"
#: The option without clang's passes.  PoCL refuses options that it does not know, but reads them
#: only up to a blank, and passes on to clang what follows a tab.
UNOPTIMISED = "-D_UNOPTIMISED\t-disable-llvm-passes"


@lru_cache(maxsize=16)
def wrapped(text: str, vector_bits: int) -> str:
    """Move the bodies of kernels with one work-item a group into functions that they call.

    Functions marked ``//@noinline`` are not inlined.  Those of at most four lines always are,
    unless the text has the mark ``//@optimised_twice``.

    Args:
        text: OpenCL C.
        vector_bits: The width of the processor's vectors.
    """
    plain = COMMENT.sub("", text)
    unsafe = _unsafe_macros(MACRO.findall(plain))
    blank = COMMENT.sub(lambda found: " " * len(found[0]), text)
    kernels = [(head, end_of_block(blank, head.end())) for head in _HEAD.finditer(blank)]
    others = COMMENT.sub("", MACRO.sub("", _outside(text, kernels)))
    if _WORK_ITEM_USE.search(others) or unsafe & words_of(others):
        return text
    attributes = f"static __attribute__((noinline, min_vector_width({vector_bits})))"
    parts, calls, done = list[str](), list[str](), 0
    for head, end in kernels:
        name, parameters = head[1], head[2]
        body = text[head.end() : end]
        bare = blank[head.end() : end]
        queries = sorted({(match[1], match[2]) for match in _WORK_ITEM_CALL.finditer(bare)})
        body = _WORK_ITEM_CALL.sub(r"\1_\2", body)
        bare = _WORK_ITEM_CALL.sub("", bare)
        if _WORK_ITEM_USE.search(parameters + bare) or unsafe & words_of(bare):
            continue
        takes = [parameters, *(f"const size_t {query}_{axis}" for query, axis in queries)]
        lines = "\n" * (head[0].count("\n") - parameters.count("\n"))
        parts += [
            text[done : head.start()],
            f"{attributes} void {name}{_SUFFIX}",
            f"({', '.join(takes)}){lines}{{{body}",
        ]
        call_arguments = [parameter.split()[-1].lstrip("*") for parameter in parameters.split(",")]
        call_arguments += [f"get_{query}({axis})" for query, axis in queries]
        calls.append(f"\n{head[0]}\n    {name}{_SUFFIX}({', '.join(call_arguments)});\n}}\n")
        done = end
    made = _NOINLINE.sub(rf"{attributes} \1", "".join([*parts, text[done:], *calls]))
    if _TWICE in made:
        return made
    return _INLINE.sub("static inline __attribute__((always_inline)) ", made)


def options(text: str) -> tuple[str, ...]:
    """Return the options with which PoCL compiles a text of :func:`wrapped`."""
    wrapped_all = len(wrappers(text)) == text.count("__kernel ")
    return (UNOPTIMISED,) if wrapped_all and _TWICE not in text else ()


def wrappers(text: str) -> list[str]:
    """Return the names of the kernels in a text that only call a function of their own."""
    return [
        head[1]
        for head in _HEAD.finditer(text)
        if text.startswith(f"\n    {head[1]}{_SUFFIX}(", head.end())
    ]


def _outside(text: str, kernels: list[tuple[re.Match[str], int]]) -> str:
    """Return the text without kernels."""
    parts, done = list[str](), 0
    for head, end in kernels:
        parts.append(text[done : head.start()])
        done = end
    return "".join([*parts, text[done:]])


def _unsafe_macros(macros: list[tuple[str, str]]) -> set[str]:
    """Return the macros that use a work-item function, directly or through another macro."""
    unsafe = {name for name, meaning in macros if _WORK_ITEM_USE.search(meaning)}
    while True:
        added = {
            name for name, meaning in macros if name not in unsafe and unsafe & words_of(meaning)
        }
        if not added:
            return unsafe
        unsafe |= added
