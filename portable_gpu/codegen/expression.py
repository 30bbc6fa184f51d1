"""Checks of a user's expression, before it becomes a part of a kernel.

The compiler reports errors inside an expression.  It cannot report that a text is not one
expression: a text that ends the statement, the bracket or the line around it changes the rest of
the kernel.
"""

from __future__ import annotations

import re
from typing import Any

from portable_gpu.arguments import of_kind
from portable_gpu.codegen.syntax import parsed
from portable_gpu.errors import ArgumentError

_BRACKETS = {")": "(", "]": "[", "}": "{"}
# What an expression never contains: the end of a statement, comments, string literals, directives,
# and other spellings of these (a backslash that joins lines; digraphs and trigraphs).
_FOREIGN = re.compile(r";|//|/\*|\*/|[\"'`\\#@$]|%:|\?\?|<%|%>|<:|:>|[^\t\n\r -~]")

# Keywords and qualifiers, types, functions of numbers, of work-items and memory, macros.
_WORDS = """
auto break case const continue default do else enum extern for goto if inline register restrict
return signed sizeof static struct switch typedef union unsigned void volatile while asm typeof
alignof global local constant private generic kernel read_only write_only read_write uniform
pipe true false
bool char uchar short ushort int uint long ulong half float double quad size_t ptrdiff_t
intptr_t uintptr_t event_t sampler_t image1d_t image2d_t image3d_t queue_t ndrange_t clk_event_t
reserve_id_t
abs abs_diff acos acosh acospi add_sat all any asin asinh asinpi atan atan2 atan2pi atanh atanpi
bitselect cbrt ceil clamp clz copysign cos cosh cospi cross ctz degrees distance dot erf erfc
exp exp10 exp2 expm1 fabs fast_distance fast_length fast_normalize fdim floor fma fmax fmin fmod
fract frexp hadd hypot ilogb isequal isfinite isgreater isgreaterequal isinf isless islessequal
islessgreater isnan isnormal isnotequal isordered isunordered ldexp length lgamma lgamma_r log
log10 log1p log2 logb mad mad24 mad_hi mad_sat max maxmag min minmag mix modf mul24 mul_hi nan
nextafter normalize popcount pow pown powr radians remainder remquo rhadd rint rootn rotate
round rsqrt select shuffle shuffle2 sign signbit sin sincos sinh sinpi smoothstep sqrt step
sub_sat tan tanh tanpi tgamma trunc upsample vec_step
barrier mem_fence read_mem_fence write_mem_fence prefetch printf work_group_barrier
and not or True False
NULL NAN INFINITY MAXFLOAT DEVICE LOCKSTEP DPP ABS CONVERT PREFETCH linux unix
"""
#: Words that have a meaning in OpenCL C or in the text of every kernel.
RESERVED = frozenset(_WORDS.split())
#: Patterns of further such words.  A word in capitals with an underscore may be a macro.
PATTERNS = re.compile(
    r"(?:bool|u?char|u?short|u?int|u?long|half|float|double)(?:2|3|4|8|16)"
    r"|(?:get|as|convert|native|half|atomic|atom|async|vload|vstore|vloada|vstorea|sub_group"
    r"|work_group)_\w+|v(?:load|store)\d+|[A-Z0-9]+_[A-Z0-9_]+"
)


def check_expression(text: Any, name: str, python: bool = False) -> str:
    """Return ``text`` if it can be one expression of OpenCL C.

    Args:
        text: The user's text.
        name: The argument's name, for messages.
        python: Whether ``//`` is Python's division in a text that the library can parse.  In other
            texts ``//`` begins a comment, which is refused.

    Raises:
        ArgumentTypeError: It is not a string.
        ArgumentError: It is empty, its brackets do not match, or it contains something that cannot
            be in an expression, such as a semicolon or a comment.
    """
    of_kind(text, str, name, "a string, an expression in OpenCL C")
    if not text.strip():
        raise ArgumentError(f"{name} is empty; expected an expression in OpenCL C")
    is_division = python and "//" in text and parsed(text) is not None
    foreign = _FOREIGN.search(text.replace("//", "/ /") if is_division else text)
    if foreign:
        raise ArgumentError(
            f"{name} is {text!r}: {foreign[0]!r} is not part of an expression; expected "
            "a single expression in OpenCL C, without comments or string literals"
        )
    open_brackets: list[str] = []
    for character in text:
        if character in "([{":
            open_brackets.append(character)
        elif character in ")]}" and (
            not open_brackets or open_brackets.pop() != _BRACKETS[character]
        ):
            raise ArgumentError(
                f"{name} is {text!r}: {character!r} closes a bracket that is not open"
            )
    if open_brackets:
        raise ArgumentError(f"{name} is {text!r}: {open_brackets[-1]!r} is never closed")
    return str(text)


def check_identifier(text: Any, name: str) -> str:
    """Return ``text`` if it is an identifier of C.

    Raises:
        ArgumentTypeError, ArgumentError: It is not.
    """
    of_kind(text, str, name, "a string, an identifier of C")
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ArgumentError(f"{name} is {text!r}; expected letters of a to z, digits and _")
    return str(text)


def check_name(text: Any, name: str) -> str:
    """Return ``text`` if it can be the name of an array in an expression.

    Raises:
        ArgumentTypeError, ArgumentError: It is not an identifier of C, or it already has a meaning
            in OpenCL C.
    """
    check_identifier(text, name)
    if text in RESERVED or "__" in text or PATTERNS.fullmatch(text):
        raise ArgumentError(
            f"{name} is {text!r}, which means something else in OpenCL C; "
            f"expected another, such as {text.strip('_')}_1"
        )
    return str(text)


def check_label(text: Any, name: str) -> str:
    """Return ``text`` if it can be a part of a comment of one line.

    Raises:
        ArgumentTypeError, ArgumentError: It cannot.
    """
    of_kind(text, str, name, "a string")
    if not text.isprintable() or "\\" in text or "??" in text:
        raise ArgumentError(f"{name} is {text!r}; expected one line of text without a backslash")
    return str(text)
