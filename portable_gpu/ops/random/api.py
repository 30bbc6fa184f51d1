"""The public functions of dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import flag
from portable_gpu.dtypes import element
from portable_gpu.errors import DTypeError
from portable_gpu.ops.operation import CallArguments, Invocation
from portable_gpu.ops.ordered import OrderedOperation
from portable_gpu.ops.random.mask import mask_scalars, probability
from portable_gpu.ops.random.plan import DropoutProblem, variants
from portable_gpu.ops.variant import bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.views import View, as_array
from portable_gpu.typing import of_one


@of_one
def dropout(
    input: Any,
    p: float = 0.5,
    training: bool = True,
    *,
    seed: int,
    offset: int = 0,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Set each element to 0 with probability ``p``, and multiply the others by ``1 / (1 - p)``.

    Args:
        input: An array of any shape and strides, of float16, bfloat16, float32 or float64.
        p: The probability, from 0 to 1.
        training: Without it, the result is a copy of ``input``.
        seed: The key of the random numbers, from 0 to 2^64 - 1.
        offset: The number of the mask among those of the seed, from 0 to 2^64 - 1; use another one
            for each call.
        out: The array for the result; it may be ``input`` itself.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.

    Returns:
        ``out``, or a fresh array with the order of axes of ``input``: a NumPy array (finished) for
        NumPy arrays, a device array (enqueued) for device arrays.

    Raises:
        DTypeError: ``input`` has no real floating dtype; ``out`` has another dtype.
        ShapeError: ``out`` has another shape.
        ArgumentTypeError, ArgumentError: ``p``, ``seed`` or ``offset`` is not a number, or is
            out of its range.
        OverlapError: ``out`` shares memory with ``input`` and is not ``input`` itself.

    Cost: each element read once and written once, in one launch; no memory for the mask.
    Accuracy: one rounding of the product.
    Order: element i in C order of the shape is kept if word ``i % 4`` of Philox4x32-10 at the
        counter ``(i // 4, offset)`` with the key ``seed`` is at least ``p 2^32``: the same mask on
        all devices, for any strides.  Salmon et al., SC 2011.
    """
    return _dropped(input, "input", p, training, seed, offset, out, engine, queue, wait_for)


@of_one
def dropout_backward(
    grad_output: Any,
    p: float = 0.5,
    training: bool = True,
    *,
    seed: int,
    offset: int = 0,
    out: Any = None,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    wait_for: Sequence[cl.Event] | None = None,
) -> Any:
    """Compute the gradient of :func:`dropout`: its mask, computed again, applied to the gradient.

    Args:
        grad_output: The gradient of the output, of any strides.
        p, training, seed, offset: The arguments of the call of :func:`dropout`.
        out, engine, queue, wait_for: See :func:`dropout`.

    Returns, Raises, Cost: As :func:`dropout`.
    """
    arguments = grad_output, "grad_output", p, training, seed, offset
    return _dropped(*arguments, out, engine, queue, wait_for)


def _dropped(
    input: Any,
    name: str,
    p: Any,
    training: Any,
    seed: Any,
    offset: Any,
    out: Any,
    engine: Engine | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
) -> Any:
    rate = probability(p, "p") if flag(training, "training") else 0 * probability(p, "p")
    scalars = mask_scalars(rate, seed, offset)
    in_place = out is not None and input is out
    inputs = () if in_place else (as_array(input, name),)
    return _DROPOUT.call(inputs, (name, in_place), out, scalars, engine, queue, wait_for)


def _normalise(arguments: CallArguments) -> Invocation:
    name, in_place = arguments.options
    x = as_array(arguments.out if in_place else arguments.inputs[0], name)
    elem = element(x.dtype)
    if not elem.floating or elem.complex:
        raise DTypeError(f"{name} is {x.dtype}; expected float16, bfloat16, float32 or float64")

    def plan(engine: Engine, views: Sequence[View]) -> Plan:
        alignment = 1 if engine.target.is_cpu else min(16, *(view.alignment for view in views))
        strides = tuple(view.strides for view in views)
        problem = DropoutProblem(elem, x.shape, strides, alignment)
        return engine.plan(problem, lambda: bind_best(engine, variants(problem, engine.target)))

    return Invocation(
        inputs=() if in_place else (x,),
        names=() if in_place else (name,),
        shape=x.shape,
        dtype=x.dtype,
        plan=plan,
        flop=20 * x.size,
        scalars=arguments.scalars,
        out=arguments.out,
        reads_out=in_place,
    )


_DROPOUT = OrderedOperation("dropout", _normalise)
