"""Compile the catalogue for GPUs that are not installed, and check the requirements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import bfloat16, dtype_of
from portable_gpu.errors import ArgumentError, BuildError, DTypeError, UnsupportedError
from portable_gpu.isa.architectures import Occupancy, occupancy
from portable_gpu.isa.compilers import Compilers
from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.machines import Machine
from portable_gpu.ops.family import USUAL_DTYPES, Compiled
from portable_gpu.ops.registry import CATALOGUE, KERNELS, OPERATIONS
from portable_gpu.targets import Exchange

_ALL_DTYPES = (*USUAL_DTYPES, "int64", "uint16", "complex128", "bool")
#: Compiled for machines that have a matrix instruction for it.
_BFLOAT16 = ("bfloat16",) if bfloat16() is not None else ()
#: For machines that differ from another one only in how lanes exchange values.
_LDS_DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class CompileJob:
    """One text to compile for one machine; ``operation`` is the first that builds it."""

    machine: Machine
    operation: str
    dtype: str
    spec: Specialization


@dataclass(frozen=True)
class CompileResult:
    """The result of one kernel of a job.

    Attributes:
        job: The job.
        kernel: The compiled kernel, ``None`` if the compiler refused it.
        occupancy: Its resident waves, ``None`` if the compiler refused it.
        problems: Why it fails; empty if it passes.
    """

    job: CompileJob
    kernel: CompiledKernel | None = None
    occupancy: Occupancy | None = None
    problems: tuple[str, ...] = field(default=())

    @property
    def name(self) -> str:
        """Machine, operation, dtype and template."""
        job = self.job
        return f"{job.machine.name} {job.operation} {job.dtype} {job.spec.name}"


def jobs(
    machines: Sequence[Machine], operations: Sequence[str] = (), full: bool = False
) -> list[CompileJob]:
    """The jobs; the same text is compiled once a machine.

    Args:
        machines: The GPUs.
        operations: The operations; empty for all.
        full: Compile every operation with every dtype, not only the usual ones.

    Raises:
        ArgumentError: There is no such operation.
    """
    if unknown := sorted(set(operations) - set(CATALOGUE)):
        known = ", ".join(sorted(CATALOGUE))
        raise ArgumentError(f"no operation {', '.join(map(repr, unknown))}; there are: {known}")
    result: dict[tuple[str, str], CompileJob] = {}
    names = tuple(operations or CATALOGUE)
    for machine in machines:
        for dtype in _dtypes(machine, names, full):
            for operation in names:
                if not (full or operations or dtype in OPERATIONS[operation].compiled):
                    continue
                try:
                    specs = CATALOGUE[operation](machine.target, dtype_of(dtype))
                except (DTypeError, UnsupportedError):  # reduce takes no complex numbers
                    continue
                for spec in specs:
                    result.setdefault(
                        (machine.name, spec.key), CompileJob(machine, operation, dtype, spec)
                    )
    return list(result.values())


def check(job: CompileJob, compilers: Compilers, folder: Path) -> list[CompileResult]:
    """Compile one text; returns a result for each of its kernels."""
    try:
        kernels = compilers.compile(job.spec, job.machine, folder)
    except BuildError as error:
        return [CompileResult(job, problems=(str(error),))]
    return list(_results(job, kernels))


def _results(job: CompileJob, kernels: Sequence[CompiledKernel]) -> Iterator[CompileResult]:
    for kernel in kernels:
        resident = occupancy(
            job.machine.architecture,
            kernel.registers,
            kernel.scalars,
            kernel.local,
            kernel.group_size,
        )
        wrong = problems(job.spec, job.dtype, job.machine, kernel, resident)
        yield CompileResult(job, kernel, resident, tuple(wrong))


def _dtypes(machine: Machine, operations: Sequence[str], full: bool) -> tuple[str, ...]:
    """The usual dtypes, and those that one of the operations adds."""
    if full:
        return _ALL_DTYPES
    if machine.target.exchange == "wavefront_lds":
        return _LDS_DTYPES
    requested = {dtype for operation in operations for dtype in OPERATIONS[operation].compiled}
    rarer = tuple(d for d in _ALL_DTYPES if d in requested and d not in USUAL_DTYPES)
    bfloat16 = _BFLOAT16 if machine.target.matrix_units == "mfma" else ()
    return (*USUAL_DTYPES, *rarer, *bfloat16)


#: Waves that must fit the registers of a SIMD, so that one computes while the other waits.
MIN_WAVES = 2
_FOLD_WIDTH = re.compile(r"\w+_subgroup(\d+)\(")
#: The requirements on kernels for which the family states none.
_DEFAULT = Compiled()


# -- the requirements on every compiled kernel


def problems(
    spec: Specialization, dtype: str, machine: Machine, kernel: CompiledKernel, occupancy: Occupancy
) -> list[str]:
    """The requirements that a kernel breaks, in words; empty if none.

    Args:
        spec: The text.
        dtype: The element type.
        machine: The GPU.
        kernel: The compiled kernel.
        occupancy: Its resident waves.
    """
    return [
        *_memory(spec, machine, kernel),
        *_registers(kernel, occupancy),
        *_loop(spec, dtype, machine, kernel),
        *_index_arithmetic(spec, dtype, kernel),
        *_exchange(spec, machine, kernel),
    ]


def _memory(spec: Specialization, machine: Machine, kernel: CompiledKernel) -> Iterator[str]:
    if kernel.scratch:
        yield f"scratch memory is {kernel.scratch} bytes"
    if kernel.spills:
        yield f"spills {kernel.spills} {'registers' if machine.architecture.is_amd else 'bytes'}"
    if f"-DWAVEFRONT_SIZE={kernel.wave}" not in spec.options:
        yield f"wave of {kernel.wave}, not what the text was rendered for"
    limit = machine.target.static_local_mem
    if kernel.local > limit:
        yield f"local memory is {kernel.local} bytes, the limit {limit}"


def _registers(kernel: CompiledKernel, occupancy: Occupancy) -> Iterator[str]:
    if not occupancy.waves:
        yield f"no group of {kernel.group_size} fits a compute unit, by its {occupancy.limit}"
    if occupancy.by_registers < MIN_WAVES:
        yield (
            f"{kernel.registers} registers allow {occupancy.by_registers} waves of a SIMD, "
            f"not {MIN_WAVES}"
        )


def _loop(
    spec: Specialization, dtype: str, machine: Machine, kernel: CompiledKernel
) -> Iterator[str]:
    requested = KERNELS.get(spec.name, _DEFAULT)
    if not requested.matrix and requested.fma_share is None:
        return
    if kernel.loop is None:
        yield "no inner loop"
        return
    mix = kernel.loop.mix
    if requested.matrix and not mix.matrix:
        yield "no matrix instruction in the inner loop"
    if requested.fma_share is None:
        return
    if dtype.startswith(("float", "complex")) and not mix.fma:
        yield "no multiply-add in the inner loop"
    one_by_one = machine.architecture.is_amd and not machine.architecture.packs_fma
    if dtype == "float16" and machine.target.dot2 and mix.dot < mix.fma:
        yield f"only {mix.dot} of the inner loop's {mix.fma} multiply-adds are of pairs, not all"
    if dtype in ("float16", "float32") and one_by_one:
        required = requested.fma_share(spec.policy)
        if mix.fma_share < required:
            yield (
                f"{mix.fma_share:.2f} of the inner loop's vector and local memory instructions "
                f"are multiply-adds, not {required:.2f}"
            )


def _index_arithmetic(spec: Specialization, dtype: str, kernel: CompiledKernel) -> Iterator[str]:
    if KERNELS.get(spec.name, _DEFAULT).strided:
        return
    if "float" not in dtype and not dtype.startswith("complex"):
        return  # these may be products of the data, which are integers
    count = kernel.loop.mix.wide_multiply if kernel.loop else 0
    if count:
        yield f"{count} products of 32-bit integers in the inner loop, at a quarter of the rate"


def _exchange(spec: Specialization, machine: Machine, kernel: CompiledKernel) -> Iterator[str]:
    widths = [int(width) for width in _FOLD_WIDTH.findall(spec.text)]
    if not KERNELS.get(spec.name, _DEFAULT).folds or max(widths, default=1) == 1:
        return
    mix, exchange = kernel.mix, machine.target.exchange
    uses_exchange: dict[Exchange, bool] = {
        "wavefront_dpp": mix.dpp > 0,
        "wavefront_lds": mix.lds > 0 and mix.dpp == 0,
        "warp_shuffle": mix.lanes > 0,
    }
    if not uses_exchange[exchange]:
        yield (
            f"lanes do not exchange by {exchange}: "
            f"{mix.dpp} DPP, {mix.lanes} shuffles, {mix.lds} of local memory"
        )
