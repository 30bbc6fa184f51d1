"""Results of offline compilers for every kernel: registers, memory, the inner loop's instructions.

Like ``targets``, this package may name vendors: it reads their assembly.
"""

from __future__ import annotations

from portable_gpu.isa.check import CompileJob, CompileResult, check, jobs
from portable_gpu.isa.compilers import Compilers, MissingCompiler, find_compilers
from portable_gpu.isa.machines import Machine, machines, select

__all__ = [
    "CompileJob",
    "CompileResult",
    "Compilers",
    "Machine",
    "MissingCompiler",
    "check",
    "find_compilers",
    "jobs",
    "machines",
    "select",
]
