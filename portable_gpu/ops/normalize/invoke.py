"""Calls of programs on rows: the invocations that their functions share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

from portable_gpu.ops.normalize.plan import make_plan
from portable_gpu.ops.normalize.problem import RowProblem, row_problem
from portable_gpu.ops.normalize.programs import program
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, View

#: Gives the strides of an operand along all axes of the index space, from its view.
Spread = Callable[[View], Shape]


def as_they_are(view: View) -> Shape:
    """The strides of an operand of the shape of the index space."""
    return view.strides


def make_rows(
    engine: Engine,
    views: Sequence[View],
    name: str,
    flags: frozenset[str],
    shape: Shape,
    row_axes: frozenset[int],
    spreads: Mapping[str, Spread],
    scalars: tuple[float, ...] = (),
) -> Plan:
    """Return the plan of a program for some views; arguments: see :func:`problem_of`."""
    problem = problem_of(engine, views, name, flags, shape, row_axes, spreads, scalars)
    return engine.plan(problem, lambda: make_plan(engine, problem))


def problem_of(
    engine: Engine,
    views: Sequence[View],
    name: str,
    flags: frozenset[str],
    shape: Shape,
    row_axes: frozenset[int],
    spreads: Mapping[str, Spread],
    scalars: tuple[float, ...] = (),
) -> RowProblem:
    """Return the problem of a program for some views, in the order of its operands.

    Args:
        engine, views: The engine, and the views.
        name, flags: Those of the program.
        shape, row_axes: The index space, and its axes along a row.
        spreads: For operands that are not of that shape, how their strides follow from it.
        scalars: The numbers of the program.
    """
    operands = program(name, flags).operands
    strides = {
        operand: spreads.get(operand, as_they_are)(view)
        for operand, view in zip(operands, views, strict=True)
    }
    alignment = 1 if engine.target.is_cpu else min(32, *(view.alignment for view in views))
    return row_problem(name, flags, shape, row_axes, views, strides, scalars, alignment)


def flop_of(shape: Shape, per_element: int = 16) -> int:
    """An estimate of the operations, by which small calls stay on the calling thread."""
    return per_element * prod(shape)
