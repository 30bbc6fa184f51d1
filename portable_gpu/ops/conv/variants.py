"""Every way to compute a convolution or its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import Any

from portable_gpu.arguments import one_of, whole
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.conv import answers, im2col, implicit, in_pieces, spectral, winograd
from portable_gpu.ops.conv.chunks import workspace_limit
from portable_gpu.ops.conv.cpu_weight import cpu_weight_kernel
from portable_gpu.ops.conv.direct import direct_kernel
from portable_gpu.ops.conv.epilogue import array_names, with_arrays, with_pass
from portable_gpu.ops.conv.estimates import (
    ConvCosts,
    cpu_seconds,
    direct_seconds,
    direct_work,
    far_seconds,
    planes_work,
    sliding_seconds,
    tiled_weight_work,
    weight_seconds,
    weight_work,
)
from portable_gpu.ops.conv.items import bound_operands, launch_sizes
from portable_gpu.ops.conv.kernels import ConvKernel
from portable_gpu.ops.conv.planes import planes_kernel
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.conv.products import has_empty_products
from portable_gpu.ops.conv.sliding import sliding_kernel
from portable_gpu.ops.conv.sliding_weight import sliding_weight_kernel
from portable_gpu.ops.conv.weight import WeightKernel, weight_kernel, weight_plan
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Sizes
from portable_gpu.runtime.plan import Plan
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, ThreadCosts, overlapped
from portable_gpu.tuning.table import TuningTable

ALGORITHMS = (
    "auto", "found", "direct", "im2col", "implicit_gemm", "implicit_gemm, channels last",
    "implicit_gemm, in pieces", "implicit_gemm, few channels", "winograd", "fft",
)  # fmt: skip
#: What the variants need, apart from workspace.
_NEEDS = (
    "im2col needs axes of space of y that are contiguous in memory, implicit_gemm a GPU; "
    "winograd needs filters of 3 x 3, stride and dilation 1, float32 with precision ieee or "
    "float64, and for the gradient of the weights a CPU; fft needs stride and dilation 1, padding "
    "below the extents of filters and results, and these dtypes"
)


def check_algorithm(algo: str) -> str:
    """Return ``algo`` if it is known.

    Raises:
        ArgumentError, ArgumentTypeError: It is not.
    """
    return one_of(algo, ALGORITHMS, "algo")


def check_limit(limit: Any) -> int | None:
    """Return the limit of workspace if it is a number of bytes, or ``None``.

    Raises:
        ArgumentError, ArgumentTypeError: It is not.
    """
    if limit is None:
        return None
    nbytes = whole(limit, "workspace_limit")
    if nbytes < 0:
        raise ArgumentError(f"workspace_limit is {limit}; expected bytes of at least 0")
    return nbytes


def make_plan(engine: Engine, problem: ConvProblem, algo: str, limit: int | None) -> Plan:
    """Return the plan of a problem whose result has elements.

    Raises:
        ArgumentError: The named algorithm does not take the problem, or needs more workspace.
    """
    key = problem, algo, limit
    return engine.plan(key, lambda: bind_best(engine, _candidates(engine, problem, algo, limit)))


def _candidates(
    engine: Engine, problem: ConvProblem, algo: str, limit: int | None
) -> list[Variant]:
    """Return the variants of a plan; one for a problem whose repeated calls take a single thread.

    That one is the fastest on the calling thread of a CPU.
    """
    table, caller = engine.table, engine.caller
    every = of_algorithm(problem, engine.target, table, algo, limit)
    alone = partial(seconds_alone, problem, limit=limit)
    if caller is None or not engine.is_small(problem.bytes, problem.flop, alone):
        return every
    best = best_of(of_algorithm(problem, caller.target, table, algo, limit), caller.target)
    return [variant for variant in every if variant.name == best.name] or every


def seconds_alone(
    problem: ConvProblem, engine: Engine, limit: int | None = None
) -> tuple[float, int]:
    """Return the estimated seconds of a problem on one thread of a CPU, and its launches.

    They do not depend on the algorithm that a call names, so that all algorithms of a problem run
    on the same threads, and answers of :func:`find_conv2d` are found again.  No variant is listed
    where a lower bound shows that several threads are faster: every algorithm has a multiply-add
    for each element and channel at least.  Then that bound is returned, and one launch.

    Args:
        problem: The problem, whose result has elements.
        engine: The engine of the calling thread.
        limit: See :func:`make_plan`.
    """
    target, table = engine.target, engine.table
    per_second = DeviceCosts.of("device", target).multiply_adds * target.compute_units
    least = problem.flop / (2 * problem.taps) / per_second
    if least > 2 * ThreadCosts.of("calling thread", target).waking:  # one of two threads is slower
        return least, 1

    def estimated() -> tuple[float, int]:
        best = best_of(of_algorithm(problem, target, table, "auto", limit), target)
        return best.estimate, best.details["launches"]

    return engine.plan(("seconds alone", problem, limit), estimated)


def of_algorithm(
    problem: ConvProblem, target: Target, table: TuningTable, algo: str, limit: int | None
) -> list[Variant]:
    """Return the variants that an algorithm's name stands for.

    Raises:
        ArgumentError: There are none, or they need more workspace than ``limit``.
    """
    limit_bytes = workspace_limit(limit, target)
    every = _last_listed(problem, target, table, limit)
    allowed = [variant for variant in every if _fits(variant, limit_bytes)]
    if algo == "auto" or not (problem.x_elements and problem.y_elements):
        return allowed  # all results are sums of no terms, for which no algorithm is needed
    if algo == "found":
        return [_fastest_timed(problem, target, allowed)]
    named = [variant for variant in every if algo in (variant.path, variant.name)]
    if not named:
        raise ArgumentError(f"algo is {algo!r}, which does not take this convolution: {_NEEDS}")
    fitting = [variant for variant in named if _fits(variant, limit_bytes)]
    if not fitting:
        needed = min(variant.details["workspace"] for variant in named)
        raise ArgumentError(
            f"algo is {algo!r}, which needs {needed} bytes of workspace here; workspace_limit is "
            f"{limit_bytes} bytes"
            + ("" if limit == limit_bytes else ", the device's largest allocation")
        )
    return fitting


@lru_cache(maxsize=1)
def _last_listed(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
) -> list[Variant]:
    """Return the variants; a call that runs on the calling thread lists them again for its plan."""
    return variants(problem, target, table, limit)


def _fits(variant: Variant, limit_bytes: int) -> bool:
    """Whether a variant's workspace is within the limit; ``direct`` always is allowed."""
    return variant.path == "direct" or bool(variant.details["workspace"] <= limit_bytes)


