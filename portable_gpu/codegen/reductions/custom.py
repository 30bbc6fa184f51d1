"""Reductions by a user's operator and map."""

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
    """Return the reduction by a user's operator of what the user's map gives for each element."""
    ctype = wide_type(acc)
    compute_type = "int" if compute.boolean else compute.real
    named = (("x", x), *others)
    # The prefix keeps these names apart from the library's functions.
    fold = Function(f"user_{op.name}", op.combine, (("a", ctype), ("b", ctype)), ctype, ctype)
    mapped = Function(
        f"user_{op.name}__map",
        mapping.expression,
        tuple((name, elem.real) for name, elem in named),
        compute_type,
        ctype,
        boolean=compute.boolean,
    )
    inputs = tuple(elem for _, elem in named)
    state = (Field("v", ctype, f"({with_literals_of(op.identity, ctype)})"),)

    def update(width: int) -> str:
        values = ", ".join(result.names)
        return f"a.v = {fold.called(width)}(a.v, {mapped.called(width)}({values}));"

    def combine(width: int) -> str:
        return f"a.v = {fold.called(width)}(a.v, b.v);"

    functions = [(f, width) for f in (fold, mapped) for width in _WIDTHS]
    helpers = [helper for f, width in functions for helper in f.helpers(width)]
    defined = [f.define(width) for f, width in functions]
    result = Reduction(
        name=f"reduce_{op.name}", inputs=inputs, lane=Accumulator("lane_t", state, combine),
        update=update, acc=Accumulator("acc_t", state, combine), lift=lambda w: "r.v = a.v;",
        block=0, result=acc, finish="a.v", preamble="\n".join((helper_texts(helpers), *defined)),
    )  # fmt: skip
    return result
