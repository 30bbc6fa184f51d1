"""Vectors of a work-item: how wide, and how many at a time, within registers and local memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable_gpu.codegen.axes import Axis
from portable_gpu.codegen.reductions import Reduction
from portable_gpu.ops.reduce.geometry import Geometry
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class ReduceLoadFigures(Figures):
    """What keeps memory busy where single elements of columns are loaded.

    Attributes:
        item_bytes: Bytes of a work-item that should be in flight.
        steps: Steps for them, at most.
    """

    item_bytes: int
    steps: int


def widest_vector(policy: ReducePolicy, reduction: Reduction) -> int:
    """Elements of the widest vector: within policy_bytes, and within OpenCL's 16 components."""
    widths = [
        min(policy.vector_bytes // elem.itemsize, 16 // elem.components)
        for elem in reduction.streamed
    ]
    return max(1, min(widths))


def fits(
    policy: ReducePolicy, target: Target, reduction: Reduction, width: int, shared: int = 0
) -> bool:
    """Whether ``width`` elements at a time leave most registers and half the local memory free.

    ``shared``: accumulators of a work-item in local memory.  What folds
    them takes as many registers again and half as many: two sub-groups of a SIMD are to have them.
    """
    state = width * (policy.unroll * reduction.lane.bytes + reduction.acc.bytes) // 4
    local = policy.group_size * shared * reduction.acc.bytes
    roomy = 3 * state <= target.registers and 5 * state <= 2 * target.resident_registers
    return roomy and 2 * local <= target.local_mem_size


def unrolled(
    policy: ReducePolicy, target: Target, reduction: Reduction, vector: int, most: int
) -> int:
    """Vectors in flight: where a GPU keeps several sums of a value, more share in lifting them.

    As many as make it cost a value no more than one sum's; not for more than ``most``, all that a
    work-item has of a row.
    """
    wanted = min(most, policy.unroll * reduction.folds[0].lift_cost)
    return doubled(policy.unroll, wanted, policy, target, reduction, vector)


def in_flight(
    unroll: int, policy: ReducePolicy, target: Target, reduction: Reduction, width: int, most: int
) -> int:
    """Steps of ``width`` elements in flight: where elements are few, or small, more of them.

    With room for their states twice, for what is loaded and its addresses take registers too.
    """
    figures = ReduceLoadFigures.of("reduce loads", target)
    enough = -(-figures.item_bytes // (width * reduction.inputs[0].itemsize))
    wanted = min(most, figures.steps, enough)
    return doubled(unroll, wanted, policy, target, reduction, width, room=2)


def doubled(
    unroll: int,
    wanted: float,
    policy: ReducePolicy,
    target: Target,
    reduction: Reduction,
    width: int,
    room: int = 1,
) -> int:
    """``unroll``, doubled as often as ``room`` times the states fit, up to ``wanted``."""
    while 2 * unroll <= wanted:
        if not fits(replace(policy, unroll=2 * room * unroll), target, reduction, width):
            break
        unroll *= 2
    return unroll


def aligned_vector(
    vector: int,
    reduction: Reduction,
    geometry: Geometry,
    alignment: int,
    along: Axis,
    extent: int = 0,
) -> tuple[int, bool]:
    """The most of ``vector`` of which every line along an axis of unit stride starts at a multiple.

    Of all streamed inputs; and whether that is more than one.
    """
    lines = [k for k in range(len(reduction.streamed)) if along.strides[k] == 1]
    axes = (*geometry.kept, *geometry.outer, geometry.inner)
    steps = [axis.strides[k] for axis in axes if axis is not along for k in lines]
    steps += (*(geometry.shift[k] for k in lines), extent)
    itemsize = max(reduction.streamed[k].itemsize for k in lines)
    while vector > 1 and (alignment < vector * itemsize or any(step % vector for step in steps)):
        vector //= 2
    return vector, vector > 1
