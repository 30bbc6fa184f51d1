"""The path of a call, from the arguments of a public function to its launches.

Each public function that is computed by one plan declares an :class:`Operation`, and its body is
one call of it::

    inputs, options ─► repeated call? ──────────────────────────────────────► launches
                            │ no                                                 ▲
                            ▼                                                    │
                       normalise ─► Invocation ─► queue, views ─► plan ─► run ─► remember
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.call import Call, Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import events_of
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.registry import STATE, direct_calls, known_home
from portable_gpu.runtime.repeat import Key, remember, signature
from portable_gpu.runtime.report import KernelReport, ReportSpec, reports_of
from portable_gpu.runtime.views import Shape, View, check_no_overlap
from portable_gpu.targets.precision import require_fp64


@dataclass(slots=True, kw_only=True)
class Invocation:
    """A call whose arguments are checked, as far as that needs no device.

    Attributes:
        inputs: The arrays that kernels read, in the order of the plan's operands; the result is
            the operand after them, and a report the one after that.
        names: The names of the inputs in messages.
        shape, dtype: Those of the result.
        plan: Returns the plan, given the engine and the views of the inputs and of the result.
        flop: An estimate of the operations, by which small calls on NumPy arrays stay on the
            calling thread; ``None`` if they never do.
        scalars: The numbers that the plan takes in addition to the arrays.
        out: The caller's array for the result.
        out_name: Its name in messages.
        reads_out: Whether kernels read the elements of ``out``.
        in_place: Whether ``out`` may share the memory of an input.
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
    scalars: tuple[Any, ...] = ()
    out: Any = None
    out_name: str = "out"
    reads_out: bool = False
    in_place: bool = False
    computes: tuple[np.dtype[Any], ...] = ()
    convert: Callable[[Any, Call], Any] | None = None
    report: ReportSpec | None = None
    check: str = "late"


class CallArguments(NamedTuple):
    """The arguments of a call of an operation, not checked.

    Attributes:
        inputs: The arrays, except those that are ``out`` itself.
        options: All that distinguishes the call from others, except the arrays.
        out: The caller's array for the result.
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
            are hashable and tell all but the arrays; numbers that may differ from call to call
            are scalars.
    """

    __slots__ = ("call",)

    def __init__(self, name: str, normalise: Callable[[CallArguments], Invocation]) -> None:
        """Declare it.

        Args:
            name: What tells it from other operations.
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
            if wait_for is not None:
                wait_for = events_of(wait_for)
            if queue is None and not wait_for and (engine is None or isinstance(engine, Engine)):
                first = inputs[0] if inputs else out
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
                except TypeError:  # an option that is not hashable, and will be refused
                    direct = None
                # Not in a block that catches exceptions: a signal handler may raise any.
                if direct is not None and (result := direct(*inputs)) is not None:
                    return result
                try:
                    kinds = signature(inputs if out is None else (*inputs, out))
                    key = None if kinds is None else (name, options, kinds, out is None)
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
            elif (
                isinstance(engine, Planning)
                and signature(inputs if out is None else (*inputs, out)) is not None
            ):
                key = engine
            invocation = normalise(CallArguments(inputs, options, out, scalars))
            if invocation.out is not out:  # an input is overwritten, by an option
                key = None
            return complete(invocation, key, inputs, engine, queue, wait_for, bool(scalars))

        self.call = call


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
        key: What a repeated call is remembered by, if anything.
        repeat_arrays: The arrays that a repeated call will have in the place of the inputs.
        engine, queue, wait_for: See :class:`portable_gpu.Engine`.
        scalars_vary: Whether the scalars of a repeated call may be others.

    Returns:
        The result: ``out``, or a fresh array; NumPy's scalar where a fresh array of NumPy would
        have no axes.
    """
    inputs, out = invocation.inputs, invocation.out
    element(invocation.dtype)  # raises DTypeError where no kernel has it
    if out is not None and not invocation.in_place:
        check_no_overlap(out, invocation.out_name, list(zip(inputs, invocation.names, strict=True)))
    call = Call((*inputs, out), engine, queue, wait_for, invocation.flop)
    require_fp64(
        call.engine.target, *(x.dtype for x in inputs), invocation.dtype, *invocation.computes
    )
    if invocation.convert is not None:
        inputs = tuple([invocation.convert(x, call) for x in inputs])
    target = call.output(
        invocation.shape, invocation.dtype, out, invocation.out_name, invocation.reads_out
    )
    views = [call.input(x, name) for x, name in zip(inputs, invocation.names, strict=True)]
    views.append(target)
    plan, operands, reported = None, views, None
    if target.size:
        plan = invocation.plan(call.engine, views)
        if invocation.report is not None:
            small, reported = call.additional_output(
                invocation.report.shape, invocation.report.dtype
            )
            operands = [*views, small]
    result = call.run(plan, operands, invocation.scalars)
    if not call.is_planned:
        _look_at_reports(invocation, inputs, result, reported)
    # A call that has converted an input, or has read ``out`` in its place, is not like its arrays.
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
    return result[()] if call.host and out is None and not invocation.shape else result


def _look_at_reports(
    invocation: Invocation, inputs: Sequence[Any], result: Any, reported: Any
) -> None:
    """Check the reports of a call and of its inputs, or give them to the result.

    Args:
        invocation, inputs, result: The call.
        reported: The memory of its own report, if there is one.
    """
    reports = reports_of(*inputs, invocation.out)  # out may be a part of an array
    if reported is not None and invocation.report is not None:
        reports = (*reports, KernelReport(reported, invocation.report.check))
    if isinstance(result, Array) and invocation.check == "late":
        result.reports = reports
        return
    for report in reports:
        report.check()
