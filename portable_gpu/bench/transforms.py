"""The peers SciPy, pyFFTW and VkFFT, which have transforms and return new arrays.

SciPy and pyFFTW transform NumPy arrays, with a thread for each compute unit; VkFFT transforms
arrays on the engine's own OpenCL device, through pyvkfft.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyopencl.array as cla
from pyopencl.tools import ImmediateAllocator, MemoryPool

from portable_gpu.bench.peers import Peer, host_buffer
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.timing import Call, Prepared
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.case import Case
from portable_gpu.ops.fft.commands.cases import axes_of
from portable_gpu.runtime.engine import Engine


class _Transforms(Peer):
    """A peer on the host that is timed for transforms only."""

    operations = frozenset({"fft", "rfft"})

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        if not engine.maps_host_memory:
            raise UnsupportedError(f"{self.name} runs on CPUs")
        self._threads = engine.target.compute_units

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`."""
        if case.operation not in self.operations:
            return None
        return Prepared([self._call(case, *arrays) for arrays in inputs])

    @abstractmethod
    def _call(self, case: Case, x: Array) -> Call:
        """A call on one copy of the input."""


class SciPyPeer(_Transforms):
    """``scipy.fft``: pocketfft, with ``workers=``."""

    name = "scipy"
    install = "pip install scipy"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        super().__init__(engine)
        self._scipy, self._fft = import_module("scipy"), import_module("scipy.fft")

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return str(self._scipy.__version__)

    def _call(self, case: Case, x: Array) -> Call:
        function = getattr(self._fft, f"{case.operation}n")
        return partial(function, x, axes=axes_of(case), workers=self._threads)


class PyFFTWPeer(_Transforms):
    """FFTW through pyFFTW, by plans that were measured (``FFTW_MEASURE``) before they are timed."""

    name = "pyfftw"
    install = "pip install pyfftw"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        super().__init__(engine)
        self._pyfftw = import_module("pyfftw")

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return str(self._pyfftw.__version__)

    def _call(self, case: Case, x: Array) -> Call:
        """A call on aligned memory, which plans overwrite while they are measured."""
        fftw, axes = self._pyfftw, axes_of(case)
        shape = list(x.shape)
        if x.dtype.kind != "c":
            shape[axes[-1]] = shape[axes[-1]] // 2 + 1
        dtype = np.result_type(x.dtype, np.complex64)
        source = fftw.empty_aligned(x.shape, x.dtype)
        plan = fftw.FFTW(
            source, fftw.empty_aligned(shape, dtype), axes=axes, threads=self._threads,
            flags=("FFTW_MEASURE",),
        )  # fmt: skip
        source[...] = x

        def call() -> Any:
            return plan(source, fftw.empty_aligned(shape, dtype))

        return call


class PyVkFFTPeer(Peer):
    """VkFFT's transforms, by a plan for each case, into fresh memory of a pool."""

    name = "pyvkfft"
    install = "VKFFT_BACKEND=opencl pip install pyvkfft (needs OpenCL's headers and a C++ compiler)"
    operations = frozenset({"fft", "rfft"})

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        self._pyvkfft = import_module("pyvkfft.version")
        try:
            self._opencl = import_module("pyvkfft.opencl")
        except OSError as error:  # it was built for another backend only
            raise ImportError(str(error)) from error
        self._engine = engine
        self._pool = MemoryPool(ImmediateAllocator(engine.queue))

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return f"{self._pyvkfft.__version__}, VkFFT {self._opencl.vkfft_version()}"

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`.  Real transforms that leave out the last axis give ``None``."""
        if case.operation not in self.operations:
            return None
        (x,) = inputs[0]
        axes = axes_of(case)
        real = case.operation == "rfft"
        if real and axes[-1] % x.ndim != x.ndim - 1:
            return None
        queue = self._engine.queue
        plan = self._opencl.VkFFTApp(
            x.shape, x.dtype, queue, inplace=False, norm=1, r2c=real, axes=axes
        )
        if self._engine.maps_host_memory:
            return Prepared([partial(self._on_host, plan, x, real) for (x,) in inputs])
        on_device = [cla.to_device(queue, x) for (x,) in inputs]
        return Queued(self._engine, [partial(self._on_device, plan, x, real) for x in on_device])

    def _on_device(self, plan: Any, x: cla.Array, real: bool) -> cla.Array:
        out = cla.empty(x.queue, *_result(x, real), allocator=self._pool)
        plan.fft(x, out)
        return out

    def _on_host(self, plan: Any, x: Array, real: bool) -> Array:
        """Transform NumPy's memory, which the device reads and writes directly."""
        context, queue = self._engine.context, self._engine.queue
        out = np.empty(*_result(x, real))
        source, into = (
            cla.Array(queue, y.shape, y.dtype, data=host_buffer(context, y)) for y in (x, out)
        )
        plan.fft(source, into)
        queue.finish()
        return out


def _result(x: Any, real: bool) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and the dtype of a transform."""
    shape = (*x.shape[:-1], x.shape[-1] // 2 + 1) if real else x.shape
    return shape, np.result_type(x.dtype, np.complex64)
