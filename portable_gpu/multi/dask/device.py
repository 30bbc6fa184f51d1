"""The device of a worker process: its choice, and its use by tasks.

Tasks run in worker processes and call :func:`device`.  It provides the device that the worker's
:class:`~portable_gpu.multi.dask.DevicePlugin` has opened.  Without a plugin, as in Dask's threaded
scheduler, it is the default engine, opened by the first task.  Nothing here opens a device when it
is imported.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.errors import DeviceNotFoundError
from portable_gpu.multi.dask.slots import Slot, take_slot
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.devices import choose_device, devices_like
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import default_engine
from portable_gpu.runtime.transfer import asarray
from portable_gpu.runtime.views import new_array

#: The part of a GPU's memory that its workers use by default; drivers need some, too.
_USED_FRACTION = 0.8
#: Queries that distinguish the GPUs of one host, independent of their numbers in a process.
_IDENTITIES = ("uuid_khr", "pci_bus_id_nv", "pci_slot_id_nv", "topology_amd", "pci_bus_info_khr")
#: The number of cores that PoCL uses: its versions before 4, and newer ones.
_POCL_CORES = ("POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT")


@dataclass
class WorkerDevice:
    """An engine that the tasks of a process use one after the other.

    Attributes:
        engine: The engine.
        memory_limit: Bytes of the device that one task may use; ``None`` for a CPU device, whose
            memory Dask limits itself.
        slots: The numbers that the process has on this host: its local rank, and one of a GPU.
    """

    engine: Engine
    memory_limit: int | None
    slots: list[Slot] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        #: Copies run on this queue under the kernels of the engine's own queue.
        self.copies = cl.CommandQueue(self.engine.context, self.engine.device)

    @property
    def uses_host_memory(self) -> bool:
        """Whether kernels work on NumPy's memory in place."""
        return self.engine.maps_host_memory

    def upload(self, values: np.ndarray[Any, Any]) -> Array:
        """Copy an array to the device, in C order, while kernels run on it.

        A chunk that another worker sends may have another order of axes there, and the bits of a
        result do not depend on that.
        """
        return asarray(values, order="C", engine=self.engine, queue=self.copies)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array on the device for a result of the engine's own queue."""
        result: Array = new_array(self.engine.state(), self.engine.queue, shape, dtype)
        return result

    def close(self) -> None:
        """Close the engine and release the slots."""
        self.engine.close()
        for slot in self.slots:
            slot.release()


_lock = threading.RLock()
_device: WorkerDevice | None = None
_failure: BaseException | None = None
_processors: set[int] | None = None


@contextlib.contextmanager
def device() -> Iterator[WorkerDevice]:
    """Provide the device of this process, for one task at a time.

    Raises:
        DeviceNotFoundError: There is none, or the worker's plugin could not open it.
        ForkError: The process was forked from one that had used OpenCL.
    """
    global _device
    with _lock:
        if _failure is not None:
            raise DeviceNotFoundError(f"this worker has no device: {_failure}") from _failure
        if _device is None or _device.engine.is_closed:
            _device = WorkerDevice(default_engine(), None)
            _device.memory_limit = _default_limit(_device.engine, 1)
        current = _device
    with current.lock:
        yield current


def open_device(
    request: str | None,
    workers_per_device: int,
    memory_limit: int | None,
    precision: str,
    rank: Slot,
) -> WorkerDevice:
    """Open a device for the tasks of this process.

    Args:
        request: Device, platform or part of a name, in the form of ``PORTABLE_GPU_DEVICE``.
        workers_per_device: How many processes may use one GPU.
        memory_limit: Bytes of the device that one task may use.
        precision: The engine's.
        rank: The process's number among those of this host.

    Raises:
        DeviceNotFoundError: There is no such device, or others use all of them.
    """
    global _device
    chosen, slots = choose_device(request)[0], [rank]
    if not chosen.type & cl.device_type.CPU:
        chosen, slot = _free_device(devices_like(chosen, request), workers_per_device, rank.number)
        slots.append(slot)
    try:
        engine = Engine(chosen, precision=precision)
        limit = memory_limit or _default_limit(engine, workers_per_device)
        opened = WorkerDevice(engine, limit, slots)
    except BaseException:
        for slot in slots[1:]:
            slot.release()
        raise
    with _lock:
        _device = opened
    return opened


def close_device() -> None:
    """Close the device of this process; a later task opens the default one."""
    global _device, _failure
    with _lock:
        closing, _device, _failure = _device, None, None
    if closing is not None:
        with closing.lock:
            closing.close()


def fail(error: BaseException) -> None:
    """Let the tasks of this process fail with the error that kept its device from being opened."""
    global _failure
    _failure = error


def is_of_plugin() -> bool:
    """Return whether a plugin has opened the device of this process, and not a task."""
    return _device is not None and bool(_device.slots)


def processors() -> set[int]:
    """Return the processors that this process was allowed to use when it started."""
    global _processors
    if _processors is None:
        known = hasattr(os, "sched_getaffinity")
        _processors = os.sched_getaffinity(0) if known else set(range(os.cpu_count() or 1))
    return _processors


def limit_cores(rank: int, cores: int) -> None:
    """Bind this process to its share of the processors that it may use, for OpenCL on the CPU.

    The share of process ``rank`` is processors ``rank * cores`` to ``(rank + 1) * cores - 1`` of
    those; if there are fewer, processes are not bound, and share them.  PoCL reads the number of
    cores when its devices are first listed.
    """
    for name in _POCL_CORES:
        os.environ[name] = str(cores)
    allowed = sorted(processors())
    share = allowed[rank * cores : (rank + 1) * cores]
    if len(share) == cores < len(allowed):
        bind(set(share))


def bind(processors: set[int]) -> None:
    """Bind all threads of this process, and those that they start, to some processors."""
    threads = Path("/proc/self/task")
    for thread in threads.iterdir() if threads.is_dir() else ():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.sched_setaffinity(int(thread.name), processors)


def identity(device: cl.Device, index: str) -> str:
    """Return a name of a GPU that is the same in all processes, which may number it differently."""
    known = []
    for query in _IDENTITIES:
        with contextlib.suppress(cl.Error, AttributeError):
            known.append(_text(getattr(device, query)))
    return "-".join([device.platform.name.strip(), device.name.strip(), *(known or [index])])


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    fields = ("pcie", "domain", "bus", "device", "function")
    parts = [str(getattr(value, name)) for name in fields if hasattr(value, name)]
    return "-".join(parts) or str(value)


def _free_device(
    candidates: Sequence[tuple[str, cl.Device]], workers_per_device: int, rank: int
) -> tuple[cl.Device, Slot]:
    """Return the first GPU with a free slot, from number ``rank`` on; unused GPUs are first."""
    first = rank % len(candidates)
    for count in range(1, workers_per_device + 1):
        for index, candidate in [*candidates[first:], *candidates[:first]]:
            slot = take_slot(identity(candidate, index), count)
            if slot is not None:
                return candidate, slot
    names = ", ".join(f"{index} {device.name.strip()}" for index, device in candidates)
    raise DeviceNotFoundError(
        f"other processes use all of the devices {names}, {workers_per_device} on each; start "
        "fewer workers on this host, or set a larger workers_per_device"
    )


def _default_limit(engine: Engine, workers_per_device: int) -> int | None:
    if engine.maps_host_memory:
        return None
    return int(engine.target.facts.global_mem_size * _USED_FRACTION) // workers_per_device
