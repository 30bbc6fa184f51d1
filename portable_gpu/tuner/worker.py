"""The referee in its own process, which may crash in a compiler or be ended if a kernel hangs."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from portable_gpu.bench.worker_process import settle
from portable_gpu.errors import PortableGPUError
from portable_gpu.tuner.jobs import TuningJob
from portable_gpu.tuner.referee import Race, Referee, TrialError, TrialTimeoutError
from portable_gpu.tuning.policy import TunedPolicy

_MAX_WAIT = 2.0  # seconds that a killed process may take to end


class Worker:
    """A :class:`~portable_gpu.tuner.referee.Judge` in another process, with time limits.

    The process starts at the first request, and again at the next request after it has ended.
    """

    def __init__(self, device: str | None = None) -> None:
        """``device`` as :class:`~portable_gpu.Engine` takes it."""
        self._device = device
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def race(
        self, job: TuningJob, policy: TunedPolicy, other: TunedPolicy, turns: int, limit: float
    ) -> Race:
        """See :meth:`~portable_gpu.tuner.referee.Judge.race`."""
        race: Race = self._ask("race", (job, policy, other, turns), limit)
        return race

    def verify(self, job: TuningJob, policy: TunedPolicy, limit: float) -> str:
        """See :meth:`~portable_gpu.tuner.referee.Judge.verify`."""
        return str(self._ask("verify", (job, policy), limit))

    def close(self) -> None:
        """End the process."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None
        if self._process is not None:
            self._process.kill()
            self._process.join(_MAX_WAIT)
            self._process = None

    def _ask(self, method: str, arguments: tuple[Any, ...], limit: float) -> Any:
        end = time.monotonic() + limit
        pipe = self._pipe or self._start()
        try:
            pipe.send((method, arguments))
            if not pipe.poll(max(0.0, end - time.monotonic())):
                self.close()
                raise TrialTimeoutError(f"no answer within {limit:.0f} s")
            failure, value = pipe.recv()
        except (EOFError, OSError):
            code = self._exit_code()
            self.close()
            raise TrialError(f"the process that ran it ended ({code})") from None
        except BaseException:  # else a late answer would be read as that of the next request
            self.close()
            raise
        if failure:
            raise TrialError(failure)
        return value

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")  # OpenCL does not survive a fork
        here, there = context.Pipe()
        process = context.Process(target=_serve, args=(there, self._device), daemon=True)
        process.start()
        there.close()
        self._process, self._pipe = process, here
        return here

    def _exit_code(self) -> str:
        if self._process is None:
            return "not started"
        self._process.join(_MAX_WAIT)
        return f"exit code {self._process.exitcode}"


def _serve(pipe: Connection, device: str | None) -> None:
    """Answer requests until the pipe is closed."""
    settle()
    referee: Referee | None = None
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            referee = referee or Referee(device)
            answer = "", getattr(referee, method)(*arguments)
        except (PortableGPUError, RuntimeError, MemoryError, ValueError) as error:
            first_line = (str(error).splitlines() or [""])[0]
            answer = f"{type(error).__name__}: {first_line}", None
        try:
            pipe.send(answer)
        except OSError:
            return
