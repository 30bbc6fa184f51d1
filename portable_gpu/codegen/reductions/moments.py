"""Variances and norms."""

from __future__ import annotations

from dataclasses import replace

from portable_gpu.codegen.operators import vector
from portable_gpu.codegen.reductions.reduction import BLOCK, Quick, Reduction, convert, value_names
from portable_gpu.codegen.reductions.sums import double_word, sums, two_sum
from portable_gpu.dtypes import Element

_WIDE_BLOCK = 64  # floats added in double precision: (64 + 4) n 2^-53 is 16 u of a float, n = 2^27
_LONG_BLOCK = 8  # for several sums at once, whose lifts cost more: nrm2 1.1 to 1.3 times as fast


def moment(
    x: Element, centre: Element, ctype: str, result: Element, ddof: float, root: bool
) -> Reduction:
    """Sum of squared distances from a centre per row, and of the distances, which corrects it.

    About its mean, in the mean's type; or about its first element, in double precision: a mean
    that is e from the centre costs a factor of 1 + e^2 / variance, which is at most the number of
    elements, for the centre is one of them (Chan, Golub and LeVeque, The American Statistician
    37(3), 1983, on shifted data).
    """
    names = ("square", "re", "im") if x.complex else ("square", "re")
    finish = f"{_about_mean(names, ctype)} / {_freedom(ctype, ddof)}"
    finish = f"sqrt({finish})" if root else finish
    finish = f"{finish}, 0" if result.complex else finish
    return _about_centre(x, centre, names, ctype, result, finish)


def deviations(x: Element, centre: Element, ctype: str, result: Element) -> Reduction:
    """Sum of squared distances from the mean, and sum of distances from a centre per row.

    They are the two parts of a complex number.  Real numbers only.
    """
    names = ("square", "re")
    finish = f"({result.value})({_about_mean(names, ctype)}, re)"
    return _about_centre(x, centre, names, ctype, result, finish)


def _about_mean(names: tuple[str, ...], ctype: str) -> str:
    """The sum of squared distances from the mean, of the sums of those from a centre."""
    drift = " + ".join(f"{n} * {n}" for n in names[1:])
    squares = f"square - ({drift}) / ({ctype})(count > 0 ? count : 1)"
    # A rounding error must not make it negative; NaN stays.
    return f"(({squares}) < 0 ? 0 : ({squares}))"


def _about_centre(
    x: Element, centre: Element, names: tuple[str, ...], ctype: str, result: Element, finish: str
) -> Reduction:
    """A reduction to sums of squares of distances and of distances."""

    def update(width: int) -> str:
        t = vector(ctype, width)
        parts = zip(value_names(x, "x"), value_names(centre, "y"), names[1:], strict=False)
        return " ".join(
            f"{{ const {t} d = {convert(p, x.real, ctype, width)} - "
            f"{convert(c, centre.real, ctype, width)}; a.square += d * d; a.{n} += d; }}"
            for p, c, n in parts
        )

    block = BLOCK if ctype == centre.real else _WIDE_BLOCK
    return sums(
        "moment", (x, centre), names, ctype, update, result, finish, per_row=True, block=block
    )


_MOMENT_IN_WORDS = """
// The sum of squared distances from the mean, of the sums of the squares of distances from another
// centre and of the distances over 2^64: in double words, for nearly all of the squares may cancel.
static inline double moment_finish(
    double square, double square_lo, double sum, double sum_lo, double count)
{
    if (isinf(square) && isfinite(sum)) return square;
    sum *= 0x1p64;  // finite, for its square is at most count times the squares' sum
    sum_lo *= 0x1p64;
    const double mean = sum / count, mean_lo = (fma(-mean, count, sum) + sum_lo) / count;
    const double drift = sum * mean;
    const double drift_lo = fma(sum, mean, -drift) + (sum * mean_lo + sum_lo * mean);
    const double s = square - drift, t = s - square;
    const double moment = s + ((square - (s - t)) - (drift + t) + (square_lo - drift_lo));
    return moment < 0 ? 0 : moment;
}
"""


