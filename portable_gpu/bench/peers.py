"""One interface for this library and for the peers that it is compared with.

On a CPU device all calls take and return NumPy arrays, and the wall time is measured, including
copies.  OpenCL peers use the memory of NumPy arrays in place, as their users can.  On a GPU the
operands and results are device arrays, and the device time is measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

import portable_gpu
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.timing import Call, Prepared, Timed
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.dtypes import dtype_of, is_float16_like
from portable_gpu.ops.case import Case
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.registry import BENCHMARKS, OPERATIONS
from portable_gpu.runtime.engine import Engine
from portable_gpu.version import __version__


class Library(ABC):
    """A library that is timed.

    Attributes:
        name: The name on the command line.
        install: The package that installs it.
    """

    name: ClassVar[str]
    install: ClassVar[str]

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of the library."""


class Peer(Library):
    """A library that has some of the operations; the constructor raises if it cannot run.

    Attributes:
        operations: The operations that it has; ``None`` if there are many.  By default it is used
            only if one of them is timed.
    """

    operations: ClassVar[frozenset[str] | None] = None

    @abstractmethod
    def __init__(self, engine: Engine) -> None:
        """Open it on the engine's device.

        Raises:
            ImportError: It is not installed.
            UnsupportedError: It does not run on this device.
        """

    @abstractmethod
    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Timed | None:
        """Prepare calls on copies of the inputs; ``None`` if it lacks the operation."""


class Ours(Peer):
    """This library."""

    name = "portable_gpu"
    install = "portable_gpu"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        self._engine = engine

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return __version__

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared:
        """See :class:`Peer`."""
        engine = self._engine
        if engine.maps_host_memory:
            call = public_call(case, True)
            return Prepared([call.bind(portable_gpu, arrays, engine) for arrays in inputs])
        queue = engine.queue
        on_device = [[cla.to_device(queue, x) for x in arrays] for arrays in inputs]
        call = public_call(case, False)
        calls = [call.bind(portable_gpu, arrays, engine) for arrays in on_device]
        return Queued(engine, calls)


def public_call(case: Case, on_host: bool) -> PublicCall:
    """Our call of a case; ``on_host`` says whether its arrays are NumPy's."""
    call = BENCHMARKS[case.operation].call
    if call is not None:
        return call(case, on_host)
    return PublicCall(case.operation, OPERATIONS[case.operation].options(case))


def calls_like_numpy(case: Case, inputs: Sequence[Any], library: Any) -> list[Call]:
    """Return the call in a library with NumPy's names for each copy of the inputs, if it has it."""
    make = BENCHMARKS[case.operation].like_numpy
    calls = [make(case, arrays, library) for arrays in inputs]
    return [call for call in calls if call is not None]


class NumPyPeer(Peer):
    """NumPy on the host, with its BLAS and the default number of threads of that."""

    name = "numpy"
    install = "numpy"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return np.__version__

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`.

        Sums and products of 16-bit floats are left out: they round at every step, or take minutes.
        """
        narrow = is_float16_like(dtype_of(case.dtype))
        if narrow and not OPERATIONS[case.operation].exact:
            return None
        calls = calls_like_numpy(case, inputs, np)
        return Prepared(calls) if calls else None


#: Our operations that ``pyopencl.array`` has, and its functions for them.
_PYOPENCL: dict[str, Callable[..., Any]] = {"sum": cla.sum, "dot": cla.dot, "max": cla.max}


class PyOpenCLPeer(Peer):
    """The reductions of ``pyopencl.array``: sum, dot and max over the whole array."""

    name = "pyopencl"
    install = "pyopencl"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        self._engine = engine
        self._pool = cl.tools.MemoryPool(cl.tools.ImmediateAllocator(engine.queue))

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return str(cl.VERSION_TEXT)

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`."""
        known = _PYOPENCL.get(case.operation)
        if known is None or case.axis is not None or is_float16_like(dtype_of(case.dtype)):
            return None
        function, queue = known, self._engine.queue
        if self._engine.maps_host_memory:
            return Prepared([partial(self._on_host, function, arrays) for arrays in inputs])
        on_device = [[cla.to_device(queue, x, self._pool) for x in arrays] for arrays in inputs]
        calls = [partial(function, *arrays) for arrays in on_device]
        return Queued(self._engine, calls)

    def _on_host(self, function: Callable[..., Any], arrays: Operands) -> Array:
        """Call a function on arrays of OpenCL in NumPy's memory."""
        context, queue = self._engine.context, self._engine.queue
        wrapped = [
            cla.Array(queue, x.shape, x.dtype, allocator=self._pool, data=host_buffer(context, x))
            for x in arrays
        ]
        return np.asarray(function(*wrapped).get())


def host_buffer(context: cl.Context, x: Array) -> cl.Buffer:
    """A buffer in the memory of an array of NumPy."""
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    return cl.Buffer(context, flags, hostbuf=x)
