"""Launches over the items of a convolution's kernels: a work-item each, or several on a CPU."""

from __future__ import annotations

from collections.abc import Sequence

from portable_gpu.targets import Target

#: Work-items of a GPU's group; items of a CPU's work-item, at most.
GROUP = 64
#: The least index that kernels compute in 64 bits.
_MAX_INT = 1 << 30


def items_of_one(items: int, target: Target) -> int:
    """Return the items of a CPU's work-item: few enough that all its cores have work."""
    return max(1, min(GROUP, items // (8 * target.compute_units)))


def launch_sizes(items: int, items_each: int, target: Target) -> tuple[tuple[int], tuple[int]]:
    """Return the work-items of a launch, and those of a group.

    Args:
        items: The number of items.
        items_each: Items of a CPU's work-item.
        target: The device.
    """
    if target.is_cpu:
        return (-(-items // items_each),), (1,)
    return (-(-items // GROUP) * GROUP,), (GROUP,)


def index_type(span: int, target: Target) -> str:
    """Return the C type of indices up to ``span``."""
    return "long" if target.is_cpu or span >= _MAX_INT else "int"


def bound_operands(
    operands: Sequence[str], has_bias: bool
) -> tuple[list[str], dict[str, int | None]]:
    """Return the operands of a launch, and constants in place of a bias that there is not."""
    if has_bias:
        return [*operands], {}
    return [name for name in operands if name != "bias"], {"bias": None, "bias_offset": 0}
