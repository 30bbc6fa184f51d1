"""A user's operator and map."""

from __future__ import annotations

from portable_gpu.codegen.functions import Function, helper_texts, with_literals_of
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
    inside = "int" if compute.boolean else compute.real
    named = (("x", x), *others)
    # Nothing of the library's is called by these names.
    fold = Function(f"user_{op.name}", op.combine, (("a", ctype), ("b", ctype)), ctype, ctype)
    each = Function(
        f"user_{op.name}__map",
        mapping.expression,
        tuple((name, elem.real) for name, elem in named),
        inside,
        ctype,
        boolean=compute.boolean,
    )
    inputs = tuple(elem for _, elem in named)
    state = (Field("v", ctype, f"({with_literals_of(op.identity, ctype)})"),)

    def update(width: int) -> str:
        values = ", ".join(result.names)
        return f"a.v = {fold.called(width)}(a.v, {each.called(width)}({values}));"

    def combine(width: int) -> str:
        return f"a.v = {fold.called(width)}(a.v, b.v);"

    every = [(f, width) for f in (fold, each) for width in _WIDTHS]
    helpers = [helper for f, width in every for helper in f.helpers(width)]
    defined = [f.define(width) for f, width in every]
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
        preamble="\n".join((helper_texts(helpers), *defined)),
    )
    return result
