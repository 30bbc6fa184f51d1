"""VkFFT through pyvkfft, on the engine's own OpenCL device."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyopencl.array as cla
from pyopencl.tools import ImmediateAllocator, MemoryPool

from portable_gpu.bench.peers import Peer, host_buffer
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.timing import Prepared
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.ops.case import Case
from portable_gpu.ops.fft.commands.cases import axes_of
from portable_gpu.runtime.engine import Engine


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