def moment_in_words(x: Element, result: Element, ddof: float, root: bool) -> Reduction:
    """:func:`moment` of float64 about the first element, in double words from the start.

    Differences, their squares and all sums have no error but the rounding to double words.
    """
    acc = double_word("acc_t", ("square", "re"), "double")
    lane = double_word("lane_t", ("square", "re"), "double")

    def update(width: int) -> str:
        t = vector("double", width)
        zero = f"({t})(0)"

        def add(name: str, value: str, rest: str) -> str:
            return (
                f"{{ {two_sum(t, f'a.{name}_hi', value)}, f = e + ({rest}); "
                f"a.{name}_hi = s; a.{name}_lo += f - f == {zero} ? f : {zero}; }}"
            )

        distance = (
            f"const {t} d = x - y, back = d + y, low = (x - back) + ((back - d) - y), "
            f"dd = fma(d, d, {zero}), small = d * 0x1p-64, small_low = low * 0x1p-64;"
        )
        square = add("square", "dd", "fma(d, d, -dd) + 2 * d * low")
        return f"{{ {distance} {square} {add('re', 'small', 'small_low')} }}"

    copied = (f"{n}_{part}" for n in ("square", "re") for part in ("hi", "lo"))
    copy = " ".join(f"r.{name} = a.{name};" for name in copied)
    parts = ", ".join(f"a.{n}_{part}" for n in ("square", "re") for part in ("hi", "lo"))
    finish = f"moment_finish({parts}, (double)count) / {_freedom('double', ddof)}"
    return Reduction(
        name="moment", inputs=(x, x), lane=lane, update=update, acc=acc, lift=lambda width: copy,
        block=0, result=result, finish=f"sqrt({finish})" if root else finish, per_row=True,
        preamble=_MOMENT_IN_WORDS,
    )  # fmt: skip


def _freedom(ctype: str, ddof: float) -> str:
    """The divisor of a sum of squares: 0 gives NaN or infinity as in NumPy; less counts as 0."""
    return f"fmax(({ctype})count - ({ctype}){float(ddof)!r}, ({ctype})0)"


def nrm2(x: Element, acc: Element, result: Element) -> Reduction:
    """``nrm2``: three sums of squares by magnitude, after a plain one."""
    ctype = acc.real
    if x.name == "f16" or (ctype == "double" and x.real != "double"):  # it holds every square
        return _squares(x, ctype, result)
    # Anderson's constants, except two: float's ``big`` is smaller, so that the sum of 2^48 squares
    # below it does not overflow (Anderson: 2^24), and ``up`` is such that the square of the
    # smallest subnormal number is a normal one.
    small, big, up, down, most, least = (
        ("0x1p-511", "0x1p+486", "0x1p+600", "0x1p-538", "0x1p+972", "0x1p-965")
        if ctype == "double"
        else ("0x1p-63f", "0x1p+40f", "0x1p+100f", "0x1p-76f", "0x1p+80f", "0x1p-98f")
    )

    def update(width: int) -> str:
        t = vector(ctype, width)
        zero = f"({t})(0)"
        return " ".join(
            f"{{ const {t} v = ABS({convert(p, x.real, ctype, width)}); "
            f"const {t} b = v > {big} ? v * {down} : {zero}; a.big += b * b; "
            f"const {t} s = v < {small} ? v * {up} : {zero}; a.small += s * s; "
            f"const {t} m = v > {big} ? {zero} : (v < {small} ? {zero} : v); a.mid += m * m; }}"
            for p in value_names(x, "x")
        )

    finish = f"nrm2_finish(small, mid, big, {up}, {down})"
    three = sums(
        "nrm2", (x,), ("small", "mid", "big"), ctype, update, result, finish, block=_LONG_BLOCK
    )
    # A plain sum up to big^2 has no square above that.  Of one element, underflow, even if it goes
    # to zero, costs less than 8 times the least normal number: `least` is 2 / u of that.
    quick = Quick(
        _squares(x, ctype, result, "quick_"),
        lambda at: f"a.s_hi{at} >= ({ctype})count * {least} && a.s_hi{at} <= {most}",
        "r.mid_hi = a.s_hi; r.mid_lo = a.s_lo;",
    )
    return replace(three, quick=quick)


def _squares(x: Element, ctype: str, result: Element, prefix: str = "") -> Reduction:
    """The root of the sum of squares."""

    def update(width: int) -> str:
        t = vector(ctype, width)
        return " ".join(
            f"{{ const {t} v = {convert(p, x.real, ctype, width)}; a.s += v * v; }}"
            for p in value_names(x, "x")
        )

    return sums("nrm2", (x,), ("s",), ctype, update, result, "sqrt(s)", prefix=prefix)
