"""A user's operator and map."""

from __future__ import annotations

from portable_gpu.codegen.functions import Function, with_literals_of
from portable_gpu.codegen.operators import Accumulator, BinaryOp, Field, Map
from portable_gpu.codegen.reductions.reduction import Reduction, wide_type
from portable_gpu.dtypes import Element

_WIDTHS = (1, 2, 4, 8, 16)


def custom(
    op: BinaryOp,
    mapping: Map,
    x: Element,
    acc: Element,
    others: tuple[tuple[str, Element], ...],
    compute: Element,
) -> Reduction:
    """A user's operator, of single values or vectors, and the map that comes before it."""
    ctype = wide_type(acc)
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
