"""Results as rows for the terminal, for JSON and for the documentation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from portable_gpu.isa.check import CompileResult
from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.mix import Mix
from portable_gpu.ops.registry import KERNELS

SUMMARY_HEADS = (
    "target", "kernels", "failed", "VGPR", "SGPR", "scratch", "spills", "LDS bytes", "waves",
    "wave",
)  # fmt: skip
#: FMA and matrix (and their shares), DPP and LDS instructions are those of the inner loop;
#: exchanges, of the whole kernel.
KERNEL_HEADS = (
    "target", "kernel", "dtype", "VGPR", "SGPR", "LDS bytes", "waves", "limited by", "load",
    "FMA", "matrix", "DPP", "LDS", "arithmetic / memory", "exchanges",
)  # fmt: skip


def summary(results: Iterable[CompileResult]) -> Iterator[tuple[str, ...]]:
    """A row for each target: kernels, failures, and the most or least of each figure."""
    groups: defaultdict[str, list[CompileResult]] = defaultdict(list)
    for result in results:
        groups[result.job.machine.name].append(result)
    for name, group in groups.items():
        kernels = [result.kernel for result in group if result.kernel is not None]
        waves = [resident_waves(result) for result in group if result.occupancy is not None]
        yield (
            name,
            str(len(group)),
            str(sum(bool(result.problems) for result in group)),
            str(max((k.registers for k in kernels), default=0)),
            str(max((k.scalars for k in kernels), default=0)),
            str(max((k.scratch for k in kernels), default=0)),
            str(max((k.spills for k in kernels), default=0)),
            str(max((k.local for k in kernels), default=0)),
            f"{min(waves, default=0):g}",
            "/".join(sorted({str(k.wave) for k in kernels})),
        )


def kernel_row(result: CompileResult) -> tuple[str, ...]:
    """One kernel's row, under :data:`KERNEL_HEADS`."""
    job, kernel, occupancy = result.job, result.kernel, result.occupancy
    head = (job.machine.name, f"{job.operation} {job.spec.name}", job.dtype)
    if kernel is None or occupancy is None:
        return (*head, *[""] * (len(KERNEL_HEADS) - len(head)))
    mix = kernel.loop.mix if kernel.loop else Mix()
    return (
        *head,
        str(kernel.registers),
        str(kernel.scalars or ""),
        str(kernel.local),
        f"{resident_waves(result):g}",
        occupancy.limit,
        widest_load(kernel),
        f"{mix.fma} ({mix.fma_share:.2f})" if mix.fma else "",
        f"{mix.matrix} ({mix.matrix_share:.2f})" if mix.matrix else "",
        str(mix.dpp or ""),
        str(mix.lds or ""),
        f"{mix.arithmetic_per_memory:.1f}",
        _exchanges(kernel.mix),
    )


def markdown(results: Sequence[CompileResult]) -> str:
    """Two tables for docs/devices.md: each target, and the main kernels of each."""
    rows = [kernel_row(result) for result in _main(results)]
    return f"{_table(SUMMARY_HEADS, summary(results))}\n\n{_table(KERNEL_HEADS, rows)}"


def to_dict(result: CompileResult) -> dict[str, Any]:
    """All figures of one kernel, for JSON."""
    job, kernel, occupancy = result.job, result.kernel, result.occupancy
    content: dict[str, Any] = {
        "target": job.machine.name,
        "operation": job.operation,
        "dtype": job.dtype,
        "template": job.spec.name,
        "policy": None if job.spec.policy is None else job.spec.policy.to_dict(),
        "options": list(job.spec.options),
        "problems": list(result.problems),
    }
    if kernel is not None and occupancy is not None:
        loop = kernel.loop
        content |= {
            "function": kernel.name,
            "vector_registers": kernel.registers,
            "scalar_registers": kernel.scalars,
            "scratch_bytes": kernel.scratch,
            "spills": kernel.spills,
            "scalar_spills": kernel.scalar_spills,
            "local_bytes": kernel.local,
            "group_size": kernel.group_size,
            "wave": kernel.wave,
            "occupancy": {
                "resident_waves": resident_waves(result),
                "of": "SIMD" if job.machine.architecture.is_amd else "multiprocessor",
                "limit": occupancy.limit,
            },
            "instructions": _mix(kernel.mix),
            "inner_loop": None
            if loop is None
            else {"label": loop.label, "depth": loop.depth, **_mix(loop.mix)},
        }
    return content


def resident_waves(result: CompileResult) -> float:
    """Resident waves of a SIMD (AMD's GPUs) or warps of a multiprocessor (NVIDIA's)."""
    assert result.occupancy is not None
    architecture = result.job.machine.architecture
    return result.occupancy.waves * (1 if architecture.is_amd else architecture.simds)


def widest_load(kernel: CompiledKernel) -> str:
    """The widest load from global memory in the inner loop or, if it has none, in the kernel."""
    loads = kernel.loop.mix.loads if kernel.loop and kernel.loop.mix.loads else kernel.mix.loads
    return f"{max(loads)} B" if loads else ""


def _main(results: Iterable[CompileResult]) -> Iterator[CompileResult]:
    """The first result of each machine and shown kernel: that of the largest policy."""
    seen: set[tuple[str, str]] = set()
    for result in results:
        job = result.job
        key = (job.machine.name, job.spec.name)
        requested = KERNELS.get(job.spec.name)
        if requested is not None and requested.shown == job.operation and key not in seen:
            seen.add(key)
            yield result


def _exchanges(mix: Mix) -> str:
    parts = [f"{mix.dpp} DPP" if mix.dpp else "", f"{mix.lanes} lanes" if mix.lanes else ""]
    return ", ".join(filter(None, parts))


def _mix(mix: Mix) -> dict[str, Any]:
    counts = {
        field.name: getattr(mix, field.name) for field in fields(mix) if field.name != "loads"
    }
    return {
        **counts,
        "loads_by_bytes": {str(size): count for size, count in mix.loads.items()},
        "fma_share": round(mix.fma_share, 3),
        "matrix_share": round(mix.matrix_share, 3),
        "arithmetic_per_memory": round(mix.arithmetic_per_memory, 2),
    }


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
