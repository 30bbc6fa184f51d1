"""The steps of solves with the panels of a factor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.cpu import front_policy
from portable_gpu.ops.fronts.device import DeviceFronts, FrontsPlan
from portable_gpu.ops.fronts.kernels import fronts_tables, read, tables, written
from portable_gpu.ops.fronts.stages import group_size
from portable_gpu.ops.fronts.substitution import steps_of_stage, supports_stages
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Step, Temporary
from portable_gpu.targets import Target

Lists = Sequence[np.ndarray[Any, np.dtype[np.int32]]]
Place = int | Temporary
#: Work-items of a group of a GPU that solves with one front.
_SIZE = 64
#: Elements that a work-item of a CPU permutes or gathers.
_RUN = 1024
#: Columns of B of a work-item on a CPU.
_STRIP = 16


def substitution_steps(
    device: DeviceFronts,
    stages: Sequence[Lists],
    rows: int,
    count: int,
    factor: int,
    x: Place,
    contributions: Place | None = None,
    *,
    backward: bool,
) -> list[Step]:
    """Return the steps of ``X = L^-1 B``, or of ``X = L^-H B`` backwards, in place.

    Args:
        device: The fronts.
        stages: For each stage its lists of fronts; a list is processed in order.
        rows: The number of rows of all contributions.
        count: The number of columns of B.
        factor, x: The operands of the panels and of B: n x count by rows, in the permuted
            numbering.
        contributions: The operand of the contributions; None for workspace of the plan.
        backward: Whether the substitution goes from the last stage to the first.
    """
    itemsize = device.elem.itemsize
    if contributions is None:
        contributions = Temporary("contributions", max(1, rows * count) * itemsize, itemsize)
    operands, steps = (factor, x, contributions), list[Step]()
    for lists in reversed(stages) if backward else stages:
        if supports_stages(device.engine.target, device.elem):
            steps += steps_of_stage(device, np.concatenate(lists), count, operands, backward)
        else:
            name = "backward" if backward else "forward"
            steps.append(_step(name, device, lists, count, operands))
    return steps


def _step(
    name: str,
    device: DeviceFronts,
    lists: Lists,
    count: int,
    places: tuple[Place, Place, Place],
) -> Step:
    elem, target, operands = device.elem, device.engine.target, ["factor", "x", "contributions"]
    spec = solve_spec(name, elem, target)
    which = np.concatenate(lists).astype(np.int32)
    if target.is_cpu:
        # One list of few columns has two work-items, so that two cores solve.
        columns = _STRIP if count > _STRIP or len(lists) > 1 else max(1, -(-count // 2))
        start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        plan = FrontsPlan(
            device=device, spec=spec, name=name,
            constants={"lists": len(lists), "count": count, "share": columns}, operands=operands,
            groups=len(lists) * -(-count // columns), size=1,
            further={"which": which, "list_start": start},
        )  # fmt: skip
    else:
        plan = FrontsPlan(
            device=device, spec=spec, name=name, constants={"first_of": 0, "count": count},
            operands=operands, groups=len(which), size=_SIZE, further={"which": which},
        )  # fmt: skip
    return Step(plan, places)


def permute_plan(
    engine: Engine, perm: cl.Buffer, n: int, count: int, elem: Element, b: Operand, back: bool
) -> OneLaunch:
    """Return the plan that permutes rows into the permuted numbering, or back; operands: b and x.

    Args:
        engine: The engine.
        perm: The permutation.
        n, count: Rows and columns.
        elem: The element type of x.
        b: The element type and the strides of b.
        back: Whether b is the result.
    """
    target = engine.target
    size, run = group_size(target), _RUN if target.is_cpu else 1
    groups = -(-n * count // (run * size))
    return OneLaunch(
        engine, permute_spec(elem, b.elem, target, back), "permute",
        {"n": n, "count": count, "b_row": b.row, "b_col": b.col, "run": run}, ["b", "x"],
        (groups * size,), (size,), tables={"perm": perm}, nbytes=2 * n * count * b.elem.itemsize,
    )  # fmt: skip


def take_plan(
    engine: Engine, index: np.ndarray[Any, Any], length: int, source: Element, to: Element
) -> OneLaunch:
    """Return the plan that gathers ``to[k] = from[index[k]]``, converted; operands: from and to.

    A negative number ``i`` stands for the conjugate of element ``~i``; an index out of range stands
    for zero.  ``from`` has ``length`` elements.
    """
    target, count = engine.target, len(index)
    size, run = group_size(target), _RUN if target.is_cpu else 1
    groups = -(-count // (run * size))
    return OneLaunch(
        engine, take_spec(source, to, target), "take",
        {"count": count, "length": length, "run": run}, ["from", "to"], (groups * size,), (size,),
        tables={"index": index.astype(np.int64)},
        nbytes=count * (8 + source.itemsize + to.itemsize),
    )  # fmt: skip


def take_spec(source: Element, to: Element, target: Target) -> Specialization:
    """Render the kernel that gathers elements by their indices."""
    parameters = [
        *tables("long", "index"),
        *scalars("long", "count", "length", "run"),
        *read(source, "from"),
        *written(to, "to"),
    ]
    size = group_size(target)
    return specialize("fronts/take", target, {"take": parameters}, source=source, to_=to, size=size)


def solve_spec(name: str, elem: Element, target: Target) -> Specialization:
    """Render the kernel of a direction: ``forward`` or ``backward``."""
    lists = ["list_start"] if target.is_cpu else []
    sizes = ["lists", "count", "share"] if target.is_cpu else ["first_of", "count"]
    parameters = [
        *tables("int", "which", *lists),
        *fronts_tables(),
        *scalars("long", *sizes),
        *written(elem, "factor", "x", "contributions"),
    ]
    kernels = {name: parameters}
    if target.is_cpu:
        policy = front_policy(target, elem)
        return specialize(
            "fronts/cpu_solve", target, kernels, e=elem, policy=policy, direction=name
        )
    return specialize(f"fronts/{name}", target, kernels, e=elem, size=_SIZE)


def permute_spec(elem: Element, other: Element, target: Target, back: bool) -> Specialization:
    """Render the kernel that permutes rows between x, of ``elem``, and b, of ``other``."""
    parameters = [
        *tables("int", "perm"),
        *scalars("long", "n", "count", "b_row", "b_col", "run"),
        *written(other, "b"),
        *written(elem, "x"),
    ]
    kernels = {"permute": parameters}
    size = group_size(target)
    return specialize("fronts/permute", target, kernels, e=elem, other=other, size=size, back=back)
