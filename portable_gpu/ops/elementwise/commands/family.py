"""The record of elementwise expressions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.elementwise.api import elementwise
from portable_gpu.ops.elementwise.commands import checks
from portable_gpu.ops.elementwise.commands.activations import NAMES, RANDOM
from portable_gpu.ops.elementwise.commands.catalogue import explain, specializations
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Tuning,
    Typical,
)

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_ELEMENTWISE = OperationRecord(
    name="elementwise",
    function=elementwise,
    explain=explain,
    specializations=specializations,
    compiled=("float32", "float64", "float16", "int8"),
    shapes=checks.shapes,
    exact=True,
    typical=Typical(((1000,), (2000, 1000)), function=checks.warmed),
)


def _activations(size: str) -> str:
    return ",".join(f"{size}/{name}" for name in NAMES)


def _bytes(case: Case) -> int:
    """Each array moved once."""
    arrays = len(checks.shapes(case)) + 1
    return arrays * prod(case.extents) * element(dtype_of(case.dtype)).itemsize


_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="2^16,2^20,2^24,3000x1001", gpu="2^20,2^24,2^28,3000x1001"),
    layers=Sizes(cpu=_activations("8x64x56x56"), gpu=_activations("64x256x56x56")),
    roofline=Sizes(cpu="2^24", gpu="2^28"),
    flop=lambda case: prod(case.extents),
    bytes=_bytes,
    oracle=checks.oracle,
    like_numpy=checks.like_numpy,
    form="a shape",
    label="shape / function",
    variants=checks.variants,
    section=lambda case: "sum" if not case.trans else "activations",
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
    kernels={
        "elementwise/tiles": Compiled(shown="elementwise"),
        "elementwise/transposed": Compiled(strided=True),
    },
)
