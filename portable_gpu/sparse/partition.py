r"""The partition of the fronts of a factorisation into parts for several devices.

Below a limit of work whole subtrees are in one part.  Above it each front whose subtree branches is
a part of its own, and a chain of fronts with its small subtrees is one::

            t
          /   \
         s     u              parts: [a] [b] s [c] [d e] u t
        / \   / \
       a   b c  d e           d and e are small, so they share a part

The fronts of a part are neighbours in postorder.  The parts follow from the fronts alone, and each
part is computed by one device, so results have the same bits for any number of devices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from portable_gpu.ops.fronts.device import update_sizes
from portable_gpu.ops.fronts.table import Fronts
from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.schedule import costs, summed

_Int32 = np.ndarray[Any, np.dtype[np.int32]]
_Int64 = np.ndarray[Any, np.dtype[np.int64]]
_Floats = np.ndarray[Any, np.dtype[np.float64]]

#: A subtree in one part has at most this share of all work.
_SHARE = 1 / 32
#: Multiplications and additions of the least part: some milliseconds of a core.
_LEAST_WORK = 2e7
#: Rounds in which assignments are improved; the last one is that with less gain than this.
_ROUNDS, _LEAST_GAIN = 4, 0.99


@dataclass(frozen=True, eq=False)
class Partition:
    """Parts of the fronts, in postorder.

    Attributes:
        ends: The end of each part's fronts.
        outer: The fronts of each part whose parent is in another part.
        targets: The parts of these parents, ascending; each is an ancestor of those before it.
        work: Multiplications and additions of each part.
        elements: The elements of the update matrices that each part has for other parts.
        levels: Parts that do not depend on each other, level by level from the leaves.
    """

    ends: _Int64
    outer: tuple[_Int64, ...]
    targets: tuple[tuple[int, ...], ...]
    work: tuple[float, ...]
    elements: tuple[float, ...]
    levels: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(fronts: Fronts) -> Partition:
        """Partition the fronts of a factorisation."""
        cost = costs(fronts)
        subtree, size = summed(fronts.parent, cost), summed(fronts.parent, np.ones(len(fronts)))
        limit = max(_SHARE * float(cost.sum()), _LEAST_WORK)
        is_above = subtree > limit
        branches = np.zeros(len(fronts), np.int32)
        np.add.at(branches, fronts.parent[is_above & (fronts.parent >= 0)], 1)
        first = np.arange(len(fronts)) + 1 - size.astype(np.int64)
        ends = part_ends(fronts.parent, cost, subtree, first, branches, limit)
        part = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        above = np.where(fronts.parent < 0, part, part[fronts.parent])
        leaving = np.flatnonzero(above != part)
        outer = np.split(leaving, np.searchsorted(leaving, ends[:-1])) if len(ends) else []
        targets = tuple(tuple(np.unique(above[which]).tolist()) for which in outer)
        work = np.add.reduceat(cost, [0, *ends[:-1]]) if len(fronts) else np.zeros(0)
        updates = update_sizes(fronts)
        elements = tuple(float(updates[which].sum()) for which in outer)
        return Partition(
            ends, tuple(outer), targets, tuple(work.tolist()), elements, _levels(targets)
        )

    def __len__(self) -> int:
        return len(self.ends)

    def sources(self, number: int) -> list[int]:
        """Return the parts with children of a part's fronts."""
        return [k for k in range(number) if number in self.targets[k]]

    def ancestors(self, number: int) -> list[int]:
        """Return the parts with ancestors of a part's fronts."""
        result: set[int] = set()
        new = set(self.targets[number])
        while new:
            result |= new
            new = {above for part in new for above in self.targets[part]} - result
        return sorted(result)

    def owners(self, shares: Sequence[float], element_work: float) -> list[int]:
        """Assign each part to a device, so that the factorisation ends early.

        It begins with the better of proportional mapping and of one device for all parts.  Then
        subtrees of parts, and single parts, are assigned to other devices as long as that shortens
        the estimated time.

        Args:
            shares: The fraction of the work that each device gets; their sum is 1.
            element_work: The multiplications and additions of a device in the time in which an
                element of an update matrix is moved to another device.
        """
        devices = [k for k, share in enumerate(shares) if share > 0]
        starts = [self._mapped(shares), *([device] * len(self) for device in devices)]
        best, result = min((self._time(each, shares, element_work), each) for each in starts)
        for _ in range(_ROUNDS):
            before = best
            for number in range(len(self) - 1, -1, -1):
                for moved in (self._subtree(number), [number]):
                    for device in devices:
                        trial = list(result)
                        for part in moved:
                            trial[part] = device
                        time = self._time(trial, shares, element_work)
                        if time < best:
                            best, result = time, trial
            if best > _LEAST_GAIN * before:
                break
        return result

    def _time(self, owners: Sequence[int], shares: Sequence[float], element_work: float) -> float:
        """Estimate the time of a factorisation, level by level; the unit is that of `work`."""
        done = [0.0] * len(self)
        ready = [0.0] * len(self)  # when the update matrices of a part's sources have come
        clock = [0.0] * len(shares)
        busy = sum(share > 0 for share in shares)
        for level in self.levels:
            for number in level:
                device = owners[number]
                begin = max(clock[device], ready[number])
                done[number] = begin + self.work[number] / (shares[device] * busy)
                clock[device] = done[number]
                for target in self.targets[number]:
                    moves = owners[target] != device
                    arrival = done[number] + moves * self.elements[number] * element_work
                    ready[target] = max(ready[target], arrival)
        return max(clock)

    def _subtree(self, number: int) -> list[int]:
        """Return a part and those of which it is an ancestor."""
        inside = {number}
        for part in range(number - 1, -1, -1):
            if self.targets[part] and self.targets[part][0] in inside:
                inside.add(part)
        return sorted(inside)

    def _mapped(self, shares: Sequence[float]) -> list[int]:
        """Assign each part to a device in proportion to work.

        A root has the interval from 0 to 1; children divide that of their parent in proportion to
        the work of their subtrees.  The middle of a part's interval decides.  So a device has
        neighbouring subtrees and the parts above them, and few update matrices are moved.

        Source: Pothen and Sun, SIAM J. Sci. Comput. 14(5), 1993: proportional mapping.
        """
        subtree = list(self.work)
        for number, targets in enumerate(self.targets):
            if targets:
                subtree[targets[0]] += subtree[number]
        roots = sum(work for work, above in zip(subtree, self.targets, strict=True) if not above)
        start, width, used = [0.0] * len(self), [0.0] * len(self), [0.0] * (len(self) + 1)
        for number in range(len(self) - 1, -1, -1):
            above = self.targets[number][0] if self.targets[number] else len(self)
            begin, extent = (start[above], width[above]) if above < len(self) else (0.0, 1.0)
            whole = subtree[above] - self.work[above] if above < len(self) else roots
            width[number] = extent * subtree[number] / whole
            used[above] += width[number]  # the last child has the end of the interval
            start[number] = begin + extent - used[above]
        devices = [k for k, share in enumerate(shares) if share > 0]
        ends = list(accumulate(shares[k] for k in devices))[:-1]
        middles = [a + b / 2 for a, b in zip(start, width, strict=True)]
        return [devices[bisect_left(ends, middle)] for middle in middles]


