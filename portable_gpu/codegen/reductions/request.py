"""The definition of a reduction, by its name and options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from portable_gpu.codegen.functions import Function, helper_texts, with_literals_of
from portable_gpu.codegen.operators import Accumulator, BinaryOp, Field, Map
from portable_gpu.codegen.reductions.extremes import arg_extreme, extreme, prod
from portable_gpu.codegen.reductions.moments import (
    deviations,
    moment,
    moment_in_words,
    nrm2,
)
from portable_gpu.codegen.reductions.reduction import Reduction, wide_type
from portable_gpu.codegen.reductions.sums import asum, counting, dot, sum_
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentError


@dataclass(frozen=True)
class Request:
    """The name and the options of a reduction; part of a plan's key.

    Attributes:
        name: ``sum``, ``prod``, ``min`` ... or ``moment`` (variance about a centre),
            ``deviations`` (sums of squares and of distances from a centre), ``reduce``.
        x: The element type of the input.
        acc: The element type of the accumulator (``dtype=`` of ``sum``).
        result: The element type of the result.
        y: The element type of the second input of ``dot``, ``vdot``, ``moment`` and
            ``deviations``.
        ddof: The delta degrees of freedom of ``moment``.
        root: Whether ``moment`` ends with a square root.
        in_words: Whether ``moment`` of float64 is taken about the first elements, and its sums
            are double words.
        op, map: The operator and the map of ``reduce``.
        others: The further inputs of ``reduce``: their names in the map, and their element types.
        compute: The element type that the map is computed in.
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
    """Return the :class:`Reduction` of a request."""
    r = request
    match r.name:
        case "sum":
            return sum_("sum", r.x, r.acc, r.result)
        case "mean":
            return sum_("mean", r.x, r.acc, r.result, f" / ({r.acc.real})count")
        case "prod":
            return prod(r.x, r.acc, r.result)
        case "min" | "max":
            return extreme(r.name, r.x, r.result)
        case "argmin" | "argmax":
            return arg_extreme(r.name, r.x, r.result)
        case "any" | "all" | "count_nonzero":
            return counting(r.name, r.x, r.result)
        case "asum":
            return asum(r.x, r.acc)
        case "nrm2":
            return nrm2(r.x, r.acc, r.result)
        case "dot" | "vdot" if r.y is not None:
            return dot(r.name, r.x, r.y, r.result)
        case "moment" if r.in_words:
            return moment_in_words(r.x, r.result, r.ddof, r.root)
        case "moment" if r.y is not None:
            return moment(r.x, r.y, r.acc.real, r.result, r.ddof, r.root)
        case "deviations" if r.y is not None:
            return deviations(r.x, r.y, r.acc.real, r.result)
        case "reduce" if r.op is not None and r.map is not None:
            return custom(r.op, r.map, r.x, r.acc, r.others, r.compute or r.x)
    raise ArgumentError(f"reduction {r.name!r} is not known")


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
