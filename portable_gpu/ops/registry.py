"""The families: all commands find a family that is listed here."""

from __future__ import annotations

from portable_gpu.ops.attention.commands.family import ATTENTION
from portable_gpu.ops.conv.commands.family import CONV
from portable_gpu.ops.elementwise.commands.family import ELEMENTWISE
from portable_gpu.ops.embedding.commands.family import EMBEDDING
from portable_gpu.ops.factor.commands.family import FACTOR
from portable_gpu.ops.family import Benchmark, Build, Compiled, Family, OperationRecord
from portable_gpu.ops.fft.commands.family import FFT
from portable_gpu.ops.gemm.commands.family import GEMM
from portable_gpu.ops.gemv.commands.family import GEMV
from portable_gpu.ops.normalize.commands.family import NORMALIZE
from portable_gpu.ops.optim.commands.family import OPTIM
from portable_gpu.ops.random.commands.family import RANDOM_NUMBERS
from portable_gpu.ops.reduce.commands.family import REDUCE
from portable_gpu.ops.sampling.commands.family import SAMPLING

#: In the order in which they are timed and checked.
FAMILIES: tuple[Family, ...] = (
    REDUCE,
    GEMV,
    GEMM,
    ELEMENTWISE,
    FACTOR,
    FFT,
    RANDOM_NUMBERS,
    SAMPLING,
    CONV,
    NORMALIZE,
    ATTENTION,
    OPTIM,
    EMBEDDING,
)

_BY_NAME = {family.name: family for family in sorted(FAMILIES, key=lambda family: family.name)}
#: Every public operation.
OPERATIONS: dict[str, OperationRecord] = {
    operation.name: operation for family in _BY_NAME.values() for operation in family.operations
}
#: What each operation builds by default, unless it is the same as for another operation.
CATALOGUE: dict[str, Build] = {
    name: operation.specializations
    for name, operation in OPERATIONS.items()
    if operation.specializations is not None
}
#: The operations that are timed.
BENCHMARKS: dict[str, Benchmark] = {
    name: benchmark for family in FAMILIES for name, benchmark in family.benchmarks.items()
}
#: The name of the family of each operation.
FAMILY_OF: dict[str, str] = {
    operation.name: family.name for family in FAMILIES for operation in family.operations
}
#: The requirements on compiled kernels, by template.
KERNELS: dict[str, Compiled] = {
    name: compiled for family in FAMILIES for name, compiled in family.kernels.items()
}
