"""The memory of a factorisation on a device, and the partition of L into chunks that fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.arguments import shown
from portable_gpu.dtypes import Element
from portable_gpu.errors import ArgumentTypeError, DeviceMemoryError
from portable_gpu.ops.fronts.cpu import subtrees_scratch
from portable_gpu.ops.fronts.device import arena_bytes, panels, pivot_status_bytes, table_bytes
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.runtime.devices import choose_device, query_facts
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse.partition import Partition
from portable_gpu.sparse.schedule import Schedule, by_levels, by_subtrees, chunk_ends
from portable_gpu.targets import Target, detect

_Int64 = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes that a factorisation allocates on one device, with the schedule for this device.

    Attributes:
        device: The device's name.
        panels: L; or the resident chunks of L, if ``memory_limit`` partitions it.
        updates: The arena of the update matrices.
        scratch: The fronts that the threads of a CPU factorise at the same time.
        tables: The structure, and the pivot status of each front.
        values: The matrix's values.
        largest: The largest of these buffers.
        available: Memory of the device.
        largest_available: The largest buffer that the device allocates.
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
        """The sum.  Workspace of dense kernels is not included: a few per cent at most."""
        return self.panels + self.updates + self.scratch + self.tables + self.values

    @property
    def fits(self) -> bool:
        """Whether the device has this memory, if nothing else is allocated on it."""
        return self.total <= self.available and self.largest <= self.largest_available

    def check(self) -> None:
        """Raise DeviceMemoryError, with the figures, if it does not fit."""
        if self.fits:
            return
        parts = ", ".join(
            f"{getattr(self, name)} for {what}"
            for name, what in (
                ("panels", "L"), ("updates", "update matrices"), ("scratch", "fronts at work"),
                ("tables", "tables"), ("values", "the matrix"),
            )
        )  # fmt: skip
        raise DeviceMemoryError(
            f"the factorisation takes {self.total} bytes of {self.device}, which has "
            f"{self.available}, {self.largest_available} in a buffer: {parts}; memory_limit= of "
            "cholesky() limits L"
        )


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a factorisation needs.

    Attributes:
        factor: The panels of L.
        updates: The peak of the update matrices, if the tree is processed level by level.
        stack: The peak of the update matrices, if fronts are processed one by one in postorder: the
            minimum.
        tables: The structure: rows, positions, entries, and the matrix's values.
        devices: The memory on each of the devices that were named.
    """

    factor: int
    updates: int
    stack: int
    tables: int
    devices: tuple[DeviceMemory, ...] = ()

    def __repr__(self) -> str:
        names = "".join(f", {device.device!r} {device.total}" for device in self.devices)
        return f"<MemoryEstimate {self.total} bytes, {self.factor} of them the factor{names}>"

    @property
    def total(self) -> int:
        """The sum, with the tree processed level by level."""
        return self.factor + self.updates + self.tables


def targets_of(devices: Any) -> list[Target]:
    """Return the targets of devices.

    Args:
        devices: An engine, a pyopencl device or a name as for ``Engine``; or a list of them.

    Raises:
        ArgumentTypeError: `devices` is something else.
        DeviceNotFoundError: There is no device with this name.
    """
    if isinstance(devices, (Engine, cl.Device, str)):
        devices = [devices]
    targets = []
    if not isinstance(devices, (list, tuple)):
        raise ArgumentTypeError(
            f"devices is {shown(devices)}; expected an engine, a device or a list"
        )
    for item in devices:
        if isinstance(item, Engine):
            targets.append(item.target)
        elif isinstance(item, (cl.Device, str)):
            device = choose_device(item, "devices")[0] if isinstance(item, str) else item
            targets.append(detect(query_facts(device)))
        else:
            raise ArgumentTypeError(
                f"devices has {shown(item)}; expected engines, devices and names"
            )
    return targets


def scheduled(
    fronts: Fronts, target: Target, elem: Element, limit: int | None
) -> tuple[Schedule, int]:
    """Schedule the fronts on a device.

    Args:
        fronts: The fronts.
        target: The device.
        elem: The element type of L.
        limit: The maximum bytes of resident panels.

    Returns:
        The schedule, and the number of resident chunks of panels.

    Raises:
        DeviceMemoryError: The limit is too low.
    """
    ends, resident_chunks = _fitting(fronts, elem, limit)
    if target.is_cpu:
        return by_subtrees(fronts, target.compute_units, elem.itemsize, ends), resident_chunks
    return by_levels(fronts, ends), resident_chunks


