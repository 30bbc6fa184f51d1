"""The path of a call, from the arguments of a public function to its launches.

Each public function that is computed by one plan declares an :class:`Operation`, and its body is
one call of it::

    inputs, options ─► repeated call? ──────────────────────────────────────► launches
                            │ no                                                 ▲
                            ▼                                                    │
                       normalise ─► Invocation ─► queue, views ─► plan ─► run ─► remember
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ContextMismatchError,
    HostMemoryError,
    PortableGPUError,
    reraise_of_signal,
)
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import Planning, check_place, events_of
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.registry import STATE, check_contexts, direct_calls, known_home
from portable_gpu.runtime.repeat import Key, remember, signature
from portable_gpu.runtime.report import NO_VALUES, KernelReport, ReportSpec, reports_of
from portable_gpu.runtime.views import Shape, View, check_no_overlap
from portable_gpu.targets.precision import require_fp64


class Result(NamedTuple):
    """A result of a call, in addition to the first one.

    Attributes:
        shape, dtype: Those of the result.
        name: The name of the caller's array for it in messages.
        reads_out: Whether kernels read the elements of that array.
    """

    shape: Shape
    dtype: np.dtype[Any]
    name: str
    reads_out: bool = False


@dataclass(slots=True, kw_only=True)
class Invocation:
    """A call whose arguments are checked, as far as that needs no device.

    Attributes:
        inputs: The arrays that kernels read, in the order of the plan's operands; the results are
            the operands after them, and a report the one after those.
        names: The names of the inputs in messages.
        shape, dtype: Those of the result, or of the first of several.
        plan: Returns the plan, given the engine and the views of the inputs and of the results.
        flop: An estimate of the operations, by which small calls on NumPy arrays stay on the
            calling thread; ``None`` if they never do.
        alone: Returns a better estimate for that, the seconds of one thread and the number of
            launches, given the engine of the calling thread; ``None`` if there is none.
        scalars: The numbers that the plan takes in addition to the arrays.
        out: The caller's array for the result; for several results, a tuple with an array or
            ``None`` for each, or ``None``.
        out_name: The name of the (first) array in messages.
        reads_out: Whether kernels read the elements of the (first) array.
        in_place: Whether results may share the memory of an input.
        more: The further results of a call that has several; it returns a tuple of all.
        computes: The dtypes that the kernels compute in, if not those of inputs and result.
        convert: Converts an input before the kernels read it, given the array and the call.
        report: Values that kernels write in addition to the result, for the host to check.
        check: When the report is checked: ``late``, when the values of the result are brought to
            the host, or ``now``.
    """

    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    shape: Shape
    dtype: np.dtype[Any]
    plan: Callable[[Engine, Sequence[View]], Plan]
    flop: int | None = None
    alone: Callable[[Engine], tuple[float, int]] | None = None
    scalars: tuple[Any, ...] = ()
    out: Any = None
    out_name: str = "out"
    reads_out: bool = False
    in_place: bool = False
    more: tuple[Result, ...] = ()
    computes: tuple[np.dtype[Any], ...] = ()
    convert: Callable[[Any, Call], Any] | None = None
    report: ReportSpec | None = None
    check: str = "late"


class CallArguments(NamedTuple):
    """The arguments of a call of an operation, not checked.

    Attributes:
        inputs: The arrays, except those that are ``out`` itself.
        options: All that distinguishes the call from others, except the arrays.
        out: The caller's array for the result; for several results, a tuple of arrays, or ``None``.
        scalars: Numbers that may differ from call to call.
    """

    inputs: tuple[Any, ...]
    options: tuple[Any, ...]
    out: Any
    scalars: tuple[Any, ...]


class Operation:
    """A public function that one plan computes.

    Attributes:
        call: ``call(inputs, options, out, scalars, engine, queue, wait_for)`` does it.  The options
            are hashable, and describe all but the arrays; numbers that may differ from call to call
            are scalars.
    """

    __slots__ = ("call",)

    def __init__(self, name: str, normalise: Callable[[CallArguments], Invocation]) -> None:
        """Make the operation of a public function.

        Args:
            name: Its name, which no other operation has.
            normalise: Checks the arguments of a call that is not a repeated one.
        """
        ndarray = np.ndarray

        def call(
            inputs: tuple[Any, ...],
            options: tuple[Any, ...],
            out: Any = None,
            scalars: tuple[Any, ...] = (),
            engine: Engine | Planning | None = None,
            queue: cl.CommandQueue | None = None,
            wait_for: Sequence[cl.Event] | None = None,
        ) -> Any:
            key: Key | Planning | None = None
            is_fresh: Any = out is None
            arrays = inputs if is_fresh else (*inputs, out)
            if type(out) is tuple:
                is_fresh = tuple([array is None for array in out])
                arrays = (*inputs, *[array for array in out if array is not None])
            if wait_for is not None:
                wait_for = events_of(wait_for)
            if queue is None and not wait_for and (engine is None or isinstance(engine, Engine)):
                first: Any = arrays[0] if arrays else None
                on_host = type(first) is ndarray
                direct = repeat = state = None
                try:
                    if on_host and out is None and engine is None and not scalars:
                        # C-ordered arrays of NumPy: a repeated call only needs to be launched.
                        flags = first.flags
                        if flags.c_contiguous and flags.aligned:
                            if len(inputs) == 1:
                                key = name, options, first.shape, first.dtype
                                direct = direct_calls().get(key)
                            elif len(inputs) == 2 and type(x := inputs[1]) is ndarray:
                                flags = x.flags
                                if flags.c_contiguous and flags.aligned:
                                    key = name, options, first.shape, first.dtype, x.shape, x.dtype
                                    direct = direct_calls().get(key)
                            elif each := _direct_kinds(inputs):
                                direct = direct_calls().get((name, options, *each))
                except TypeError:  # an option that is not hashable, and will be refused
                    direct = None
                # Not in a block that catches exceptions: a signal handler may raise any.
                if direct is not None and (result := direct(*inputs)) is not None:
                    return result
                try:
                    kinds = signature(arrays)
                    key = None if kinds is None else (name, options, kinds, is_fresh)
                    if key is not None:
                        if on_host:
                            state = known_home(engine)
                        elif engine is None:
                            state = getattr(first.queue, STATE, None)
                        else:
                            state = engine.known_state(first.queue)
                        repeat = None if state is None else state.known.get(key)
                except TypeError:
                    key = None
                if repeat is not None and state is not None:
                    result = repeat.run(state, inputs, out, scalars)
                    if result is not None:
                        return result
            elif isinstance(engine, Planning) and signature(arrays) is not None:
                key = engine  # remember() stores the planned call in it
            invocation = normalise(CallArguments(inputs, options, out, scalars))
            if invocation.out is not out:  # an input is overwritten, by an option
                key = None
            try:
                return complete(invocation, key, inputs, engine, queue, wait_for, bool(scalars))
            except MemoryError as error:  # of tables that plans make on the host
                if not isinstance(error, PortableGPUError):
                    reraise_of_signal(error)
                    raise HostMemoryError(
                        f"{name}: the host has no memory for a result of shape "
                        f"{invocation.shape} and the tables of its kernels: {error}"
                    ) from error
                raise

        self.call = call


def _direct_kinds(arrays: Sequence[Any]) -> list[Any] | None:
    """Return shapes and dtypes, or ``None`` unless all are C-ordered, aligned arrays of NumPy."""
    kinds: list[Any] = []
    for array in arrays:
        if type(array) is not np.ndarray:
            return None
        flags = array.flags
        if not (flags.c_contiguous and flags.aligned):
            return None
        kinds += array.shape, array.dtype
    return kinds


def complete(
    invocation: Invocation,
    key: Key | Planning | None,
    repeat_arrays: Sequence[Any],
    engine: Engine | Planning | None,
    queue: cl.CommandQueue | None,
    wait_for: Sequence[cl.Event] | None,
    scalars_vary: bool = False,
) -> Any:
    """Find the queue and the plan of a call, run it, and remember it.

    Args:
        invocation: The call.
        key: The key of a repeated call; ``None`` if the call is not remembered.
        repeat_arrays: The arrays from which the key was made.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
        scalars_vary: Whether the scalars of a repeated call may be others.

    Returns:
        The result: ``out``, or a fresh array; NumPy's scalar where a fresh array of NumPy would
        have no axes.  For several results, a tuple of these.
    """
    inputs, out = invocation.inputs, invocation.out
    first = Result(invocation.shape, invocation.dtype, invocation.out_name, invocation.reads_out)
    results = (first, *invocation.more)
    for result in results:
        element(result.dtype)  # raises DTypeError where no kernel has it
    outs = _outs(invocation, len(results))
    apart = [] if invocation.in_place else list(zip(inputs, invocation.names, strict=True))
    for array, result in zip(outs, results, strict=True):
        if array is not None:
            check_no_overlap(array, result.name, apart)
            apart.append((array, result.name))
    try:
        flop, alone = invocation.flop, invocation.alone
        call = Call((*inputs, *outs), engine, queue, wait_for, flop, alone)
    except ContextMismatchError as error:
        raise _named(
            error, (*inputs, *outs), (*invocation.names, *[r.name for r in results])
        ) from None
    dtypes = [x.dtype for x in inputs] + [result.dtype for result in results]
    require_fp64(call.engine.target, *dtypes, *invocation.computes)
    if invocation.convert is not None:
        inputs = tuple([invocation.convert(x, call) for x in inputs])
    targets = [
        call.output(shape, dtype, array, name, reads_out)
        for array, (shape, dtype, name, reads_out) in zip(outs, results, strict=True)
    ]
    views = [call.input(x, name) for x, name in zip(inputs, invocation.names, strict=True)]
    views += targets
    plan, operands, reported = None, views, None
    if any(target.size for target in targets):
        plan = invocation.plan(call.engine, views)
        if invocation.report is not None:
            small, reported = call.additional_output(
                invocation.report.shape, invocation.report.dtype
            )
            operands = [*views, small]
    call.run(plan, operands, invocation.scalars)
    if call.is_planned:
        for result in call.results:
            if isinstance(result, Array) and result is not out:
                result.reports = (NO_VALUES,)
    else:
        _look_at_reports(invocation, inputs, call.results, reported)
    # A call that converts an input, or reads ``out`` as one, has other inputs than these arrays,
    # so it is not remembered.
    alike = len(inputs) == len(repeat_arrays) and all(map(is_, inputs, invocation.inputs))
    if plan is not None and alike and (call.host or invocation.check == "late"):
        remember(
            key,
            repeat_arrays,
            call,
            views,
            plan,
            invocation.scalars,
            out,
            invocation.report,
            scalars_vary,
        )
    returned = [
        made[()] if call.host and array is None and not made.shape else made
        for made, array in zip(call.results, outs, strict=True)
    ]
    return tuple(returned) if invocation.more else returned[0]


def check_one_context(
    arrays: Mapping[str, Any], engine: Any, queue: cl.CommandQueue | None
) -> None:
    """Check the arrays of a function that makes several calls, before the first one.

    Args:
        arrays: The arrays, or other values, by their names.
        engine, queue: The arguments of the function.

    Raises:
        ContextMismatchError: They are of different contexts.
    """
    on_device = [value for value in arrays.values() if isinstance(value, DEVICE_KINDS)]
    check_place(engine, queue)
    try:
        check_contexts(on_device, engine, queue)
    except ContextMismatchError as error:
        raise _named(error, tuple(arrays.values()), tuple(arrays)) from None


def _named(
    error: ContextMismatchError, arrays: Sequence[Any], names: Sequence[str]
) -> ContextMismatchError:
    """The error with the names of the device arrays."""
    on_devices = [
        name for array, name in zip(arrays, names, strict=True) if isinstance(array, DEVICE_KINDS)
    ]
    places = ", ".join("{}" for _ in on_devices)
    return ContextMismatchError(f"{places}: {error}", *on_devices)


def _outs(invocation: Invocation, count: int) -> tuple[Any, ...]:
    """Return the caller's arrays for the results, or ``None`` for each that is to be fresh."""
    out = invocation.out
    if count == 1 or out is None:
        return (out,) * count
    if not isinstance(out, tuple) or len(out) != count:
        names = ", ".join((invocation.out_name, *(result.name for result in invocation.more)))
        actual = f"{len(out)} arrays" if isinstance(out, tuple) else f"a {type(out).__name__}"
        error = ArgumentError if isinstance(out, tuple) else ArgumentTypeError
        raise error(f"out is {actual}; expected a tuple of {count}, arrays or None: {names}")
    return out


def _look_at_reports(
    invocation: Invocation, inputs: Sequence[Any], results: Sequence[Any], reported: Any
) -> None:
    """Check the reports of a call and of its inputs, or give them to the results.

    Args:
        invocation, inputs, results: The call.
        reported: The memory of its own report, if there is one.
    """
    # Inputs and results may be views of arrays with reports.
    reports = reports_of(*inputs, *_outs(invocation, len(results)))
    if reported is not None and invocation.report is not None:
        reports = (*reports, KernelReport(reported, invocation.report.check))
    if invocation.check == "late" and all(isinstance(result, Array) for result in results):
        for result in results:
            result.reports = reports
        return
    for report in reports:
        report.check()
