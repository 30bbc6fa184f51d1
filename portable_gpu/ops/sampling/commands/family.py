"""The record of padding, pooling and interpolation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Typical,
)
from portable_gpu.ops.sampling.commands import cases
from portable_gpu.ops.sampling.commands.cases import RANDOM
from portable_gpu.ops.sampling.commands.catalogue import explain, specializations
from portable_gpu.ops.sampling.commands.checks import checks
from portable_gpu.ops.sampling.commands.geometry import TYPICAL_CALLS
from portable_gpu.runtime.views import Shape

_BENCHMARK = Benchmark(
    sizes=Sizes(
        cpu="8x64x56x56,1x64x224x224,8x512x7x7", gpu="64x256x56x56,8x64x224x224,64x2048x7x7"
    ),
    flop=cases.flop,
    bytes=lambda case: cases.problem_of_case(case).nbytes,
    oracle=cases.oracle,
    operands=cases.operands,
    like_numpy=cases.like_numpy,
    form="batch x channels x height x width",
    label="batch x channels x height x width",
    call=cases.call,
    random=RANDOM,
)
_POOLED = Sizes(cpu="8x64x56x56", gpu="64x256x56x56")
_RESIZED = Sizes(cpu="8x64x28x28", gpu="16x64x128x128")


def _typical(name: str, extents: Shape) -> list[dict[str, Any]]:
    """Return the options of the calls that ``warm_up`` makes."""
    return [TYPICAL_CALLS[name].arguments(extents)]


SAMPLING = Family(
    name="sampling",
    operations=tuple(
        OperationRecord(
            name=name,
            function=typical.function,
            explain=explain,
            specializations=partial(specializations, name),
            compiled=("float32", "float16", "float64"),
            extents=4,
            shapes=cases.shapes,
            exact=True,
            typical=None
            if typical.kind == "routed"  # its indices are not floating-point numbers
            else Typical(((2, 3, 32, 32),), options=partial(_typical, name)),
        )
        for name, typical in TYPICAL_CALLS.items()
    ),
    checks=checks,
    benchmarks={
        name: replace(_BENCHMARK, layers=_RESIZED if "interpolate" in name else _POOLED)
        for name in TYPICAL_CALLS
    },
    kernels={"sampling/tiles": Compiled(shown="pad", strided=True)},
)
