"""The costs of work on a device: the figures of the estimates of variants.

The figures are rows of ``data/costs/*.json``, each for a device by its name, for a device class or
for any device, with their evidence.  A row for a class was measured on one device of that class.
The row for any device is used for classes without measurements: its figures order the variants of
one problem, and are poor estimates of seconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from portable_gpu.dtypes import Element
from portable_gpu.targets import Target

C = TypeVar("C", bound="Costs")
_DATA = Path(__file__).parent / "data" / "costs"
#: The device of a row that serves every class without one.
ANY = "any"


@dataclass(frozen=True)
class Costs:
    """The figures of one kernel, or of the device; subclasses name them.

    A field is a number, or numbers by name (of shape classes).
    """

    @classmethod
    def of(cls: type[C], name: str, target: Target) -> C:
        """The figures ``name`` of a target by its name, of its class, or else of any device."""
        result: C = cls._of_device(name, target.facts.name, target.device_class)
        return result

    @classmethod
    @cache
    def _of_device(cls: type[C], name: str, device: str, device_class: str) -> C:
        rows, devices = _rows(), (device, f"class:{device_class}", ANY)
        values = next(rows[name, item] for item in devices if (name, item) in rows)
        return cls(**{field.name: values[field.name] for field in fields(cls)})


@dataclass(frozen=True)
class DeviceCosts(Costs):
    """The costs that every estimate uses.

    Attributes:
        launch: Seconds between the starts of two kernels with hardly any work in one queue.
        enqueue: Seconds of the host for a launch.
        multiply_adds: Multiply-adds of float32 per second and compute unit, with the best register
            tiles.
        bandwidth: Bytes of memory read per second and compute unit.
    """

    launch: float
    enqueue: float
    multiply_adds: float
    bandwidth: float

    def seconds(self, device: float, launches: int = 1) -> float:
        """The time of a call whose kernels take ``device`` seconds without their launches.

        It is the mean of two times: that of a call in a full queue, which is the device's time, and
        that of a call in an empty queue, which is the longer of the device's and the host's.
        """
        in_line = device + launches * self.launch
        return (in_line + max(in_line, launches * self.enqueue)) / 2


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


@cache
def _rows() -> dict[tuple[str, str], Mapping[str, Any]]:
    result = {}
    for path in sorted(_DATA.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
            result[row["costs"], row["device"]] = row["values"]
    return result
