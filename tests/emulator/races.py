"""Races between the warps of a group: shared memory that two touch with no barrier between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from emulator.memory import Fault

_SEVERAL = -2


class Races:
    """The threads that read and wrote each byte of shared memory since the group's last barrier.

    It knows no barrier but those of the whole group: not for kernels with ``mbarrier``.
    """

    def __init__(self, nbytes: int) -> None:
        self._nobody = np.full(nbytes, -1)
        self.barrier()

    def barrier(self) -> None:
        """All threads have met."""
        self._reader, self._writer = self._nobody.copy(), self._nobody.copy()

    def read(self, at: Any, size: int, threads: Any) -> None:
        """Threads read ``size`` bytes each.

        Raises:
            Fault: Another warp has written there.
        """
        places, warps = _touched(at, size, threads)
        self._check(self._writer[places], warps, "reads what another has written")
        before = self._reader[places]
        self._reader[places] = warps
        shared = (self._reader[places] != warps) | ((before != -1) & (before != warps))
        self._reader[places[shared]] = _SEVERAL

    def write(self, at: Any, size: int, threads: Any) -> None:
        """Threads write ``size`` bytes each.

        Raises:
            Fault: Another warp has read or written there.
        """
        places, warps = _touched(at, size, threads)
        self._check(self._reader[places], warps, "overwrites what another has read")
        self._check(self._writer[places], warps, "overwrites what another has written")
        self._writer[places] = warps
        self._check(self._writer[places], warps, "overwrites what another has written")

    def _check(self, others: Any, warps: Any, what: str) -> None:
        if np.any((others != -1) & (others != warps)):
            raise Fault(f"a warp {what}, with no barrier between them")


def _touched(at: Any, size: int, threads: Any) -> tuple[Any, Any]:
    places = (np.asarray(at)[:, None] + np.arange(size)).reshape(-1)
    return places, np.repeat(np.asarray(threads) // 32, size)
