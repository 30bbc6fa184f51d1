"""Calls that are checked, chosen and built once, to be made again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from inspect import signature as parameters_of
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import ArgumentError, ArgumentTypeError
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.broadcast import is_number
from portable_gpu.runtime.call import Planning
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.repeat import signature

_INPUTS, _OUTPUTS = ("x", "a", "b"), ("out", "c", "y")  # what operations call their arrays
_ARRAYS = (np.ndarray, *DEVICE_KINDS)


class PlannedCall:
    """An operation ready to run on arrays like those that it was planned for.

    Cost: that of the operation, and the host time of a look at the arrays and of the launches.
    Where an array has to be converted or sent to the device, each call does that anew, at the host
    time of the operation's own function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        given: Sequence[Any],
        options: Mapping[str, Any],
        engine: Engine | None,
        queue: cl.CommandQueue | None,
    ) -> None:
        """Check a call, choose how it is computed and build its kernels; it is not run.

        Args:
            function: The operation's.
            given, options: Its arguments.
            engine, queue: As it takes them.

        Raises:
            ArgumentError: The function takes no such arguments, or ``wait_for`` is among them.
        """
        check_place(engine, queue)
        parameters = parameters_of(function)
        try:
            bound = parameters.bind(*given, **options)
        except TypeError as error:
            raise ArgumentError(f"a plan of {function.__name__}: {error}") from None
        if "wait_for" in bound.arguments:
            raise ArgumentError("wait_for is for calls; a plan waits for its arrays' events")
        self._function, self._engine, self._queue = function, engine, queue
        self._arguments: dict[str, Any] = {}
        self._unnamed: list[Any] = []
        inputs: list[str] = []
        out: str | None = None
        for name, value in bound.arguments.items():
            kind = parameters.parameters[name].kind
            if kind is Parameter.POSITIONAL_ONLY:
                self._unnamed.append(value)
                continue
            if kind is Parameter.VAR_KEYWORD:
                self._arguments |= {other: _as_number(one) for other, one in value.items()}
                inputs += [other for other in value if not _is_number(self._arguments[other])]
                continue
            self._arguments[name] = value
            if name in _INPUTS:
                inputs.append(name)
            elif name in _OUTPUTS and value is not None:
                out = name
        result = None if out is None else self._arguments[out]
        #: Inputs that are the output itself.
        self._updated = [n for n in inputs if out is not None and self._arguments[n] is result]
        self._inputs = [name for name in inputs if name not in self._updated]
        self._outputs = [] if out is None else [out]
        self._prepare()

    def __repr__(self) -> str:
        arrays = ", ".join(text.partition(" with ")[0] for text, _ in self._kinds)
        return f"<PlannedCall {self._function.__name__} of {arrays or 'nothing'}>"

    def _prepare(self) -> None:
        """Have the call prepared, and note what others like it need; no array is kept."""
        planning = Planning(self._engine, self._queue)
        self._call(self._arguments, planning, None)
        assert planning.call is not None
        inputs, out = ([self._arguments[n] for n in ns] for ns in (self._inputs, self._outputs))
        self._arguments |= dict.fromkeys([*self._inputs, *self._updated, *self._outputs])
        self._kinds = [_kind(array) for array in (*inputs, *out)]
        self._state = planning.call.home
        # Of what runs them: the inputs, the arrays of an epilogue, the output.
        self._extras = planning.arrays[len(inputs) :]
        everything = (*inputs, *self._extras, *out)
        self._signature = signature(everything) if everything else None
        self._home = getattr(everything[0], "queue", None) if everything else None
        same = len(inputs) + len(self._extras) == len(planning.arrays) and all(
            one is other for one, other in zip(everything, planning.arrays, strict=False)
        )
        self._again = planning.again if same and self._signature is not None else None

    def __call__(self, *operands: Any) -> Any:
        """Do it.

        Args:
            operands: Arrays of the kinds planned for: same shapes, strides and dtypes, NumPy arrays
                or device arrays of the same queue; those that the plan was made with, in the
                order of the function's parameters.

        Returns:
            As the function.

        Raises:
            ArgumentTypeError: One of them is no array.
            ArgumentError: The arrays are of another kind than the plan's, or its engine is closed.
            OverlapError: The output shares memory with an input or an array of the epilogue.
        """
        state, again = self._state, self._again
        if state.engine.is_closed:
            raise ArgumentError("the plan's engine is closed; make the plan anew")
        if again is not None and operands:
            given = operands
            if self._extras:
                last = len(self._inputs)
                given = (*operands[:last], *self._extras, *operands[last:])
            home = self._home
            if signature(given) == self._signature and (home is None or given[0].queue is home):
                if self._outputs:
                    result = again.run(state, given[:-1], given[-1])
                else:
                    result = again.run(state, given)
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
            wanted = ", ".join(names) or "none"
            raise ArgumentError(f"{len(operands)} arrays are given; the plan is for {wanted}")
        for name, array, planned in zip(names, operands, self._kinds, strict=True):
            found = _kind(array)
            if found != planned:
                where = " on another queue" if found[0] == planned[0] else ""
                error = ArgumentError if isinstance(array, _ARRAYS) else ArgumentTypeError
                raise error(f"{name} is {found[0]}{where}; the plan is for {planned[0]}")

    def _call(self, arguments: Mapping[str, Any], engine: Any, queue: Any) -> Any:
        return self._function(*self._unnamed, **arguments, engine=engine, queue=queue)


def _as_number(value: Any) -> Any:
    """A NumPy array of no axes as the number that it holds now; all else as it is."""
    return value[()] if isinstance(value, np.ndarray) and not value.shape else value


def _is_number(value: Any) -> bool:
    return is_number(value) or isinstance(value, np.generic)


def _kind(array: Any) -> tuple[str, Any]:
    """What a plan asks of an array: a description, and its queue."""
    if not isinstance(array, _ARRAYS):
        return f"a {type(array).__name__}", None
    lies = f"{array.dtype}{list(array.shape)} with strides {array.strides}"
    if isinstance(array, DEVICE_KINDS):
        return f"a device array {lies}", array.queue
    return f"a NumPy array {lies}", None
