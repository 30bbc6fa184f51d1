"""Several processes that hunt on one GPU.

They build programs and check results side by side, which is most of a hunt's time.  Then they time
what they built, one process after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice
from multiprocessing.util import Finalize

from portable_gpu.bench.hunt import Found, Hunt, Kind, Ready
from portable_gpu.bench.known_peers import open_peers
from portable_gpu.bench.measure import Remark
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

_CASES = 12  # that a process prepares at a time


class Crew:
    """Processes that time random cases on one device.

    The device holds the arrays of a dozen cases of each process, and of as many of each peer.
    """

    def __init__(self, jobs: int, device: str | None, peers: Sequence[str]) -> None:
        """Start ``jobs`` processes."""
        context = multiprocessing.get_context("spawn")  # OpenCL does not survive a fork
        self._members = [
            ProcessPoolExecutor(1, context, initializer=_open, initargs=(device, peers))
            for _ in range(jobs)
        ]

    def over(self, cases: Iterable[tuple[Kind, Case]]) -> Iterator[Found]:
        """What there is to tell of each case, in their order; many are taken at a time.

        Raises:
            PortableGPUError: A process ended by itself.
        """
        left = iter(cases)
        try:
            while block := list(islice(left, len(self._members) * _CASES)):
                pairs = list(zip(cycle(self._members), block))
                prepared = [item.submit(_prepare, str(row), case) for item, (row, case) in pairs]
                for future in prepared:
                    future.result()
                for item, _ in pairs:
                    yield item.submit(_time).result()
        except BrokenExecutor:
            raise PortableGPUError(
                f"one of {len(self._members)} processes of the hunt ended by itself, for want of "
                "memory perhaps; fewer --jobs may do"
            ) from None
        finally:
            for item in self._members:
                item.shutdown(cancel_futures=True)


_hunt: list[Hunt] = []  # of a member: its only one
_ready: list[Ready | Remark] = []  # what it prepared and did not time, the oldest first


def _open(device: str | None, peers: Sequence[str]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # compilers talk
        os.dup2(silent, stream)
    engine, opened = Engine(device), ExitStack()
    result, _ = opened.enter_context(open_peers(peers, engine))
    Finalize(None, opened.close, exitpriority=1)  # a member's end runs no other exit functions
    _hunt.append(Hunt(engine, result))


def _prepare(row: str, case: Case) -> None:
    _ready.append(_hunt[0].prepare(row, case))


def _time() -> Found:
    return _hunt[0].time(_ready.pop(0))
