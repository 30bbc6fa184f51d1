"""The costs of work on a device, on which every estimate of a variant rests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from portable_gpu.dtypes import Element
from portable_gpu.tuning.figures import Figures


@dataclass(frozen=True)
class DeviceCosts(Figures):
    """The costs that every estimate uses.

    Attributes:
        launch: Seconds between the starts of two kernels with hardly any work in one queue.
        enqueue: Seconds of the host for a launch.
        multiply_adds: Multiply-adds of float32 per second and compute unit, with the best register
            tiles.
        bandwidth: Bytes of memory read per second and compute unit.
        starts, factors: Corrections of estimates, measured by ``portable-gpu calibrate``, by the
            kind of the variant: seconds in addition to an estimate, and its factor.
    """

    launch: float
    enqueue: float
    multiply_adds: float
    bandwidth: float
    starts: Mapping[str, float]
    factors: Mapping[str, float]

    def bound(self, estimate: float) -> float:
        """A lower bound of the corrected estimates of all kinds, if they are above ``estimate``."""
        return estimate * min(1.0, *self.factors.values()) if self.factors else estimate

    def seconds(self, device: float, launches: int = 1, kind: str = "") -> float:
        """The time of a call whose kernels take ``device`` seconds without their launches.

        The estimate of a variant of a ``kind`` is corrected by what was measured on the device.

        It is the mean of two times: that of a call in a full queue, which is the device's time, and
        that of a call in an empty queue, which is the longer of the device's and the host's.
        """
        if kind in self.factors:
            device = self.starts.get(kind, 0.0) + self.factors[kind] * device
        in_line = device + launches * self.launch
        return (in_line + max(in_line, launches * self.enqueue)) / 2


@dataclass(frozen=True)
class ThreadCosts(Figures):
    """The costs by which a call on a CPU runs on the calling thread, or on the worker threads.

    Attributes:
        bandwidth, flop: Bytes of memory and flop of one thread per second.
        cached: Bytes per second of arrays that the last cache holds since an earlier call.
        waking: Seconds by which worker threads delay work that bytes and flop estimate.
        first, following: Seconds by which they delay the first launch of work whose kernels are
            estimated, and each launch after it.
        short: Seconds of one thread up to which a call on device arrays runs there.  A call that is
            enqueued returns at once, so they are fewer than those of calls on NumPy arrays.
    """

    bandwidth: float
    cached: float
    flop: float
    waking: float
    first: float
    following: float
    short: float


#: The factor by which reading takes longer if each element is in another line of memory.
MOST_WASTE = 8.0


def overlapped(computing: float, moving: float) -> float:
    """Seconds of a kernel that computes and moves data at once: somewhat more than the longer time.

    It increases with both times, so variants that move the same data are ordered by their
    computing.
    """
    return float((computing**4 + moving**4) ** 0.25)


def stride_waste(stride: int) -> float:
    """The factor by which reading elements at a stride takes longer than reading adjacent ones."""
    return min(MOST_WASTE, max(1.0, float(abs(stride))))


def multiply_adds(compute: Element) -> int:
    """The cost of a multiply-add of a type, in multiply-adds of float32."""
    is_double = compute.itemsize // compute.components > 4
    return (4 if compute.complex else 1) * (2 if is_double else 1)
