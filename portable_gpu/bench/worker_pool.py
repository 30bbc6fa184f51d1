"""A hunt in several processes on one GPU.

The processes build programs and check results in parallel, which takes most of the time of a hunt.
Then they time their cases, one process after the other.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, ProcessPoolExecutor
from contextlib import ExitStack
from itertools import chain, cycle, islice, repeat
from multiprocessing.util import Finalize

from portable_gpu.bench.hunt import Found, Hunt, HuntRow, Ready
from portable_gpu.bench.known_peers import open_peers
from portable_gpu.bench.measure import Remark
from portable_gpu.bench.worker_process import settle
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.engine import Engine

# Cases that a process prepares at a time: few at first, so that a short hunt times cases too.
_FIRST_CASES = (1, 2, 4, 8)
_CASES = 12


class WorkerPool:
    """Processes that time random cases on one device.

    The device has the arrays of at most 12 cases of each process and of each peer.
    """

    def __init__(self, jobs: int, device: str | None, peers: Sequence[str]) -> None:
        """Start ``jobs`` processes."""
        context = multiprocessing.get_context("spawn")  # OpenCL does not survive a fork
        self._members = [
            ProcessPoolExecutor(1, context, initializer=_open, initargs=(device, peers))
            for _ in range(jobs)
        ]

    def over(self, cases: Iterable[tuple[HuntRow, Case]]) -> Iterator[Found]:
        """Yield the result of each case, in order; the processes prepare many cases in parallel.

        Raises:
            PortableGPUError: A process ended, for example because memory was exhausted.
        """
        left = iter(cases)
        try:
            for count in chain(_FIRST_CASES, repeat(_CASES)):
                block = list(islice(left, len(self._members) * count))
                if not block:
                    return
                pairs = list(zip(cycle(self._members), block))
                prepared = [item.submit(_prepare, str(row), case) for item, (row, case) in pairs]
                for future in prepared:
                    future.result()
                for item, _ in pairs:
                    yield item.submit(_time).result()
        except BrokenExecutor:
            raise PortableGPUError(
                f"one of the {len(self._members)} processes of the hunt ended, perhaps because "
                "memory was exhausted; use fewer --jobs"
            ) from None
        finally:
            for item in self._members:
                item.shutdown(cancel_futures=True)


_hunt: list[Hunt] = []  # the hunt of a worker process, which has one
_ready: list[Ready | Remark] = []  # cases that are prepared and not yet timed, the oldest first


def _open(device: str | None, peers: Sequence[str]) -> None:
    settle()
    engine, opened = Engine(device), ExitStack()
    result, _ = opened.enter_context(open_peers(peers, engine))
    Finalize(None, opened.close, exitpriority=1)  # a worker runs no other exit functions
    _hunt.append(Hunt(engine, result))


def _prepare(row: str, case: Case) -> None:
    _ready.append(_hunt[0].prepare(row, case))


def _time() -> Found:
    return _hunt[0].time(_ready.pop(0))
