"""Calls on groups of one device and more, and the same call on one engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from portable_gpu.bench.links import host_rate, pinned_rates, product_rate
from portable_gpu.bench.measure import alternate, ratios
from portable_gpu.bench.multi_call import MultiCall
from portable_gpu.bench.multi_calls import CALLS
from portable_gpu.bench.on_cores import same_bits
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared, calls_a_turn
from portable_gpu.errors import PortableGPUError
from portable_gpu.multi import DeviceGroup, Timeline

#: The largest product by which the rate of a device is measured.
_LARGEST_PRODUCT = 8192
#: Seconds for the turns of a side, of which there are two at least.
_SECONDS, _LEAST_TURNS = 4.0, 2
#: Seconds of a first call from which on compilations do not count.
_LONG = 3.0


@dataclass(frozen=True)
class MultiRow:
    """A call on a group.

    Attributes:
        operation: One of :data:`portable_gpu.bench.multi_calls.CALLS`.
        size: The extent of its matrices or of its cube, or the number of its images.
        dtype: That of its arrays.
        numpy: Whether they are NumPy's, and not on the devices.
        devices: The number of devices.
        seconds: The time of a call, until its values exist.
        alone: That of the same call on one of the devices.
        efficiency: ``alone / (devices * seconds)``, turn by turn.
        bound: The least time by the rates: the longest of those of the devices' operations, of the
            copies to the busiest device and from it, and of the host's copies.
        bound_by: Which one that is: ``devices``, ``up``, ``down`` or ``host``.
        host_seconds: CPU seconds of the calling process, device threads included.
        overlap: The part of the shorter of kernels and copies that ran at the time of the other;
            the least of the devices'.
        error: The error of the result over what rounding admits.
    """

    operation: str
    size: int
    dtype: str
    numpy: bool
    devices: int
    seconds: Statistic
    alone: Statistic
    efficiency: Statistic
    bound: float
    bound_by: str
    host_seconds: float
    overlap: float
    error: float


class MultiBench:
    """Times calls on the first devices of a group: on one, on two, and on all.

    Attributes:
        up, down: For each of these numbers, the bytes in a second that each device receives, and
            sends, while all do.
        host: The bytes in a second that the host copies from memory to memory.
        products: The operations in a second of a product on one device, by its size and dtype.
        timeline: That of the last call.
        stages: Seconds before the calls are timed, by call, size and stage.
    """

    def __init__(self, group: DeviceGroup, turns: int) -> None:
        """Measure the rates of copies."""
        self._group, self._turns = group, turns
        self.up: dict[int, float] = {}
        self.down: dict[int, float] = {}
        for count in sorted({1, min(2, group.size), group.size}):
            self.up[count], self.down[count] = pinned_rates(group.engines[:count])
        self.host = host_rate(self.up[1] < float("inf"))
        self.products: dict[tuple[int, str], float] = {}
        self.timeline: Timeline | None = None
        self.stages: dict[tuple[str, int], dict[str, float]] = {}

    def rows(self, name: str, size: int, dtype: str) -> Iterator[MultiRow]:
        """Time a call.

        Raises:
            PortableGPUError: A result is wrong, or has other bits than that of fewer devices.
        """
        begin = time.perf_counter()
        call = CALLS[name](size, dtype)
        stages = {"operands": time.perf_counter() - begin, **call.preparation}
        self.stages[name, size] = stages
        call.most_devices = self._group.size
        known = None
        for count in self.up:
            devices = [engine.device for engine in self._group.engines[:count]]
            with DeviceGroup(devices, threads=self._group.threads) as group:
                before = time.perf_counter()
                on_group = call.on_group(group)
                begin = time.perf_counter()
                first = on_group()
                _finish(group)
                once = time.perf_counter() - begin
                stages[f"first call on {count}"] = time.perf_counter() - before
                result = call.result(first)
                del first
                if known is None:
                    error = call.error(result, group.engines[0])
                    if not error <= 1:
                        raise PortableGPUError(
                            f"{name} of {size} is wrong: its error is {error:.3g} times what "
                            "rounding admits"
                        )
                elif not same_bits(result, known):
                    raise PortableGPUError(
                        f"{name} of {size} on {count} devices has other bits than on one"
                    )
                known = result
                del result
                if count > 1 or not call.alone_is_group:
                    try:
                        row = self._row(call, group, on_group, once, error)
                    finally:
                        call.close()
                    yield row

    def _row(
        self,
        call: MultiCall,
        group: DeviceGroup,
        on_group: Callable[[], Any],
        once: float,
        error: float,
    ) -> MultiRow:
        """Time a call, whose first one took the seconds ``once``."""
        engine = self._group.engines[0]
        sides = [
            Prepared([on_group], partial(_finish, group)),
            Prepared([call.on_engine(engine)], engine.queue.finish),
        ]
        first = [once, sides[1].seconds(0, 1)]
        warm = [
            seconds if seconds > _LONG else side.seconds(0, 1)
            for seconds, side in zip(first, sides, strict=True)
        ]
        turns = min(self._turns, max(_LEAST_TURNS, int(_SECONDS / max(warm))))
        times = alternate(sides, [calls_a_turn(seconds) for seconds in warm], turns)
        begin = time.process_time()
        with group.timeline() as self.timeline:
            on_group()
        host = time.process_time() - begin
        alone = Statistic.of(times[1])
        bound_by, bound = self._bound(call, group.size, alone.median)
        return MultiRow(
            operation=call.name, size=call.size, dtype=str(call.dtype), numpy=call.numpy,
            devices=group.size, seconds=Statistic.of(times[0]), alone=alone,
            efficiency=Statistic.of([ratio / group.size for ratio in ratios(*times)]), bound=bound,
            bound_by=bound_by, host_seconds=host,
            overlap=min(self.timeline.overlap(device) for device in range(group.size)), error=error,
        )  # fmt: skip

    def _bound(self, call: MultiCall, devices: int, alone: float) -> tuple[str, float]:
        work = call.work(devices)
        parts = {
            "up": work.up / self.up[devices],
            "down": work.down / self.down[devices],
            "host": work.host / self.host if self.up[devices] < float("inf") else 0.0,
            "devices": alone / devices,
        }
        if work.flop:
            key = min(call.size, _LARGEST_PRODUCT), str(call.dtype)
            if key not in self.products:
                self.products[key] = product_rate(self._group.engines[0], key[0], call.dtype)
            parts["devices"] = work.flop / devices / self.products[key]
        return max(parts.items(), key=lambda part: part[1])


def _finish(group: DeviceGroup) -> None:
    for member in group.members:
        member.finish()
