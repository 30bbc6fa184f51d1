"""Processes that build programs for one device and leave them in the cache on disk.

Threads of one process build programs almost one after the other, because drivers and Python have
locks.  The processes share nothing but the folder of the cache, whose files are written by rename.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor, wait
from ctypes import c_bool
from multiprocessing import active_children, get_context
from types import TracebackType
from typing import TypeVar

from portable_gpu.bench.worker_process import interrupts_blocked, settle
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import DeviceMemoryError, PortableGPUError
from portable_gpu.runtime.engine import Engine
from portable_gpu.side_by_side import cores

_Name = TypeVar("_Name")

#: The most processes: each holds some 0.3 GB of the host's memory, and of a GPU's.
_MOST = 16


class Builders:
    """Processes that build programs for the device of an engine.

    This process builds programs itself if compiled programs are not kept on disk; and, after a
    warning, if one of the processes cannot start, cannot open the device or has died, perhaps
    because memory was short.
    """

    def __init__(self, engine: Engine, device: str | None, processes: int | None = None) -> None:
        """Make the pool, whose processes start at the first build.

        Args:
            engine: The engine of this process.
            device: The request for its device, in the syntax of ``PORTABLE_GPU_DEVICE``.
            processes: Their number; by default one for each core, up to 16.
        """
        self._engine = engine
        self._built: set[str] = set()
        self._others = set(active_children())
        self._pool: ProcessPoolExecutor | None = None
        context = get_context("spawn")
        # Without a lock, which a process that is killed could hold.
        self._is_stopped = context.RawValue(c_bool, False)
        if engine.programs.keeps_binaries:
            self._pool = ProcessPoolExecutor(
                processes or min(_MOST, cores()), context, _open, (device, self._is_stopped)
            )

    def __enter__(self) -> Builders:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes: after the program that each builds, or at once on an exception.

        Programs are stored by rename, so that a process may be killed at any time.  An interrupt
        while processes are awaited would leave them running.
        """
        if error is not None and self._pool is not None:
            for process in set(active_children()) - self._others:
                process.kill()
        self._close()

    def build(self, texts: Mapping[_Name, Iterable[Specialization]], until: float) -> list[_Name]:
        """Build texts, and return the names of those that are all built.

        A text that the driver refuses counts as built: its use reports the error.  One that fails
        for lack of memory, or by an error of the system, does not.  When the method returns, the
        processes have nothing left to do.

        Args:
            texts: The texts by their names, in the order in which they are built.
            until: The value of :func:`time.monotonic` after which no build is started.
        """
        requested = {name: {spec.key: spec for spec in specs} for name, specs in texts.items()}
        new = {key: spec for specs in requested.values() for key, spec in specs.items()}
        new = {key: spec for key, spec in new.items() if key not in self._built}
        if self._pool is not None:
            try:
                self._build_there(self._pool, new, until)
            except (BrokenExecutor, PortableGPUError, OSError) as error:
                warnings.warn(
                    f"one of the processes that build programs has failed ({error}); this process "
                    "builds alone",
                    stacklevel=2,
                )
                self._close()
        if self._pool is None:
            self._build_here({k: spec for k, spec in new.items() if k not in self._built}, until)
        return [name for name, specs in requested.items() if self._built.issuperset(specs)]

    def _build_there(
        self, pool: ProcessPoolExecutor, specs: Mapping[str, Specialization], until: float
    ) -> None:
        self._is_stopped.value = False
        try:
            with interrupts_blocked():  # this starts the processes
                futures = {key: pool.submit(_build, spec) for key, spec in specs.items()}
            wait(futures.values(), max(0.0, until - time.monotonic()))
        finally:  # some of the others are in a queue of the pool, which cannot cancel them
            self._is_stopped.value = True
        sent = {key: future for key, future in futures.items() if not future.cancel()}
        troubles = [future.exception() for future in sent.values()]
        self._built |= {
            key
            for (key, future), trouble in zip(sent.items(), troubles, strict=True)
            if trouble is None and future.result()
        }
        for trouble in filter(None, troubles):
            raise trouble

    def _build_here(self, specs: Mapping[str, Specialization], until: float) -> None:
        for key, spec in specs.items():
            if time.monotonic() >= until:
                return
            if _build_by(self._engine, spec):
                self._built.add(key)

    def _close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None


#: The one engine of a worker process, or why it has none; and whether it shall start no builds.
_workers: list[tuple[Engine | str, c_bool]] = []


def _open(device: str | None, is_stopped: c_bool) -> None:
    settle()
    try:
        engine: Engine | str = Engine(device, caller=False)
    except (PortableGPUError, OSError) as error:  # an error here would only be logged
        engine = str(error)
    _workers.append((engine, is_stopped))


def _build(spec: Specialization) -> bool:
    """Build a program unless the main process has stopped; return whether it is built.

    Raises:
        PortableGPUError: This process has no engine.
    """
    engine, is_stopped = _workers[0]
    if is_stopped.value:
        return False
    if isinstance(engine, str):
        raise PortableGPUError(engine)
    return _build_by(engine, spec)


def _build_by(engine: Engine, spec: Specialization) -> bool:
    """Build a program; return whether it is built or refused by the driver."""
    try:
        engine.programs.program(spec)
    except (DeviceMemoryError, OSError):
        return False
    except PortableGPUError:
        pass
    return True
