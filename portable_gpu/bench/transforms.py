"""The peers SciPy and pyFFTW: transforms of NumPy arrays, with a thread for each compute unit.

Both return new arrays, as this library does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from portable_gpu.bench.peers import Peer
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
