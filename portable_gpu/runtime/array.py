"""The array type of results, a subclass of pyopencl's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyopencl.array as cla

from portable_gpu.errors import DTypeError, ShapeError
from portable_gpu.runtime import fork
from portable_gpu.runtime.report import Report

#: The method for ``number <operator> array``, by the ufunc that NumPy calls for the operator.
_REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.power: "__rpow__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
}
#: What to do with a mixture of NumPy arrays and device arrays.
TO_ONE_SIDE = (
    "portable_gpu.asnumpy(x) copies an array from the device, "
    "portable_gpu.asarray(y) brings one of NumPy's to it"
)


class Array(cla.Array):
    """An array on the device: pyopencl's array, with ``@``, DLPack and ``float`` besides.

    Calls on device arrays and :func:`portable_gpu.asarray` return this type; so do slices of it and
    pyopencl's arithmetic on it.  pyopencl accepts it as its own.

    ``a @ b`` is :func:`portable_gpu.matmul`, and takes NumPy arrays too.  Other operators are
    pyopencl's.  Both sides have one shape, or one side is a number (Python's or NumPy's) or an
    array of no axes.  The result of a whole reduction is such an array and stays on the device: ``v
    / pg.nrm2(v)``.  ``float``, ``int`` and ``complex`` wait for its value.

    NumPy silently turns pyopencl's own arrays into arrays of Python objects, with a kernel for each
    element.  This type raises a :class:`portable_gpu.errors.DTypeError` instead.

    A result may turn out not to exist: the factor of a matrix that is not positive definite.  The
    call that enqueues it does not wait to see; whatever first brings its values to the host raises
    the error: :meth:`get`, :func:`portable_gpu.asnumpy`, ``float``, DLPack.

    Attributes:
        reports: What there is to look at before its values are.
    """

    reports: tuple[Report, ...] = ()

    #: ``portable_gpu.matmul``; it is in a higher layer and sets this attribute itself.
    _matmul: ClassVar[Callable[[Any, Any], Any]]

    def __matmul__(self, other: Any) -> Any:
        return Array._matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return Array._matmul(other, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and len(inputs) == 2 and not options:
            left, right = inputs
            if ufunc is np.matmul:
                return Array._matmul(left, right)
            is_number = isinstance(left, (np.generic, np.ndarray)) and left.ndim == 0
            if ufunc in _REFLECTED and is_number:
                return getattr(right, _REFLECTED[ufunc])(left[()])
        raise DTypeError(f"numpy.{ufunc.__name__} was given an array on the device; {TO_ONE_SIDE}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise DTypeError(f"NumPy was given an array on the device; {TO_ONE_SIDE}")

    #: How an array is exported: :mod:`portable_gpu.runtime.transfer`, above, puts it there.
    _dlpack_device: ClassVar[Callable[[Any], tuple[int, int]]]
    _to_dlpack: ClassVar[Callable[[Any, Any, Any], Any]]

    def __dlpack_device__(self) -> tuple[int, int]:
        return Array._dlpack_device(self)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return Array._to_dlpack(self, dl_device, copy)

    def _new_with_changes(self, data: Any, *args: Any, **options: Any) -> Any:
        """What pyopencl makes views by (slices, transposes): they are of the same values."""
        view = super()._new_with_changes(data, *args, **options)
        if data is not None and self.reports:
            view.reports = self.reports
        return view

    def with_queue(self, queue: Any) -> Array:
        """The same array on another queue (``None``: on none)."""
        moved: Array = super().with_queue(queue)
        if queue is not self.queue:
            moved.__class__ = LentArray
        return moved

    def check(self) -> None:
        """Wait for the kernels that may find that there is no such result, and raise what they did.

        Raises:
            NotPositiveDefiniteError, SingularMatrixError: It has no values.
        """
        for report in self.reports:
            report.check()

    def get(self, *args: Any, **options: Any) -> Any:
        """The values as a NumPy array: pyopencl's ``get``, after :meth:`check`."""
        self.check()
        return super().get(*args, **options)

    def get_async(self, *args: Any, **options: Any) -> Any:
        """The same of pyopencl's ``get_async``."""
        self.check()
        return super().get_async(*args, **options)

    def map_to_host(self, *args: Any, **options: Any) -> Any:
        """The same of pyopencl's ``map_to_host``."""
        self.check()
        return super().map_to_host(*args, **options)

    def item(self) -> Any:
        """The value of the only element, as a Python number; waits for it.

        Raises:
            ShapeError: The array does not have exactly one element.
        """
        fork.refuse()
        if self.size != 1:
            raise ShapeError(f"an array of shape {self.shape} is not one number; take an element")
        return self.get().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())


class LentArray(Array):
    """An array on another queue than the queue whose pool owns its memory.

    A call holds it until the call is done, even on the array's own queue.
    """


#: The types of device arrays: pyopencl's and this library's.
DEVICE_KINDS = (cla.Array, Array)
