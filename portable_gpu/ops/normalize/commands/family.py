"""The record of functions on rows."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Typical,
)
from portable_gpu.ops.normalize.commands import cases
from portable_gpu.ops.normalize.commands.catalogue import builder, explainer
from portable_gpu.ops.normalize.softmax import log_softmax, softmax
from portable_gpu.ops.public_call import PublicCall

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_FLOATS = ("float32", "float64", "float16")
_SOFTMAX = OperationRecord(
    name="softmax",
    function=softmax,
    explain=explainer("softmax"),
    specializations=builder("softmax"),
    compiled=_FLOATS,
    typical=Typical(((64, 1000),)),
)
_LOG_SOFTMAX = OperationRecord(
    name="log_softmax",
    function=log_softmax,
    explain=explainer("log_softmax"),
    specializations=builder("log_softmax"),
    typical=Typical(((64, 1000),)),
)


def _bytes(case: Case) -> int:
    return 2 * prod(case.extents) * element(dtype_of(case.dtype)).itemsize


_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="4096x10,1024x1000,64x32768", gpu="2^20x16,8192x4096,2048x32768"),
    roofline=Sizes(cpu="1024x1000", gpu="8192x4096"),
    flop=lambda case: 5 * prod(case.extents),
    bytes=_bytes,
    oracle=cases.oracle,
    like_numpy=cases.like_numpy,
    form="a shape; along its last axis",
    label="shape",
    call=lambda case, _: PublicCall(f"nn.{case.operation}"),
)
NORMALIZE = Family(
    name="normalize",
    operations=(_SOFTMAX, _LOG_SOFTMAX),
    checks=cases.checks,
    benchmarks={"softmax": _BENCHMARK, "log_softmax": _BENCHMARK},
    kernels={"normalize/rows": Compiled(shown="softmax", folds=True)},
)
