"""Several processes that hunt on one GPU.

They build programs and check results side by side, which is most of a hunt's time.  They use the
device one at a time, and nobody builds while another one times.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from portable_gpu.bench.hunt import First, Found, Hunt, Kind
from portable_gpu.bench.known_peers import open_peers
from portable_gpu.bench.measure import Remark
from portable_gpu.bench.queued import hold_of
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

_CASES = 8  # of each process between two times that all of them build


class Crew:
    """Processes that time random cases on one device."""

    def __init__(self, jobs: int, device: str | None, peers: Sequence[str]) -> None:
        """Start ``jobs`` processes; they share programs through the cache on disk."""
        context = multiprocessing.get_context("spawn")  # OpenCL does not survive a fork
        self._block = jobs * _CASES
        self._processes = ProcessPoolExecutor(
            jobs, context, initializer=_open, initargs=(context.Lock(), device, peers)
        )

    def over(self, cases: Iterable[tuple[Kind, Case]]) -> Iterator[Found]:
        """What there is to tell of each case, in their order; some are taken at a time."""
        left = iter(cases)
        try:
            while block := list(islice(left, self._block)):
                rows, cases_ = [str(row) for row, _ in block], [case for _, case in block]
                firsts = list(self._processes.map(_first, cases_))
                yield from self._processes.map(_run, rows, cases_, firsts)
        finally:
            self._processes.shutdown(cancel_futures=True)


_hunt: list[Hunt] = []  # of a process of a crew: its only one


def _open(lock: AbstractContextManager[Any], device: str | None, peers: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # compilers talk
        os.dup2(silent, stream)
    engine = Engine(device)
    if not engine.maps_host_memory:
        with lock:
            hold_of(engine)
    _hunt.append(Hunt(engine, open_peers(peers, engine)[0], lock))


def _first(case: Case) -> First | Remark:
    return _hunt[0].first(case)


def _run(row: str, case: Case, first: First | Remark) -> Found:
    return _hunt[0].run(row, case, first)
