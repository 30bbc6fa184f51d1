"""Compile the catalogue for GPUs that are not installed, and check the requirements."""

from __future__ import annotations

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
from portable_gpu.isa.requirements import problems
from portable_gpu.ops.family import USUAL_DTYPES
from portable_gpu.ops.registry import CATALOGUE, OPERATIONS

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
