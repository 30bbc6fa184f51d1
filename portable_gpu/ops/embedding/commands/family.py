"""The record of embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.inputs import Input
from portable_gpu.ops.embedding.api import embedding, embedding_backward
from portable_gpu.ops.embedding.commands import cases
from portable_gpu.ops.embedding.commands.catalogue import explain, gather_kernels, sum_kernels
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Typical,
)
from portable_gpu.runtime.engine import Engine

_ROWS = 37


def _indices(count: int) -> np.ndarray[Any, Any]:
    return (np.arange(count) * 7) % _ROWS


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """Gathers in every floating dtype, and sums of small whole numbers, which are exact."""
    for dtype in dtypes:
        if dtype.kind not in "iubc":
            yield _gathered(Input(dtype, (_ROWS, 24)))
            yield _summed(dtype, 100, 24)


def _gathered(weight: Input) -> Check:
    indices = _indices(100)

    def run(engine: Engine) -> Any:
        return embedding(indices, weight.array(engine), engine=engine)

    def expected() -> Expected:
        return Expected(weight.host()[indices], None, weight.dtype)

    return Check("embedding", f"{weight}", run, expected)


def _summed(dtype: np.dtype[Any], count: int, columns: int) -> Check:
    indices = _indices(count)
    grad = (np.arange(count * columns) % 5).reshape(count, columns).astype(dtype)

    def run(engine: Engine) -> Any:
        return embedding_backward(grad, indices, _ROWS, engine=engine)

    def expected() -> Expected:
        sums = np.zeros((_ROWS, columns))
        np.add.at(sums, indices, grad.astype(np.float64))
        return Expected(sums.astype(dtype), None, dtype)

    return Check("embedding_backward", f"{dtype} {count} x {columns}", run, expected)


def _warmed_gather(x: Any, engine: Engine) -> Any:
    return embedding(np.zeros(8, np.int64), x, engine=engine)


def _warmed_sum(x: Any, engine: Engine) -> Any:
    return embedding_backward(x, np.zeros(x.shape[0], np.int64), 10, engine=engine)


_GATHER = OperationRecord(
    name="embedding",
    function=embedding,
    explain=explain,
    specializations=gather_kernels,
    compiled=("float32", "float16"),
    extents=2,
    shapes=cases.shapes,
    typical=Typical(((100, 64),), function=_warmed_gather),
)
_SUM = replace(
    _GATHER,
    name="embedding_backward",
    function=embedding_backward,
    specializations=sum_kernels,
    typical=Typical(((100, 64),), function=_warmed_sum),
)
_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="8192x512,2^16x64", gpu="2^16x1024,2^18x128"),
    layers=Sizes(cpu="8192x512", gpu="2^16x1024"),
    flop=lambda case: prod(case.extents),
    bytes=cases.nbytes,
    oracle=cases.oracle,
    operands=cases.operands,
    like_numpy=cases.like_numpy,
    form="indices x columns",
    label="indices x columns",
    call=cases.call,
    random=cases.RANDOM,
)
EMBEDDING = Family(
    name="embedding",
    operations=(_GATHER, _SUM),
    checks=checks,
    benchmarks={"embedding": _BENCHMARK, "embedding_backward": _BENCHMARK},
    kernels={
        name: Compiled(strided=True)
        for name in (
            "embedding/gather",
            "embedding/lists",
            "embedding/joined",
            "embedding/rows",
            "embedding/limit",
        )
    },
)
