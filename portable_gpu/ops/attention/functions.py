"""The public function of attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod, sqrt
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import finite, flag
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError
from portable_gpu.ops.attention.gradient import Side
from portable_gpu.ops.attention.plan import AttentionProblem
from portable_gpu.ops.attention.variants import backward_variants, variants
from portable_gpu.ops.floats import floating, statistics_dtype
from portable_gpu.ops.operation import CallArguments, Invocation, Operation, Result
from portable_gpu.ops.random.mask import mask_scalars, probability
from portable_gpu.ops.variant import bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, as_array


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    seed: int | None = None,
    offset: int = 0,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute ``softmax(scale * query @ key.T + mask) @ value``, in one pass over the keys.

    Args:
        query: Shape (L, E), (H, L, E) or (N, H, L, E): L queries of E elements, for H heads; of
            float16, bfloat16, float32 or float64, of any strides.
        key, value: Shapes (..., S, E) and (..., S, V), with the axes before as those of ``query``;
            of its dtype.
        attn_mask: Shape (L, S), or any that NumPy broadcasts to (N, H, L, S): bool, true where a
            query sees a key, or numbers of the dtype of ``query`` that are added to the products.
        dropout_p: The probability with which an element of the softmax is set to 0; others are
            multiplied by ``1 / (1 - dropout_p)``.  There is no training mode: 0 drops nothing.
        is_causal: Whether query i sees keys 0 to i only; it cannot be combined with ``attn_mask``.
        scale: The factor; ``1 / sqrt(E)`` where it is ``None``.
        enable_gqa: Whether ``key`` and ``value`` may have fewer heads, whose number divides H;
            adjacent heads of queries then share one.
        seed, offset: The arguments for which :func:`dropout` has the same mask, for an array of
            shape (N, H, L, S); ``seed`` may be ``None`` if ``dropout_p`` is 0.
        out: The array for the result, of shape (..., L, V) and the dtype of ``query``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out`` or a fresh array: a NumPy array (finished) for NumPy arrays, a device array
        (enqueued) for device arrays.  A query that sees no key has zeros.

    Raises:
        ShapeError, DTypeError: The shapes or dtypes of the arrays do not fit each other.
        ArgumentError, ArgumentTypeError: An option has a wrong value or type.
        OverlapError, ReadOnlyError: ``out`` cannot be written.
        UnsupportedError: The call needs double precision, which the device lacks; on a CPU, E and V
            together exceed 500,000 (float32), 250,000 (float64) or 100,000 (16-bit floats).

    Cost: ``2 * N * H * L * S * (E + V)`` flop, about half of them where it is causal, and an
        exponential for each product; no array of products is stored.
    Accuracy: products and sums in float32 (float64 for float64).  The error is at most
        ``eps * (c * S + E * t) * max|value|``, where c is a few ulp of ``exp`` and t the largest
        ``scale * |query| @ |key|``.  Matrix units multiply probabilities that are rounded to the
        dtype, which adds half of its ``eps`` times ``max|value|``.
    Order: fixed for one target, policy, shape and alignment.
    Source: Milakov & Gimelshein, 2018 (the running maximum); Dao et al., 2022 (tiles of keys).
    """
    return native_scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa,
        seed=seed, offset=offset, out=None if out is None else (out, None), engine=engine,
        queue=queue, wait_for=wait_for,
    )[0]  # fmt: skip


def native_scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    seed: int | None = None,
    offset: int = 0,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any]:
    """Compute :func:`scaled_dot_product_attention`, and what its gradient needs.

    ``out`` is a tuple of two, each an array or ``None``.

    Returns:
        The result; and for each query the logarithm of the sum of the exponentials of its scaled
        and masked products, of shape (..., L), in float32 (float64 for float64).
    """
    arrays = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    scalars = _mask(dropout_p, seed, offset)
    options = (bool(scalars), is_causal, scale, enable_gqa)
    result, sums = _ATTENTION.call(arrays, options, out, scalars, engine, queue, wait_for)
    return result, sums


