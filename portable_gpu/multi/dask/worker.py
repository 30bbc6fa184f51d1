"""The plugin by which each Dask worker opens its device."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distributed import Client, WorkerPlugin
from distributed.comm import get_address_host

from portable_gpu.arguments import of_kind, whole
from portable_gpu.dtypes import check_precision
from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.multi.dask import device
from portable_gpu.multi.dask.slots import Slot, take_slot
from portable_gpu.runtime.disk_cache import CACHE_VARIABLE
from portable_gpu.version import __version__

_NAME = "portable_gpu-device"
_MAX_WORKERS = 1024  # of one host
_logger = logging.getLogger("distributed.worker")


@dataclass(frozen=True)
class WorkerInfo:
    """The report of a worker on itself.

    Attributes:
        host, process: The host's name and the number of the process.
        rank: The worker's number among those of its host.
        device: The name of its device.
        platform: The OpenCL platform, with its version.
        identity: The name of the device on its host, which no other worker has (of a GPU).
        device_class: The class of kernels that it runs.
        cores: The compute units of the device that it uses.
        memory_limit: Bytes of the device that a task may use; ``None`` for a CPU device.
        threads: The number of its threads, whose calls on the device follow one another.
        programs, seconds: The programs that the warm-up has built or loaded, and its time.
        version: The version of this library.
    """

    host: str
    process: int
    rank: int
    device: str
    platform: str
    identity: str
    device_class: str
    cores: int
    memory_limit: int | None
    threads: int
    programs: int
    seconds: float
    version: str


_info: WorkerInfo | None = None
_opening = threading.Lock()


class DevicePlugin(WorkerPlugin):
    """A Dask ``WorkerPlugin`` that opens the device of each worker.

    A worker's local rank is the lowest free number of its host.  Its GPU is the visible one of that
    number, or the next one that no other worker of this user has.  A worker that replaces a killed
    one gets the same number, and so the same device.  On a CPU device the workers of a host share
    its cores: each is bound to its part of them.

    :func:`use_devices` registers it with the numbers that fit a cluster.  It holds names and
    numbers only, so it pickles.
    """

    name = _NAME

    def __init__(
        self,
        device: str | None = None,
        *,
        workers_per_host: int = 1,
        workers_per_device: int = 1,
        cores: int | None = None,
        memory_limit: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        warm_up: Sequence[str] = (),
        dtypes: Sequence[Any] = ("float32",),
        precision: str = "ieee",
    ) -> None:
        """Store the options of the workers; nothing is opened here.

        Args:
            device: The devices, in the form of ``PORTABLE_GPU_DEVICE``; workers take one each of
                those that match.  Default: that variable of the worker, then GPUs, then a CPU.
            workers_per_host: The number of workers that share the cores of a CPU device.
            workers_per_device: How many workers may use one GPU.
            cores: The cores of a worker on a CPU device.  Default: those that the process may use,
                divided by ``workers_per_host``.
            memory_limit: Bytes of the device that a task may use: products are cut into pieces
                that fit.  Default: four fifths of a GPU's memory, divided by
                ``workers_per_device``; no limit for a CPU device.
            cache: A folder of compiled programs that all workers can read and write, as
                ``PORTABLE_GPU_CACHE``.  Default: that variable of the worker, then the user's.
            warm_up: Operations whose programs are loaded or built before the first task, as
                :meth:`portable_gpu.Engine.warm_up` takes them.
            dtypes: The dtypes of the warm-up.
            precision: The engine's precision of products of float32.

        Raises:
            ArgumentError, ArgumentTypeError: A number is not positive, a name is not a string, or
                ``precision`` is unknown.
        """
        if device is not None:
            of_kind(device, str, "device", "a name in the form of PORTABLE_GPU_DEVICE, or None")
        self.device = device
        self.workers_per_host = _positive(workers_per_host, "workers_per_host")
        self.workers_per_device = _positive(workers_per_device, "workers_per_device")
        self.cores = None if cores is None else _positive(cores, "cores")
        self.memory_limit = (
            None if memory_limit is None else _positive(memory_limit, "memory_limit")
        )
        if cache is not None:
            of_kind(cache, (str, os.PathLike), "cache", "a folder")
        self.cache = None if cache is None else os.fspath(cache)
        of_kind(warm_up, (tuple, list), "warm_up", "a list of names of operations")
        self.warm_up = tuple(of_kind(name, str, "an element of warm_up") for name in warm_up)
        self.dtypes = tuple(dtypes)
        self.precision = check_precision(precision)

    async def setup(self, worker: Any) -> None:
        """Open the device in a thread, so that the worker answers its scheduler meanwhile."""
        threads = int(worker.state.nthreads)
        if threads > 1:
            _logger.warning(
                "this worker has %d threads, whose calls on its device follow one another; set "
                "threads_per_worker=1", threads,
            )  # fmt: skip
        try:
            await asyncio.to_thread(self._open, str(worker.scheduler.address), threads)
        except BaseException as error:
            device.fail(error)
            raise
        _logger.info("%s", _info)

    async def teardown(self, worker: Any) -> None:
        """Close the device."""
        await asyncio.to_thread(device.close_device)

    def _open(self, scheduler: str, threads: int) -> None:
        with _opening:  # workers of one process, which is refused
            self._open_first(scheduler, threads)

    def _open_first(self, scheduler: str, threads: int) -> None:
        if device.is_of_plugin():
            raise UnsupportedError(
                "another worker of this process has opened a device; start each worker in "
                "its own process: LocalCluster(processes=True)"
            )
        device.close_device()
        if self.cache is not None:
            os.environ[CACHE_VARIABLE] = self.cache
        rank = take_slot(f"rank-{scheduler}", _MAX_WORKERS)
        if rank is None:
            raise UnsupportedError(f"{_MAX_WORKERS} workers on this host are too many")
        try:
            self._open_as(rank, threads)
        except BaseException:
            rank.release()
            raise

    def _open_as(self, rank: Slot, threads: int) -> None:
        global _info
        allowed = device.processors()
        cores = self.cores or max(1, len(allowed) // self.workers_per_host)
        if self.workers_per_host > 1 or self.cores is not None:
            device.limit_cores(rank.number, cores)
        opened = device.open_device(
            self.device, self.workers_per_device, self.memory_limit, self.precision, rank
        )
        if not opened.uses_host_memory:
            device.bind(allowed)  # copies to a GPU use several cores
        start = time.monotonic()
        warm = opened.engine.warm_up(*self.warm_up, dtypes=self.dtypes) if self.warm_up else None
        facts = opened.engine.target.facts
        if opened.uses_host_memory and facts.compute_units != cores:
            _logger.warning(
                "the device uses %d cores in place of %d: OpenCL was in use in this worker before "
                "the plugin, or this runtime has a way of its own", facts.compute_units, cores,
            )  # fmt: skip
        _info = WorkerInfo(
            host=socket.gethostname(),
            process=os.getpid(),
            rank=rank.number,
            device=facts.name,
            platform=f"{facts.platform_name}, {facts.platform_version}",
            identity=device.identity(opened.engine.device, facts.name),
            device_class=opened.engine.target.device_class,
            cores=facts.compute_units,
            memory_limit=opened.memory_limit,
            threads=threads,
            programs=warm.programs if warm is not None else 0,
            seconds=time.monotonic() - start,
            version=__version__,
        )


def use_devices(
    client: Client,
    device: str | None = None,
    *,
    workers_per_host: int | None = None,
    workers_per_device: int = 1,
    cores: int | None = None,
    memory_limit: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    warm_up: Sequence[str] = (),
    dtypes: Sequence[Any] = ("float32",),
    precision: str = "ieee",
) -> dict[str, WorkerInfo]:
    """Give each worker of a Dask cluster a device, now and whenever a worker starts later.

    Args:
        client: The client of the cluster.  Workers are processes of their own, started by the
            method ``spawn`` (Dask's default), with one thread each.
        workers_per_host: The number of workers that share the cores of a CPU device.  Default: the
            largest number of present workers on one host, at least 1.  Pass it for a cluster that
            grows, and 1 where a scheduler such as Slurm gives each worker cores of its own.
        device, workers_per_device, cores, memory_limit, cache, warm_up, dtypes, precision: See
            :class:`DevicePlugin`.

    Returns:
        The report of each present worker, by its address: see :func:`info`.

    Raises:
        DeviceNotFoundError: A worker finds no such device, or other workers use all of them.
        UnsupportedError: Two workers run in one process.
        ArgumentError, ArgumentTypeError: As :class:`DevicePlugin`.
    """
    of_kind(client, Client, "client", "a distributed.Client")
    if workers_per_host is None:
        hosts = Counter(get_address_host(address) for address in client.nthreads())
        workers_per_host = max(hosts.values(), default=1)
    plugin = DevicePlugin(
        device,
        workers_per_host=workers_per_host,
        workers_per_device=workers_per_device,
        cores=cores,
        memory_limit=memory_limit,
        cache=cache,
        warm_up=warm_up,
        dtypes=dtypes,
        precision=precision,
    )
    client.register_plugin(plugin)
    return info(client)


def info(client: Client) -> dict[str, WorkerInfo]:
    """Return the reports of the workers on themselves and their devices, by their addresses.

    Workers without a device of the plugin are omitted.
    """
    reports = of_kind(client, Client, "client", "a distributed.Client").run(_report)
    return {address: report for address, report in reports.items() if report is not None}


def _report() -> WorkerInfo | None:
    return _info if device.is_of_plugin() else None


def _positive(value: Any, name: str) -> int:
    number = whole(value, name)
    if number < 1:
        raise ArgumentError(f"{name} is {number}; expected a positive integer")
    return number
