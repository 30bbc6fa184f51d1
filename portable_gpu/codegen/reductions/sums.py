"""Sums, inner products and counts."""

from __future__ import annotations

from portable_gpu.codegen.operators import Accumulator, Field, vector
from portable_gpu.codegen.reductions.reduction import (
    BLOCK,
    Reduction,
    Text,
    convert,
    value_names,
    wide_type,
)
from portable_gpu.dtypes import Element

#: 16-bit integers of a lane whose 32-bit sum cannot overflow, after 8 lanes are added.
_BLOCK_OF_INTEGERS = 1 << 11


def two_sum(ctype: str, a: str, b: str) -> str:
    """Return C declarations of ``s``, the rounded sum, and ``e``, its rounding error.

    They have no semicolon, so further declarators may follow.
    """
    return f"const {ctype} s = {a} + {b}, t = s - {a}, e = ({a} - (s - t)) + ({b} - t)"


def double_word(name: str, names: tuple[str, ...], ctype: str) -> Accumulator:
    """Return sums of several values, each as an unevaluated pair (hi, lo) with |lo| <= u |hi|.

    If hi is infinite or NaN, lo is 0 and hi is the plain sum.
    """
    fields = [Field(f"{name}_{part}", ctype, "0") for name in names for part in ("hi", "lo")]

    def combine(width: int) -> str:
        t = vector(ctype, width)
        zero = f"({t})(0)"
        return "\n    ".join(
            f"{{ {two_sum(t, f'a.{n}_hi', f'b.{n}_hi')}, "
            f"f = (e == e ? e : {zero}) + (a.{n}_lo + b.{n}_lo), hi = s + f, lo = f - (hi - s); "
            f"a.{n}_hi = hi; a.{n}_lo = lo == lo ? lo : {zero}; }}"
            for n in names
        )

    def gather(width: int) -> str:
        # The pair is not normalised.  After N additions the relative error is about N^2 u^2.
        t = vector(ctype, width)
        zero = f"({t})(0)"
        return "\n    ".join(
            f"{{ {two_sum(t, f'a.{n}_hi', f'b.{n}_hi')}; "
            f"a.{n}_hi = s; a.{n}_lo += e == e ? e : {zero}; }}"
            for n in names
        )

    return Accumulator(name, tuple(fields), combine, gather)


def plain(name: str, names: tuple[str, ...], ctype: str) -> Accumulator:
    """Return sums of several values, each in one variable."""
    text = " ".join(f"a.{n} += b.{n};" for n in names)
    return Accumulator(name, tuple(Field(n, ctype, "0") for n in names), lambda width: text)


def sums(
    name: str,
    inputs: tuple[Element, ...],
    names: tuple[str, ...],
    ctype: str,
    update: Text,
    result: Element,
    finish: str,
    lane_ctype: str | None = None,
    per_row: bool = False,
    block: int = BLOCK,
    prefix: str = "",
) -> Reduction:
    """Return a reduction whose state is a set of sums, which the expression ``finish`` uses.

    The names of its types begin with ``prefix``.
    """
    floating = ctype in ("float", "double")
    if floating:
        acc = double_word(f"{prefix}acc_t", names, ctype)
        lift = " ".join(f"r.{n}_hi = a.{n}; r.{n}_lo = 0;" for n in names)
        value = {n: f"a.{n}_hi + a.{n}_lo" for n in names}
    else:
        acc = plain(f"{prefix}acc_t", names, ctype)
        value = {n: f"a.{n}" for n in names}

    def lift_integer(width: int) -> str:
        source = lane_ctype or ctype
        return " ".join(f"r.{n} = {convert(f'a.{n}', source, ctype, width)};" for n in names)

    return Reduction(
        name,
        inputs,
        lane=plain(f"{prefix}lane_t", names, lane_ctype or ctype),
        update=update,
        acc=acc,
        lift=(lambda width: lift) if floating else lift_integer,
        block=block if floating else (_BLOCK_OF_INTEGERS if lane_ctype else 0),
        result=result,
        finish=finish,
        totals=" ".join(f"const {ctype} {n} = {value[n]};" for n in names),
        per_row=per_row,
    )


