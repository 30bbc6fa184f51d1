"""Where calls made of several others run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.ops.factors import factor
from portable_gpu.ops.gemm.binding import compute_element
from portable_gpu.ops.gemm.product import Product, multiply
from portable_gpu.runtime.array import DEVICE_KINDS, Array
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.place import check_place, events_of
from portable_gpu.runtime.registry import queue_for, state_for
from portable_gpu.runtime.report import reports_of
from portable_gpu.runtime.transfer import asarray, asnumpy

_NO_EPILOGUE = Epilogue()


@dataclass(frozen=True)
class Place:
    """Where the calls run, and how they multiply.

    Attributes:
        engine, queue: As the caller gave them.
        wait_for: A list of the caller's events; every call waits for them, for any of the calls
            may be the first to read an array.
        precision: Of products of float32.
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
        """Of calls without products."""
        return {"engine": self.engine, "queue": self.queue, "wait_for": self.wait_for}

    @property
    def of_products(self) -> dict[str, Any]:
        """Of calls with products."""
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


def on_one_side(
    work: Callable[..., Any], arrays: Sequence[Any], place: Place, check: str = "late"
) -> Any:
    """The result of work on arrays; on the device, with the reports of the arrays and its own.

    NumPy's arrays are brought to a device that does not work on the host's memory once, not for
    each of the calls that the work is made of; and so are those that stand beside device arrays.
    """
    check_place(place.engine, place.queue)
    on_device = [x for x in arrays if isinstance(x, DEVICE_KINDS)]
    engine = state_for(on_device, place.engine, place.queue).engine
    if not on_device and engine.maps_host_memory:
        return work(*arrays)
    queue = queue_for(on_device, place.queue) or engine.queue
    moved = [asarray(x, queue=queue) if isinstance(x, np.ndarray) else x for x in arrays]
    result = carrying(work(*moved), *moved)
    if not on_device:
        return asnumpy(result)
    if check == "now":
        result.check()
    return result


def carrying(result: Any, *arrays: Any) -> Any:
    """``result``, which on the device has the reports of arrays that it depends on, and its own."""
    if isinstance(result, Array):
        result.reports = reports_of(*arrays, result)
    return result
