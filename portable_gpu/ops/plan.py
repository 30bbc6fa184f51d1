"""Plan a call of any operation: checks, choices and builds once, for loops."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from types import FunctionType, MethodType
from typing import Any

import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.errors import ArgumentError, ArgumentTypeError
from portable_gpu.ops.planned import PlannedCall
from portable_gpu.runtime.engine import Engine


def plan(
    operation: str | Callable[..., Any],
    /,
    *operands: Any,
    engine: Engine | None = None,
    queue: cl.CommandQueue | None = None,
    **options: Any,
) -> PlannedCall:
    """Prepare a call for arrays like these: all checks, choices and builds are done here.

    Args:
        operation: ``"sum"``, ``"gemv"``, ``"matmul"``, ``"elementwise"`` ...: the name of a public
            function; or a function of this library, such as ``portable_gpu.fft.rfft`` or
            ``nn.conv2d``.
        operands, options: Its arguments, any of them by name.  The inputs and the output (``out``,
            ``c`` or ``y``) are of the kind that the plan will be called with; the output is not
            written.  A function that makes several calls, such as ``linalg.solve``, takes arrays on
            the device.  All other arguments are fixed here: numbers, axes, an epilogue (each call
            reads the present values of its arrays).  There is no ``wait_for``: calls of a plan wait
            for the events of their arrays.
        engine, queue: As the function takes them.

    Returns:
        A callable that takes such arrays, without names, in the order of the function's parameters:
        the inputs, and then the output if there is one here.  ``elementwise`` and ``reduce`` take
        further inputs in the order in which they are named here.  An input that is the output
        itself is given once, as the output.  It returns what the function would.

    Raises:
        ArgumentError: There is no such operation; or it does not take these arguments; or it makes
            several calls, and an array is not on the device, or it reads values in between.
        As the function: A dtype, a shape or an option is refused, or a kernel does not build.

    Cost: that of the function's first call, except for its kernels.  A call of the plan takes less
        host time than one of the function, which has to look up its plan.

    Example::

        product = pg.plan("gemv", a, x, y=y)
        step = pg.plan("elementwise", "x + rate * y", x=x, y=y, rate=0.1, out=x)
        for _ in range(100):
            step(product(a, x, y), x)
    """
    if isinstance(operation, (FunctionType, MethodType)) and _is_operation(operation):
        return PlannedCall(operation, operands, options, engine, queue)
    from portable_gpu.ops.registry import OPERATIONS  # the records of all families

    if not isinstance(operation, str) or operation not in OPERATIONS:
        error = ArgumentError if isinstance(operation, str) else ArgumentTypeError
        raise error(
            f"no operation {shown(operation)}; there are: {', '.join(sorted(OPERATIONS))}, "
            "and functions of this library that take an engine and events to wait for"
        )
    return PlannedCall(OPERATIONS[operation].function, operands, options, engine, queue)


def _is_operation(function: FunctionType | MethodType) -> bool:
    """Whether a function, or a method such as ``nn.conv2d``, is a public call of this library."""
    parameters = signature(function).parameters
    ours = function.__module__.startswith(f"{__name__.partition('.')[0]}.")
    return ours and {"engine", "queue", "wait_for"} <= set(parameters)