def _fastest_timed(problem: ConvProblem, target: Target, allowed: Sequence[Variant]) -> Variant:
    """The fastest of the timed variants that the limit of workspace allows.

    Raises:
        ArgumentError: The variants of this problem have not been timed, or none is allowed.
    """
    by_name = {variant.name: variant for variant in allowed}
    timed = answers.recall(problem, target)
    for answer in timed:
        if answer.algo in by_name:
            return by_name[answer.algo]
    raise ArgumentError(
        "algo is 'found', and the variants of this convolution have not been timed on this device "
        "with this driver and version; portable_gpu.nn.find_conv2d with the same arguments does it"
        if not timed else
        f"algo is 'found', and {', '.join(answer.algo for answer in timed)}, which were timed, "
        "need more workspace than workspace_limit"
    )  # fmt: skip


def variants(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None = None
) -> list[Variant]:
    """Return all variants of a problem whose result has elements.

    Variants that compute chunks of images observe the limit of workspace if they can; others may
    need more.
    """

    def and_pass(list_variants: Callable[[ConvProblem], Iterable[Variant]]) -> Iterable[Variant]:
        """Return variants whose kernels do not apply the epilogue, each with the pass that does."""
        listed = list_variants(problem.without_epilogue)
        return [with_pass(v, problem, target) for v in listed] if problem.epilogue else listed

    def by_products(p: ConvProblem) -> list[Variant]:
        """Return the products of windows that are gathered from the images."""
        listed = [*implicit.variants(p, target, table), *in_pieces.variants(p, target, table)]
        return [with_arrays(v, p, target) for v in listed]

    def by_tiles(p: ConvProblem) -> list[Variant]:
        """Return Winograd's products."""
        return [with_arrays(v, p, target) for v in winograd.variants(p, target, table, limit)]

    def by_columns(p: ConvProblem) -> list[Variant]:
        """Return the products of copied windows."""
        return [with_arrays(v, p, target) for v in im2col.variants(p, target, table, limit)]

    if target.is_cpu:
        # An elementwise pass applies an epilogue to vectors; the kernels would to single elements.
        listed = [
            *and_pass(lambda p: [_direct(p, target)]),
            *and_pass(lambda p: im2col.variants(p, target, table, limit)),
            *and_pass(lambda p: winograd.variants(p, target, table, limit)),
            *and_pass(lambda p: spectral.variants(p, target, table, limit)),
        ]
        return [_on_cpu(item, target) for item in listed]
    return [
        with_arrays(_direct(problem, target), problem, target),
        *(by_columns(problem) or and_pass(by_columns)),
        *(and_pass(by_products) if has_empty_products(problem) else by_products(problem)),
        *by_tiles(problem),
        *and_pass(lambda p: spectral.variants(p, target, table, limit)),
    ]


