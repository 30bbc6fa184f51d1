"""Types of the public functions: NumPy arrays in, NumPy arrays out; device arrays in and out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeAlias, cast, overload

import numpy as np
import pyopencl.array as cla

from portable_gpu.runtime.array import Array

#: An array of NumPy, or what NumPy makes one of.
HostArray: TypeAlias = np.ndarray[Any, Any] | np.generic | complex | Sequence[Any]
#: An array on the device; results are of the first kind.
DeviceArray: TypeAlias = Array | cla.Array
#: What functions take.
ArrayLike: TypeAlias = HostArray | DeviceArray

_P = ParamSpec("_P")
_NumPyArray: TypeAlias = np.ndarray[Any, Any]


class OfOne(Protocol[_P]):
    """A function of an array."""

    @overload
    def __call__(self, x: DeviceArray, /, *args: _P.args, **options: _P.kwargs) -> Array: ...
    @overload
    def __call__(self, x: HostArray, /, *args: _P.args, **options: _P.kwargs) -> _NumPyArray: ...


class OfTwo(Protocol[_P]):
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
    ) -> _NumPyArray: ...


class ReductionFunction(Protocol[_P]):
    """A function of an array, whose result may be a number of NumPy's."""

    @overload
    def __call__(self, x: DeviceArray, /, *args: _P.args, **options: _P.kwargs) -> Array: ...
    @overload
    def __call__(self, x: HostArray, /, *args: _P.args, **options: _P.kwargs) -> Any: ...


class InnerProduct(Protocol[_P]):
    """A function of two arrays, whose result may be a number of NumPy's."""

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
    ) -> Any: ...


class ToFactor(Protocol[_P]):
    """A function of a matrix that returns a factor, and whether it is a lower one."""

    @overload
    def __call__(
        self, a: DeviceArray, /, *args: _P.args, **options: _P.kwargs
    ) -> tuple[Array, bool]: ...
    @overload
    def __call__(
        self, a: HostArray, /, *args: _P.args, **options: _P.kwargs
    ) -> tuple[_NumPyArray, bool]: ...


# Each returns the function itself: they exist for type checkers.


def of_one(function: Callable[Concatenate[Any, _P], Any]) -> OfOne[_P]:
    """Declare a function of an array."""
    return cast("OfOne[_P]", function)


def of_two(function: Callable[Concatenate[Any, Any, _P], Any]) -> OfTwo[_P]:
    """Declare a function of two arrays."""
    return cast("OfTwo[_P]", function)


def reduction(function: Callable[Concatenate[Any, _P], Any]) -> ReductionFunction[_P]:
    """Declare a function of an array, whose result may be a number."""
    return cast("ReductionFunction[_P]", function)


def inner_product(function: Callable[Concatenate[Any, Any, _P], Any]) -> InnerProduct[_P]:
    """Declare a function of two arrays, whose result may be a number."""
    return cast("InnerProduct[_P]", function)


def to_factor(function: Callable[Concatenate[Any, _P], Any]) -> ToFactor[_P]:
    """Declare a function that returns a factor, and whether it is a lower one."""
    return cast("ToFactor[_P]", function)