def scaled_dot_product_attention_backward(
    grad_output: Any,
    query: Any,
    key: Any,
    value: Any,
    output: Any,
    logsumexp: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    seed: int | None = None,
    offset: int = 0,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> tuple[Any, Any, Any]:
    """Compute the gradients of :func:`scaled_dot_product_attention`.

    Args:
        grad_output: The gradient of the result; of its shape and dtype.
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, seed, offset: As in
            the forward call; the mask of dropout is computed again.
        output, logsumexp: The results of :func:`native_scaled_dot_product_attention`.
        out: A tuple for the three gradients, each an array or ``None``.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        The gradients of ``query``, ``key`` and ``value``, of their shapes and dtype.

    Raises: As :func:`scaled_dot_product_attention`.

    Cost: probabilities are computed again, twice: five products of the size of the two of the
        function; no array of them is stored.
    Accuracy: sums in float32 (float64 for float64), as those of the function.  Matrix units
        multiply probabilities, and their gradients, that are rounded to the dtype, which adds half
        of its ``eps`` times the sums of the products' absolute values.  The error of ``logsumexp``,
        up to ``eps / 2 * |logsumexp|``, is a relative error of a query's probabilities: where a
        mask adds -1e4 to all scores of a query it is 5e-4 in float32; where it adds -1e9, each
        probability is multiplied by up to S.
    Order: fixed for one target, policy, shape and alignment, without atomics.
    """
    arrays = [grad_output, query, key, value, output, logsumexp]
    arrays += [] if attn_mask is None else [attn_mask]
    scalars = _mask(dropout_p, seed, offset)
    options = (bool(scalars), is_causal, scale, enable_gqa)
    dq, dk, dv = _GRADIENT.call(tuple(arrays), options, out, scalars, engine, queue, wait_for)
    return dq, dk, dv


def _mask(dropout_p: Any, seed: Any, offset: Any) -> tuple[Any, ...]:
    """The scalars of the mask of dropout; none where nothing is dropped."""
    rate = probability(dropout_p, "dropout_p")
    if rate and seed is None:
        raise ArgumentError(
            f"dropout_p is {dropout_p} and seed None; expected a seed of at least 0"
        )
    scalars = mask_scalars(rate, 0 if seed is None else seed, offset)
    return scalars if rate else ()


def _four(shape: Shape) -> Shape:
    """A shape, or strides, with the axes that it lacks before it."""
    return (*(1,) * (4 - len(shape)), *shape)


def forward_scale(scale: Any, extent: int) -> float:
    """The factor of the products: ``scale``, or that of rows of an extent."""
    return 1 / sqrt(max(1, extent)) if scale is None else finite(scale, "scale")


def _strides(view: View, axes: int) -> Shape:
    """The strides along all axes; 0 along those of one element, and those that there are not."""
    steps = [step if size > 1 else 0 for size, step in zip(view.shape, view.strides, strict=True)]
    return (*(0,) * (axes - len(steps)), *steps)


def _normalise(arguments: CallArguments) -> Invocation:
    drops, is_causal, scale, enable_gqa = arguments.options
    labels = ("query", "key", "value")
    q, k, v = (floating(x, n) for x, n in zip(arguments.inputs[:3], labels, strict=True))
    causal, gqa = flag(is_causal, "is_causal"), flag(enable_gqa, "enable_gqa")
    for array, name in ((k, "key"), (v, "value")):
        if array.dtype != q.dtype:
            raise DTypeError(f"{name} is {array.dtype} and query {q.dtype}; expected the same")
    if not 2 <= q.ndim <= 4:
        raise ShapeError(f"query has shape {q.shape}; expected 2 to 4 axes")
    batch, heads, queries, dq = _four(q.shape)
    if k.ndim != q.ndim or v.ndim != q.ndim or k.shape[:-1] != v.shape[:-1]:
        raise ShapeError(f"key has shape {k.shape}, value {v.shape} and query {q.shape}")
    key_batch, key_heads, keys, key_dq = _four(k.shape)
    fits = key_heads == heads or (gqa and key_heads and heads % key_heads == 0)
    if key_batch != batch or key_dq != dq or not fits:
        raise ShapeError(
            f"key has shape {k.shape} and query {q.shape}; expected the same axes before the rows"
            f"{', or heads that divide those of query,' if gqa else ''} and the same last extent"
        )
    inputs, names = [q, k, v], list(labels)
    if len(arguments.inputs) > 3:
        mask = as_array(arguments.inputs[3], "attn_mask")
        if causal:
            raise ArgumentError("is_causal is True and attn_mask is given; expected one of them")
        if mask.dtype not in (np.dtype(bool), q.dtype):
            raise DTypeError(f"attn_mask is {mask.dtype}; expected bool or {q.dtype}")
        whole = (batch, heads, queries, keys)
        at = _four(mask.shape) if mask.ndim <= 4 else ()
        if not at or any(m not in (1, n) for m, n in zip(at, whole, strict=True)):
            raise ShapeError(f"attn_mask has shape {mask.shape}; expected {whole}")
        inputs.append(mask)
        names.append("attn_mask")
    factor = forward_scale(scale, dq)
    shape, wide = (*q.shape[:-1], v.shape[-1]), statistics_dtype(q.dtype)
    shared = heads // max(1, key_heads)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        steps = [_strides(view, 4) for view in views[:-1]]
        steps.append((*_strides(views[-1], 3), 0))
        masks = [element(view.dtype) for view in views[3:-2]]
        problem = AttentionProblem(
            elem=element(q.dtype), wide=element(wide), mask=masks[0] if masks else None,
            batch=batch, heads=heads, shared=shared, queries=queries, keys=keys, dq=dq,
            dv=shape[-1], strides=tuple(steps), is_causal=causal, scale=factor,
            aligned=all(view.alignment >= 16 for view in (*views[:3], views[-2])), drops=drops,
        )  # fmt: skip

        def make() -> Plan:
            return bind_best(engine, variants(problem, engine.target, engine.table))

        return engine.plan(problem, make)

    return Invocation(
        inputs=tuple(inputs),
        names=tuple(names),
        shape=shape,
        dtype=q.dtype,
        plan=plan,
        flop=2 * prod((batch, heads, queries, keys)) * (dq + shape[-1]),
        scalars=arguments.scalars,
        out=arguments.out,
        more=(Result(q.shape[:-1], wide, "out (logsumexp)"),),
    )


def _normalise_gradient(arguments: CallArguments) -> Invocation:
    grad, *given, output, sums = arguments.inputs[:6]
    grad, output = floating(grad, "grad_output"), floating(output, "output")
    forward = _normalise(
        CallArguments((*given, *arguments.inputs[6:]), arguments.options, None, ())
    )
    q, k, v, *masks = forward.inputs
    sums = floating(sums, "logsumexp")
    wide = forward.more[0].dtype
    for array, name in ((grad, "grad_output"), (output, "output")):
        if array.shape != forward.shape or array.dtype != q.dtype:
            raise ShapeError(
                f"{name} is {array.dtype}{list(array.shape)}; expected "
                f"{q.dtype}{list(forward.shape)}"
            )
    if sums.shape != q.shape[:-1] or sums.dtype != wide:
        raise ShapeError(
            f"logsumexp is {sums.dtype}{list(sums.shape)}; expected {wide}{list(q.shape[:-1])}"
        )
    batch, heads, queries, dq = _four(q.shape)
    _, key_heads, keys, dv = _four(v.shape)
    count = 6 + len(masks)

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        mask = views[6:count]
        delta = Temporary("delta", max(1, batch * heads * queries) * wide.itemsize, wide.itemsize)
        of_delta = (heads * queries, queries, 1, 0)
        of_sums = (*_strides(views[5], 3), 0)
        of = {id(view): _strides(view, 4) for view in (*views[:5], *views[6:])}
        q_, k_, v_ = views[1:4]
        front = [of[id(x)] for x in (q_, k_, v_, *mask, views[0])] + [of_sums]
        masked = range(6, count)
        steps = []
        sides: tuple[tuple[Side, int, tuple[Shape, ...], tuple[int | Temporary, ...]], ...] = (
            ("q", queries, (of[id(views[4])], of[id(views[count])], of_delta), (4, count, delta)),
            (
                "k", keys, (of_delta, of[id(views[count + 1])], of[id(views[count + 2])]),
                (delta, count + 1, count + 2),
            ),
        )  # fmt: skip
        for side, rows, ends, places in sides:
            if not rows * batch * heads:
                continue
            problem = AttentionProblem(
                elem=element(q.dtype), wide=element(wide),
                mask=element(masks[0].dtype) if masks else None, batch=batch, heads=heads,
                shared=heads // max(1, key_heads), queries=queries, keys=keys, dq=dq, dv=dv,
                strides=(*front, *ends), is_causal=bool(arguments.options[1]),
                scale=forward_scale(arguments.options[2], dq),
                aligned=all(view.alignment >= 16 for view in (*views[:5], *views[count:])),
                drops=arguments.options[0],
            )  # fmt: skip
            made = engine.plan((side, problem), partial(_of_side, engine, problem, side))
            steps.append(Step(made, (1, 2, 3, *masked, 0, 5, *places), True))
        return Steps(steps)

    return Invocation(
        inputs=(grad, q, k, v, output, sums, *masks),
        names=("grad_output", "query", "key", "value", "output", "logsumexp", "attn_mask")[:count],
        shape=q.shape,
        dtype=q.dtype,
        plan=plan,
        flop=5 * prod((batch, heads, queries, keys)) * (dq + dv),
        scalars=arguments.scalars,
        out=arguments.out,
        out_name="out (grad_query)",
        more=(
            Result(k.shape, q.dtype, "out (grad_key)"),
            Result(v.shape, q.dtype, "out (grad_value)"),
        ),
    )


def _of_side(engine: Engine, problem: AttentionProblem, side: Side) -> Plan:
    """The plan of one side of the gradients."""
    return bind_best(engine, backward_variants(problem, side, engine.target, engine.table))


_GRADIENT = Operation("scaled_dot_product_attention_backward", _normalise_gradient)
_ATTENTION = Operation("scaled_dot_product_attention", _normalise)
