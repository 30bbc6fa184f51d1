"""Reductions to a product, an extreme, or the index of an extreme."""

from __future__ import annotations

from portable_gpu.codegen.operators import Accumulator, Field, vector
from portable_gpu.codegen.reductions.reduction import Reduction, convert, value_names, wide_type
from portable_gpu.dtypes import Element


def prod(x: Element, acc: Element, result: Element) -> Reduction:
    """Return the reduction ``prod``."""
    ctype = wide_type(acc)
    if not acc.complex:
        state = (Field("v", ctype, "1"),)
        text = "a.v *= b.v;"
        return Reduction(
            name="prod", inputs=(x,), lane=Accumulator("lane_t", state, lambda w: text),
            update=lambda w: f"a.v *= {convert('x', x.real, ctype, w)};",
            acc=Accumulator("acc_t", state, lambda w: text), lift=lambda w: "r.v = a.v;", block=0,
            result=result, finish="a.v",
        )  # fmt: skip
    pair = (Field("re", ctype, "1"), Field("im", ctype, "0"))

    def times(width: int, re: str = "b.re", im: str = "b.im") -> str:
        t = vector(ctype, width)
        return (
            f"const {t} re = a.re * {re} - a.im * {im}; "
            f"a.im = a.re * {im} + a.im * {re}; a.re = re;"
        )

    parts = value_names(x, "x") if x.complex else ("x", "0")
    return Reduction(
        name="prod", inputs=(x,), lane=Accumulator("lane_t", pair, times),
        update=lambda w: times(
            w, *(p if p == "0" else convert(p, x.real, ctype, w) for p in parts)
        ),
        acc=Accumulator("acc_t", pair, times), lift=lambda w: "r.re = a.re; r.im = a.im;", block=0,
        result=result, finish=f"({result.value})(a.re, a.im)",
    )  # fmt: skip


def _lowest(ctype: str, greatest: bool) -> str:
    """Return the neutral element of max, or of min if ``greatest``."""
    if ctype in ("float", "double"):
        return "INFINITY" if greatest else "-INFINITY"
    name = ctype.upper()
    if greatest:
        return f"{name}_MAX"
    return "0" if name.startswith("U") else f"{name}_MIN"


def extreme(name: str, x: Element, result: Element) -> Reduction:
    """Return ``min`` or ``max``; NaN wins, and complex numbers compare by (re, im)."""
    ctype, sign = wide_type(x), ">" if name == "max" else "<"
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
        name=name, inputs=(x,), lane=Accumulator("lane_t", state, fold), update=update,
        acc=Accumulator("acc_t", state, fold), lift=lambda w: copy, block=0, result=result,
        finish=finish,
    )  # fmt: skip


_REVERSED = str.maketrans("<>", "><")


def arg_extreme(name: str, x: Element, result: Element) -> Reduction:
    """Return ``argmin`` or ``argmax``: the index of the first NaN, or else of the first extreme."""
    ctype, sign = wide_type(x), ">" if name == "argmax" else "<"
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
        # A NaN is never replaced.  The first element always replaces the neutral element, which may
        # be equal to it.
        fresh = f"(a.step == ({lane_index.type(width)})(-1))"
        test = f"{beats(new, old)} | {fresh}"
        if x.floating and x.complex:
            test = f"(({test}) | {nan(new)}) & !({nan(old)})"
        elif (
            x.floating
        ):  # "not worse or equal" is one comparison, and is true if the new one is NaN
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
        name=name, inputs=(x,), lane=Accumulator("lane_t", (*values, lane_index), lambda w: ""),
        update=update, acc=Accumulator("acc_t", (*values, index), fold), lift=lift, block=0,
        result=result, finish="a.index", indexed=True,
    )  # fmt: skip
