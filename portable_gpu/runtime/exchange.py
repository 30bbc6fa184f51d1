"""A check that lanes exchange values on this device as the kernels assume."""

from __future__ import annotations

import warnings

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.operators import Accumulator, Field
from portable_gpu.codegen.parameters import buffer
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.errors import PortableGPUError
from portable_gpu.runtime.program import ProgramCache
from portable_gpu.targets import Target, with_barriers

_BY_INSTRUCTIONS = ("warp_shuffle", "khr_subgroup", "wavefront_dpp")


def with_checked_exchange(
    target: Target, context: cl.Context, device: cl.Device, programs: ProgramCache
) -> Target:
    """Check the lane exchange of a target, and return the target to use.

    It is ``target`` itself, or, if the check fails, a target whose lanes exchange values through
    local memory with barriers.  A target that does so anyway is not checked.

    The check is a small kernel that sums known values over sub-groups of every width.  It runs on a
    queue of its own, because the caller's queue may wait for an event.  The result is stored on
    disk with the programs, by device and driver, unless the kernel could not be run (for instance
    because there is no memory).
    """
    if target.is_cpu or not (target.exchange in _BY_INSTRUCTIONS or target.lockstep):
        return target
    spec, widths, size = specialization(target)
    try:
        trouble = programs.remembered(
            spec, lambda: _trouble(spec, widths, size, cl.CommandQueue(context, device), programs)
        )
    except cl.Error as error:
        trouble = str(error).splitlines()[0]
    if not trouble:
        return target
    why = f"{target.exchange} failed its check: {trouble}"
    warnings.warn(
        f"{target.facts.name}: {why}; local memory and barriers are used instead", stacklevel=3
    )
    return with_barriers(target, why)


def specialization(target: Target) -> tuple[Specialization, list[int], int]:
    """Return the text of the check, the widths of its sums, and the size of its group."""
    widths = [1 << k for k in range(1, target.subgroup_size.bit_length())]
    size = min(4 * target.subgroup_size, target.max_work_group_size)
    sums = (Field("narrow", "uint", "0"), Field("wide", "ulong", "0"))
    acc = Accumulator("acc_t", sums, lambda width: "a.narrow += b.narrow; a.wide += b.wide;")
    arrays = [
        buffer("ulong", "in", restrict=False),
        buffer("ulong2", "out", writes=True, restrict=False),
    ]
    kernels = {"check": arrays}
    return (
        specialize("subgroup/check", target, kernels, acc=acc, widths=widths, G=size),
        widths,
        size,
    )


def _trouble(
    spec: Specialization,
    widths: list[int],
    size: int,
    queue: cl.CommandQueue,
    programs: ProgramCache,
) -> str:
    """Return a short description of what is wrong; an empty string if every sum is right.

    Raises:
        cl.Error: The kernel could not be run.
    """
    values = np.random.default_rng(1).integers(1 << 60, size=size, dtype=np.uint64)
    sums = np.zeros((len(widths), size, 2), np.uint64)
    flags = cl.mem_flags
    try:
        kernel = programs.kernel(spec, "check")
    except PortableGPUError as error:
        return str(error).splitlines()[0]
    source, out = (
        cl.Buffer(queue.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=array)
        for array in (values, sums)
    )
    kernel.set_arg(0, source)
    kernel.set_arg(1, out)
    cl.enqueue_nd_range_kernel(queue, kernel, (size,), (size,))
    cl.enqueue_copy(queue, sums, out)
    for width, (narrow, wide) in zip(widths, sums.transpose(0, 2, 1), strict=True):
        expected = values.reshape(-1, width).sum(axis=1)
        count = len(expected)
        if not (wide[:count] == expected).all():
            return f"64-bit sums over {width} lanes are wrong"
        if not (narrow[:count] == expected & np.uint64(0xFFFFFFFF)).all():
            return f"32-bit sums over {width} lanes are wrong"
    return ""
