r"""The partition of the fronts of a factorisation into parts for several devices.

A subtree is small if its work is below a limit.  All fronts of a small subtree are in one part, and
several small subtrees may share a part.  The other fronts form chains: a chain is a part, together
with small subtrees of its fronts::

            t
          /   \
         s     u              parts: [a] [b] s [c] [d e] u t
        / \   / \
       a   b c  d e

There are seven parts.  The subtrees a to e are small; of these only d and e are together below the
limit, so they share a part.

The fronts of a part are neighbours in postorder.  The parts depend on the fronts only, and each
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

#: The work of a small subtree is at most this share of all work, or `_LEAST_LIMIT` if that is more.
_SHARE = 1 / 32
#: Multiplications and additions of some milliseconds of a core.
_LEAST_LIMIT = 2e7
#: Rounds in which an assignment is improved.  A round that shortens the estimated time by a smaller
#: share than the least gain is the last one.
_ROUNDS, _LEAST_GAIN = 4, 0.01


@dataclass(frozen=True, eq=False)
class Partition:
    """Parts of the fronts, in postorder.

    Attributes:
        ends: One more than the number of each part's last front.
        outer: For each part, its roots: the fronts whose parent is in another part.
        targets: For each part, the parts of these parents, ascending; each is an ancestor of those
            before it.
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
        limit = max(_SHARE * float(cost.sum()), _LEAST_LIMIT)
        is_large = subtree > limit
        large_children = np.zeros(len(fronts), np.int32)
        np.add.at(large_children, fronts.parent[is_large & (fronts.parent >= 0)], 1)
        first = np.arange(len(fronts)) + 1 - size.astype(np.int64)
        ends = part_ends(fronts.parent, cost, subtree, first, large_children, limit)
        part = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
        part_of_parent = np.where(fronts.parent < 0, part, part[fronts.parent])
        all_outer = np.flatnonzero(part_of_parent != part)
        outer = np.split(all_outer, np.searchsorted(all_outer, ends[:-1])) if len(ends) else []
        targets = tuple(tuple(np.unique(part_of_parent[roots]).tolist()) for roots in outer)
        work = np.add.reduceat(cost, [0, *ends[:-1]]) if len(fronts) else np.zeros(0)
        updates = update_sizes(fronts)
        elements = tuple(float(updates[roots].sum()) for roots in outer)
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
            new = {target for part in new for target in self.targets[part]} - result
        return sorted(result)

    def owners(self, shares: Sequence[float], element_work: float) -> list[int]:
        """Assign each part to a device, so that the factorisation ends early.

        The first assignment is the better of two: proportional mapping, or one device for all
        parts.  Then each subtree of parts, and each single part, is assigned to another device if
        that shortens the estimated time.

        Args:
            shares: The fraction of the work that each device gets; their sum is 1.
            element_work: The multiplications and additions of a device in the time in which an
                element of an update matrix is moved to another device.
        """
        devices = [k for k, share in enumerate(shares) if share > 0]
        first = [self._mapped(shares), *([device] * len(self) for device in devices)]
        best, result = min((self._time(owners, shares, element_work), owners) for owners in first)
        for _ in range(_ROUNDS):
            before = best
            for number in range(len(self) - 1, -1, -1):
                subtree = self._subtree(number)
                for reassigned in (subtree, [number]) if len(subtree) > 1 else (subtree,):
                    for device in devices:
                        trial = list(result)
                        for part in reassigned:
                            trial[part] = device
                        time = self._time(trial, shares, element_work)
                        if time < best:
                            best, result = time, trial
            if before - best < _LEAST_GAIN * before:
                break
        return result

    def _time(self, owners: Sequence[int], shares: Sequence[float], element_work: float) -> float:
        """Estimate the time of a factorisation, level by level; the unit is that of `work`."""
        done = [0.0] * len(self)
        ready = [0.0] * len(self)  # the time at which a part has the update matrices of its sources
        clock = [0.0] * len(shares)  # the time at which a device has computed its parts so far
        busy = sum(share > 0 for share in shares)
        for level in self.levels:
            for number in level:
                device = owners[number]
                begin = max(clock[device], ready[number])
                # shares[device] * busy: the speed of this device relative to the mean.
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

        The interval from 0 to 1 is divided among the devices by their shares, and among the roots
        by the work of their subtrees.  Children divide the interval of their parent in the same
        way.  A part is assigned to the device whose interval contains the middle of its own.  So a
        device has neighbouring subtrees and their ancestors, and few update matrices are moved.

        Source: Pothen and Sun, SIAM J. Sci. Comput. 14(5), 1993: proportional mapping.
        """
        subtree = list(self.work)
        for number, targets in enumerate(self.targets):
            if targets:
                subtree[targets[0]] += subtree[number]
        of_roots = sum(
            work for work, targets in zip(subtree, self.targets, strict=True) if not targets
        )
        start, width, used = [0.0] * len(self), [0.0] * len(self), [0.0] * (len(self) + 1)
        for number in range(len(self) - 1, -1, -1):
            if self.targets[number]:
                parent = self.targets[number][0]
                begin, extent = start[parent], width[parent]
                of_children = subtree[parent] - self.work[parent]
            else:
                parent, begin, extent, of_children = len(self), 0.0, 1.0, of_roots
            width[number] = extent * subtree[number] / of_children
            used[parent] += width[number]  # the last child has the end of the interval
            start[number] = begin + extent - used[parent]
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
    large_children: _Int32,
    limit: float,
) -> _Int64:
    """Compute the end of each part.

    A front is large if the work of its subtree is above the limit.  A chain is a path of large
    fronts, each the only large child of the next one.  In postorder each large front, and each
    small subtree whose parent is large, joins the part before it or begins a new one:

    * A small subtree joins other small subtrees if the part then has at most the limit of work.
    * A small subtree joins a chain if its parent is the next front of that chain.
    * A large front without large children begins a chain.  It joins the part of the small subtrees
      below it if all of them are in that part, which then has at most twice the limit of work.
    * A large front with one large child joins the chain that ends at this child.
    * A large front with several large children begins a part.

    Args:
        parent: The parent of each front, or -1.
        cost, subtree: The work of each front, and of its subtree.
        first: The first front of each subtree.
        large_children: The number of large children of each front.
        limit: The maximum work of a small subtree.
    """
    count = len(parent)
    ends = np.empty(count, np.int64)
    parts, begin, load = 0, 0, 0.0  # complete parts; the first front and the work of the next one
    chain = -1  # the last large front of that part
    for s in range(count):
        above = parent[s]
        if subtree[s] > limit:
            start, work = s, cost[s]
            if large_children[s] == 0:
                joins = chain == -1 and begin <= first[s] and load + work <= 2 * limit
            else:
                joins = large_children[s] == 1 and chain != -1 and parent[chain] == s
        elif above == -1 or subtree[above] > limit:  # the root of a small subtree
            start, work = first[s], subtree[s]
            if chain == -1:
                joins = load + work <= limit
            else:
                joins = above != -1 and parent[chain] == above and large_children[above] == 1
        else:
            continue
        if not joins and start > begin:
            ends[parts] = start
            parts, begin, load, chain = parts + 1, start, 0.0, -1
        load += work
        if subtree[s] > limit:
            chain = s
    if count:
        ends[parts] = count
        parts += 1
    return ends[:parts].copy()


def _levels(targets: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the parts of each level; the sources of a part are in earlier levels."""
    level = [0] * len(targets)
    for number, of_number in enumerate(targets):
        for target in of_number:
            level[target] = max(level[target], level[number] + 1)
    return tuple(
        tuple(part for part, level_of_part in enumerate(level) if level_of_part == k)
        for k in range(max(level, default=-1) + 1)
    )
