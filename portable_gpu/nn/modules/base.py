"""The base of modules: parameters, modes and state dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, of_kind
from portable_gpu.errors import ArgumentError, ShapeError
from portable_gpu.nn.parameter import ModuleParameter
from portable_gpu.nn.state import Saved, fitting
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import as_array


class Buffer:
    """Values of a module that no optimiser changes, such as running means.

    Attributes:
        data: An array on the device, or of NumPy.
    """

    def __init__(self, values: Any, engine: Engine | None = None, on_host: bool = False) -> None:
        """Copy the values to the device, unless ``on_host`` is true."""
        self.data: Any = np.array(values) if on_host else asarray(values, engine=engine)

    def set(self, values: Any) -> None:
        """Replace the values by others of the same shape."""
        if isinstance(self.data, np.ndarray):
            self.data[...] = values
        else:
            self.data.set(np.ascontiguousarray(values, self.data.dtype))


class Module(Saved):
    """A layer, or a composition of layers, that keeps what its gradient needs.

    A subclass has ``forward(input)`` and ``backward(grad_output)``; its parameters, buffers and
    further modules are its attributes.  ``backward`` returns the gradient of the input and adds
    those of the parameters to :attr:`Parameter.grad`.  It belongs to the last ``forward``.

    Attributes:
        training: Whether layers such as dropout are in training mode.
    """

    training = True
    _is_whole = True  # whether all that is kept for ``backward`` belongs to one call of ``forward``
    _forwards = 0  # calls of ``forward`` by compositions, of modules that keep something

    def forward(self, input: Any) -> Any:
        """Compute the output of an array on the device."""
        raise NotImplementedError

    def backward(self, grad_output: Any) -> Any:
        """Compute the gradient of the input, and add those of the parameters."""
        raise NotImplementedError

    def __call__(self, input: Any) -> Any:
        """Compute the output; an array of NumPy is copied to the device of the parameters first."""
        return self.forward(self._on_device(input, "input"))

    def _on_device(self, value: Any, name: str) -> Any:
        array = as_array(value, name)
        if isinstance(array, DEVICE_KINDS):
            return array
        first = next(iter(self.parameters()), None)
        return asarray(array, queue=None if first is None else first.data.queue)

    def train(self, mode: bool = True) -> Module:
        """Set the mode of this module and of all in it, and return this one."""
        self.training = flag(mode, "mode")
        for _, child in self.named_children():
            child.train(mode)
        return self

    def eval(self) -> Module:
        """Set evaluation mode: ``train(False)``."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Forget all gradients: the next backward pass replaces them."""
        for parameter in self.parameters():
            parameter.zero_grad()

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules in this one, by name."""
        for name, value in vars(self).items():
            if isinstance(value, Module):
                yield name, value

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, ModuleParameter]]:
        """All parameters, by torch's names."""
        for name, value in self._named(prefix):
            if isinstance(value, ModuleParameter):
                yield name, value

    def parameters(self) -> Iterator[ModuleParameter]:
        """All parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def _named(self, prefix: str) -> Iterator[tuple[str, ModuleParameter | Buffer]]:
        for name, value in vars(self).items():
            if isinstance(value, (ModuleParameter, Buffer)):
                yield prefix + name, value
        for name, child in self.named_children():
            yield from child._named(f"{prefix}{name}.")

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of all parameters and buffers on the host, by torch's keys."""
        return {name: np.array(asnumpy(value.data)) for name, value in self._named("")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace all parameters and buffers.

        Args:
            state: Arrays by the keys of :meth:`state_dict`; numbers are converted to the dtypes of
                this module.

        Raises:
            ArgumentTypeError: It is not a mapping, or has something else than arrays of numbers.
            ArgumentError: Keys are missing or unknown; the message names all.
            ShapeError: Arrays have other shapes; the message names all.  Nothing has been replaced
                after an error.
        """
        of_kind(state, Mapping, "state", "a mapping of names to arrays")
        tensors = dict(self._named(""))
        arrays = fitting(state, {name: tuple(value.data.shape) for name, value in tensors.items()})
        # All copies to a device are made before the first value is replaced.
        moved = {
            name: asarray(arrays[name], queue=value.data.queue)
            if isinstance(value, ModuleParameter)
            else asnumpy(arrays[name])
            for name, value in tensors.items()
        }
        for name, value in tensors.items():
            value.set(moved[name])

    def _writes_input(self) -> bool:
        """Whether ``forward`` begins with a layer whose result takes the place of its input."""
        return False

    def _gradient(self, grad_output: Any, shape: Sequence[int]) -> Any:
        """Return the gradient of the output as an array.

        Raises:
            ArgumentTypeError: It is not an array.
            ShapeError: It has not the shape of the output.
        """
        array = as_array(grad_output, "grad_output")
        if tuple(array.shape) != tuple(shape):
            raise ShapeError(
                f"grad_output has shape {tuple(array.shape)}; the output of "
                f"{type(self).__name__}.forward has {tuple(shape)}"
            )
        return array

    def _from_forward(self, *names: str) -> list[Any]:
        """Return the attributes that ``forward`` stored for ``backward``.

        Raises:
            ArgumentError: There was no ``forward``.
        """
        if names[0] not in vars(self):
            raise ArgumentError(f"{type(self).__name__}.backward is called before forward")
        return [vars(self)[name] for name in names]
