"""A kernel of matrix-vector products: what it is rendered with, and the partition of its work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.epilogue import stored_operands
from portable_gpu.codegen.operators import vector
from portable_gpu.codegen.parameters import Parameter, buffer, operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import MOST_WASTE, stride_waste
from portable_gpu.tuning.table import PolicyRow

_MAX_PARTS = 4096


@dataclass(frozen=True)
class GemvKernel:
    """A kernel for one product, and the partition of its work.

    Attributes:
        template: The name of the template; the kernel function is ``gemv_`` and this name.
        context: The names and values with which the template is rendered.
        group_size: Work-items of a group.
        blocks: The number of blocks of outputs.
        parts: The number of work-groups that share a block; each sums a part of the summed axis.
        part_size: The number of summed elements of a part.
        block_size: The number of outputs of a block.
        partial_bytes: Bytes of workspace for the sums of parts; 0 if a block has one part.
        row: The policy from which these numbers are computed, and its origin.
        why: A sentence that says why the kernel applies.
        slowdown: The factor of the time to read A, compared with reading adjacent elements.
        load_waits: The number of times that a work-item waits for elements of A, estimated; 0 on a
            CPU.
        folded_values: The number of values that a work-item passes to others when sums are added,
            weighted by measurements; 0 on a CPU.
    """

    template: str
    context: Mapping[str, Any]
    group_size: int
    blocks: int
    parts: int
    part_size: int
    block_size: int
    partial_bytes: int
    row: PolicyRow[Any]
    why: str
    slowdown: float
    load_waits: int = 0
    folded_values: int = 0

    @property
    def by_rows(self) -> bool:
        """Whether work-items go along the summed axis, and not along the outputs."""
        return self.template in ("dot_rows", "long_rows", "cpu_rows")

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        kernels = {f"gemv_{self.template}": self._parameters(target)}
        return specialize(f"gemv/{self.template}", target, kernels, **self.context)

    def _parameters(self, target: Target) -> list[Parameter]:
        """The kernel's parameters: a, x and y, scalars, the epilogue's arrays, the partition."""
        context = self.context
        elem, finish, split = context["elem"], context["finish"], context["split"]
        ctype, value = f"{elem.name}_t", vector(context["real"], elem.components)
        result = [
            *operand(ctype, "a", "a_out", "a_sum"),
            *operand(ctype, "x", "x_step"),
            *operand(ctype, "y", "y_step", writes=True),
            *scalars("long", "m", "n"), *scalars(f"const {value}", "alpha", "beta"),
            *scalars("int", "reads_y"), *(stored_operands(finish.extras) if finish else ()),
        ]  # fmt: skip
        if context["Q"] > 1:
            result += scalars("long", "x_pitch", "y_pitch")
        if context["Q"] > 2 or context.get("shared"):
            result += scalars("int", "vectors")
        if split:
            result += [*scalars("uint", "parts"), *scalars("long", "part_size")]
            result += [buffer("uint", "partial", writes=True, restrict=False)]
            result += [buffer("uint", "counters", writes=True, shared=True, restrict=False)]
        return result + scalars("long", "block_size") * target.is_cpu


def slowdown_of(p: GemvProblem, *, by_rows: bool) -> float:
    """Return the factor of the time to read A, which follows from its strides.

    ``by_rows``: whether the kernel reads A along the summed axis, and not along the outputs.
    """
    if p.m == 1 or p.n == 1:  # the stride of an axis of one element is arbitrary
        return 1.0 if by_rows == p.by_rows else MOST_WASTE
    return stride_waste(p.a_sum if by_rows else p.a_out)


def base_context(p: GemvProblem, V: int, R: int, unit: bool, split: bool) -> dict[str, Any]:
    """Return the values that all templates have.

    Args:
        p: The problem.
        V: Elements of a load.
        R: Rows that a work-item sums together.
        unit: Whether A is contiguous along the axis of the loads.
        split: Whether several work-groups share a block.
    """
    components = p.elem.components
    return {
        "elem": p.elem, "real": p.real, "P": components, "C": V * components,
        "T": vector(p.real, V * components), "E": vector(p.real, components),
        "V": V, "R": R, "Q": p.padded_vectors, "conj": p.conj, "unit": unit, "split": split,
        "finish": p.finish,
        "mask": "long" if p.real in ("double", "ulong") else "int",
    }  # fmt: skip


def partition(n: int, count: int, multiple: int) -> tuple[int, int]:
    """Return the number and the size of about ``count`` parts of n elements.

    The size is a multiple of ``multiple``; the last part may have fewer elements.
    """
    count = max(1, min(count, _MAX_PARTS))
    size = ceil_div(ceil_div(n, count), multiple) * multiple
    return (ceil_div(n, size), size) if count > 1 else (1, n)


def ceil_div(a: int, b: int) -> int:
    """Return the quotient, rounded up."""
    return -(-a // b)
