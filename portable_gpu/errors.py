"""Every exception that portable_gpu raises on purpose.

Each message names the argument, its value, and what is accepted.  Each class also derives from the
built-in exception that NumPy users expect, so ``except ValueError`` keeps working.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from types import CodeType
from typing import Any

from numpy.linalg import LinAlgError

try:
    from numpy.exceptions import AxisError as NumPyAxisError
except ImportError:  # NumPy before 1.25
    from numpy import AxisError as NumPyAxisError  # type: ignore[attr-defined, no-redef]


def how_to_install(extra: str) -> str:
    """The command that installs an extra; the library is on no index, so it names a checkout."""
    return f"pip install '.[{extra}]' in a checkout of portable_gpu"


def is_of_signal(error: BaseException) -> bool:
    """Whether a signal handler raised an exception, in the middle of the block that caught it."""
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()}
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def reraise_of_signal(error: BaseException) -> None:
    """Raise an exception that a block caught again if a signal handler raised it.

    The block expects errors of files, or what the methods of a value may raise.  An exception of a
    handler, which may come at any moment, is neither: TimeoutError is an OSError.
    """
    if is_of_signal(error):
        raise error


def _code_of(handler: Any) -> CodeType | None:
    """The code of a signal handler in Python: a function, a partial one, a method or an object."""
    if not callable(handler):
        return None
    function = getattr(handler, "func", handler)
    code = getattr(function, "__code__", getattr(type(function).__call__, "__code__", None))
    return code if isinstance(code, CodeType) else None


class PortableGPUError(Exception):
    """Base of all errors of this library."""

    def __reduce__(self) -> Any:
        # Without this method, Dask (tblib) restores an error by a ``__new__`` that some of these
        # classes refuse, and without ``__init__``.
        return type(self), self.args, self.__dict__ or None


class ArgumentError(PortableGPUError, ValueError):
    """An argument has a value that the operation does not accept."""


class ShapeError(ArgumentError):
    """Shapes do not match, or an axis is given twice."""


class AxisError(ShapeError, NumPyAxisError):
    """An axis is out of range; NumPy's error of this name, a ValueError and an IndexError."""


class ArrayIndexError(ArgumentError, IndexError):
    """An index selects nothing of an array, or is of a kind that is not supported."""


class ArgumentTypeError(PortableGPUError, TypeError):
    """An argument is of a type that the operation does not take."""


class DTypeError(PortableGPUError, TypeError):
    """A dtype is not supported by the operation."""


class IntegerRangeError(ArgumentError, OverflowError):
    """A Python integer does not fit the dtype that it is converted to."""


class ArraysError(ArgumentError):
    """Arrays of a call do not go together; the message names them.

    A function that is made of others raises it with the names of its own arguments.
    """

    def __init__(self, text: str, *names: str) -> None:
        """Take the text, with ``{}`` in the place of each name of an array."""
        super().__init__(text.format(*names) if names else text)
        self._text, self._names = text, names

    def renamed(self, own: Mapping[str, str]) -> ArraysError:
        """Return the same error with other names of arrays, by its own names."""
        return type(self)(self._text, *[own.get(name, name) for name in self._names])


class OverlapError(ArraysError):
    """An output shares memory with an input, or with itself."""


class ReadOnlyError(ArgumentError):
    """An output cannot be written."""


class ContextMismatchError(ArraysError):
    """Arrays or queues belong to different OpenCL contexts."""


class ExportError(PortableGPUError, BufferError):
    """An array on a device cannot be shared by DLPack as another library requests it."""


class DeviceNotFoundError(PortableGPUError, LookupError):
    """No OpenCL device matches the request; the message lists those that exist."""


class UnsupportedError(PortableGPUError, NotImplementedError):
    """The device (or the forced device class) lacks something that the call needs."""


class ForkError(PortableGPUError, RuntimeError):
    """The process was forked from one that had used OpenCL."""


class DeviceMemoryError(PortableGPUError, MemoryError):
    """The device cannot hold a buffer of the size that the call needs."""


class DeviceFailedError(PortableGPUError, RuntimeError):
    """A device of a group has failed in the middle of a call; the message names it."""


class HostMemoryError(PortableGPUError, MemoryError):
    """A matrix, a copy or a table takes more memory than the host has available."""


class SpillError(PortableGPUError, OSError):
    """A factor that is too large for memory cannot be written to disk, or not be read back."""


class ResultFileError(PortableGPUError, OSError):
    """A result cannot be written to its file, for example because the disk is full."""


class PolicyError(ArgumentError):
    """A policy breaks a limit of the target; the message lists every broken limit."""


class TuningFileError(PortableGPUError, ValueError):
    """A file of the tuning table cannot be read, or has another format."""


class RenderError(PortableGPUError):
    """A kernel template failed to render; the message shows the numbered lines around the error."""


class BuildError(PortableGPUError, RuntimeError):
    """A kernel failed to build; the message ends with the lines that the compiler names.

    Attributes:
        source: The rendered OpenCL text.
        log: What the driver printed.
    """

    def __init__(self, message: str, source: str = "", log: str = "") -> None:
        super().__init__(message)
        self.source = source
        self.log = log


class _MatrixError(PortableGPUError, LinAlgError):
    """A matrix of a stack has no result.

    Attributes:
        index: The index of the matrix, one number for each batch axis; ``()`` for a single matrix.
        column: The column at which the error was detected, from 0.
    """

    def __init__(self, message: str, index: tuple[int, ...], column: int) -> None:
        super().__init__(message)
        self.index = index
        self.column = column

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.index, self.column)


class NotPositiveDefiniteError(_MatrixError):
    """A matrix is not positive definite: its Cholesky factor does not exist.

    Attributes:
        index: The index of the matrix, one number for each batch axis; ``()`` for a single matrix.
        column: The first column whose pivot is not a positive number; for a sparse matrix, the
            column of the permuted matrix.
        pivot: That pivot: the diagonal element minus the squares of the factor's row before it.
        variable: For a sparse matrix, the number of that column before the permutation; for a dense
            one, ``column``.
    """

    def __init__(
        self,
        message: str,
        index: tuple[int, ...],
        column: int,
        pivot: float,
        variable: int | None = None,
    ) -> None:
        super().__init__(message, index, column)
        self.pivot = pivot
        self.variable = column if variable is None else variable

    def __reduce__(self) -> Any:
        return type(self), (self.args[0], self.index, self.column, self.pivot, self.variable)


class SingularMatrixError(_MatrixError):
    """A triangular matrix has a zero on its diagonal."""
