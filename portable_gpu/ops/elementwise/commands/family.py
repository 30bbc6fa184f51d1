"""The record of elementwise expressions."""

from __future__ import annotations

from math import prod

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.elementwise.api import elementwise
from portable_gpu.ops.elementwise.commands import checks
from portable_gpu.ops.elementwise.commands.catalogue import explain, specializations
from portable_gpu.ops.elementwise.commands.random_sizes import RANDOM
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Tuning,
    Typical,
)

_ELEMENTWISE = OperationRecord(
    name="elementwise",
    function=elementwise,
    explain=explain,
    specializations=specializations,
    compiled=("float32", "float64", "float16", "int8"),
    shapes=lambda case: (case.extents, case.extents),
    exact=True,
    typical=Typical(((1000,), (2000, 1000)), function=checks.warmed),
)
_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="2^16,2^20,2^24,3000x1001", gpu="2^20,2^24,2^28,3000x1001"),
    roofline=Sizes(cpu="2^24", gpu="2^28"),
    flop=lambda case: prod(case.extents),
    bytes=lambda case: 3 * prod(case.extents) * element(dtype_of(case.dtype)).itemsize,
    oracle=checks.oracle,
    like_numpy=checks.like_numpy,
    form="a shape",
    label="shape",
    call=checks.call,
    random=RANDOM,
)
_TUNING = Tuning(
    operation="elementwise",
    shapes=Sizes(cpu="2^16,2^24,3000x1001", gpu="2^20,2^28,3000x1001"),
    grid={"elementwise": Sizes(cpu="1000x1000,2^20", gpu="1000x1000,2^24")},
    edge_checks=checks.edge_checks,
)
ELEMENTWISE = Family(
    name="elementwise",
    operations=(_ELEMENTWISE,),
    checks=checks.checks,
    benchmarks={"elementwise": _BENCHMARK},
    tuning=_TUNING,
    kernels={"elementwise/tiles": Compiled(shown="elementwise")},
)
