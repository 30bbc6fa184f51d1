"""The parameters of the kernels of factorisations, solves and copies.

Matrices are stacks with up to ``rank`` batch axes; in kernels of ragged batches a table has sizes
and offsets.  The names of matrices in kernels are ``l`` for L, ``a`` for A where L does not replace
it, and in solves ``b`` or ``v`` for X, whose memory first has B.  Where B is another array than X,
it has the name ``c`` (``from`` on a CPU).
"""

from __future__ import annotations

from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.dtypes import Element
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.gemm.operands import batch_parameters, matrix_parameters

_TABLE = buffer("long", "table", restrict=False)
_COUNTERS = buffer("uint", "counters", writes=True, shared=True, restrict=False)


def cholesky_parameters(p: CholeskyProblem, ragged: bool) -> list[Parameter]:
    """The parameters of ``cholesky`` on a GPU."""
    sizes = [*scalars("int", "max_n"), _TABLE] if ragged else scalars("int", "n")
    return [*scalars("long", "count"), *sizes, *scalars("long", "first"), *_factor(p)]


def cpu_cholesky_parameters(p: CholeskyProblem, ragged: bool, *sizes: str) -> list[Parameter]:
    """The parameters of ``cholesky`` on a CPU; ``sizes``: the sizes where there is no table."""
    size_parameters = [_TABLE] if ragged else scalars("long", *sizes)
    return [*_scratch(p.elem), *size_parameters, *scalars("long", "count", "first"), *_factor(p)]


def _factor(p: CholeskyProblem) -> list[Parameter]:
    rank = len(p.batch)
    return [
        *([] if p.in_place else matrix_parameters("a", p.elem, rank)),
        *matrix_parameters("l", p.elem, rank, writes=True),
        *_report(),
        *batch_parameters(rank),
    ]


def solve_parameters(p: SolveProblem, ragged: bool, separate: bool) -> list[Parameter]:
    """The parameters of ``solve`` on a GPU; ``separate``: whether B is another array than X."""
    rank = len(p.batch)
    sizes = [*scalars("int", "max_n"), _TABLE] if ragged else _sizes()
    return [
        *scalars("long", "count"), *sizes, *scalars("long", "groups"),
        *matrix_parameters("l", p.elem, rank),
        *(matrix_parameters("c", p.elem, rank) if separate else ()),
        *matrix_parameters("b", p.elem, rank, writes=True),
        *(_report() if p.reports else ()), *batch_parameters(rank),
    ]  # fmt: skip


def _sizes() -> list[Parameter]:
    return [*scalars("int", "n"), *scalars("long", "m")]


def cpu_solve_parameters(p: SolveProblem, ragged: bool, separate: bool) -> list[Parameter]:
    """The parameters of ``solve`` on a CPU."""
    rank = len(p.batch)
    sizes = [_TABLE] if ragged else scalars("long", "ld", "n", "m", "run", "columns")
    return [
        *_scratch(p.elem), *sizes, *scalars("long", "count", "groups"),
        *matrix_parameters("l", p.elem, rank), *matrix_parameters("b", p.elem, rank, writes=True),
        *(matrix_parameters("from", p.elem, rank) if separate else ()), *batch_parameters(rank),
    ]  # fmt: skip


def tiles_parameters(elem: Element, rank: int, factorises: bool, separate: bool) -> list[Parameter]:
    """The parameters of ``tiles``, which factorises or solves.

    ``tiles_s`` and ``tiles_f``: the numbers of tiles along the axes s and f of the template.
    """
    result = [
        *scalars("long", "n", "m"), *scalars("int", "tiles_s", "tiles_f"),
        *scalars("long", "count"), *(matrix_parameters("c", elem, rank) if separate else ()),
        *matrix_parameters("l", elem, rank, writes=True),
    ]  # fmt: skip
    if factorises:
        result += [*scalars("long", "first"), *_report(shared=True)]
    else:
        result += matrix_parameters("v", elem, rank, writes=True)
    return [*result, _COUNTERS, *batch_parameters(rank)]


def vector_parameters(elem: Element, rank: int, separate: bool) -> list[Parameter]:
    """The parameters of ``vector``; ``cells``: the number of cells (see ``group/cells``)."""
    return [
        *scalars("long", "n", "m"), *scalars("int", "blocks"), *scalars("uint", "groups"),
        *scalars("long", "cells"), *(matrix_parameters("c", elem, rank) if separate else ()),
        *matrix_parameters("l", elem, rank), *matrix_parameters("v", elem, rank, writes=True),
        _COUNTERS, *batch_parameters(rank),
    ]  # fmt: skip


def update_parameters(elem: Element) -> list[Parameter]:
    """The parameters of ``update``."""
    return [
        _TABLE, *scalars("long", "groups"), *scalars("int", "k"),
        *matrix_parameters("l", elem, 0), *matrix_parameters("b", elem, 0, writes=True),
    ]  # fmt: skip


def zeros_parameters(elem: Element, rank: int, ragged: bool) -> list[Parameter]:
    """The parameters of ``zeros``."""
    return [
        *([_TABLE] if ragged else scalars("long", "n")), *scalars("long", "count"),
        *matrix_parameters("triangle", elem, rank), *_report(), *batch_parameters(rank),
    ]  # fmt: skip


def pack_parameters(elem: Element, rank: int, operation: str) -> list[Parameter]:
    """The parameters of ``pack``; ``what``: ``pack``, ``unpack`` or ``add``."""
    names = ("packed", "dense") if operation == "unpack" else ("dense", "packed")
    return [
        *scalars("long", "n", "row0", "col0", "rows", "cols", "pieces", "bands"),
        *(scalars(elem.value, "beta") if operation == "add" else ()),
        *_copied(elem, rank, *names),
    ]


def copy_parameters(elem: Element, rank: int, by_tiles: bool) -> list[Parameter]:
    """The parameters of ``copy``, and with ``by_tiles`` of ``cpu_copy``."""
    return [
        *scalars("long", "length", "count", "pieces", "bands"),
        *(scalars("int", "triangle") if by_tiles else ()),
        *_copied(elem, rank, "from", "to"),
    ]


def _copied(elem: Element, rank: int, source: str, target: str) -> list[Parameter]:
    return [
        *matrix_parameters(source, elem, rank),
        *matrix_parameters(target, elem, rank, writes=True),
        *batch_parameters(rank),
    ]


def _scratch(elem: Element) -> list[Parameter]:
    return [
        buffer(f"{elem.name}_t", "scratch", writes=True, restrict=False),
        *scalars("long", "size"),
    ]


def _report(shared: bool = False) -> list[Parameter]:
    report = buffer("long", "report", writes=True, shared=shared, restrict=False)
    return [report, *scalars("long", "report_offset")]