@compiled
def part_ends(
    parent: _Int32,
    cost: _Floats,
    subtree: _Floats,
    first: _Int64,
    branches: _Int32,
    limit: float,
) -> _Int64:
    """Compute the end of each part.

    Args:
        parent: The parent of each front, or -1.
        cost, subtree: The work of each front, and of its subtree.
        first: The first front of each subtree.
        branches: The number of children with a subtree above the limit.
        limit: The maximum work of subtrees in a part.
    """
    count = len(parent)
    ends = np.empty(count, np.int64)
    parts, begin, load, last = 0, 0, 0.0, -1  # last: of the part's fronts above the limit
    for s in range(count):
        above = parent[s]
        if subtree[s] > limit:
            start, work = s, cost[s]
            if branches[s] == 0:  # its children are small subtrees
                joins = last == -1 and begin <= first[s] and load + work <= 2 * limit
            else:
                joins = branches[s] == 1 and last != -1 and parent[last] == s
        elif above == -1 or subtree[above] > limit:  # the root of a small subtree
            start, work = first[s], subtree[s]
            if last == -1:
                joins = load + work <= limit
            else:
                joins = above != -1 and parent[last] == above and branches[above] == 1
        else:
            continue
        if not joins and start > begin:
            ends[parts] = start
            parts, begin, load, last = parts + 1, start, 0.0, -1
        load += work
        if subtree[s] > limit:
            last = s
    if count:
        ends[parts] = count
        parts += 1
    return ends[:parts].copy()


def _levels(targets: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the parts of each level; sources of a part are in earlier ones."""
    level = [0] * len(targets)
    for number, above in enumerate(targets):
        for part in above:
            level[part] = max(level[part], level[number] + 1)
    return tuple(
        tuple(part for part, its in enumerate(level) if its == k)
        for k in range(max(level, default=-1) + 1)
    )
