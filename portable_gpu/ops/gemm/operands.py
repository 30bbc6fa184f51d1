"""Operands as kernel parameters and arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from portable_gpu.codegen import parameters
from portable_gpu.codegen.epilogue import stored_operands
from portable_gpu.codegen.parameters import Parameter, buffer
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Table


def strides(operands: Mapping[str, Operand]) -> dict[str, int]:
    """The strides of operands, by their names in the kernel."""
    result: dict[str, int] = {}
    for name, operand in operands.items():
        indices = {f"{name}_row": operand.row, f"{name}_col": operand.col}
        if operand.reader is not None:
            other = f"{name}_{'col' if operand.reader.side == 'row' else 'row'}"
            indices = {} if operand.reader.table is not None else {other: indices[other]}
            indices |= operand.reader.constants(name)
        result |= indices
        result |= {f"{name}_batch{d}": step for d, step in enumerate(operand.batch)}
    return result


def matrix_parameters(
    name: str, elem: Element, rank: int, *, writes: bool = False
) -> list[Parameter]:
    """Declare a stack of matrices with strides: buffer, offset, strides of all axes."""
    strides = ["row", "col", *(f"batch{axis}" for axis in range(rank))]
    names = [f"{name}_{axis}" for axis in strides]
    return parameters.operand(f"{elem.name}_t", name, *names, writes=writes)


def operand_parameters(
    name: str, operand: Operand, rank: int, *, writes: bool = False
) -> list[Parameter]:
    """Declare an operand: as :func:`matrix_parameters`, or with what its reader needs."""
    if operand.reader is None:
        return matrix_parameters(name, operand.elem, rank, writes=writes)
    return [
        *parameters.operand(f"{operand.elem.name}_t", name, writes=writes),
        *operand.reader.parameters(name),
        *parameters.scalars("long", *(f"{name}_batch{axis}" for axis in range(rank))),
    ]


def product_parameters(problem: GemmProblem) -> list[Parameter]:
    """Declare the operands of a product, alpha and beta, and the extents of the batch axes."""
    rank = len(problem.batch)
    return [
        *operand_parameters("a", problem.a, rank),
        *operand_parameters("b", problem.b, rank),
        *operand_parameters("c", problem.c, rank, writes=True),
        *stored_operands(problem.extras, rank),
        *factors(problem.compute),
        *batch_parameters(rank),
    ]


def factors(compute: Element) -> list[Parameter]:
    """Declare alpha and beta."""
    return parameters.scalars(compute.value, "alpha", "beta", alias="value_t")


def shared_sums() -> list[Parameter]:
    """Declare the parts of sums and the counters of work-groups that share a result."""
    names = ("partial", "counters")
    return [buffer("uint", name, writes=True, shared=True, restrict=False) for name in names]


def batch_parameters(rank: int) -> list[Parameter]:
    """Declare the extents of the batch axes."""
    return parameters.scalars("long", *(f"batch{axis}_size" for axis in range(rank)))


def extents(batch: tuple[int, ...]) -> dict[str, int]:
    """The extents of the batch axes."""
    return {f"batch{d}_size": extent for d, extent in enumerate(batch)}


def triangle_parameters(problem: GemmProblem) -> list[Parameter]:
    """Declare the number of tiles with elements of a triangle, and which triangle it is."""
    return parameters.scalars("int", "triangle_tiles", "is_upper") if problem.triangle else []


def triangle_arguments(problem: GemmProblem, tiles: int) -> dict[str, int]:
    """Return the arguments for :func:`triangle_parameters`, given the number of tiles."""
    return {"triangle_tiles": tiles, **which_triangle(problem)} if problem.triangle else {}


def which_triangle(problem: GemmProblem) -> dict[str, int]:
    """Return whether the upper triangle is computed, if C is not computed as a whole."""
    return {"is_upper": int(problem.triangle == "upper")} if problem.triangle else {}


def extras(problem: GemmProblem) -> dict[str, Operand]:
    """The epilogue's arrays, by their names in the kernel."""
    return {f"e{k}": extra for k, extra in enumerate(problem.extras)}


def as_given(operands: Iterable[str], transposed: bool = False) -> list[str]:
    """Operands in the order in which calls give them: a, b, the epilogue's arrays and c.

    Args:
        operands: Their names in the kernel, of what is A and B there first, then C.
        transposed: Whether the kernel's A is the call's b.
    """
    a, b, c, *extras = operands
    return [b, a, *extras, c] if transposed else [a, b, *extras, c]


def offsets(names: Iterable[str]) -> list[str]:
    """The names of the operands' offsets."""
    return [f"{name}_offset" for name in names]


def tables(operands: Mapping[str, Operand]) -> dict[str, Table]:
    """The tables of readers, by the kernel arguments that hold them."""
    return {
        f"{name}_steps": operand.reader.entries
        for name, operand in operands.items()
        if operand.reader is not None and operand.reader.table is not None
    }
