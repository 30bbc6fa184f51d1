"""CLBlast, called through its C interface on the engine's own queue.

Handles of OpenCL objects begin with the dispatch table of their driver, so a libclblast that is
linked to another OpenCL loader than pyopencl's works on them all the same.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.bench.peers import Peer, host_buffer
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.timing import Call, Prepared
from portable_gpu.checking.operands import Operands
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

_ROW_MAJOR = 101
_TRANS = {"N": 111, "T": 112}
_size = ctypes.c_size_t


class _Float2(ctypes.Structure):
    _fields_ = (("re", ctypes.c_float), ("im", ctypes.c_float))


class _Double2(ctypes.Structure):
    _fields_ = (("re", ctypes.c_double), ("im", ctypes.c_double))


#: For each dtype the letter of BLAS, and the type of a scalar argument.
_KINDS: dict[str, tuple[str, Any]] = {
    "float32": ("S", ctypes.c_float),
    "float64": ("D", ctypes.c_double),
    "complex64": ("C", _Float2),
    "complex128": ("Z", _Double2),
}


#: By operation, the function that folds vectors, the letter of BLAS in braces.
_REAL = {"sum": "{}sum", "dot": "{}dot", "nrm2": "{}nrm2", "argmax": "i{}max"}
_COMPLEX = {"dot": "{}dotu"}


class CLBlastPeer(Peer):
    """CLBlast with the parameters of its own database, untuned where that lacks the device."""

    name = "clblast"
    install = "install libclblast (Debian, Ubuntu: libclblast1)"

    def __init__(self, engine: Engine) -> None:
        """See :class:`Peer`."""
        path = ctypes.util.find_library("clblast")
        if path is None:
            raise ImportError("no libclblast")
        self._path = path
        self._library = ctypes.CDLL(path)
        self._engine = engine

    @property
    def version(self) -> str:
        """The library's file; its C interface gives no version."""
        return self._path

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Prepared | None:
        """See :class:`Peer`."""
        function = self._function(case)
        if function is None:
            return None
        shape, dtype = _result(case)
        engine = self._engine
        if engine.maps_host_memory:
            return Prepared([self._host_call(function, x, shape, dtype) for x in inputs])
        queue = engine.queue
        calls = []
        for arrays in inputs:
            on_device = [cla.to_device(queue, x) for x in arrays]
            out = cla.zeros(queue, shape, dtype)  # gemv reads it, even with beta 0
            calls.append(_device_call(function, on_device, out))
        return Queued(engine, calls)

    def _host_call(
        self,
        function: Callable[..., None],
        arrays: Operands,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
    ) -> Call:
        context, queue = self._engine.context, self._engine.queue

        def call() -> Any:
            out = np.zeros(shape, dtype)  # gemv reads it, even with beta 0
            result = host_buffer(context, out)
            function(*(host_buffer(context, x) for x in arrays), result)
            flags = cl.map_flags.READ
            mapped, _ = cl.enqueue_map_buffer(queue, result, flags, 0, shape, dtype)
            mapped.base.release(queue)
            queue.finish()
            return out

        return call

    def _function(self, case: Case) -> Callable[..., None] | None:
        """The call, given the buffers of inputs and result; ``None`` where there is none."""
        kind = _KINDS.get(case.dtype)
        if kind is None or case.axis is not None:
            return None
        products = {"gemm": self._gemm, "gemv": self._gemv}
        if case.operation in products:
            return products[case.operation](case, *kind)
        letter, _ = kind
        names = _REAL if letter in "SD" else _COMPLEX
        if case.operation not in names:
            return None
        name, count = names[case.operation].format(letter), int(np.prod(case.extents))
        return lambda *buffers: self._run(
            name, _size(count), buffers[-1], _size(0),
            *(part for x in buffers[:-1] for part in (x, _size(0), _size(1))),
        )  # fmt: skip

    def _gemv(self, case: Case, letter: str, scalar: Any) -> Callable[..., None]:
        m, n = case.extents
        return lambda a, x, y: self._run(
            f"{letter}gemv", _ROW_MAJOR, _TRANS[case.trans], _size(m), _size(n), scalar(1),
            a, _size(0), _size(n), x, _size(0), _size(1), scalar(0), y, _size(0), _size(1),
        )  # fmt: skip

    def _gemm(self, case: Case, letter: str, scalar: Any) -> Callable[..., None] | None:
        if not set(case.trans) <= set(_TRANS):
            return None
        m, k, n = case.extents
        trans_a, trans_b = case.trans[0], case.trans[1]
        lead = _size(k if trans_a == "N" else m), _size(n if trans_b == "N" else k), _size(n)
        head = _ROW_MAJOR, _TRANS[trans_a], _TRANS[trans_b], _size(m), _size(n), _size(k)
        if case.batch is None:
            return lambda a, b, c: self._run(
                f"{letter}gemm", *head, scalar(1), a, _size(0), lead[0], b, _size(0), lead[1],
                scalar(0), c, _size(0), lead[2],
            )  # fmt: skip
        batch = _size(case.batch)
        steps = _size(m * k), _size(k * n), _size(m * n)
        return lambda a, b, c: self._run(
            f"{letter}gemmStridedBatched", *head, scalar(1), a, _size(0), lead[0], steps[0],
            b, _size(0), lead[1], steps[1], scalar(0), c, _size(0), lead[2], steps[2], batch,
        )  # fmt: skip

    def _run(self, name: str, *arguments: Any) -> None:
        """Call ``CLBlast`` + name; buffers become handles.

        Raises:
            UnsupportedError: CLBlast returns a status other than 0.
        """
        queue = ctypes.c_void_p(self._engine.queue.int_ptr)
        handles = [
            ctypes.c_void_p(x.int_ptr) if isinstance(x, cl.MemoryObject) else x for x in arguments
        ]
        status = getattr(self._library, f"CLBlast{name}")(*handles, ctypes.byref(queue), None)
        if status != 0:
            raise UnsupportedError(f"CLBlast{name} returns status {status}")


def _device_call(function: Callable[..., None], arrays: Sequence[Any], out: Any) -> Call:
    def call() -> Any:
        function(*(x.base_data for x in arrays), out.base_data)
        return out

    return call


def _result(case: Case) -> tuple[tuple[int, ...], np.dtype[Any]]:
    dtype = dtype_of(case.dtype)
    shape, kind = _RESULTS.get(case.operation, _SCALAR)
    return shape(case), dtype if kind is None else np.dtype(kind)


def _shape_of_product(case: Case) -> tuple[int, ...]:
    m, _, n = case.extents
    return (m, n) if case.batch is None else (case.batch, m, n)


def _shape_of_vector(case: Case) -> tuple[int, ...]:
    return case.extents[:1] if case.trans == "N" else case.extents[1:]


#: By operation, the shape of its result, and its dtype where that is not the operands'.
_RESULTS: dict[str, tuple[Callable[[Case], tuple[int, ...]], Any]] = {
    "gemm": (_shape_of_product, None),
    "gemv": (_shape_of_vector, None),
    "argmax": (lambda case: (), np.uint32),
}
_SCALAR: tuple[Callable[[Case], tuple[int, ...]], Any] = lambda case: (), None