def scheduled_in_parts(
    fronts: Fronts, target: Target, elem: Element, partition: Partition
) -> Schedule:
    """Schedule the fronts on a device that computes some parts of them, each as a chunk.

    The rows that the parts contribute to a solve follow each other, part after part, so that those
    of a part are moved in one copy.
    """
    ends = partition.ends if len(partition) else None  # of a matrix without rows, one empty chunk
    if target.is_cpu:  # each part has subtrees for all threads
        threads = target.compute_units * max(1, len(partition))
        schedule = by_subtrees(fronts, threads, elem.itemsize, ends)
    else:
        schedule = by_levels(fronts, ends)
    outer = np.concatenate([*partition.outer, np.zeros(0, np.int64)])
    contribution_start, rows = schedule.contribution_start.copy(), fronts.rows[outer]
    contribution_start[outer] = schedule.rows + np.cumsum(rows) - rows
    return replace(
        schedule, contribution_start=contribution_start, rows=schedule.rows + int(rows.sum())
    )


def memory_on(
    target: Target,
    fronts: Fronts,
    elem: Element,
    nnz: int,
    schedule: Schedule,
    resident_chunks: int,
) -> DeviceMemory:
    """Compute the memory that a factorisation allocates on a device.

    Args:
        target: The device.
        fronts, elem: The fronts and the element type of L.
        nnz: The number of elements of the lower triangle of A.
        schedule, resident_chunks: The results of :func:`scheduled`.
    """
    panel, _, size = panels(fronts, elem)
    ends = np.array([0, *(chunk.end for chunk in schedule.chunks)])
    sizes = np.diff(np.append(panel, size)[ends]) * elem.itemsize
    max_chunk = int(sizes[:-1].max(initial=0))
    resident = max(int(sizes[-1]), min(resident_chunks, len(sizes) - 1) * max_chunk)
    updates, status = arena_bytes(schedule.arena, elem), pivot_status_bytes(fronts)
    scratch = 0
    for chunk in schedule.chunks:
        # A front of a subtree that chunks cut is factorised as a subtree of one front.
        cut_fronts = [
            (front, front + 1)
            for stage, is_alone in zip(chunk.stages, chunk.alone, strict=True)
            if is_alone
            for front in stage.tolist()
        ]
        for subtrees, in_order in ((chunk.subtrees.tolist(), False), (cut_fronts, True)):
            if subtrees:
                nbytes = subtrees_scratch(fronts, subtrees, schedule.peak, target, elem, in_order)
                scratch = max(scratch, nbytes)
    tables = table_bytes(fronts)
    return DeviceMemory(
        device=target.facts.name,
        panels=resident,
        updates=updates,
        scratch=scratch,
        tables=tables + status,
        values=nnz * elem.itemsize,
        largest=max(int(sizes.max()), updates, scratch),
        available=target.facts.global_mem_size,
        largest_available=target.facts.max_alloc_size,
    )


def _fitting(fronts: Fronts, elem: Element, limit: int | None) -> tuple[_Int64 | None, int]:
    """Partition the panels into chunks that fit.

    Returns:
        The end of each chunk, or None if all panels fit; and the number of resident chunks.

    Raises:
        DeviceMemoryError: The limit is too low.
    """
    panel, _, size = panels(fronts, elem)
    if limit is None or size * elem.itemsize <= limit:
        return None, 1
    max_elements = max(1, limit // elem.itemsize)
    for resident_chunks in (2, 1):
        ends = chunk_ends(panel, size, max_elements // resident_chunks)
        sizes = np.diff(np.append(panel, size)[np.append(0, ends)])
        if (sizes[:-1] * resident_chunks <= max_elements).all() and sizes[-1] <= max_elements:
            return ends, resident_chunks
    min_bytes = int(np.diff(np.append(panel, size)).max()) * elem.itemsize
    raise DeviceMemoryError(
        f"memory_limit is {limit} bytes; the largest supernode of this matrix takes {min_bytes}"
    )
