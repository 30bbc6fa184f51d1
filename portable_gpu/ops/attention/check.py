"""Whether a device's matrix units compute what the kernel of attention expects."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.attention.matrix import MatrixAttentionPlan, specialization
from portable_gpu.ops.attention.plan import AttentionProblem
from portable_gpu.ops.attention.policy import AnyPolicy
from portable_gpu.ops.variant import lacks_memory
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import contiguous_strides


def works(engine: Engine, problem: AttentionProblem, policy: AnyPolicy) -> bool:
    """Whether the kernel of a problem is right on a small problem; found once for each kernel."""
    key = ("attention works", specialization(problem, engine.target, policy).key)
    return engine.plan(key, lambda: _check(engine, problem, policy))


def _check(engine: Engine, problem: AttentionProblem, policy: AnyPolicy) -> bool:
    try:
        trouble = "" if _is_right(engine, problem, policy) else "a test of attention is wrong"
    except (PortableGPUError, cl.Error) as error:
        if lacks_memory(error):  # which says nothing of the kernel
            raise
        trouble = str(error).splitlines()[0]
    if trouble:
        name = engine.target.facts.name
        warnings.warn(f"the matrix units of {name} are not used: {trouble}", stacklevel=2)
    return not trouble


def _is_right(engine: Engine, problem: AttentionProblem, policy: AnyPolicy) -> bool:
    """Compare two tiles of queries and of keys, neither of them whole, with NumPy."""
    p, random = problem, np.random.default_rng(1)
    n, m = policy.queries + 3, policy.keys + 5
    shapes = [(n, p.dq), (m, p.dq), (m, p.dv), *([(n, m)] if p.mask else []), (n, p.dv), (n,)]
    strides = [(0, 0, *contiguous_strides(shape)) for shape in shapes[:-1]]
    small = replace(
        p, batch=1, heads=1, shared=1, queries=n, keys=m, strides=(*strides, (0, 0, 1, 0)),
        scale=2 * p.dq**-0.5,
    )  # fmt: skip
    inputs = [random.integers(-16, 17, shape) / 8 for shape in shapes[:-2]]  # exact in both types
    q, k, v = inputs[:3]
    scores = small.scale * (q @ k.T)
    if p.is_causal:
        scores[np.triu_indices(n, 1, m)] = -np.inf
    if p.mask:
        mask: Any = inputs[3] > 0 if p.mask.boolean else inputs[3]
        scores = np.where(mask, scores, -np.inf) if p.mask.boolean else scores + mask
        inputs[3] = mask
    top = scores.max(axis=1, keepdims=True)
    powers = np.exp(scores - top)
    totals = powers.sum(axis=1, keepdims=True)
    expected, logarithms = powers @ v / totals, (top + np.log(totals))[:, 0]

    state, flags = engine.state(), cl.mem_flags
    arrays = [_stored(x, p.elem.name) for x in inputs]
    results = [_stored(np.zeros((n, p.dv)), p.elem.name), np.zeros(n, np.float32)]
    buffers = [
        cl.Buffer(engine.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x)
        for x in (*arrays, *results)
    ]
    plan = MatrixAttentionPlan(engine, small, policy)
    event = plan.enqueue(state, buffers, (0,) * len(buffers))
    for result, buffer in zip(results, buffers[-2:], strict=True):
        cl.enqueue_copy(state.queue, result, buffer, wait_for=state.after(event))
    unit = 2.0**-11 if p.elem.name == "f16" else 2.0**-8
    error = np.abs(_numbers(results[0]) - expected)
    if not np.all(error <= 3 * unit * np.abs(v).max()):
        return False
    return bool(np.all(np.abs(results[1] - logarithms) <= 1e-4 * (1 + np.abs(logarithms))))


def _stored(values: Any, name: str) -> Any:
    """Return values as an element stores them."""
    if values.dtype == bool:
        return values.view(np.uint8)
    return values.astype(np.float16) if name == "f16" else _upper_half(values)


def _upper_half(values: Any) -> Any:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def _numbers(stored: Any) -> Any:
    """Return stored elements as float64."""
    if stored.dtype == np.float16:
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
