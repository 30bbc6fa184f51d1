"""SciPy's ``scipy.fft`` by this library's transforms, for programs that call SciPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from portable_gpu.errors import ArgumentTypeError, DTypeError, UnsupportedError


class ScipyBackend:
    """A backend for ``scipy.fft.set_backend``.

    Calls that this library does not support are passed to the next backend, which is SciPy's own:
    other functions, long doubles, double precision on a device without it.  ``set_global_backend``
    replaces SciPy's own; ``scipy.fft.register_backend("scipy")`` then registers it again.

    Example::

        with scipy.fft.set_backend(portable_gpu.fft.scipy_backend):
            scipy.signal.fftconvolve(x, y)
    """

    __ua_domain__ = "numpy.scipy.fft"

    def __init__(self, functions: Mapping[str, Any]) -> None:
        """Store the functions by their names, which are SciPy's."""
        self._functions = functions

    def __ua_function__(
        self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Call our function of that name, or leave the call to the next backend."""
        function = self._functions.get(method.__name__)
        if function is None:
            return NotImplemented
        try:
            return function(*args, **kwargs)
        except (ArgumentTypeError, DTypeError, UnsupportedError):
            return NotImplemented
