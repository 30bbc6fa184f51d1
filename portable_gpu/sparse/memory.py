"""What a factorisation holds on a device, and how L is cut where that is too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.dtypes import Element
from portable_gpu.errors import DeviceMemoryError, DTypeError
from portable_gpu.ops.fronts.cpu import subtrees_scratch
from portable_gpu.ops.fronts.device import arena_bytes, panels, table_bytes, told_bytes
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.runtime.devices import choose_device, query_facts
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse.schedule import Schedule, by_levels, by_subtrees, chunk_ends
from portable_gpu.targets import Target, detect

_Int64 = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes that a factorisation holds on one device, by the way that it takes there.

    Attributes:
        device: Its name.
        panels: L, or as much of it as there is at a time where ``memory_limit`` cuts it.
        updates: The arena of the update matrices.
        scratch: The fronts that a CPU's threads have at work.
        tables: The structure, and what fronts tell of their pivots.
        values: The matrix's values.
        largest: The largest buffer of them.
        available: Memory of the device.
        largest_available: The largest buffer that it gives.
    """

    device: str
    panels: int
    updates: int
    scratch: int
    tables: int
    values: int
    largest: int
    available: int
    largest_available: int

    @property
    def total(self) -> int:
        """All of it.  Workspace of dense kernels comes on top: a few per cent at the most."""
        return self.panels + self.updates + self.scratch + self.tables + self.values

    @property
    def fits(self) -> bool:
        """Whether the device has as much, if nothing else is on it."""
        return self.total <= self.available and self.largest <= self.largest_available

    def check(self) -> None:
        """Raise DeviceMemoryError, with the figures, unless it fits."""
        if self.fits:
            return
        told = ", ".join(
            f"{getattr(self, name)} for {what}"
            for name, what in (
                ("panels", "L"), ("updates", "update matrices"), ("scratch", "fronts at work"),
                ("tables", "tables"), ("values", "the matrix"),
            )
        )  # fmt: skip
        raise DeviceMemoryError(
            f"the factorisation takes {self.total} bytes of {self.device}, which has "
            f"{self.available}, {self.largest_available} in a buffer: {told}; memory_limit= of "
            "cholesky() limits L"
        )


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a factorisation needs.

    Attributes:
        factor: The panels of L.
        updates: Update matrices at their peak, where the tree is worked off level by level.
        stack: The same front after front: the least that there can be.
        tables: The structure: rows, places, entries, and the matrix's values.
        devices: What each of the devices that were named would hold.
    """

    factor: int
    updates: int
    stack: int
    tables: int
    devices: tuple[DeviceMemory, ...] = ()

    def __repr__(self) -> str:
        names = "".join(f", {one.device!r} {one.total}" for one in self.devices)
        return f"<MemoryEstimate {self.total} bytes, {self.factor} of them the factor{names}>"

    @property
    def total(self) -> int:
        """All of it, level by level."""
        return self.factor + self.updates + self.tables


def targets_of(devices: Any) -> list[Target]:
    """The targets of some devices, or of one.

    Args:
        devices: Engines, pyopencl devices, or names as ``Engine`` takes them; or one of them.

    Raises:
        DTypeError: It is something else.
        DeviceNotFoundError: No device has such a name.
    """
    if isinstance(devices, (Engine, cl.Device, str)):
        devices = [devices]
    found = []
    if not isinstance(devices, (list, tuple)):
        raise DTypeError(f"devices is {shown(devices)}; an engine, a device or a list would do")
    for one in devices:
        if isinstance(one, Engine):
            found.append(one.target)
        elif isinstance(one, (cl.Device, str)):
            device = choose_device(one, "devices")[0] if isinstance(one, str) else one
            found.append(detect(query_facts(device)))
        else:
            raise DTypeError(f"devices has {shown(one)}; engines, devices and names would do")
    return found


def scheduled(
    fronts: Fronts, target: Target, elem: Element, limit: int | None
) -> tuple[Schedule, int]:
    """The order of the fronts on a device, and how many chunks of panels are there at a time.

    Args:
        fronts: The fronts.
        target: The device.
        elem: Elements of L.
        limit: Bytes that panels may take at a time.

    Raises:
        DeviceMemoryError: The limit is too low.
    """
    ends, rooms = _fitting(fronts, elem, limit)
    if target.is_cpu:
        return by_subtrees(fronts, target.compute_units, elem.itemsize, ends), rooms
    return by_levels(fronts, ends), rooms


def memory_on(
    target: Target, fronts: Fronts, elem: Element, nnz: int, schedule: Schedule, rooms: int
) -> DeviceMemory:
    """What a device holds at the same time.

    Args:
        target: The device.
        fronts, elem: Of L.
        nnz: Elements of the lower triangle of A.
        schedule, rooms: As :func:`scheduled` found them.
    """
    panel, _, size = panels(fronts, elem)
    ends = np.array([0, *(chunk.end for chunk in schedule.chunks)])
    sizes = np.diff(np.append(panel, size)[ends]) * elem.itemsize
    most = int(sizes[:-1].max(initial=0))
    held = max(int(sizes[-1]), min(rooms, len(sizes) - 1) * most)
    updates, told = arena_bytes(schedule.arena, elem), told_bytes(fronts)
    scratch = 0
    for chunk in schedule.chunks:
        alone = [
            stage for stage, is_alone in zip(chunk.stages, chunk.alone, strict=True) if is_alone
        ]
        whole = [(one, one + 1) for stage in alone for one in stage.tolist()]
        for subtrees, in_order in ((chunk.subtrees.tolist(), False), (whole, True)):
            if subtrees:
                found = subtrees_scratch(fronts, subtrees, schedule.peak, target, elem, in_order)
                scratch = max(scratch, found)
    tables = table_bytes(fronts)
    return DeviceMemory(
        device=target.facts.name,
        panels=held,
        updates=updates,
        scratch=scratch,
        tables=tables + told,
        values=nnz * elem.itemsize,
        largest=max(int(sizes.max()), updates, scratch),
        available=target.facts.global_mem_size,
        largest_available=target.facts.max_alloc_size,
    )


def _fitting(fronts: Fronts, elem: Element, limit: int | None) -> tuple[_Int64 | None, int]:
    """Where chunks of panels end, if they do not all fit, and how many have a room at a time.

    Raises:
        DeviceMemoryError: The limit is too low.
    """
    panel, _, size = panels(fronts, elem)
    if limit is None or size * elem.itemsize <= limit:
        return None, 1
    most = max(1, limit // elem.itemsize)
    for rooms in (2, 1):
        ends = chunk_ends(panel, size, most // rooms)
        sizes = np.diff(np.append(panel, size)[np.append(0, ends)])
        if (sizes[:-1] * rooms <= most).all() and sizes[-1] <= most:
            return ends, rooms
    least = int(np.diff(np.append(panel, size)).max()) * elem.itemsize
    raise DeviceMemoryError(
        f"memory_limit is {limit} bytes; the largest supernode of this matrix takes {least}"
    )