def _on_cpu(variant: Variant, target: Target) -> Variant:
    """Return a variant with the estimate for a CPU.

    Launches after the first one are cheaper, because the threads are already awake.
    """
    following = ConvCosts.of("convolutions", target).following
    if target.compute_units > 1:
        following += ThreadCosts.of("calling thread", target).following
    estimate = variant.estimate + (variant.launches - 1) * following
    details = {**variant.details, "launches": variant.launches}
    return replace(variant, estimate=estimate, launches=1, details=details)


def _direct(problem: ConvProblem, target: Target) -> Variant:
    """Return the variant of one kernel that sums directly."""
    device, units = DeviceCosts.of("device", target), target.compute_units
    moving = problem.bytes / (device.bandwidth * units)
    by_weights = problem.direction == "weight"
    sums = _sums_of_weights(problem, target) if by_weights else _sums(problem, target)
    far = far_seconds(problem.bytes, target) if target.is_cpu else 0.0
    return Variant(
        name="direct",
        estimate=overlapped(sums.seconds, moving) + far,
        launches=1,
        why="direct sums, which need no copies and allow any strides",
        texts=lambda: [sums.kernel.specialization(target)],
        bind=sums.bind,
        details={
            "taps": prod(problem.w_size), "flop": problem.flop, "bytes": problem.bytes,
            "workspace": sums.workspace, "moved": problem.bytes + 2 * sums.workspace,
        },
    )  # fmt: skip


@dataclass(frozen=True)
class _Sums:
    """The kernel of direct sums.

    Attributes:
        kernel: The kernel.
        bind: Returns its plan.
        seconds: The estimate without that of moving data.
        workspace: Bytes.
    """

    kernel: WeightKernel | ConvKernel
    bind: Callable[[Engine], Plan]
    seconds: float
    workspace: int = 0


def _sums(p: ConvProblem, target: Target) -> _Sums:
    """Return the sums of a convolution or of the gradient of its input."""
    rows = sliding_kernel(p, target)
    if rows is not None:
        groups = rows.items // rows.context["G"]
        seconds = sliding_seconds(rows.context, rows.constants, groups, target)
        sizes = (rows.items,), (rows.context["G"],)
        return _Sums(rows, partial(_plan_of_sums, problem=p, kernel=rows, sizes=sizes), seconds)
    planes = planes_kernel(p, target)
    if planes is not None:
        seconds = cpu_seconds(planes_work(planes, target), target)
        sizes = launch_sizes(planes.items, planes.constants["items_each"], target)
        return _Sums(planes, partial(_plan_of_sums, problem=p, kernel=planes, sizes=sizes), seconds)
    kernel = direct_kernel(p, target)
    made = kernel.context, kernel.constants, target
    seconds = cpu_seconds(direct_work(*made), target) if target.is_cpu else direct_seconds(*made)
    sizes = launch_sizes(kernel.items, 1, target)
    return _Sums(kernel, partial(_plan_of_sums, problem=p, kernel=kernel, sizes=sizes), seconds)


def _plan_of_sums(
    engine: Engine, problem: ConvProblem, kernel: ConvKernel, sizes: Sizes
) -> OneLaunch:
    """Return the plan of a kernel in a launch of some sizes.

    Operands: x (or the gradient of y), w, the bias and the epilogue's arrays, the result.
    """
    names = ("s", "f", "bias", *array_names(problem), "t")
    operands, constants = bound_operands(names, problem.bias is not None)
    return OneLaunch(
        engine, kernel.specialization(engine.target), kernel.name,
        {**constants, **kernel.constants}, operands, *sizes, flop=problem.flop,
        nbytes=problem.bytes,
    )  # fmt: skip


def _sums_of_weights(p: ConvProblem, target: Target) -> _Sums:
    """Return the sums of a gradient of the weights."""
    rows = sliding_weight_kernel(p, target)
    tiles = cpu_weight_kernel(p, target)
    kernel = tiles or rows or weight_kernel(p, target)
    made = kernel.context, kernel.constants
    if target.is_cpu:
        work = tiled_weight_work if tiles else weight_work
        seconds = cpu_seconds(work(*made, kernel.blocks, target), target)
    else:
        estimate = sliding_seconds if rows else weight_seconds
        seconds = estimate(*made, kernel.blocks * kernel.parts, target)
    bind = partial(weight_plan, problem=p, kernel=kernel)
    return _Sums(kernel, bind, seconds, kernel.partial_bytes)
