"""PyTorch and CuPy; on a GPU they are timed by the device's events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from math import ceil
from typing import Any

import numpy as np

from portable_gpu.bench.peers import Peer, calls_like_numpy
from portable_gpu.bench.timing import Call, InLine, Prepared
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.dtypes import dtype_of, is_bfloat16
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.case import Case
from portable_gpu.ops.gemv.commands.cases import transposed
from portable_gpu.runtime.engine import Engine


def _product_into(case: Case, tensors: Sequence[Any], torch: Any) -> Call:
    return partial(torch.mm, *transposed(case, tensors), out_dtype=getattr(torch, case.result))


_HOLD_ROWS = 2048  # rows of the square matrix whose products keep the device busy
_HOLD_SECONDS = 3e-4  # of such a product on a fast device
#: By operation, the call of PyTorch whose result is of another dtype.
_INTO: dict[str, Callable[[Case, Sequence[Any], Any], Call]] = {"gemm": _product_into}


class TorchPeer(Peer):
    """PyTorch; on a GPU its calls are timed by :class:`InLine`, without the time of the host.

    Products and convolutions of float32 are computed in float32, except in cases of ``tf32``.
    cuDNN times its algorithms at the first call of a convolution, and takes the fastest (its
    benchmark mode).
    """

    name = "torch"
    install = "pip install torch"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        self._torch = torch = import_module("torch")
        self._device = "cpu"
        if not engine.maps_host_memory:
            if not torch.accelerator.is_available():
                raise UnsupportedError("this build of PyTorch finds no accelerator")
            self._device = torch.accelerator.current_accelerator()
            name = str(torch.get_device_module(self._device).get_device_name())
            if name not in engine.target.facts.name and engine.target.facts.name not in name:
                raise UnsupportedError(f"PyTorch runs on {name}, not {engine.target.facts.name}")
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = False

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return str(self._torch.__version__)

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`."""
        tensors = [[self._tensor(x) for x in arrays] for arrays in inputs]
        calls = self._calls(case, tensors)
        if not calls:
            return None
        if self._device == "cpu":
            return Prepared(calls, fetch=self._fetch)
        return _TorchInLine(self._torch, self._device, calls, self._fetch)

    def _calls(self, case: Case, tensors: Sequence[Sequence[Any]]) -> list[Call]:
        torch = self._torch
        if case.result != case.dtype:
            known = _INTO.get(case.operation)
            return [] if known is None else [known(case, arrays, torch) for arrays in tensors]
        calls = calls_like_numpy(case, tensors, torch)
        if case.precision != "tf32":
            return calls
        return [partial(self._by_tf32, call) for call in calls]

    def _by_tf32(self, call: Call) -> Any:
        torch = self._torch
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True
        try:
            return call()
        finally:
            torch.set_float32_matmul_precision("highest")
            torch.backends.cudnn.allow_tf32 = False

    def _tensor(self, x: Array) -> Any:
        torch = self._torch
        if is_bfloat16(x.dtype):
            return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16).to(self._device)
        return torch.from_numpy(x).to(self._device)

    def _fetch(self, result: Any) -> Array:
        result = result.cpu()
        if result.dtype == self._torch.bfloat16:
            result = result.float()
        return np.asarray(result.numpy())


class _TorchInLine(InLine):
    """Calls of PyTorch; matrix products keep the device busy until they are enqueued."""

    def __init__(
        self, torch: Any, device: Any, calls: Sequence[Call], fetch: Callable[[Any], Array]
    ) -> None:
        super().__init__(calls, torch.accelerator.synchronize, fetch)
        self._torch, self._device = torch, device
        self._factor = torch.ones(_HOLD_ROWS, _HOLD_ROWS, device=device)
        self._begin: Any = None

    def hold(self, seconds: float) -> None:
        """See :class:`InLine`."""
        for _ in range(ceil(seconds / _HOLD_SECONDS)):
            self._torch.mm(self._factor, self._factor)
        self._begin = self._torch.Event(self._device, enable_timing=True)
        self._begin.record()

    def since_hold(self) -> float | None:
        """See :class:`InLine`."""
        end = self._torch.Event(self._device, enable_timing=True)
        end.record()
        in_time = not self._begin.query()
        end.synchronize()
        return float(self._begin.elapsed_time(end)) * 1e-3 if in_time else None


class CuPyPeer(Peer):
    """CuPy: many calls between two events of the device."""

    name = "cupy"
    install = "pip install cupy, or its wheel for the driver at hand (docs.cupy.dev)"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        if engine.maps_host_memory:
            raise UnsupportedError("CuPy runs on no CPU")
        self._cupy = import_module("cupy")

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return str(self._cupy.__version__)

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`."""
        if is_bfloat16(dtype_of(case.dtype)) or case.result != case.dtype:
            return None
        cupy = self._cupy
        there = [[cupy.asarray(x) for x in arrays] for arrays in inputs]
        calls = calls_like_numpy(case, there, cupy)
        return _Evented(calls, lambda result: np.asarray(result.get())) if calls else None


class _Evented(Prepared):
    """Calls of CuPy between two events."""

    def __init__(self, calls: Sequence[Call], fetch: Callable[[Any], Array]) -> None:
        from cupy.cuda import get_current_stream

        super().__init__(calls, get_current_stream().synchronize, fetch)

    def seconds(self, first: int, count: int) -> float:
        """See :class:`Prepared`."""
        from cupy.cuda import Event, get_elapsed_time

        begin, end = Event(), Event()
        begin.record()
        for call in self.in_turn(first, count):
            call()
        end.record()
        end.synchronize()
        return float(get_elapsed_time(begin, end)) * 1e-3
