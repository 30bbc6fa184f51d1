"""Calls that are checked and built once, and then made many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from inspect import signature as parameters_of
from operator import is_
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from portable_gpu.ops.composed import composed
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.broadcast import is_number
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import Planning, SeveralCallsError, check_place
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.repeat import signature

#: The names of inputs that need not be arrays yet, and of outputs; other arrays are inputs.
_INPUTS, _OUTPUTS = ("x", "a", "b"), ("out", "c", "y")
_ARRAYS = (np.ndarray, *DEVICE_KINDS)


class PlannedCall:
    """An operation ready to run on arrays like those that it was planned for.

    Cost: that of the operation, and the host time of checking the arrays and of the launches.  If
    an array has to be converted or copied to the device, each call does so, and takes as much host
    time as the operation's own function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        positional: Sequence[Any],
        options: Mapping[str, Any],
        engine: Engine | None,
        queue: cl.CommandQueue | None,
    ) -> None:
        """Check a call, choose its variant and build its kernels, without running it.

        Args:
            function: The function of the operation.
            positional, options: Its arguments.
            engine, queue: Its ``engine`` and ``queue``.

        Raises:
            ArgumentError: The function takes no such arguments, or ``wait_for`` is among them.
        """
        check_place(engine, queue)
        parameters = parameters_of(function)
        try:
            bound = parameters.bind(*positional, **options)
        except TypeError as error:
            raise ArgumentError(f"a plan of {function.__name__}: {error}") from None
        if "wait_for" in bound.arguments:
            raise ArgumentError("wait_for is for calls; a plan waits for its arrays' events")
        self._function, self._engine, self._queue = function, engine, queue
        self._arguments: dict[str, Any] = {}
        self._positional: list[Any] = []
        inputs: list[str] = []
        out: str | None = None
        for name, value in bound.arguments.items():
            kind = parameters.parameters[name].kind
            if kind is Parameter.POSITIONAL_ONLY:
                self._positional.append(value)
                continue
            if kind is Parameter.VAR_KEYWORD:
                self._arguments |= {other: _as_number(scalar) for other, scalar in value.items()}
                inputs += [other for other in value if not _is_number(self._arguments[other])]
                continue
            self._arguments[name] = value
            is_array = kind is Parameter.POSITIONAL_OR_KEYWORD and isinstance(value, _ARRAYS)
            if name in _INPUTS or (is_array and name not in _OUTPUTS):
                inputs.append(name)
            elif name in _OUTPUTS and value is not None:
                out = name
        result = None if out is None else self._arguments[out]
        #: The inputs that are the output itself.
        self._updated = [n for n in inputs if out is not None and self._arguments[n] is result]
        self._inputs = [name for name in inputs if name not in self._updated]
        self._outputs = [] if out is None else [out]
        self._prepare()

    def __repr__(self) -> str:
        arrays = ", ".join(text.partition(" with ")[0] for text, _ in self._kinds)
        return f"<PlannedCall {self._function.__name__} of {arrays or 'nothing'}>"

    def _prepare(self) -> None:
        """Prepare the call, and keep what repeated calls need, except the arrays."""
        planning = Planning(self._engine, self._queue)
        inputs, out = ([self._arguments[n] for n in ns] for ns in (self._inputs, self._outputs))
        try:
            returned = self._call(self._arguments, planning, None)
        except SeveralCallsError:
            state = self._trace(planning)
        else:
            assert planning.call is not None
            state = planning.call.home
            results = planning.call.results
            if len(results) > 1 and not _are(returned, results):  # the function returns one of them
                planning.repetition = None
        self._arguments |= dict.fromkeys([*self._inputs, *self._updated, *self._outputs])
        self._kinds = [_kind(array) for array in (*inputs, *out)]
        self._state = state
        # A repeated call takes the inputs, the arrays of an epilogue and the output.
        self._extras = planning.arrays[len(inputs) :]
        everything = (*inputs, *self._extras, *out)
        self._signature = signature(everything) if everything else None
        self._home = getattr(everything[0], "queue", None) if everything else None
        same = len(inputs) + len(self._extras) == len(planning.arrays) and all(
            array is other for array, other in zip(everything, planning.arrays, strict=False)
        )
        self._repetition = planning.repetition if same and self._signature is not None else None

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a plan belongs to one process and cannot be pickled; make it in the other process"
        )

    def _trace(self, planning: Planning) -> QueueState:
        """Prepare a function that makes several calls; return the queue that they run on."""
        names = [*self._inputs, *self._outputs]
        arrays = [self._arguments[name] for name in names]
        for name, array in zip(names, arrays, strict=True):
            if not isinstance(array, DEVICE_KINDS):
                raise ArgumentError(
                    f"{name} is {_kind(array)[0]}; {self._function.__name__} makes several calls, "
                    "and a plan of it takes arrays on the device (portable_gpu.asarray)"
                )
        state = state_for(arrays, self._engine, self._queue)
        out = self._outputs[0] if self._outputs else None
        planning.repetition, constants = composed(
            self._function, self._positional, self._arguments, self._inputs, out, state
        )
        planning.arrays = (*arrays[: len(self._inputs)], *constants)
        return state

    def __call__(self, *operands: Any) -> Any:
        """Run the operation on the given arrays.

        Args:
            operands: An array for each one that the plan was made with, in the order of the
                function's parameters.  Shapes, strides, dtypes and queues must be the same, and
                NumPy arrays stand for NumPy arrays.

        Returns:
            The result of the function.

        Raises:
            ArgumentTypeError: An operand is not an array.
            ArgumentError: The arrays are of another kind than the plan's, or its engine is closed.
            OverlapError: The output shares memory with an input or an array of the epilogue.
        """
        state, repetition = self._state, self._repetition
        if state.engine.is_closed:
            raise ArgumentError("the plan's engine is closed; make the plan anew")
        if repetition is not None and operands:
            arrays = operands
            if self._extras:
                last = len(self._inputs)
                arrays = (*operands[:last], *self._extras, *operands[last:])
            queue = self._home
            if signature(arrays) == self._signature and (queue is None or arrays[0].queue is queue):
                if self._outputs:
                    result = repetition.run(state, arrays[:-1], arrays[-1])
                else:
                    result = repetition.run(state, arrays)
                if result is not None:
                    return result
        names = [*self._inputs, *self._outputs]
        self._check(names, operands)
        arguments = {**self._arguments, **dict(zip(names, operands, strict=True))}
        if self._updated:
            arguments |= dict.fromkeys(self._updated, operands[-1])
        return self._call(arguments, self._engine, self._queue)

    def _check(self, names: Sequence[str], operands: Sequence[Any]) -> None:
        """Raise ArgumentError or ArgumentTypeError unless arrays are of the kinds planned for."""
        if len(operands) != len(names):
            names_expected = ", ".join(names) or "none"
            raise ArgumentError(
                f"{len(operands)} arrays are given; the plan is for {names_expected}"
            )
        for name, array, planned in zip(names, operands, self._kinds, strict=True):
            kind = _kind(array)
            if kind != planned:
                where = " on another queue" if kind[0] == planned[0] else ""
                error = ArgumentError if isinstance(array, _ARRAYS) else ArgumentTypeError
                raise error(f"{name} is {kind[0]}{where}; the plan is for {planned[0]}")

    def _call(self, arguments: Mapping[str, Any], engine: Any, queue: Any) -> Any:
        return self._function(*self._positional, **arguments, engine=engine, queue=queue)


def _are(returned: Any, results: Sequence[Any]) -> bool:
    """Whether a function returned the results of its call as they are."""
    is_tuple = isinstance(returned, tuple) and len(returned) == len(results)
    return is_tuple and all(map(is_, returned, results))


def _as_number(value: Any) -> Any:
    """The number in a NumPy array without axes; any other value unchanged."""
    return value[()] if isinstance(value, np.ndarray) and not value.shape else value


def _is_number(value: Any) -> bool:
    return is_number(value) or isinstance(value, np.generic)


def _kind(array: Any) -> tuple[str, Any]:
    """The properties that an array shares with the planned one: a description, and its queue.

    For several outputs, those of each.
    """
    if isinstance(array, tuple):
        kinds = [_kind(item) for item in array]
        return f"({', '.join(text for text, _ in kinds)})", [queue for _, queue in kinds]
    if not isinstance(array, _ARRAYS):
        return f"a {type(array).__name__}", None
    properties = f"{array.dtype}{list(array.shape)} with strides {array.strides}"
    if isinstance(array, DEVICE_KINDS):
        return f"a device array {properties}", array.queue
    return f"a NumPy array {properties}", None
