"""The array type of results: memory on the device, with a shape and strides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.arguments import of_kind, one_of, shown, whole
from portable_gpu.dtypes import as_dtype
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    ContextMismatchError,
    DeviceMemoryError,
    DTypeError,
    ShapeError,
)
from portable_gpu.runtime import fork, layout
from portable_gpu.runtime.events import QueueEvents
from portable_gpu.runtime.layout import Layout, Shape
from portable_gpu.runtime.report import KernelReport

#: The operator of a ufunc with a NumPy number on its left side, as the array's own method.
_REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.divmod: "__rdivmod__",
    np.power: "__rpow__",
    np.bitwise_and: "__rand__",
    np.bitwise_or: "__ror__",
    np.bitwise_xor: "__rxor__",
    np.left_shift: "__rlshift__",
    np.right_shift: "__rrshift__",
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


class Array:
    """An array on the device, with any strides.

    Calls on device arrays and :func:`portable_gpu.asarray` return this type.  Operators, indices,
    assignments and methods follow NumPy 2, with its dtypes and its broadcasting.  They are computed
    on the device by the kernels of :func:`portable_gpu.elementwise`, and nothing waits for them.
    ``a @ b`` is :func:`portable_gpu.matmul`.

    An operand is a device array, a Python or NumPy scalar, or a NumPy array without axes.  A NumPy
    array with axes raises :class:`portable_gpu.errors.ArgumentTypeError`, except in ``a @ b`` and
    in assignments (``a[i] = x``), which copy it to the device.  Indices are integers, slices,
    ``None`` and ``...``; they select views, which share the memory.  Integers divided by zero are
    0, and shifts by the width or more are 0 or -1, as in NumPy.  Integers to the power of a
    negative element of an array are ``1 // x**n`` rounded to zero, where NumPy raises an error.

    This is not a subclass of pyopencl's array, many of whose methods ignore strides.
    :meth:`to_pyopencl` returns one with the same memory, and all functions of this library accept
    pyopencl's arrays.

    A result may not exist, for example the factor of a matrix that is not positive definite.  The
    call that enqueues the kernels does not wait for them.  The error is raised when the values are
    first copied to the host: by :meth:`get`, :func:`portable_gpu.asnumpy`, ``float``, ``repr`` or
    DLPack.

    Attributes:
        queue: The queue of its calls, or ``None``.
        context: Its OpenCL context.
        shape, dtype: As in NumPy.
        strides, offset: Bytes between elements along each axis; bytes before the first one.
        base_data: Its memory: a ``pyopencl.Buffer``, or shared virtual memory; ``None`` for an
            array that was made without elements.
        events: The events of the commands that its values depend on.
        size, nbytes: The number of elements, and their bytes.
        reports: The deferred errors that :meth:`check` reads.
    """

    __slots__ = (
        "__weakref__", "base_data", "context", "dtype", "events", "nbytes", "offset", "queue",
        "reports", "shape", "size", "strides",
    )  # fmt: skip

    queue: Any
    context: Any
    shape: Shape
    dtype: np.dtype[Any]
    strides: Shape
    offset: int
    base_data: Any
    events: list[cl.Event]
    size: int
    nbytes: int
    reports: tuple[KernelReport, ...]

    def __init__(
        self,
        cq: cl.CommandQueue | cl.Context,
        shape: Sequence[int] | int,
        dtype: Any,
        order: str = "C",
        *,
        data: Any = None,
        offset: int = 0,
        strides: Sequence[int] | None = None,
        events: list[cl.Event] | None = None,
    ) -> None:
        """Make an array on existing memory, or on new memory that is not filled.

        Args:
            cq: The queue, or the context of an array without a queue.
            shape, dtype: The shape and the dtype of the array.
            order: ``"C"`` or ``"F"``, without ``strides``.
            data: The memory.
            offset, strides: The offset of the first element there, and the strides, in bytes.
            events: The events of commands that write the memory.

        Raises:
            DTypeError, ShapeError, ArgumentError: An argument has a wrong type, or is negative.
            DeviceMemoryError: New memory cannot be allocated.
        """
        fork.refuse()
        if isinstance(cq, cl.CommandQueue):
            self.queue, self.context = cq, cq.context
        else:
            accepted = "a pyopencl.CommandQueue or a pyopencl.Context"
            self.queue, self.context = None, of_kind(cq, cl.Context, "cq", accepted)
        self.dtype = dtype = as_dtype(dtype)
        extents = shape if isinstance(shape, (tuple, list)) else (shape,)
        self.shape = tuple([whole(extent, "an extent of shape") for extent in extents])
        if any(extent < 0 for extent in self.shape):
            raise ShapeError(f"shape is {shown(self.shape)}; extents are not negative")
        one_of(order, ("C", "F"), "order")
        if strides is not None:
            self.strides = tuple([whole(stride, "a stride") for stride in strides])
            if len(self.strides) != len(self.shape):
                raise ShapeError(f"strides is {shown(self.strides)}, for the shape {self.shape}")
        elif order == "C":
            self.strides = layout.c_strides(self.shape, dtype.itemsize)
        else:
            self.strides = layout.c_strides(self.shape[::-1], dtype.itemsize)[::-1]
        self.size = prod(self.shape)
        self.nbytes = self.size * dtype.itemsize
        if data is None and self.nbytes:
            data = self._allocated()
        self.base_data, self.offset = data, offset
        self.events = [] if events is None else events
        self.reports = ()

    def _allocated(self) -> cl.Buffer:
        try:
            return cl.Buffer(self.context, cl.mem_flags.READ_WRITE, self.nbytes)
        except (cl.Error, TypeError) as error:  # TypeError: more than an integer of C holds
            largest = min(device.max_mem_alloc_size for device in self.context.devices)
            asked = f"shape is {shown(self.shape)} of {self.dtype}, {self.nbytes} bytes"
            if self.nbytes > largest:
                asked += f"; the largest buffer of the device has {largest}"
            raise DeviceMemoryError(f"{asked}; it cannot be allocated: {error}") from error

    def _at(self, place: tuple[int, Shape, Shape], dtype: np.dtype[Any] | None = None) -> Array:
        """Return a view of the same memory, with the same queue, events and reports."""
        view = object.__new__(type(self))
        view.queue, view.context = self.queue, self.context
        view.offset, view.shape, view.strides = place
        view.dtype = self.dtype if dtype is None else dtype
        view.size = prod(view.shape)
        view.nbytes = view.size * view.dtype.itemsize
        view.base_data, view.events, view.reports = self.base_data, self.events, self.reports
        return view

    def _place(self) -> Layout:
        return Layout(self.offset, self.shape, self.strides)

    @classmethod
    def of(cls, array: cla.Array) -> Array:
        """Wrap a pyopencl array; the result has its memory, events and queue."""
        result = object.__new__(cls)
        result.queue, result.context = array.queue, array.context
        result.shape, result.dtype, result.strides = array.shape, array.dtype, array.strides
        result.offset, result.size, result.nbytes = array.offset, array.size, array.nbytes
        result.base_data, result.events, result.reports = array.base_data, array.events, ()
        return result

    def to_pyopencl(self) -> cla.Array:
        """Return a pyopencl array with the same memory and events.

        The call waits for the reports of the array.  pyopencl's kernels ignore strides.

        Raises:
            NotPositiveDefiniteError, SingularMatrixError: The array has no values.
        """
        self.check()
        return cla.Array(
            self.context if self.queue is None else self.queue, self.shape, self.dtype,
            data=self.base_data, offset=self.offset, strides=self.strides, events=self.events,
        )  # fmt: skip

    # -- what it is

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def data(self) -> Any:
        """:attr:`base_data`, if the offset of the array is 0.

        Raises:
            ArgumentError: The offset is not 0.
        """
        if self.offset:
            raise ArgumentError(
                f"the array begins {self.offset} bytes after the start of its memory; "
                "use base_data and offset"
            )
        return self.base_data

    @property
    def flags(self) -> layout.Flags:
        """Whether its elements are contiguous, and in which order."""
        return layout.Flags(self.shape, self.strides, self.dtype.itemsize)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("an array of no axes has no len()")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        for k in range(len(self)):
            yield self[k]

    # -- events, queues, reports

    def add_event(self, event: cl.Event) -> None:
        """Add an event that the array's values depend on."""
        self.events.append(event)

    def finish(self) -> None:
        """Wait for all events of the array, and remove them."""
        events = self.events
        if type(events) is QueueEvents and events.has_ended:
            return  # to read the list would take longer
        for event in events:
            event.wait()
        del events[:]

    def with_queue(self, queue: cl.CommandQueue | None) -> Array:
        """Return a view of the array with another queue, or with none (``None``).

        Raises:
            ArgumentTypeError: ``queue`` is not a queue.
            ContextMismatchError: The queue belongs to another context.
        """
        if queue is not None:
            of_kind(queue, cl.CommandQueue, "queue", "a pyopencl.CommandQueue or None")
            if queue.context != self.context:
                raise ContextMismatchError("queue is of another OpenCL context than the array")
        moved = self._at(self._place())
        moved.queue = queue
        if queue is not self.queue:
            moved.__class__ = LentArray
        return moved

    def check(self) -> None:
        """Wait for the kernels that may report that the result does not exist, and raise the error.

        Raises:
            NotPositiveDefiniteError, SingularMatrixError: The result does not exist.
        """
        for report in self.reports:
            report.check()

    # -- copies to and from the host; assigned by ``runtime.host_copy`` and ``runtime.transfer``

    _get: ClassVar[Callable[..., Any]]
    _get_async: ClassVar[Callable[..., Any]]
    _map: ClassVar[Callable[..., Any]]
    _set: ClassVar[Callable[..., None]]
    _dlpack_device: ClassVar[Callable[[Any], tuple[int, int]]]
    _to_dlpack: ClassVar[Callable[[Any, Any, Any], Any]]
    _from_numpy: ClassVar[Callable[[Any], Any]]

    def get(
        self, queue: cl.CommandQueue | None = None, ary: np.ndarray[Any, Any] | None = None
    ) -> Any:
        """Return the values as a NumPy array, after :meth:`check`; waits for them.

        Args:
            queue: The queue of the copy, instead of the array's.
            ary: The array for the values, of the same shape and dtype, with any strides.

        Raises:
            ShapeError, DTypeError, ReadOnlyError: ``ary`` does not fit.
            NotPositiveDefiniteError, SingularMatrixError: The result does not exist.
        """
        return Array._get(self, queue, ary)

    def get_async(
        self, queue: cl.CommandQueue | None = None, ary: np.ndarray[Any, Any] | None = None
    ) -> tuple[Any, cl.Event]:
        """Return a NumPy array for the values, and the event of the copy, without waiting.

        ``ary`` is as in :meth:`get`, but must be C-ordered.
        """
        result: tuple[Any, cl.Event] = Array._get_async(self, queue, ary)
        return result

    def set(self, ary: Any, queue: cl.CommandQueue | None = None, async_: bool = False) -> None:
        """Copy values from a NumPy array to this array.

        Args:
            ary: The values, of the same shape and dtype, with any strides.
            queue: The queue of the copy, instead of the array's.
            async_: Whether the call may return before ``ary`` is read; it must then stay unchanged
                until the copy has ended.

        Raises:
            ShapeError, DTypeError: ``ary`` does not fit.
        """
        Array._set(self, ary, queue, async_)

    def map_to_host(
        self,
        queue: cl.CommandQueue | None = None,
        flags: Any = None,
        is_blocking: bool = True,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Any:
        """Map the memory as a NumPy array, by ``pyopencl.enqueue_map_buffer``.

        Without ``is_blocking``, the result is a pair of the array and the event of the mapping.
        """
        return Array._map(self, queue, flags, is_blocking, wait_for)

    def item(self) -> Any:
        """The value of the only element, as a Python number; waits for it.

        Raises:
            ShapeError: The array does not have exactly one element.
        """
        if self.size != 1:
            raise ShapeError(f"an array of shape {self.shape} is not one number; take an element")
        return self.get().item()

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers; waits for them."""
        return self.get().tolist()

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

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise ArgumentTypeError(f"NumPy was given an array on the device; {TO_ONE_SIDE}")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "__call__" and len(inputs) == 2 and not options:
            left, right = inputs
            if ufunc is np.matmul:
                return Array._matmul(left, right)
            is_number = isinstance(left, (np.generic, np.ndarray)) and left.ndim == 0
            if ufunc in _REFLECTED and is_number:
                return getattr(right, _REFLECTED[ufunc])(left[()])
        raise ArgumentTypeError(
            f"numpy.{ufunc.__name__} was given an array on the device; {TO_ONE_SIDE}"
        )

    def __reduce__(self) -> Any:
        """Pickle the values; unpickling makes an array on the default engine."""
        return Array._from_numpy, (self.get(),)

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    # -- as a number or as text

    def __bool__(self) -> bool:
        return bool(self.item())

    def __float__(self) -> float:
        return float(self._real_number())

    def __int__(self) -> int:
        return int(self._real_number())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise DTypeError(
                f"an array of shape {self.shape} and dtype {self.dtype} is not an integer; "
                "expected one integer without axes"
            )
        return int(self.item())

    def __round__(self, digits: Any = None) -> Any:
        """The only element, rounded as a Python number."""
        return round(self._real_number(), digits)

    def _real_number(self) -> Any:
        if self.dtype.kind == "c":
            raise DTypeError(f"an array of {self.dtype} is not a real number; take .real or .imag")
        return self.item()

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.shape:
            raise ArgumentTypeError(f"an array of shape {self.shape} takes no format {spec!r}")
        return format(self.item(), spec)

    def __str__(self) -> str:
        return str(self.get())

    def __repr__(self) -> str:
        return "Array" + repr(self.get()).removeprefix("array")

    # -- views

    def __getitem__(self, key: Any) -> Array:
        """A view of the elements that a basic index selects.

        Raises:
            ArrayIndexError: The index is out of range, or holds arrays.
        """
        return self._at(layout.indexed(self._place(), key))

    @property
    def T(self) -> Array:  # noqa: N802  # NumPy's name
        """A view with the axes in reverse order."""
        return self._at((self.offset, self.shape[::-1], self.strides[::-1]))

    def transpose(self, *axes: Any) -> Array:
        """A view with permuted axes; reversed ones by default.

        Raises:
            ShapeError: ``axes`` is not a permutation of the axes.
        """
        order: Any = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
        if not axes or axes == (None,):
            order = None
        return self._at(layout.transposed(self._place(), order))

    def squeeze(self, axis: Any = None) -> Array:
        """A view without axes of extent 1: without all of them, or without those given.

        Raises:
            ShapeError: A given axis has another extent.
        """
        return self._at(layout.squeezed(self._place(), axis))

    def reshape(self, *shape: Any, order: str = "C") -> Array:
        """Return the same elements in another shape: a view if strides permit it, else a copy.

        Args:
            shape: Extents, or one tuple of them; one of them may be -1.
            order: The order of elements, ``"C"`` or ``"F"``.

        Raises:
            ShapeError: The shape has another number of elements.
            ArgumentError: ``order`` is not ``"C"`` or ``"F"``.
        """
        if order != "C" and one_of(order, ("C", "F"), "order") == "F":
            extents = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
            return self.T.reshape(tuple(extents)[::-1]).T
        requested = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        new = layout.as_shape(requested, self.size)
        strides = layout.reshaped(self.shape, self.strides, new, self.dtype.itemsize)
        if strides is not None:
            return self._at((self.offset, new, strides))
        copy = self.copy()
        return copy._at((0, new, layout.c_strides(new, self.dtype.itemsize)))

    def ravel(self, order: str = "C") -> Array:
        """:meth:`reshape` to one axis."""
        return self.reshape(-1 if self.size else 0, order=order)

    def view(self, dtype: Any = None) -> Array:
        """A view whose bytes are of another dtype, as in NumPy.

        Raises:
            ShapeError: The last axis has gaps, or does not hold a whole number of elements.
        """
        new = self.dtype if dtype is None else as_dtype(dtype)
        old_size, size = self.dtype.itemsize, new.itemsize
        if size == old_size:
            return self._at(self._place(), new)
        if not self.shape or (self.strides[-1] != old_size and self.shape[-1] != 1):
            raise ShapeError(
                f"{self.dtype} cannot be seen as {new} along an axis with strides "
                f"{self.strides[-1:]}; copy the array first"
            )
        nbytes = self.shape[-1] * old_size
        if nbytes % size:
            raise ShapeError(f"{nbytes} bytes of the last axis are no whole number of {new}")
        shape, strides = (*self.shape[:-1], nbytes // size), (*self.strides[:-1], size)
        return self._at(Layout(self.offset, shape, strides), new)

    @property
    def real(self) -> Array:
        """A view of the real parts; a real array itself."""
        return self._part(0)

    @property
    def imag(self) -> Array:
        """A view of the imaginary parts; new zeros for a real array."""
        if self.dtype.kind == "c":
            return self._part(1)
        zeros: Array = Array._full(self, 0)
        return zeros

    def _part(self, which: int) -> Array:
        if self.dtype.kind != "c":
            return self
        dtype = np.dtype(np.float32 if self.dtype.itemsize == 8 else np.float64)
        offset = self.offset + which * dtype.itemsize
        return self._at(Layout(offset, self.shape, self.strides), dtype)

    # -- operators and functions; assigned by :mod:`portable_gpu.ops.arrays`

    #: Arguments: the name of an operator ("add"), and its operands.
    _binary: ClassVar[Callable[[str, Any, Any], Any]]
    #: Arguments as in ``_binary``; the result is stored in the left operand.
    _in_place: ClassVar[Callable[[str, Any, Any], Any]]
    #: Arguments: the name of an operator, and an array.
    _unary: ClassVar[Callable[[str, Any], Any]]
    #: Arguments: an array, its new values, a queue, and events to wait for.
    _assign: ClassVar[Callable[..., None]]
    #: Arguments: an array, a dtype and a queue; returns a C-ordered copy.
    _converted: ClassVar[Callable[..., Any]]
    #: Arguments: an array, and a value; returns an array like it filled with the value.
    _full: ClassVar[Callable[[Any, Any], Any]]
    #: Arguments: the name of a function, an array and options.
    _reduced: ClassVar[Callable[..., Any]]
    _matmul: ClassVar[Callable[[Any, Any], Any]]

    def copy(self, queue: cl.CommandQueue | None = None) -> Array:
        """A C-ordered copy on the device, on the array's queue or on another."""
        copy: Array = Array._converted(self, self.dtype, queue)
        return copy

    def astype(self, dtype: Any, queue: cl.CommandQueue | None = None) -> Array:
        """A C-ordered copy in another dtype, to which values are converted as C does.

        The imaginary part of complex numbers is dropped, with NumPy's warning.

        Raises:
            DTypeError: The dtype is not supported.
            UnsupportedError: It needs double precision, which the device lacks.
        """
        copy: Array = Array._converted(self, as_dtype(dtype), queue)
        return copy

    def conj(self) -> Array:
        """The complex conjugates; a real array itself."""
        if self.dtype.kind != "c":
            return self
        result: Array = Array._unary("conjugate", self)
        return result

    conjugate = conj

    def fill(
        self,
        value: Any,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> Array:
        """Set all elements to a number; returns the array."""
        Array._assign(self, value, queue, wait_for)
        return self

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set the elements that a basic index selects to a number, or to an array that broadcasts.

        Raises:
            ArrayIndexError: The index is out of range, or holds arrays.
            ShapeError: The shapes do not broadcast.
            DTypeError: ``value`` is of no dtype that is supported.
            IntegerRangeError: A Python integer does not fit the dtype.
        """
        self.setitem(key, value)

    def setitem(
        self,
        key: Any,
        value: Any,
        queue: cl.CommandQueue | None = None,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> None:
        """Assign ``self[key] = value``, on a queue and after events."""
        part = self[key]
        Array._assign(part, value, queue, wait_for)
        self.reports = part.reports

    def __matmul__(self, other: Any) -> Any:
        return Array._matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return Array._matmul(other, self)

    def __add__(self, other: Any) -> Any:
        return Array._binary("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return Array._binary("add", other, self)

    def __iadd__(self, other: Any) -> Any:
        return Array._in_place("add", self, other)

    def __sub__(self, other: Any) -> Any:
        return Array._binary("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return Array._binary("subtract", other, self)

    def __isub__(self, other: Any) -> Any:
        return Array._in_place("subtract", self, other)

    def __mul__(self, other: Any) -> Any:
        return Array._binary("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return Array._binary("multiply", other, self)

    def __imul__(self, other: Any) -> Any:
        return Array._in_place("multiply", self, other)

    def __truediv__(self, other: Any) -> Any:
        return Array._binary("true_divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return Array._binary("true_divide", other, self)

    def __itruediv__(self, other: Any) -> Any:
        return Array._in_place("true_divide", self, other)

    def __floordiv__(self, other: Any) -> Any:
        return Array._binary("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return Array._binary("floor_divide", other, self)

    def __ifloordiv__(self, other: Any) -> Any:
        return Array._in_place("floor_divide", self, other)

    def __mod__(self, other: Any) -> Any:
        return Array._binary("remainder", self, other)

    def __rmod__(self, other: Any) -> Any:
        return Array._binary("remainder", other, self)

    def __imod__(self, other: Any) -> Any:
        return Array._in_place("remainder", self, other)

    def __pow__(self, other: Any) -> Any:
        return Array._binary("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return Array._binary("power", other, self)

    def __ipow__(self, other: Any) -> Any:
        return Array._in_place("power", self, other)

    def __and__(self, other: Any) -> Any:
        return Array._binary("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return Array._binary("bitwise_and", other, self)

    def __iand__(self, other: Any) -> Any:
        return Array._in_place("bitwise_and", self, other)

    def __or__(self, other: Any) -> Any:
        return Array._binary("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return Array._binary("bitwise_or", other, self)

    def __ior__(self, other: Any) -> Any:
        return Array._in_place("bitwise_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return Array._binary("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return Array._binary("bitwise_xor", other, self)

    def __ixor__(self, other: Any) -> Any:
        return Array._in_place("bitwise_xor", self, other)

    def __lshift__(self, other: Any) -> Any:
        return Array._binary("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return Array._binary("left_shift", other, self)

    def __ilshift__(self, other: Any) -> Any:
        return Array._in_place("left_shift", self, other)

    def __rshift__(self, other: Any) -> Any:
        return Array._binary("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return Array._binary("right_shift", other, self)

    def __irshift__(self, other: Any) -> Any:
        return Array._in_place("right_shift", self, other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __lt__(self, other: Any) -> Any:
        return Array._binary("less", self, other)

    def __le__(self, other: Any) -> Any:
        return Array._binary("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return Array._binary("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return Array._binary("greater_equal", self, other)

    def __eq__(self, other: Any) -> Any:
        return Array._binary("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return Array._binary("not_equal", self, other)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # equality is an array

    def __neg__(self) -> Any:
        return Array._unary("negative", self)

    def __pos__(self) -> Any:
        return Array._unary("positive", self)

    def __abs__(self) -> Any:
        return Array._unary("absolute", self)

    def __invert__(self) -> Any:
        return Array._unary("invert", self)

    def sum(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.sum` of the array."""
        return Array._reduced("sum", self, axis=axis, **options)

    def prod(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.prod` of the array."""
        return Array._reduced("prod", self, axis=axis, **options)

    def min(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.min` of the array."""
        return Array._reduced("min", self, axis=axis, **options)

    def max(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.max` of the array."""
        return Array._reduced("max", self, axis=axis, **options)

    def mean(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.mean` of the array."""
        return Array._reduced("mean", self, axis=axis, **options)

    def std(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.std` of the array."""
        return Array._reduced("std", self, axis=axis, **options)

    def var(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.var` of the array."""
        return Array._reduced("var", self, axis=axis, **options)

    def any(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.any` of the array."""
        return Array._reduced("any", self, axis=axis, **options)

    def all(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.all` of the array."""
        return Array._reduced("all", self, axis=axis, **options)

    def argmin(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.argmin` of the array."""
        return Array._reduced("argmin", self, axis=axis, **options)

    def argmax(self, axis: Any = None, **options: Any) -> Any:
        """:func:`portable_gpu.argmax` of the array."""
        return Array._reduced("argmax", self, axis=axis, **options)


class LentArray(Array):
    """An array on another queue than the queue whose pool owns its memory.

    A call holds it until the call is done, even on the array's own queue.
    """

    __slots__ = ()


#: The types of device arrays: pyopencl's and this library's.
DEVICE_KINDS = (Array, cla.Array)

fork.close_class(Array)
