"""What each reduction folds, in OpenCL C: per-lane state, accumulator, and final value.

A kernel keeps a small *lane state* per vector lane while it streams through memory.  After a
block of steps it *lifts* the state into an accumulator, which travels between lanes, work-items
and work-groups, and in the end is *finished* into one element of the result.

Floating sums lift every :data:`BLOCK` steps into a double word (hi, lo) that is added by TwoSum,
so that the error does not grow with n: |error| <= (BLOCK + 4) u sum|x| + O(n u^2) sum|x|.
Sources: Knuth, TAOCP 2, 4.2.2 (TwoSum); Ogita, Rump and Oishi, SIAM J. Sci. Comput. 26(6), 2005.
nrm2 keeps three sums by magnitude: Blue, TOMS 4(1), 1978; Anderson, TOMS 44(1), 2017.  They are
needed where squares leave the range of numbers, which is rare: each work-item first folds its share
by a :class:`Quick` form, one plain sum of squares, and by the three where that cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from portable_gpu.codegen.functions import Function, with_literals_of
from portable_gpu.codegen.operators import Accumulator, BinaryOp, Field, Map, vector
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentError

BLOCK = 4  # additions in plain arithmetic between two lifts
_LONG_BLOCK = 8  # of several sums at once, whose lifts cost more: nrm2 1.1 to 1.3 of the speed
_BLOCK_OF_INTEGERS = 1 << 11  # 16-bit integers that a 32-bit sum holds, of 8 lanes in one

Text = Callable[[int], str]  # C text for a number of lanes side by side


@dataclass(frozen=True)
class Quick:
    """A cheaper fold of the same elements, whose accumulator shows whether it will do.

    A work-item folds its share of the elements by it.  If the outcome is trusted, the accumulator
    of the whole reduction adopts it; if not, the work-item reads its share again.

    Attributes:
        fold: What it folds; the names of its types differ from the whole reduction's.
        trusted: C condition, given what selects a lane of the fields of accumulator ``a``: whether
            it is as good as the whole reduction, which folds ``count`` elements.
        adopt: Statements that turn accumulator ``r``, neutral so far, into what ``a`` stands for.
    """

    fold: Reduction
    trusted: Callable[[str], str]
    adopt: str


@dataclass(frozen=True)
class Reduction:
    """One reduction on given element types.

    Attributes:
        name: What it computes.
        inputs: Elements of the inputs: one, two for ``dot``, more for a map of several arrays.
        per_row: Whether the second input holds one element per result (``var``'s centre).
        lane: State of a lane; fields may be of any size.
        update: Statements that fold ``x`` (``x_re``, ``x_im``; likewise ``y``) into state ``a``;
            ``step`` counts the elements that the lane has seen.
        acc: Accumulator that travels between lanes.
        lift: Statements that make accumulator ``r`` of state ``a``; ``INDEX`` is the index of
            the element that the state's ``step`` points to.
        block: Steps between lifts, 0 for once at the end.
        result: Element of the result.
        totals: C declarations of the final values from accumulator ``a``.
        finish: C expression of the result from those, ``a`` and ``count`` elements.
        vectorizable: Whether the text holds for vectors.
        indexed: Whether the state remembers a step.
        preamble: C functions that the text calls.
        quick: What is tried first, if anything.
    """

    name: str
    inputs: tuple[Element, ...]
    lane: Accumulator
    update: Text
    acc: Accumulator
    lift: Text
    block: int
    result: Element
    finish: str
    totals: str = ""
    per_row: bool = False
    vectorizable: bool = True
    indexed: bool = False
    preamble: str = ""
    quick: Quick | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """What kernels call the inputs."""
        return ("x", "y", *(f"y{k}" for k in range(2, len(self.inputs))))[: len(self.inputs)]

    @property
    def folds(self) -> tuple[Reduction, ...]:
        """What folds elements in the order of trying: the quick form, if any, and itself."""
        return (self.quick.fold, self) if self.quick else (self,)

    @property
    def lift_cost(self) -> float:
        """What lifts cost, against those of one sum every :data:`BLOCK` steps of a real input."""
        if not self.block:
            return 0
        return len(self.lane.fields) * BLOCK / (self.block * self.inputs[0].components)

    @property
    def streamed(self) -> tuple[Element, ...]:
        """The inputs whose every element is read."""
        return self.inputs[:1] if self.per_row else self.inputs

    @property
    def value(self) -> str:
        """C expression of what is stored: ``finish`` in the type of the result."""
        if self.result.boolean:
            return f"({self.finish}) != 0"
        return f"({self.result.value})({self.finish})"

    @property
    def needs_fp64(self) -> bool:
        """Whether the kernels read, compute or write double precision."""
        fields = (*self.lane.fields, *self.acc.fields)
        elements = (*self.inputs, self.result)
        return any(f.ctype == "double" for f in fields) or any(e.needs_fp64 for e in elements)


def value_names(elem: Element, name: str) -> tuple[str, ...]:
    """How ``update`` calls the parts of an input element."""
    return (f"{name}_re", f"{name}_im") if elem.complex else (name,)


def convert(expression: str, source: str, target: str, width: int) -> str:
    """``expression`` of C type ``source`` in C type ``target``, for ``width`` lanes."""
    if source == target:
        return expression
    to = vector(target, width)
    return f"(({to})({expression}))" if width == 1 else f"CONVERT({to}, {expression})"


# -- sums


def _double_word(name: str, names: tuple[str, ...], ctype: str) -> Accumulator:
    """Sums of several values, each as an unevaluated pair (hi, lo) with |lo| <= u |hi|.

    Where hi is infinite or NaN, lo is 0 and hi is the plain sum.
    """
    fields = [Field(f"{name}_{part}", ctype, "0") for name in names for part in ("hi", "lo")]

    def combine(width: int) -> str:
        t = vector(ctype, width)
        zero = f"({t})(0)"
        return "\n    ".join(
            f"{{ const {t} s = a.{n}_hi + b.{n}_hi, t = s - a.{n}_hi, "
            f"e = (a.{n}_hi - (s - t)) + (b.{n}_hi - t), "
            f"f = (e == e ? e : {zero}) + (a.{n}_lo + b.{n}_lo), hi = s + f, lo = f - (hi - s); "
            f"a.{n}_hi = hi; a.{n}_lo = lo == lo ? lo : {zero}; }}"
            for n in names
        )

    def gather(width: int) -> str:
        # Not renormalised: after N times lo has lost N^2 u^2 of the sum.
        t = vector(ctype, width)
        zero = f"({t})(0)"
        return "\n    ".join(
            f"{{ const {t} s = a.{n}_hi + b.{n}_hi, t = s - a.{n}_hi, "
            f"e = (a.{n}_hi - (s - t)) + (b.{n}_hi - t); "
            f"a.{n}_hi = s; a.{n}_lo += e == e ? e : {zero}; }}"
            for n in names
        )

    return Accumulator(name, tuple(fields), combine, gather)


def _plain(name: str, names: tuple[str, ...], ctype: str) -> Accumulator:
    text = " ".join(f"a.{n} += b.{n};" for n in names)
    return Accumulator(name, tuple(Field(n, ctype, "0") for n in names), lambda width: text)


def _sums(
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
    words: bool = True,
) -> Reduction:
    """A reduction whose state is a set of sums, which ``finish`` calls by their names.

    ``prefix`` goes before the names of its types.  ``words``: whether sums of floats are lifted
    into double words.
    """
    floating = ctype in ("float", "double") and words
    if floating:
        acc = _double_word(f"{prefix}acc_t", names, ctype)
        lift = " ".join(f"r.{n}_hi = a.{n}; r.{n}_lo = 0;" for n in names)
        value = {n: f"a.{n}_hi + a.{n}_lo" for n in names}
    else:
        acc = _plain(f"{prefix}acc_t", names, ctype)
        value = {n: f"a.{n}" for n in names}

    def lift_integer(width: int) -> str:
        source = lane_ctype or ctype
        return " ".join(f"r.{n} = {convert(f'a.{n}', source, ctype, width)};" for n in names)

    return Reduction(
        name,
        inputs,
        lane=_plain(f"{prefix}lane_t", names, lane_ctype or ctype),
        update=update,
        acc=acc,
        lift=(lambda width: lift) if floating else lift_integer,
        block=block if floating else (_BLOCK_OF_INTEGERS if lane_ctype else 0),
        result=result,
        finish=finish,
        totals=" ".join(f"const {ctype} {n} = {value[n]};" for n in names),
        per_row=per_row,
    )


def _sum(name: str, x: Element, acc: Element, result: Element, divide: str = "") -> Reduction:
    """``sum`` and ``mean``; integers of 8 and 16 bits are first added as 32-bit ones."""
    names = ("re", "im") if acc.complex else ("s",)
    small = not x.floating and x.itemsize <= 2 and not acc.floating
    lane = "int" if small else None
    finish = ", ".join(f"{n}{divide}" for n in names)
    if acc.complex:
        finish = f"({result.value})({finish})"

    def update(width: int) -> str:
        parts = value_names(x, "x")
        if acc.complex and not x.complex:
            parts = (parts[0], "0")
        pairs = zip(names, parts, strict=True)
        return " ".join(
            f"a.{n} += {'0' if p == '0' else convert(p, x.real, lane or _wide(acc), width)};"
            for n, p in pairs
        )

    return _sums(name, (x,), names, _wide(acc), update, result, finish, lane)


def _wide(elem: Element) -> str:
    """The 32- or 64-bit C type that an element is folded in."""
    return {"char": "int", "short": "int", "uchar": "uint", "ushort": "uint"}.get(
        elem.real, elem.real
    )


def _asum(x: Element, result: Element) -> Reduction:
    ctype = _wide(result)

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

    return _sums("asum", (x,), ("s",), ctype, update, result, "s")


def _dot(name: str, x: Element, y: Element, result: Element) -> Reduction:
    """``sum x y``, or ``sum conj(x) y``; either input may be real where the result is complex."""
    ctype = _wide(result)
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
    return _sums(name, (x, y), names, ctype, update, result, finish)


def _moment(
    x: Element, centre: Element, ctype: str, result: Element, ddof: float, root: bool
) -> Reduction:
    """Sum of squared distances from a centre per row, and of the distances, which corrects it.

    About its mean, in the mean's type; or about its first element, in double precision: a mean
    that is e from the centre costs a factor of 1 + e^2 / variance, which is at most the number of
    elements, for the centre is one of them (Chan, Golub and LeVeque, The American Statistician
    37(3), 1983, on shifted data).
    """

    def update(width: int) -> str:
        t = vector(ctype, width)
        parts = zip(value_names(x, "x"), value_names(centre, "y"), ("re", "im"), strict=False)
        return " ".join(
            f"{{ const {t} d = {convert(p, x.real, ctype, width)} - "
            f"{convert(c, centre.real, ctype, width)}; a.square += d * d; a.{n} += d; }}"
            for p, c, n in parts
        )

    names = ("square", "re", "im") if x.complex else ("square", "re")
    drift = " + ".join(f"{n} * {n}" for n in names[1:])
    variance = f"square - ({drift}) / ({ctype})(count > 0 ? count : 1)"
    # A rounding error must not make it negative; NaN stays.
    finish = f"(({variance}) < 0 ? 0 : ({variance})) / {_freedom(ctype, ddof)}"
    finish = f"sqrt({finish})" if root else finish
    finish = f"{finish}, 0" if result.complex else finish
    words = ctype == centre.real  # else double precision is more than the result can show
    return _sums(
        "moment", (x, centre), names, ctype, update, result, finish, per_row=True, words=words
    )


_MOMENT_IN_WORDS = """
// The sum of squared distances from the mean, of the sums of the squares of distances from another
// centre and of the distances: in double words, for nearly all of the squares may cancel.
static inline double moment_finish(
    double square, double square_lo, double sum, double sum_lo, double count)
{
    if (isinf(square) && isfinite(sum)) return square;
    const double mean = sum / count, mean_lo = (fma(-mean, count, sum) + sum_lo) / count;
    const double drift = sum * mean;
    const double drift_lo = fma(sum, mean, -drift) + (sum * mean_lo + sum_lo * mean);
    const double s = square - drift, t = s - square;
    const double moment = s + ((square - (s - t)) - (drift + t) + (square_lo - drift_lo));
    return moment < 0 ? 0 : moment;
}
"""


def _moment_in_words(x: Element, result: Element, ddof: float, root: bool) -> Reduction:
    """:func:`_moment` of float64 about the first element, in double words from the start.

    Distances, their squares and all sums are exact but for what a double word drops.
    """
    acc = _double_word("acc_t", ("square", "re"), "double")
    lane = _double_word("lane_t", ("square", "re"), "double")

    def update(width: int) -> str:
        t = vector("double", width)
        zero = f"({t})(0)"

        def add(name: str, value: str, rest: str) -> str:
            return (
                f"{{ const {t} s = a.{name}_hi + {value}, t = s - a.{name}_hi, "
                f"e = ((a.{name}_hi - (s - t)) + ({value} - t)) + ({rest}); "
                f"a.{name}_hi = s; a.{name}_lo += e - e == {zero} ? e : {zero}; }}"
            )

        distance = (
            f"const {t} d = x - y, back = d + y, low = (x - back) + ((back - d) - y), "
            f"dd = fma(d, d, {zero});"
        )
        square = add("square", "dd", "fma(d, d, -dd) + 2 * d * low")
        return f"{{ {distance} {square} {add('re', 'd', 'low')} }}"

    copied = (f"{n}_{part}" for n in ("square", "re") for part in ("hi", "lo"))
    copy = " ".join(f"r.{name} = a.{name};" for name in copied)
    parts = ", ".join(f"a.{n}_{part}" for n in ("square", "re") for part in ("hi", "lo"))
    finish = f"moment_finish({parts}, (double)count) / {_freedom('double', ddof)}"
    return Reduction(
        "moment",
        (x, x),
        lane,
        update,
        acc,
        lambda width: copy,
        0,
        result,
        f"sqrt({finish})" if root else finish,
        per_row=True,
        preamble=_MOMENT_IN_WORDS,
    )


def _freedom(ctype: str, ddof: float) -> str:
    """The divisor of a sum of squares: 0 gives NaN or infinity as in NumPy; less counts as 0."""
    return f"fmax(({ctype})count - ({ctype}){float(ddof)!r}, ({ctype})0)"


def _nrm2(x: Element, acc: Element, result: Element) -> Reduction:
    ctype = acc.real
    if x.name == "f16" or (ctype == "double" and x.real != "double"):  # it holds every square
        return _squares(x, ctype, result)
    # As Anderson, but for two: float's big, so that 2^48 squares below it have room (not 2^24),
    # and up, so that the square of the smallest subnormal number is a normal one.
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
    three = _sums(
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

    return _sums("nrm2", (x,), ("s",), ctype, update, result, "sqrt(s)", prefix=prefix)


# -- folds of single values


def _prod(x: Element, acc: Element, result: Element) -> Reduction:
    ctype = _wide(acc)
    if not acc.complex:
        state = (Field("v", ctype, "1"),)
        text = "a.v *= b.v;"
        return Reduction(
            "prod",
            (x,),
            Accumulator("lane_t", state, lambda w: text),
            lambda w: f"a.v *= {convert('x', x.real, ctype, w)};",
            Accumulator("acc_t", state, lambda w: text),
            lambda w: "r.v = a.v;",
            0,
            result,
            "a.v",
        )
    pair = (Field("re", ctype, "1"), Field("im", ctype, "0"))

    def times(width: int, re: str = "b.re", im: str = "b.im") -> str:
        t = vector(ctype, width)
        return (
            f"const {t} re = a.re * {re} - a.im * {im}; "
            f"a.im = a.re * {im} + a.im * {re}; a.re = re;"
        )

    parts = value_names(x, "x") if x.complex else ("x", "0")
    return Reduction(
        "prod",
        (x,),
        Accumulator("lane_t", pair, times),
        lambda w: times(w, *(p if p == "0" else convert(p, x.real, ctype, w) for p in parts)),
        Accumulator("acc_t", pair, times),
        lambda w: "r.re = a.re; r.im = a.im;",
        0,
        result,
        f"({result.value})(a.re, a.im)",
    )


def _lowest(ctype: str, greatest: bool) -> str:
    """The neutral element of max (or of min, if ``greatest``)."""
    if ctype in ("float", "double"):
        return "INFINITY" if greatest else "-INFINITY"
    name = ctype.upper()
    if greatest:
        return f"{name}_MAX"
    return "0" if name.startswith("U") else f"{name}_MIN"


def _extreme(name: str, x: Element, result: Element) -> Reduction:
    """``min`` and ``max``: NaN wins; complex numbers compare by (re, im)."""
    ctype, sign = _wide(x), ">" if name == "max" else "<"
    parts = ("re", "im") if x.complex else ("v",)
    neutral = _lowest(ctype, name == "min")
    state = tuple(Field(part, ctype, neutral) for part in parts)

    def better(new: tuple[str, ...]) -> str:
        nan_new = " | ".join(f"({v} != {v})" for v in new)
        old = tuple(f"a.{part}" for part in parts)
        test = f"({new[0]} {sign} {old[0]})"
        if x.complex:
            nan_old = " | ".join(f"({v} != {v})" for v in old)
            tie = f"(({new[0]} == {old[0]}) & ({new[1]} {sign} {old[1]}))"
            ordered = f"({test} | {tie})"
            return f"({ordered} & !({nan_old})) | (({nan_new}) & !({nan_old}))"
        return f"{test} | {nan_new}" if x.floating else test

    def take(new: tuple[str, ...], width: int) -> str:
        mask = state[0].mask_type(width)
        moves = " ".join(
            f"a.{part} = better ? {v} : a.{part};" for part, v in zip(parts, new, strict=True)
        )
        return f"const {mask} better = {better(new)}; {moves}"

    def update(width: int) -> str:
        new = tuple(f"new_{part}" for part in parts)
        t = vector(ctype, width)
        values = (convert(p, x.real, ctype, width) for p in value_names(x, "x"))
        declared = " ".join(f"const {t} {n} = {v};" for n, v in zip(new, values, strict=True))
        return f"{declared} {take(new, width)}"

    def fold(width: int) -> str:
        return take(tuple(f"b.{part}" for part in parts), width)

    finish = f"({result.value})(a.re, a.im)" if x.complex else "a.v"
    copy = " ".join(f"r.{part} = a.{part};" for part in parts)
    return Reduction(
        name,
        (x,),
        Accumulator("lane_t", state, fold),
        update,
        Accumulator("acc_t", state, fold),
        lambda w: copy,
        0,
        result,
        finish,
    )


_REVERSED = str.maketrans("<>", "><")


def _arg_extreme(name: str, x: Element, result: Element) -> Reduction:
    """``argmin`` and ``argmax``: the first of equals; the first NaN before all."""
    ctype, sign = _wide(x), ">" if name == "argmax" else "<"
    parts = ("re", "im") if x.complex else ("v",)
    neutral = _lowest(ctype, name == "argmin")
    values = tuple(Field(part, ctype, neutral) for part in parts)
    wide = values[0].bytes == 8
    lane_index = Field("step", "long" if wide else "int", "-1")
    index = Field("index", "long", "LONG_MAX")

    def nan(names: tuple[str, ...]) -> str:
        return "(" + " | ".join(f"({v} != {v})" for v in names) + ")"

    def beats(new: tuple[str, ...], old: tuple[str, ...]) -> str:
        test = f"({new[0]} {sign} {old[0]})"
        if x.complex:
            test = f"({test} | (({new[0]} == {old[0]}) & ({new[1]} {sign} {old[1]})))"
            return f"({test} & !{nan(new)})"
        return test

    def equals(new: tuple[str, ...], old: tuple[str, ...]) -> str:
        same = " & ".join(f"({n} == {o})" for n, o in zip(new, old, strict=True))
        return f"({same})"

    old = tuple(f"a.{part}" for part in parts)

    def update(width: int) -> str:
        t, mask = vector(ctype, width), values[0].mask_type(width)
        new = tuple(f"new_{part}" for part in parts)
        declared = " ".join(
            f"const {t} {n} = {convert(p, x.real, ctype, width)};"
            for n, p in zip(new, value_names(x, "x"), strict=True)
        )
        # Once NaN is held nothing beats it; a first element equal to the neutral one counts.
        fresh = f"(a.step == ({lane_index.type(width)})(-1))"
        test = f"{beats(new, old)} | {fresh}"
        if x.floating and x.complex:
            test = f"(({test}) | {nan(new)}) & !({nan(old)})"
        elif x.floating:  # "not ordered the other way" is one comparison, and true of NaN
            worse = f"({new[0]} {sign.translate(_REVERSED)}= {old[0]})"
            test = f"(!{worse} | {fresh}) & ({old[0]} == {old[0]})"
        moves = " ".join(f"a.{p} = better ? {n} : a.{p};" for p, n in zip(parts, new, strict=True))
        step = f"({lane_index.type(width)})(step)"
        return (
            f"{declared} const {mask} better = {test}; {moves} a.step = better ? {step} : a.step;"
        )

    def fold(width: int) -> str:
        mask = values[0].mask_type(width)
        new = tuple(f"b.{part}" for part in parts)
        earlier = values[0].mask("b.index < a.index", width)
        unset_a = values[0].mask("a.index == LONG_MAX", width)
        set_b = values[0].mask("b.index != LONG_MAX", width)
        test = f"{beats(new, old)} | ({equals(new, old)} & {earlier})"
        if x.floating:
            both = f"({nan(new)} & {nan(old)} & {earlier})"
            test = f"(({test}) & !{nan(old)}) | ({nan(new)} & !{nan(old)}) | {both}"
        test = f"{set_b} & ({unset_a} | ({test}))"
        moves = " ".join(f"a.{p} = better ? b.{p} : a.{p};" for p in parts)
        choose = index.mask("better", width)
        return f"const {mask} better = {test}; {moves} a.index = {choose} ? b.index : a.index;"

    def lift(width: int) -> str:
        copy = " ".join(f"r.{part} = a.{part};" for part in parts)
        unset = index.mask("a.step < 0", width)
        none = f"({index.type(width)})(LONG_MAX)"
        return f"{copy} r.index = {unset} ? {none} : INDEX;"

    return Reduction(
        name,
        (x,),
        Accumulator("lane_t", (*values, lane_index), lambda w: ""),
        update,
        Accumulator("acc_t", (*values, index), fold),
        lift,
        0,
        result,
        "a.index",
        indexed=True,
    )


def _counting(name: str, x: Element, result: Element) -> Reduction:
    """``any``, ``all`` and ``count_nonzero``: all count the elements that differ from zero."""

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
    return _sums(name, (x,), ("s",), "ulong", update, result, finish, "int")


_WIDTHS = (1, 2, 4, 8, 16)


def _custom(
    op: BinaryOp,
    mapping: Map,
    x: Element,
    acc: Element,
    others: tuple[tuple[str, Element], ...],
    compute: Element,
) -> Reduction:
    """A user's operator, of single values or vectors, and the map that comes before it."""
    ctype = _wide(acc)
    inside = "int" if compute.real in ("char", "uchar", "short", "ushort") else compute.real
    literals = "double" if "double" in (ctype, inside) else inside
    named = (("x", x), *others)
    fold = Function(  # which nothing of the library's is called
        f"user_{op.name}",
        with_literals_of(op.combine, ctype),
        (("a", ctype), ("b", ctype)),
        ctype,
        ctype,
    )
    each = Function(
        f"user_{op.name}__map",
        with_literals_of(mapping.expression, literals),
        tuple((name, elem.real) for name, elem in named),
        inside,
        ctype,
    )
    inputs = tuple(elem for _, elem in named)
    state = (Field("v", ctype, f"({with_literals_of(op.identity, ctype)})"),)

    def update(width: int) -> str:
        values = ", ".join(result.names)
        return f"a.v = {fold.called(width)}(a.v, {each.called(width)}({values}));"

    def combine(width: int) -> str:
        return f"a.v = {fold.called(width)}(a.v, b.v);"

    result = Reduction(
        f"reduce_{op.name}",
        inputs,
        Accumulator("lane_t", state, combine),
        update,
        Accumulator("acc_t", state, combine),
        lambda w: "r.v = a.v;",
        0,
        acc,
        "a.v",
        preamble="\n".join(f.define(width) for f in (fold, each) for width in _WIDTHS),
    )
    return result


@dataclass(frozen=True)
class Request:
    """Names a reduction: what :func:`reduction` builds, and part of a plan's key.

    Attributes:
        name: ``sum``, ``prod``, ``min`` ... or ``moment`` (variance about a centre), ``reduce``.
        x: Element of the input.
        acc: Element that it is folded in (``dtype=`` of ``sum``).
        result: Element of the result.
        y: Element of the second input of ``dot``, ``vdot`` and ``moment``.
        ddof: Of ``moment``.
        root: Whether ``moment`` ends with a square root.
        in_words: Whether ``moment`` of float64 is about its first elements.
        op, map: Of ``reduce``.
        others: Its further inputs: what the map calls them, and their elements.
        compute: Element that the map is computed in.
    """

    name: str
    x: Element
    acc: Element
    result: Element
    y: Element | None = None
    ddof: float = 0.0
    root: bool = False
    in_words: bool = False
    op: BinaryOp | None = None
    map: Map | None = None
    others: tuple[tuple[str, Element], ...] = ()
    compute: Element | None = None


@lru_cache(maxsize=1024)
def reduction(request: Request) -> Reduction:
    """The :class:`Reduction` of a request."""
    r = request
    match r.name:
        case "sum":
            return _sum("sum", r.x, r.acc, r.result)
        case "mean":
            return _sum("mean", r.x, r.acc, r.result, f" / ({r.acc.real})count")
        case "prod":
            return _prod(r.x, r.acc, r.result)
        case "min" | "max":
            return _extreme(r.name, r.x, r.result)
        case "argmin" | "argmax":
            return _arg_extreme(r.name, r.x, r.result)
        case "any" | "all" | "count_nonzero":
            return _counting(r.name, r.x, r.result)
        case "asum":
            return _asum(r.x, r.acc)
        case "nrm2":
            return _nrm2(r.x, r.acc, r.result)
        case "dot" | "vdot" if r.y is not None:
            return _dot(r.name, r.x, r.y, r.result)
        case "moment" if r.y is not None and r.y.real == r.x.real == "double" and r.in_words:
            return _moment_in_words(r.x, r.result, r.ddof, r.root)
        case "moment" if r.y is not None:
            return _moment(r.x, r.y, r.acc.real, r.result, r.ddof, r.root)
        case "reduce" if r.op is not None and r.map is not None:
            return _custom(r.op, r.map, r.x, r.acc, r.others, r.compute or r.x)
    raise ArgumentError(f"reduction {r.name!r} is not known")
