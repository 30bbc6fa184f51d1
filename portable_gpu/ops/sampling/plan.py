"""A sampling operation bound to shapes and strides: built, and ready to launch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.sampling.kernels import kernel_of, tables
from portable_gpu.ops.sampling.problem import SamplingProblem
from portable_gpu.ops.sampling.rules import AxisRule
from portable_gpu.ops.sampling.sampling_kernel import SamplingKernel
from portable_gpu.ops.variant import Variant, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, overlapped

_WHY = {
    "runs": "each work-item has rows of results, whose taps loops of vectors take",
    "scatter": "each work-item has whole planes, and adds their sources where their indices say",
    "blocks": "each work-item has a block of results, whose taps it loads once",
    "tiles": "each work-item finds the taps of a place once, for several planes",
}


def sampling_plan(engine: Engine, problem: SamplingProblem, kernel: SamplingKernel) -> OneLaunch:
    """Return the plan; a copy takes the bits of the value of outputs that read nothing."""
    is_complex = problem.elem.complex
    fills = ("fill_re", "fill_im") if is_complex else ("fill",)
    scalars = dict.fromkeys(fills, 0) if problem.kind == "copy" else {}
    return OneLaunch(
        engine, kernel.specialization(engine.target), "sampling", kernel.integers,
        [f"{name}_data" for name in problem.names],
        (kernel.groups * kernel.group_size,), (kernel.group_size,),
        offsets=[f"{name}_offset" for name in problem.names], scalars=scalars,
        as_bits=[*scalars] if is_complex else (), tables=tables(problem, kernel),
        workspaces={"sums": kernel.workspace_bytes},
        flop=multiply_adds_of(problem.shape, problem.rules),
        nbytes=problem.nbytes,
    )  # fmt: skip


def multiply_adds_of(shape: Shape, rules: Sequence[AxisRule | None]) -> int:
    """The taps of all outputs, which have a shape."""
    extents = zip(shape, rules, strict=True)
    return prod(
        extent if rule is None else int(rule.entries().counts.sum()) for extent, rule in extents
    )


def make_plan(engine: Engine, problem: SamplingProblem) -> Plan:
    """The plan of a problem whose result has elements."""
    return engine.plan(problem, lambda: bind_best(engine, variants(problem, engine.target)))


def variants(problem: SamplingProblem, target: Target) -> list[Variant]:
    """The only variant of the device: rows of results or whole planes on a CPU, else tiles."""
    kernel = kernel_of(problem, target)
    costs, units = DeviceCosts.of("device", target), target.compute_units
    computing = multiply_adds_of(problem.shape, problem.rules) / (costs.multiply_adds * units)
    return [
        Variant(
            name=kernel.template,
            estimate=overlapped(computing, problem.nbytes / (costs.bandwidth * units)),
            launches=1,
            why=_WHY[kernel.template],
            texts=lambda: [kernel.specialization(target)],
            bind=lambda engine: sampling_plan(engine, problem, kernel),
            details={
                "groups": kernel.groups,
                "group size": kernel.group_size,
                "vector": kernel.context["V"],
                "taps": " x ".join(str(axis.taps or "any") for axis in kernel.axes.ruled),
            },
        )
    ]
