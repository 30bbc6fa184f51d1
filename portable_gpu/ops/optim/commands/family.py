"""The record of steps of optimisers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.inputs import Input
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Typical,
)
from portable_gpu.ops.optim.api import adam_step, sgd_step
from portable_gpu.ops.optim.commands import cases
from portable_gpu.ops.optim.commands.catalogue import adam_kernels, explain, sgd_kernels
from portable_gpu.runtime.engine import Engine


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """A step of each rule on an odd number of elements, in float32 and float64."""
    for dtype in dtypes:
        if dtype.kind == "f" and dtype.itemsize >= 4:
            yield _sgd(dtype, 1003)
            yield _adam(dtype, 1003)


def _sgd(dtype: np.dtype[Any], size: int) -> Check:
    inputs = [Input(dtype, (size,), seed=seed) for seed in range(3)]

    def run(engine: Engine) -> Any:
        param, grad, buffer = (array.host().copy() for array in inputs)
        return sgd_step(param, grad, buffer, lr=0.1, momentum=0.9, engine=engine)

    def expected() -> Expected:
        param, grad, buffer = (array.host().astype(np.longdouble) for array in inputs)
        mixed = np.longdouble(0.9) * buffer + grad
        scale = abs(param) + abs(buffer) + abs(grad)
        return Expected(param - np.longdouble(0.1) * mixed, 8 * np.finfo(dtype).eps * scale, dtype)

    return Check("sgd_step", f"{inputs[0]}, momentum", run, expected)


def _adam(dtype: np.dtype[Any], size: int) -> Check:
    inputs = [Input(dtype, (size,), seed=seed) for seed in range(2)]

    def run(engine: Engine) -> Any:
        param, grad = (array.host().copy() for array in inputs)
        states = np.zeros_like(param), np.zeros_like(param)
        return adam_step(param, grad, *states, step=1, lr=0.5, engine=engine)

    def expected() -> Expected:
        param, grad = (array.host().astype(np.longdouble) for array in inputs)
        change = grad / (abs(grad) + np.longdouble(1e-8)) / 2
        scale = abs(param) + 1
        return Expected(param - change, 64 * np.finfo(dtype).eps * scale, dtype)

    return Check("adam_step", f"{inputs[0]}, the first step", run, expected)


def _warmed(rule: Any, states: int, x: Any, engine: Engine, **options: Any) -> Any:
    """A step on an array of zeros of the shape of ``x``."""
    state_dtype = np.float32 if x.dtype.itemsize == 2 else x.dtype
    param, grad = (np.zeros(x.shape, x.dtype) for _ in range(2))
    states_before = [np.zeros(x.shape, state_dtype) for _ in range(states)]
    return rule(param, grad, *states_before, engine=engine, **options)


_SGD = OperationRecord(
    name="sgd_step",
    function=sgd_step,
    explain=explain,
    specializations=sgd_kernels,
    compiled=("float32", "float16"),
    shapes=lambda case: (case.extents, case.extents),
    typical=Typical(((1000,),), function=partial(_warmed, sgd_step, 1, lr=0.1, momentum=0.9)),
)
_ADAM = replace(
    _SGD,
    name="adam_step",
    function=adam_step,
    specializations=adam_kernels,
    typical=Typical(((1000,),), function=partial(_warmed, adam_step, 2, step=1)),
)
_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="2^16,2^21", gpu="2^20,2^26"),
    layers=Sizes(cpu="2^21", gpu="2^26"),
    flop=lambda case: 10 * prod(case.extents),
    bytes=cases.nbytes,
    oracle=cases.oracle,
    operands=cases.operands,
    like_numpy=cases.like_numpy,
    form="a shape of parameters",
    label="parameters",
    call=cases.call,
)
OPTIM = Family(
    name="optim",
    operations=(_SGD, _ADAM),
    checks=checks,
    benchmarks={"sgd_step": _BENCHMARK, "adam_step": _BENCHMARK},
    kernels={"optim/step": Compiled()},
)
