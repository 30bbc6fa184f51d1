"""Selected inversion: the elements of the inverse in the pattern of L, parents before children.

A front has its own columns (index 1) and further rows (index 2).  The block Z22 of the inverse Z of
the whole matrix is a part of the parent's block, and the other blocks follow::

    W = L21 L11^-1,    Z21 = -Z22 W,    Z11 = L11^-H L11^-1 + W^H Z22 W

Only elements in the pattern of L are computed.

Source: Takahashi, Fagan and Chin, 8th PICA Conference, 1973; Erisman and Tinney, Communications of
the ACM 18(3), 1975, with fronts for columns.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.estimates import BlockSizes
from portable_gpu.ops.factor.packed import aligned
from portable_gpu.ops.factor.problem import SolveProblem
from portable_gpu.ops.factor.variants import make_inverse, make_solve, parts
from portable_gpu.ops.fronts.cpu import front_policy
from portable_gpu.ops.fronts.device import ALIGNMENT, DeviceFronts, FrontsPlan
from portable_gpu.ops.fronts.kernels import fronts_tables, read, scratch, tables, written
from portable_gpu.ops.fronts.solve import take_plan
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.groups import group_size
from portable_gpu.runtime.plan import Part, Plan, Step, Temporary
from portable_gpu.targets import Target

_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Bool = np.ndarray[Any, np.dtype[np.bool_]]

#: The operands: the panels, the diagonal in L's dtype, and the square blocks of Z.
FACTOR, DIAGONAL, SQUARES = range(3)
#: The maximum rows and own columns of a small front, on a GPU and on a CPU.
_MAX_SMALL, _MAX_SMALL_ON_CPU = (512, 128), (256, 256)
#: Work-groups for each compute unit.
_GROUPS = 2
#: The maximum scratch bytes of all groups.
_MAX_SCRATCH = 1 << 28
#: Rows of Z22 that a group of a CPU copies.
_RUN = 16


def is_large(fronts: Fronts, target: Target) -> _Bool:
    """Return for each front whether it is large; a large front has its own plans."""
    rows, columns = _MAX_SMALL_ON_CPU if target.is_cpu else _MAX_SMALL
    large: _Bool = (fronts.columns + fronts.rows > rows) | (fronts.columns > columns)
    return large


def square_sizes(fronts: Fronts, target: Target, elem: Element) -> _Int64:
    """Compute the elements of the stored blocks: of fronts with children, and of large fronts."""
    is_kept = (np.diff(fronts.child_start) > 0) | is_large(fronts, target)
    line = ALIGNMENT // elem.itemsize
    sizes = -(-((fronts.columns + fronts.rows) ** 2) // line) * line
    elements: _Int64 = np.where(is_kept, sizes, 0)
    return elements


def inverse_steps(
    device: DeviceFronts, which: np.ndarray[Any, Any], at: _Int64, places: cl.Buffer
) -> list[Step]:
    """Return the steps of some fronts whose parents are done.

    Args:
        device: The fronts.
        which: The numbers of the fronts to process.
        at, places: The start of each front's block: an array on the host, a buffer on the device.
    """
    large = is_large(device.fronts, device.engine.target)[which]
    steps = [_small(device, which[~large], places)] if not large.all() else []
    if large.any():
        large_fronts = which[large]
        steps += [
            *_rows(device, large_fronts, places),
            *(step for s in large_fronts.tolist() for step in _front(device, s, int(at[s]))),
        ]
    return steps


def _small(device: DeviceFronts, which: np.ndarray[Any, Any], places: cl.Buffer) -> Step:
    fronts, target, elem = device.fronts, device.engine.target, device.elem
    c, u = fronts.columns[which], fronts.rows[which]
    strip = strip_of(target, elem) if target.is_cpu else 1
    across = -(-c // strip) * strip
    panel_size, square_size = int(((c + u) * across).max()), int((c * across).max())
    leaves = np.diff(fronts.child_start)[which] == 0
    size = 2 * panel_size + (square_size if target.is_cpu else 0) + int((u * u * leaves).max())
    size = -(-size // 16) * 16
    groups = target.compute_units
    if not target.is_cpu:
        groups = min(_GROUPS * groups, max(1, _MAX_SCRATCH // (size * elem.itemsize)))
    groups = min(groups, len(which))
    work = c * (c + u) ** 2
    constants = {"count": len(which), "size": size, "panel_size": panel_size}
    tables: dict[str, Any] = {
        "which": which[np.argsort(-work, kind="stable")].astype(np.int32),
        "block_start": places,
    }
    if target.is_cpu:
        constants["square"] = square_size
        tables["index"] = np.arange(int((c + u).max()), dtype=np.int32)
    plan = FrontsPlan(
        device=device, spec=small_spec(elem, target), name="inverse", constants=constants,
        operands=["factor", "diagonal", "z"], groups=groups, size=group_size(target),
        further=tables, scratch=groups * size * elem.itemsize,
        flop=2 * int(work.sum()) * elem.components**2,
    )  # fmt: skip
    return Step(plan, (FACTOR, DIAGONAL, SQUARES))


def _rows(device: DeviceFronts, which: np.ndarray[Any, Any], places: cl.Buffer) -> list[Step]:
    """Return the steps that extract Z22 of large fronts from their parents' blocks."""
    fronts, target = device.fronts, device.engine.target
    run, size = (_RUN, 1) if target.is_cpu else (1, group_size(target))
    blocks = -(-fronts.rows[which] // run)
    if not blocks.any():
        return []
    block = np.arange(blocks.sum()) - np.repeat(np.cumsum(blocks) - blocks, blocks)
    tasks = np.stack([np.repeat(which, blocks), run * block], axis=1).astype(np.int32)
    plan = FrontsPlan(
        device=device, spec=rows_spec(device.elem, target), name="inverse_rows",
        constants={"run": run}, operands=["z"], groups=len(tasks), size=size,
        further={"tasks": tasks, "block_start": places},
    )  # fmt: skip
    return [Step(plan, (SQUARES,))]


def _front(device: DeviceFronts, number: int, start: int) -> list[Step]:
    """Return the steps of a large front after Z22: X = [L11^-1; W], then products."""
    engine, elem, fronts = device.engine, device.elem, device.fronts
    c, u = int(fronts.columns[number]), int(fronts.rows[number])
    m, panel, leading = c + u, int(device.panel[number]), int(device.leading[number])
    is_aligned = not engine.maps_host_memory
    x = Temporary("x", m * leading * elem.itemsize, elem.itemsize)

    def operand(row: int, col: int, begin: int, conj: bool = False) -> Operand:
        result = aligned(Operand(elem, row, col), gcd(16, begin * elem.itemsize))
        return replace(result, conj=conj and elem.complex)

    block = SolveProblem(
        c, c, (), operand(leading, 1, panel), operand(leading, 1, 0), aligned=is_aligned
    )
    invert = engine.plan(("inverse of a front", block), lambda: make_inverse(engine, block))
    steps = [Step(invert, (Part(FACTOR, panel), x))]
    product = parts(engine, BlockSizes.of(engine.target, elem)).product

    def multiply(
        rows: int, columns: int, inner: int, a: Operand, b: Operand, to: Operand, adds: bool,
        triangle: str = "",
    ) -> Plan:  # fmt: skip
        return product(
            GemmProblem(
                m=rows,
                n=columns,
                k=inner,
                batch=(),
                a=a,
                b=b,
                c=to,
                compute=elem,
                reads_c=adds,
                aligned=is_aligned,
                triangle=triangle,
            )
        )

    corner, z21_start = operand(m, 1, start), start + c * m
    square = multiply(
        c, c, c, operand(1, leading, 0, True), operand(leading, 1, 0), corner, False, "lower"
    )
    steps.append(Step(square, (x, x, Part(SQUARES, start)), scalars=(1.0, 0.0)))
    if u:
        w, begin = Part(x, c * leading), c * leading
        right = SolveProblem(
            c, u, (), operand(1, leading, panel), operand(1, leading, begin), lower=False,
            aligned=is_aligned,
        )  # fmt: skip
        source = operand(1, leading, panel + begin)
        key = ("solve of a front", right, source)
        solve = engine.plan(key, lambda: make_solve(engine, right, source))
        steps.append(Step(solve, (Part(FACTOR, panel), Part(FACTOR, panel + begin), w)))
        z22, z21 = operand(m, 1, z21_start + c), operand(m, 1, z21_start)
        times = multiply(u, c, u, z22, operand(leading, 1, begin), z21, False)
        places = (Part(SQUARES, z21_start + c), w, Part(SQUARES, z21_start))
        steps.append(Step(times, places, scalars=(-1.0, 0.0)))
        add = multiply(c, c, u, operand(1, leading, begin, True), z21, corner, True, "lower")
        places = (w, Part(SQUARES, z21_start), Part(SQUARES, start))
        steps.append(Step(add, places, scalars=(-1.0, 1.0)))
    take = take_plan(engine, np.arange(c) * (m + 1), c * m, elem, elem)
    first = int(fronts.first[number])
    return [*steps, Step(take, (Part(SQUARES, start), Part(DIAGONAL, first)))]


def strip_of(target: Target, elem: Element) -> int:
    """Return the columns of a CPU product's strip: see ``cl_kernels/fronts/_cpu_products``."""
    return 2 * front_policy(target, elem).vector // elem.components


def small_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel of small fronts."""
    first = [*scratch(elem), *tables("int", "which"), *tables("long", "block_start")]
    sizes = scalars("long", "count", "size", "panel_size")
    if target.is_cpu:
        policy, strip = front_policy(target, elem), strip_of(target, elem)
        parameters = [
            *first, *tables("int", "index"), *fronts_tables(), *sizes, *scalars("long", "square"),
            *written(elem, "factor", "diagonal", "z"),
        ]  # fmt: skip
        return specialize(
            "fronts/cpu_inverse",
            target,
            {"inverse": parameters},
            e=elem,
            policy=policy,
            strip=strip,
        )
    parameters = [
        *first,
        *fronts_tables(),
        *sizes,
        *read(elem, "factor"),
        *written(elem, "diagonal", "z"),
    ]
    kernels = {"inverse": parameters}
    return specialize("fronts/inverse", target, kernels, e=elem, lanes=group_size(target))


def rows_spec(elem: Element, target: Target) -> Specialization:
    """Render the kernel that extracts Z22 of large fronts."""
    parameters = [
        *tables("int2", "tasks"),
        *tables("long", "block_start"),
        *fronts_tables(),
        *scalars("long", "run"),
        *written(elem, "z"),
    ]
    kernels = {"inverse_rows": parameters}
    return specialize("fronts/inverse_rows", target, kernels, e=elem, size=group_size(target))


def typical_texts(elem: Element, target: Target) -> list[Specialization]:
    """Return one kernel of each kind."""
    return [small_spec(elem, target), rows_spec(elem, target)]
