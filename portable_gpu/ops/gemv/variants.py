"""The variants of a matrix-vector product."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.ops.gemv import cpu_kernels, gpu_kernels
from portable_gpu.ops.gemv.kernels import GemvKernel
from portable_gpu.ops.gemv.plan import gemv_plan
from portable_gpu.ops.gemv.policy import ColumnPolicy, RowPolicy, real_bytes
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.variant import Variant, by_rule
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import TuningTable


@dataclass(frozen=True)
class GemvCosts(Figures):
    """The costs of a product in addition to its traffic.

    Attributes:
        efficiency: The rate of multiply-adds with several vectors, divided by that of the best
            tiles.
        load: Seconds that a work-item waits for the elements of one turn of its loop, which it
            loads together.
        wide: The factor of ``load`` for elements of 64 bits.
        fold: Seconds to pass a sum from one work-item to another.
        strided: The part of the additional time to read A at a stride that caches do not save.
        reread: Seconds of a compute unit for each byte of x that is loaded again.
        parts: Seconds of the last group of a block to add the sums of all parts, if there are
            several.
        apart: The factor of the time with several vectors, if adjacent elements of a vector are in
            different lines of memory.
        interleaved: The factor of the time with several vectors, if elements of all vectors are in
            the same line.
    """

    efficiency: float
    load: float
    wide: float
    fold: float
    strided: float
    reread: float
    parts: float
    apart: float
    interleaved: float


def variants(problem: GemvProblem, target: Target, table: TuningTable) -> list[Variant]:
    """Return all variants of a product that is not empty."""
    p = problem.forwards()
    if not target.is_cpu:
        return [_variant(p, kernel, target) for kernel in kernels(p, target, table)]
    # On CPUs a rule decides, because the estimates include neither strides nor latency.
    along: list[Variant] = []  # kernels that go along the axis where A is more contiguous
    across: list[Variant] = []
    for kernel in kernels(p, target, table):
        (along if kernel.by_rows == p.by_rows else across).append(_variant(p, kernel, target))
    costs = DeviceCosts.of("device", target)
    return by_rule("the axis along which A is read", along, across, costs)


def kernels(problem: GemvProblem, target: Target, table: TuningTable) -> list[GemvKernel]:
    """Return every kernel of a product that is not empty.

    The problem is one that :meth:`GemvProblem.forwards` returned.
    """
    p = problem
    kind = "eight" if p.padded_vectors == 8 else "any"  # eight vectors need more registers for sums
    rows = table.choose("gemv_rows", RowPolicy, target, p.elem)
    columns = table.choose("gemv_columns", ColumnPolicy, target, p.elem, kind)
    if target.is_cpu:
        return [
            cpu_kernels.cpu_rows(p, target, rows), cpu_kernels.cpu_columns(p, target, columns)
        ]  # fmt: skip
    return [
        gpu_kernels.dot_rows(p, target, rows),
        gpu_kernels.axpy_columns(p, target, columns),
        *gpu_kernels.long_rows(p, target, rows),
    ]


def _variant(p: GemvProblem, kernel: GemvKernel, target: Target) -> Variant:
    # While few groups run, each moves twice the bytes of a group of a full device.
    units = target.compute_units
    busy = min(units, max(units // 4, 2 * kernel.blocks * kernel.parts, 1))
    device, costs = DeviceCosts.of("device", target), GemvCosts.of("gemv", target)
    products = p.m * p.n * p.padded_vectors * multiply_adds(p.elem)
    computing = products / (units * device.multiply_adds * costs.efficiency)
    moving = p.bytes / (device.bandwidth * busy) * (1 + (kernel.slowdown - 1) * costs.strided)
    x_bytes = p.n * p.vectors * p.elem.itemsize
    loading = (kernel.blocks - 1) * x_bytes * costs.reread / units
    waiting = kernel.load_waits * costs.load * (costs.wide if real_bytes(p.elem) > 4 else 1.0)
    summing = overlapped(overlapped(computing, moving), overlapped(waiting, loading))
    adding = kernel.folded_values * costs.fold + (costs.parts if kernel.parts > 1 else 0.0)
    return Variant(
        name=kernel.template,
        estimate=summing + adding,
        launches=1,
        why=kernel.why,
        texts=lambda: [kernel.specialization(target)],
        bind=lambda engine: gemv_plan(engine, p, kernel),
        row=kernel.row,
        details={
            "vector": kernel.context["V"],
            "group size": kernel.group_size,
            "blocks": kernel.blocks,
            "parts": kernel.parts,
        },
    )
