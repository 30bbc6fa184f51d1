"""The record of functions on rows."""

from __future__ import annotations

from dataclasses import replace
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
from portable_gpu.ops.normalize.functions import layer_norm
from portable_gpu.ops.normalize.losses import cross_entropy
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


_LAYER_NORM = OperationRecord(
    name="layer_norm",
    function=layer_norm,
    explain=explainer("norm", frozenset(("stats",))),
    specializations=builder("norm", frozenset(("stats",))),
    options=lambda case: {"normalized_shape": case.extents[-1]},
)
_CROSS_ENTROPY = OperationRecord(
    name="cross_entropy",
    function=cross_entropy,
    explain=explainer("entropy"),
    specializations=builder("entropy"),
    extents=2,
    shapes=lambda case: (case.extents, case.extents[:1]),
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
_LAYER = replace(
    _BENCHMARK,
    oracle=cases.layer_oracle,
    like_numpy=cases.layer_like_numpy,
    call=lambda case, _: PublicCall(
        "nn.layer_norm", options={"normalized_shape": case.extents[-1]}
    ),
)
_ENTROPY = replace(
    _BENCHMARK,
    sizes=Sizes(cpu="4096x10,1024x1000,64x32768", gpu="2^20x16,8192x4096,2048x32768"),
    bytes=lambda case: _bytes(case) // 2,
    operands=cases.entropy_operands,
    oracle=cases.entropy_oracle,
    like_numpy=cases.entropy_like_numpy,
    form="places x classes",
    label="places x classes",
    call=lambda _case, _: PublicCall("nn.cross_entropy"),
)
NORMALIZE = Family(
    name="normalize",
    operations=(_SOFTMAX, _LOG_SOFTMAX, _LAYER_NORM, _CROSS_ENTROPY),
    checks=cases.checks,
    benchmarks={
        "softmax": _BENCHMARK,
        "log_softmax": _BENCHMARK,
        "layer_norm": _LAYER,
        "cross_entropy": _ENTROPY,
    },
    kernels={"normalize/rows": Compiled(shown="softmax", folds=True)},
)