def sum_(name: str, x: Element, acc: Element, result: Element, divide: str = "") -> Reduction:
    """Return ``sum`` or ``mean``; integers of 8 and 16 bits are first added as 32-bit integers."""
    names = ("re", "im") if acc.complex else ("s",)
    small = not x.floating and x.itemsize <= 2 and not acc.floating
    lane = "int" if small else None
    finish = f"s{divide}"
    if acc.complex:
        re, im = "re", "im"
        if divide:  # by a complex count, as NumPy divides: an infinite part makes the other one NaN
            re, im = "(re + im * 0)", "(im - re * 0)"
        finish = f"({result.value})({re}{divide}, {im}{divide})"

    def update(width: int) -> str:
        parts = value_names(x, "x")
        if acc.complex and not x.complex:
            parts = (parts[0], "0")
        pairs = zip(names, parts, strict=True)
        return " ".join(
            f"a.{n} += {'0' if p == '0' else convert(p, x.real, lane or wide_type(acc), width)};"
            for n, p in pairs
        )

    return sums(name, (x,), names, wide_type(acc), update, result, finish, lane)


def asum(x: Element, result: Element) -> Reduction:
    """Return ``asum``; for complex numbers it adds the magnitudes of both parts."""
    ctype = wide_type(result)

    def update(width: int) -> str:
        return f"a.s += {' + '.join(absolute(p, width) for p in value_names(x, 'x'))};"

    def absolute(part: str, width: int) -> str:
        value = convert(part, x.real, ctype, width)
        if x.floating:
            return f"ABS({value})"
        if x.real.startswith("u"):
            return value
        negative = Field("s", ctype, "0").mask(f"{part} < ({vector(x.real, width)})(0)", width)
        return f"({negative} ? -{value} : {value})"

    return sums("asum", (x,), ("s",), ctype, update, result, "s")


def dot(name: str, x: Element, y: Element, result: Element) -> Reduction:
    """Return ``sum x y``, or ``sum conj(x) y``; a real input is allowed with a complex result."""
    ctype = wide_type(result)
    re_sign, im_sign = ("+", "-") if name == "vdot" else ("-", "+")

    def update(width: int) -> str:
        x_re, *x_im = (convert(p, x.real, ctype, width) for p in value_names(x, "x"))
        y_re, *y_im = (convert(p, y.real, ctype, width) for p in value_names(y, "y"))
        if not result.complex:
            return f"a.s |= {x_re} & {y_re};" if result.boolean else f"a.s += {x_re} * {y_re};"
        terms = [f"a.re += {x_re} * {y_re};"]
        terms += [f"a.re {re_sign}= {xi} * {yi};" for xi, yi in zip(x_im, y_im, strict=False)]
        terms += [f"a.im += {x_re} * {yi};" for yi in y_im]
        terms += [f"a.im {im_sign}= {xi} * {y_re};" for xi in x_im]
        return " ".join(terms)

    names: tuple[str, ...] = ("s",)
    finish = "s"
    if result.complex:
        names, finish = ("re", "im"), f"({result.value})(re, im)"
    return sums(name, (x, y), names, ctype, update, result, finish)


def counting(name: str, x: Element, result: Element) -> Reduction:
    """Return ``any``, ``all`` or ``count_nonzero``: each counts the nonzero elements."""

    def update(width: int) -> str:
        zero = f"({vector(x.real, width)})(0)"
        nonzero = " | ".join(f"({v} != {zero})" for v in value_names(x, "x"))
        if width == 1:
            return f"a.s += ({nonzero}) ? 1 : 0;"
        return f"a.s -= CONVERT({vector('int', width)}, {nonzero});"

    finish = {
        "any": "s",
        "all": "s == (ulong)count",
        "count_nonzero": "(long)s",
    }[name]
    return sums(name, (x,), ("s",), "ulong", update, result, finish, "int")
