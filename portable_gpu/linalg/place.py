"""The engine, queue and events of functions that make several calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.ops.factors import factor
from portable_gpu.ops.gemm.binding import compute_element
from portable_gpu.ops.gemm.call import Product, multiply
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place, events_of
from portable_gpu.runtime.registry import queue_for, state_for
from portable_gpu.runtime.report import reports_of
from portable_gpu.runtime.transfer import asarray, asnumpy

_NO_EPILOGUE = Epilogue()


@dataclass(frozen=True)
class Place:
    """The engine and queue of a function's calls, and the precision of their products.

    Attributes:
        engine, queue: The arguments of the function.
        wait_for: The events of the caller, as a list.  Every call waits for them, because any of
            the calls may be the first that reads an array.
        precision: The precision of products of float32.
    """

    engine: Engine | None
    queue: cl.CommandQueue | None
    wait_for: Sequence[cl.Event] | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        if self.wait_for is not None:  # it may be an iterator, and several calls read it
            object.__setattr__(self, "wait_for", events_of(self.wait_for))

    @property
    def options(self) -> dict[str, Any]:
        """The keyword arguments of calls without products."""
        return {"engine": self.engine, "queue": self.queue, "wait_for": self.wait_for}

    @property
    def of_products(self) -> dict[str, Any]:
        """The keyword arguments of calls with products."""
        return {**self.options, "precision": self.precision}

    def product(
        self,
        a: Any,
        b: Any,
        trans_a: str = "N",
        c: Any = None,
        alpha: complex = 1,
        beta: complex = 0,
    ) -> Any:
        """``alpha * op(a) @ b + beta * c`` of stacks of matrices that broadcast, into ``c``."""
        rows = a.shape[-2] if trans_a == "N" else a.shape[-1]
        shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), rows, b.shape[-1])
        elem = compute_element(a.dtype, b.dtype)
        product = Product(
            a, b, c, "c", shape, np.result_type(a, b), trans_a, "N",
            factor(alpha, "alpha", elem), factor(beta, "beta", elem), _NO_EPILOGUE, self.precision,
        )  # fmt: skip
        return multiply(product, self.engine, self.queue, self.wait_for)


def on_common_device(
    work: Callable[..., Any], arrays: Sequence[Any], place: Place, check: str
) -> Any:
    """Return ``work(*arrays)``; a device array has the reports of the arrays, and its own.

    NumPy arrays are copied to the device once, and not by each of the calls of ``work``, if the
    device does not work on the host's memory or if other arrays are on the device.
    """
    check_place(place.engine, place.queue)
    on_device = [x for x in arrays if isinstance(x, DEVICE_KINDS)]
    engine = state_for(on_device, place.engine, place.queue).engine
    if not on_device and engine.maps_host_memory:
        return work(*arrays)
    queue = queue_for(on_device, place.queue) or engine.queue
    moved = [asarray(x, queue=queue) if isinstance(x, np.ndarray) else x for x in arrays]
    result = with_reports(work(*moved), *moved)
    if not on_device:
        return asnumpy(result)
    if check == "now":
        result.check()
    return result


def with_reports(result: Any, *arrays: Any) -> Any:
    """Add the reports of the arrays that a result depends on, if it is a device array."""
    if isinstance(result, Array):
        result.reports = reports_of(*arrays, result)
    return result
