"""Whether a device's matrix units compute what the kernels of attention expect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.ops.attention import gradient
from portable_gpu.ops.attention.gradient import AnyGradientPolicy, Side, gradient_on_matrix_units
from portable_gpu.ops.attention.matrix import attention_on_matrix_units, specialization
from portable_gpu.ops.attention.plan import AttentionProblem
from portable_gpu.ops.attention.policy import AnyPolicy
from portable_gpu.ops.variant import passes
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import Shape, contiguous_strides


def works(engine: Engine, problem: AttentionProblem, policy: AnyPolicy) -> bool:
    """Whether the kernel of a problem is right on a small problem; found once for each kernel."""
    key = ("attention works", specialization(problem, engine.target, policy).key)
    return engine.plan(key, lambda: _check(engine, partial(_is_right, engine, problem, policy)))


def gradient_works(
    engine: Engine, problem: AttentionProblem, side: Side, policy: AnyGradientPolicy
) -> bool:
    """Whether the kernel of one side of the gradients is right on a small problem; as above."""
    spec = gradient.specialization(problem, engine.target, side, policy)
    test = partial(_gradient_is_right, engine, problem, side, policy)
    return engine.plan(("attention works", spec.key), lambda: _check(engine, test))


def _check(engine: Engine, test: Callable[[], bool]) -> bool:
    return passes(engine, lambda: "" if test() else "a test of attention is wrong", "matrix units")


def _is_right(engine: Engine, problem: AttentionProblem, policy: AnyPolicy) -> bool:
    """Compare two tiles of queries and of keys, neither of them whole, with NumPy."""
    case = _Small.of(problem, policy.queries + 3, policy.keys + 5)
    p, n, m = case.problem, case.problem.queries, case.problem.keys
    shapes = [(n, p.dq), (m, p.dq), (m, p.dv), *([(n, m)] if p.mask else []), (n, p.dv)]
    small = replace(p, strides=(*_strides(shapes), (0, 0, 1, 0)))
    results = [_stored(np.zeros((n, p.dv)), p.elem.name), np.zeros(n, np.float32)]
    arrays = [_stored(x, p.elem.name) for x in case.inputs]
    _run(engine, attention_on_matrix_units(engine, small, policy), arrays, results)
    error = np.abs(_numbers(results[0]) - case.expected)
    if not np.all(error <= 3 * _unit(p) * np.abs(case.inputs[2]).max()):
        return False
    logarithms = case.logarithms
    return bool(np.all(np.abs(results[1] - logarithms) <= 1e-4 * (1 + np.abs(logarithms))))


def _gradient_is_right(
    engine: Engine, problem: AttentionProblem, side: Side, policy: AnyGradientPolicy
) -> bool:
    """Compare two tiles of own rows and of the others, neither of them whole, with NumPy."""
    rows, others = policy.rows + 3, policy.others + 5
    case = _Small.of(problem, *((rows, others) if side == "q" else (others, rows)))
    p, n, m = case.problem, case.problem.queries, case.problem.keys
    name, (q, k, v) = p.elem.name, case.inputs[:3]
    grad = np.random.default_rng(2).integers(-16, 17, (n, p.dv)) / 8
    y = _stored(case.expected, name)
    delta = (grad * _numbers(y)).sum(axis=1)
    e = p.scale * case.chances * (grad @ v.T - delta[:, None])
    front = [_stored(x, name) for x in (*case.inputs, grad)] + [case.logarithms.astype("f4")]
    shapes = [(n, p.dq), (m, p.dq), (m, p.dv), *([(n, m)] if p.mask else []), (n, p.dv)]
    strides = [*_strides(shapes), (0, 0, 1, 0)]
    if side == "q":
        arrays, expected, sizes = [*front, y], [e @ k], [np.abs(e) @ np.abs(k)]
        strides += [*_strides([(n, p.dv), (n, p.dq)]), (0, 0, 1, 0)]
    else:
        arrays = [*front, delta.astype("f4")]
        expected = [e.T @ q, case.chances.T @ grad]
        sizes = [np.abs(e).T @ np.abs(q), case.chances.T @ np.abs(grad)]
        strides += [(0, 0, 1, 0), *_strides([(m, p.dq), (m, p.dv)])]
    results = [_stored(np.zeros(x.shape), name) for x in expected]
    results += [np.zeros(n, np.float32)] * (side == "q")
    plan = gradient_on_matrix_units(engine, replace(p, strides=tuple(strides)), side, policy)
    _run(engine, plan, arrays, results)
    if side == "q" and not np.allclose(results[1], delta, rtol=0, atol=1e-3):
        return False
    return all(
        bool(np.all(np.abs(_numbers(got) - want) <= 4 * _unit(p) * size + 1e-3))
        for got, want, size in zip(results, expected, sizes, strict=False)
    )


def _run(engine: Engine, plan: Plan, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """Run a plan on copies of arrays, and copy its results back."""
    state, flags = engine.state(), cl.mem_flags
    buffers = [
        cl.Buffer(engine.context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x)
        for x in (*inputs, *results)
    ]
    event = plan.enqueue(state, buffers, (0,) * len(buffers))
    for result, buffer in zip(results, buffers[len(inputs) :], strict=True):
        cl.enqueue_copy(state.queue, result, buffer, wait_for=state.after(event))


@dataclass(frozen=True)
class _Small:
    """One head of a problem, with values that are exact in both types.

    Attributes:
        problem: The problem, without strides.
        inputs: Queries, keys, values, and the mask if there is one.
        chances, expected, logarithms: The probabilities, the result, and the logarithms of sums.
    """

    problem: AttentionProblem
    inputs: Sequence[Any]
    chances: Any
    expected: Any
    logarithms: Any

    @classmethod
    def of(cls, problem: AttentionProblem, n: int, m: int) -> _Small:
        p, random = problem, np.random.default_rng(1)
        shapes = [(n, p.dq), (m, p.dq), (m, p.dv), *([(n, m)] if p.mask else [])]
        small = replace(
            p, batch=1, heads=1, shared=1, queries=n, keys=m, strides=(), scale=2 * p.dq**-0.5
        )
        inputs: list[Any] = [random.integers(-16, 17, shape) / 8 for shape in shapes]
        q, k, v = inputs[:3]
        scores = small.scale * (q @ k.T)
        if p.is_causal:
            scores[np.triu_indices(n, 1, m)] = -np.inf
        if p.mask:
            mask = inputs[3] > 0 if p.mask.boolean else inputs[3]
            scores = np.where(mask, scores, -np.inf) if p.mask.boolean else scores + mask
            inputs[3] = mask
        top = scores.max(axis=1, keepdims=True)
        powers = np.exp(scores - top)
        totals = powers.sum(axis=1, keepdims=True)
        logarithms = (top + np.log(totals))[:, 0]
        return cls(small, inputs, powers / totals, powers @ v / totals, logarithms)


def _strides(shapes: Sequence[tuple[int, ...]]) -> tuple[Shape, ...]:
    """The strides of contiguous arrays."""
    return tuple((0, 0, *contiguous_strides(shape)) for shape in shapes)


def _unit(problem: AttentionProblem) -> float:
    """The rounding of the element."""
    return 2.0**-11 if problem.elem.name == "f16" else 2.0**-8


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
