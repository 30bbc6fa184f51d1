"""Gathering of a matrix's lower triangle from its stored values, with checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.codegen.parameters import operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.fronts.kernels import read, tables, written
from portable_gpu.ops.fronts.stages import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Int32 = np.ndarray[Any, np.dtype[np.int32]]
#: Elements of a work-item on a CPU.
_RUN = 1024


def lower_plan(
    engine: Engine,
    elem: Element,
    rows: tuple[_Int64, _Int32],
    take: _Int64,
    mirror: _Int64 | None,
    stored: int,
    conjugates: bool,
    rounding: float,
) -> OneLaunch:
    """Return the plan that gathers the lower triangle, and reports if the host has to check it.

    Operands: the stored values, the triangle's values, and an int32 flag that is 0 before the
    launch.  The flag is set if a value is not finite, if an element and its mirror image differ by
    more than ``rounding``, or if the imaginary part of a diagonal element exceeds a quarter of
    ``rounding``.  Smaller imaginary parts of the diagonal are cleared.

    Args:
        engine: The engine.
        elem: The element type of the values.
        rows: The lower triangle's pointers and columns, as in CSR.
        take, mirror: For each element of the triangle, the index of its stored value and of its
            mirror image, or -1 if it is not stored; without `mirror` nothing is compared.
        stored: The number of stored values.
        conjugates: Whether the stored triangle is the upper one.
        rounding: The tolerance, relative to the maximum of the two elements and of the square
            root of the product of their rows' diagonal elements.
    """
    target, size = engine.target, group_size(engine.target)
    index = np.dtype(np.int32 if stored < 2**31 else np.int64)
    tables: dict[str, np.ndarray[Any, Any]] = {
        "start": rows[0], "column": rows[1], "take": take.astype(index),
    }  # fmt: skip
    if mirror is not None:
        tables["mirror"] = mirror.astype(index)
    run = _RUN if target.is_cpu else 1
    groups = -(-len(take) // (run * size))
    return OneLaunch(
        engine,
        lower_spec(elem, target, mirror is not None, conjugates, rounding, index.itemsize > 4),
        "lower", {"n": len(rows[0]) - 1, "count": len(take), "run": run}, ["from", "to", "doubt"],
        (groups * size,), (size,), tables=tables,
        nbytes=sum(x.nbytes for x in tables.values()) + (stored + len(take)) * elem.itemsize,
    )  # fmt: skip


def table_bytes(rows: int, elements: int, stored: int, compares: bool) -> int:
    """Compute the bytes of the tables of a :class:`lower_plan`."""
    index = 4 if stored < 2**31 else 8
    return 8 * (rows + 1) + elements * (4 + index * (2 if compares else 1))


def lower_spec(
    elem: Element,
    target: Target,
    compares: bool,
    conjugates: bool,
    rounding: float,
    is_long: bool = False,
) -> Specialization:
    """Render the kernel of a :class:`lower_plan`."""
    index = "long" if is_long else "int"
    parameters = [
        *tables("long", "start"),
        *tables("int", "column"),
        *tables(index, "take", *["mirror"] * compares),
        *scalars("long", "n", "count", "run"),
        *read(elem, "from"),
        *written(elem, "to"),
        *operand("int", "doubt", writes=True, restrict=False),
    ]
    return specialize(
        "fronts/lower",
        target,
        {"lower": parameters},
        e=elem,
        index=index,
        compares=compares,
        conjugates=conjugates and elem.complex,
        rounding=f"{rounding!r}{'' if elem.needs_fp64 else 'f'}",
        size=group_size(target),
    )
