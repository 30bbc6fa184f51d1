"""Types of the public functions: NumPy arrays in, NumPy arrays out; device arrays in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
import pyopencl.array as cla

from portable_gpu.runtime.array import Array

#: An array of NumPy, or what NumPy makes one of.
HostArray: TypeAlias = np.ndarray[Any, Any] | np.generic | complex | Sequence[Any]
#: An array on the device; results are of the first kind.
DeviceArray: TypeAlias = Array | cla.Array
#: Arrays that functions take.
ArrayLike: TypeAlias = HostArray | DeviceArray

_P = ParamSpec("_P")
_D = TypeVar("_D", covariant=True)
_H = TypeVar("_H", covariant=True)
_NumPyArray: TypeAlias = np.ndarray[Any, Any]


class OfOne(Protocol[_P, _D, _H]):
    """A function of an array, with a result for device arrays and another for the host's."""

    @overload
    def __call__(self, x: DeviceArray, /, *args: _P.args, **options: _P.kwargs) -> _D: ...
    @overload
    def __call__(self, x: HostArray, /, *args: _P.args, **options: _P.kwargs) -> _H: ...


class OfTwo(Protocol[_P, _H]):
    """A function of two arrays, whose result is on the device if one of them is."""

    @overload
    def __call__(
        self, a: DeviceArray, b: ArrayLike, /, *args: _P.args, **options: _P.kwargs
    ) -> Array: ...
    @overload
    def __call__(
        self, a: HostArray, b: DeviceArray, /, *args: _P.args, **options: _P.kwargs
    ) -> Array: ...
    @overload
    def __call__(
        self, a: HostArray, b: HostArray, /, *args: _P.args, **options: _P.kwargs
    ) -> _H: ...


# Each returns the function itself: they exist for type checkers.


def of_one(
    function: Callable[Concatenate[Any, _P], Any],
) -> OfOne[_P, Array, _NumPyArray]:
    """Declare a function of an array."""
    return cast("OfOne[_P, Array, _NumPyArray]", function)


def of_two(function: Callable[Concatenate[Any, Any, _P], Any]) -> OfTwo[_P, _NumPyArray]:
    """Declare a function of two arrays."""
    return cast("OfTwo[_P, _NumPyArray]", function)


def reduction(function: Callable[Concatenate[Any, _P], Any]) -> OfOne[_P, Array, Any]:
    """Declare a function of an array, whose result may be a number."""
    return cast("OfOne[_P, Array, Any]", function)


def inner_product(function: Callable[Concatenate[Any, Any, _P], Any]) -> OfTwo[_P, Any]:
    """Declare a function of two arrays, whose result may be a number."""
    return cast("OfTwo[_P, Any]", function)


def to_factor(
    function: Callable[Concatenate[Any, _P], Any],
) -> OfOne[_P, tuple[Array, bool], tuple[_NumPyArray, bool]]:
    """Declare a function that returns a factor, and whether it is a lower one."""
    return cast("OfOne[_P, tuple[Array, bool], tuple[_NumPyArray, bool]]", function)
