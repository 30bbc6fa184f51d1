"""Elementwise expressions with no device at hand: typical kernels, and explanations."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from portable_gpu.codegen.expression import PATTERNS, RESERVED, check_expression
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.catalogue import Build
from portable_gpu.ops.elementwise.plan import Form, Problem, render_form, settle
from portable_gpu.ops.explain import Explainer, Explanation
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

DType = np.dtype[Any]
_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def _problem(expression: str, dtype: DType, shape: Shape, spread: dict[str, Shape]) -> Problem:
    """Of C-ordered arrays; ``spread``: strides of those that are broadcast."""
    if np.dtype(dtype).kind == "c":
        raise UnsupportedError(f"elementwise takes real arrays; dtype is {dtype}")
    names = [
        word
        for word in dict.fromkeys(_NAME.findall(expression))
        if word not in RESERVED and not PATTERNS.fullmatch(word)
    ]
    elem, whole = element(dtype), contiguous_strides(shape)
    strides = (*(spread.get(name, whole) for name in names), whole)
    inputs = (elem,) * len(names)
    return Problem(expression, tuple(names), inputs, (), (), elem, elem, shape, strides, 16)


def specializations(target: Target, dtype: DType) -> list[Specialization]:
    """What a sum of two vectors, and a matrix with a row and a column, build by default."""
    table, n = TuningTable.shipped(), 4096
    text = "exp(x - m) / s" if element(dtype).floating else "(x - m) * s"
    problems = [
        _problem("x + y", dtype, (1 << 24,), {}),
        _problem(text, dtype, (n, n), {"m": (1, 0), "s": (0, 1)}),
        _problem("x * y", dtype, (n, n), {"y": (1, n)}),
    ]
    found = [render_form(p, target, settle(p, target, table)) for p in problems]
    return list({spec.key: spec for spec in found}.values())


def explain(
    operation: str,
    sizes: Sequence[int],
    dtype: DType,
    target: Target,
    table: TuningTable,
    *,
    expression: str = "x + y",
) -> Explanation:
    """Which kernel an expression of C-ordered arrays of one shape takes, and why."""
    check_expression(expression, "expression")
    shape = tuple(sizes)
    problem = _problem(expression, dtype, shape, {})
    form = settle(problem, target, table)
    layout, deal = form.layout, form.deal
    by = " x ".join(map(str, shape)) or "a scalar"
    return Explanation(
        operation=f"{operation} {expression!r} of {by} {dtype} on {target.facts.name}",
        path="runs" if target.is_cpu else "tiles",
        kernels=(f"elementwise/{'runs' if target.is_cpu else 'tiles'}",),
        policy=form.choice.policy.to_dict(),
        origin=form.choice.origin,
        why=_why(target, form),
        details={
            "groups": deal.groups,
            "group size": layout.group_size,
            "vector": layout.vector,
            "rows": deal.rows,
            "columns": deal.columns,
        },
        evidence=form.choice.evidence,
    )


def _why(target: Target, form: Form) -> str:
    if not target.is_cpu:
        return "each group has a tile of the rows and columns that the axes merge to"
    if form.layout.vector > 1:
        return "each work-item has a run of elements, which are computed as vectors"
    return "each work-item has a run of elements, a loop that the compiler makes vectors of"


#: What ``portable-gpu render`` shows.
CATALOGUE: dict[str, Build] = {"elementwise": specializations}
#: What ``portable-gpu explain`` tells.
EXPLAINERS: dict[str, Explainer] = {"elementwise": explain}
