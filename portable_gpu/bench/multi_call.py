"""A call that ``portable-gpu bench multi`` times: its operands, its work and its check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.dtypes import dtype_of
from portable_gpu.multi import DeviceGroup, GroupArray
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asnumpy

Values = np.ndarray[Any, Any]
#: An error of this many times what is usual for rounding errors is a wrong result.
MANY = 32.0


@dataclass(frozen=True)
class CallWork:
    """The work of a call on several devices, from which the least time follows.

    Attributes:
        flop: Its operations, if it is bounded by the rate of products; else 0, and it is bounded by
            the time of one engine.
        up, down: The bytes that the busiest device receives, and those that it sends.
        host: The bytes that the host copies from memory to memory.
    """

    flop: float = 0.0
    up: float = 0.0
    down: float = 0.0
    host: float = 0.0


class MultiCall(ABC):
    """A call that is timed on groups of devices, and on one engine.

    Attributes:
        name: Its name.
        numpy: Whether its arrays are NumPy's, and not on the devices.
        alone_is_group: Whether :meth:`on_engine` calls it with a group of one device.
        usual: Its sizes on CPUs, and on other devices.
        packages: Packages that it needs and that may be missing.
        dtypes: The dtypes of its arrays that it can check.
        most_devices: The number of devices of the largest group on which it is timed.
        alone: The group of one device that :meth:`on_engine` made, if it did.
        preparation: Seconds of parts of the preparation of the operands.
    """

    name: str
    numpy = False
    alone_is_group = False
    usual: tuple[tuple[int, ...], tuple[int, ...]] = ((1024,), (4096, 16384))
    packages: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ("float16", "bfloat16", "float32", "float64")
    most_devices = 1
    alone: DeviceGroup | None = None

    def __init__(self, size: int, dtype: str) -> None:
        """Make the operands in NumPy."""
        self.size, self.dtype = size, dtype_of(dtype)
        self.preparation: dict[str, float] = {}

    @abstractmethod
    def on_group(self, group: DeviceGroup) -> Callable[[], Any]:
        """Copy the operands to the devices, and return the call."""

    @abstractmethod
    def on_engine(self, engine: Engine) -> Callable[[], Any]:
        """Copy the operands to one device, and return the call."""

    def close(self) -> None:
        """Close the group of :meth:`on_engine`, if it made one."""
        if self.alone is not None:
            self.alone.close()
            self.alone = None

    @abstractmethod
    def error(self, result: Values, engine: Engine) -> float:
        """Return the error of a result over what rounding admits, 1 at most."""

    def work(self, devices: int) -> CallWork:
        """Return the work of a call."""
        return CallWork()

    def result(self, result: Any) -> Values:
        """Return a result in NumPy."""
        if isinstance(result, GroupArray):
            return result.asnumpy()
        return np.asarray(asnumpy(result))
