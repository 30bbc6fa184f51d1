"""Parameters of modules: arrays on the device and their gradients, or views of flat ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portable_gpu.arguments import of_kind
from portable_gpu.errors import ArgumentError, ShapeError, reraise_of_signal
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray

#: Parameters start at multiples of this number of bytes in a flat array.
_ALIGNMENT = 256


class ModuleParameter:
    """A parameter: its values and its gradient on the device.

    A deep copy has memory of its own, also where this one is a part of flat arrays.

    Attributes:
        has_grad: Whether a gradient has been computed since the last :meth:`zero_grad`.
        flat: The flat arrays of which ``data`` and ``grad`` are views, if there are any.
        version: Changes when values are replaced that an optimiser may have a copy of.
    """

    def __init__(self, values: Any, engine: Engine | None = None) -> None:
        """Copy ``values``, an array of NumPy or on the device, to the device."""
        self._data: Array = asarray(values, engine=engine)
        self._grad: Array | None = None
        self.has_grad = False
        self.flat: Flat | None = None
        self.version = 0

    def __repr__(self) -> str:
        return f"<Parameter {self.data.dtype}{list(self.shape)}>"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy or a pickle, whose arrays are not views of the flat ones."""
        return {**vars(self), "flat": None}

    @property
    def data(self) -> Array:
        """The values; assignment is :meth:`set`."""
        return self._data

    @data.setter
    def data(self, values: Any) -> None:
        self.set(values)

    @property
    def grad(self) -> Array | None:
        """The gradient; ``None`` before the first one.

        Assignment copies values into its memory, which optimisers read; that of ``None`` is
        :meth:`zero_grad`.
        """
        return self._grad

    @grad.setter
    def grad(self, values: Any) -> None:
        if values is None:
            self.zero_grad()
            return
        source, dtype = self._on_device(values), self._data.dtype
        self._grad = elementwise("x", x=source, dtype=dtype, out=self._grad)
        self.has_grad = True

    def bind(self, data: Array, grad: Array | None, flat: Flat | None) -> None:
        """Use other arrays, which have the same values."""
        self._data, self._grad, self.flat = data, grad, flat

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the values."""
        return self.data.shape

    @property
    def size(self) -> int:
        """The number of values."""
        return self.data.size

    def zero_grad(self) -> None:
        """Forget the gradient: the next one replaces it, and is not added to it."""
        self.has_grad = False

    def add_grad(self, compute: Callable[[Any], Any]) -> None:
        """Add a gradient to those that were added since :meth:`zero_grad`.

        Args:
            compute: Computes the gradient into the array that it is given, or returns a fresh one
                for ``None``.
        """
        if self.grad is None:
            self._grad = compute(None)
        elif self.has_grad:
            elementwise("g + d", g=self.grad, d=compute(None), out=self.grad)
        else:
            compute(self.grad_to_replace())
        self.has_grad = True

    def grad_to_replace(self) -> Array | None:
        """Return the array of the gradient, all of which the next call writes.

        The deferred errors of its old values are no longer those of the gradient.
        """
        if self._grad is not None:
            self._grad.reports = ()
        return self._grad

    def set(self, values: Any) -> None:
        """Replace the values.

        Raises:
            ShapeError: ``values`` has another shape.
        """
        elementwise("x", x=self._on_device(values), dtype=self.data.dtype, out=self.data)
        self.version += 1

    def _on_device(self, values: Any) -> Any:
        if values.shape != self.shape:
            raise ShapeError(f"the values have shape {values.shape}; expected {self.shape}")
        return asarray(values, queue=self.data.queue)


class Flat:
    """Flat arrays whose views are the values and the gradients of parameters of one dtype.

    Attributes:
        data, grad: The arrays; gaps between parameters hold zeros.
        parameters: The parameters, in their order.
    """

    def __init__(self, parameters: list[ModuleParameter]) -> None:
        """Move parameters that are in no flat arrays into new ones, with their gradients."""
        first = parameters[0].data
        step = _ALIGNMENT // first.dtype.itemsize
        starts, end = [], 0
        for parameter in parameters:
            starts.append(end)
            end += -(-parameter.size // step) * step
        zeros = np.zeros(end, first.dtype)
        self.data, self.grad = (asarray(zeros, queue=first.queue) for _ in range(2))
        self.parameters = parameters
        views = []
        for parameter, start in zip(parameters, starts, strict=True):
            part = slice(start, start + parameter.size)
            data, grad = (array[part].reshape(parameter.shape) for array in (self.data, self.grad))
            elementwise("x", x=parameter.data, out=data)
            if parameter.grad is not None and parameter.has_grad:
                elementwise("x", x=parameter.grad, out=grad)
            views.append((data, grad))
        for parameter, pair in zip(parameters, views, strict=True):  # all of them, or none
            parameter.bind(*pair, self)


def flattened(
    parameters: list[ModuleParameter],
) -> list[tuple[Array, Array, list[ModuleParameter]]]:
    """The values and the gradients of parameters, in as few pairs of C-ordered arrays as possible.

    Parameters that are in no flat arrays are moved into new ones, by dtype.  Those that make up
    all of a flat pair are that pair; others are pairs by themselves.

    Returns:
        For each pair, the values, the gradients and the parameters.
    """
    fresh: dict[Any, list[ModuleParameter]] = {}
    for parameter in parameters:
        if parameter.flat is None:
            fresh.setdefault(parameter.data.dtype, []).append(parameter)
    for group in fresh.values():
        Flat(group)
    included, pairs, seen = {id(member) for member in parameters}, [], set()
    for parameter in parameters:
        flat = parameter.flat
        assert flat is not None
        if all(id(member) in included for member in flat.parameters):
            if id(flat) not in seen:
                seen.add(id(flat))
                pairs.append((flat.data, flat.grad, flat.parameters))
        else:
            assert parameter.grad is not None
            pairs.append((parameter.data, parameter.grad, [parameter]))
    return pairs


def gradients(parameters: list[ModuleParameter]) -> list[Array]:
    """The gradients of parameters, in as few C-ordered arrays as possible; none has old values."""
    arrays: list[Array] = []
    seen: set[int] = set()
    included = {id(member) for member in parameters}
    for parameter in parameters:
        flat = parameter.flat
        if flat is not None and all(id(member) in included for member in flat.parameters):
            if id(flat) not in seen:
                seen.add(id(flat))
                clear(flat.parameters)
                arrays.append(flat.grad)
        elif parameter.has_grad and parameter.grad is not None:
            arrays.append(parameter.grad)
    return arrays


def clear(parameters: list[ModuleParameter]) -> None:
    """Set values of gradients to 0 that no backward pass has computed since ``zero_grad``."""
    for parameter in parameters:
        if not parameter.has_grad and parameter.grad is not None:
            parameter.grad.fill(0)


def as_parameters(values: Any, name: str = "parameters") -> list[ModuleParameter]:
    """The parameters that an argument lists, each once.

    Raises:
        ArgumentTypeError, ArgumentError: It has something else, or nothing.
    """
    try:
        listed = [values] if isinstance(values, ModuleParameter) else list(values)
    except Exception as error:  # raised by the value's own methods, too
        reraise_of_signal(error)
        listed = [values]
    for parameter in listed:
        of_kind(parameter, ModuleParameter, f"an element of {name}", "a portable_gpu.nn.Parameter")
    if not listed:
        raise ArgumentError(f"{name} is empty; expected one or more")
    return list({id(parameter): parameter for parameter in listed}.values())


def add_grads(
    parameters: Sequence[ModuleParameter | None], compute: Callable[[Any], Sequence[Any]]
) -> Any:
    """Add gradients that one call computes after that of the input, which is returned.

    Args:
        parameters: The parameters in the order of their gradients, or ``None``.
        compute: Computes all gradients, given the tuple for ``out=`` or ``None``.
    """
    listed = [parameter for parameter in parameters if parameter is not None]
    direct = bool(listed) and all(
        parameter.grad is not None and not parameter.has_grad for parameter in listed
    )
    outs: list[Any] = [None]
    if direct:
        outs += [
            None if parameter is None else parameter.grad_to_replace() for parameter in parameters
        ]
    by_input, *grads = compute(tuple(outs) if direct else None)
    for parameter, grad in zip(parameters, grads, strict=True):
        if parameter is not None and direct:
            parameter.has_grad = True
        elif parameter is not None:
            _add(parameter, grad)
    return by_input


def _add(parameter: ModuleParameter, grad: Any) -> None:
    """Add a gradient that has an array of its own."""
    parameter.add_grad(lambda out: grad if out is None else elementwise("x", x=grad, out=out))
