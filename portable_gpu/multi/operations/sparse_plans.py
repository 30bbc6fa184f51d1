"""The parts of a sparse factor on a group: their devices, and the plans on each device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import element
from portable_gpu.multi.failures import working
from portable_gpu.multi.member import Member
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.plan import Steps
from portable_gpu.runtime.recording import RepeatedSteps
from portable_gpu.runtime.report import DTYPE, FIELDS
from portable_gpu.sparse import Symbolic
from portable_gpu.sparse.memory import scheduled_in_parts
from portable_gpu.sparse.numeric import Numeric
from portable_gpu.sparse.partition import Partition

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup


#: Multiplications and additions of a GPU, and of a CPU, in the time in which an element is moved to
#: another device: estimates, 0.5 ns at 2e13 in a second, and 5 ns at 1e10.
_ELEMENT_WORK = 1e4, 50.0
#: The most numbers of right-hand sides whose substitutions stay recorded: each recording has a
#: kernel object for each launch.
_MOST_COUNTS = 2


class PartPlans:
    """The parts of the fronts, their devices, and the plans on each device.

    Attributes:
        group, symbolic, dtype: The group, the analysis, and the dtype of L.
        partition: The parts.
        first: The device that has the values, the right-hand sides and the solutions.
        owners: The device of each part; with ``on_failure="retry"`` another may compute it.
    """

    def __init__(
        self, group: DeviceGroup, symbolic: Symbolic, dtype: np.dtype[Any], first: Member
    ) -> None:
        self.group, self.symbolic, self.dtype, self.first = group, symbolic, dtype, first
        self.partition = Partition.of(symbolic.fronts)
        on_cpu = all(member.engine.target.is_cpu for member in group.members)
        able = working(group)
        owners = self.partition.owners(group.shares_of(able), _ELEMENT_WORK[on_cpu])
        self.owners = [able[k] for k in owners]
        self._plans: dict[Member, Numeric] = {}
        self._panels: dict[int, tuple[Member, Array]] = {}
        self._updates: dict[tuple[int, Member], Array] = {}
        self._arenas: dict[Member, Array] = {}
        self._status: dict[Member, Array] = {}
        self._values: dict[Member, Array] = {}
        self._repeated: dict[Any, RepeatedSteps] = {}
        self._counts: list[int] = []

    def on(self, member: Member) -> Numeric:
        """Return the plans on a device."""
        if member not in self._plans:
            engine, fronts = member.engine, self.symbolic.fronts
            schedule = scheduled_in_parts(
                fronts, engine.target, element(self.dtype), self.partition
            )
            self._plans[member] = Numeric(engine, self.symbolic, self.dtype, schedule)
        return self._plans[member]

    def panels(self, number: int, member: Member) -> Array:
        """Return memory for the panels of a part on a device, the same in each factorisation."""
        if number in self._panels and self._panels[number][0] is member:
            return self._panels[number][1]
        start, end = self.bounds(number)
        array = member.empty((end - start,), self.dtype)
        self._panels[number] = member, array
        return array

    def update(self, front: int, member: Member) -> Array:
        """Return memory for an update matrix on a device, the same in each factorisation."""
        key = front, member
        if key not in self._updates:
            rows = int(self.symbolic.fronts.rows[front])
            self._updates[key] = member.empty((rows * (rows + 1) // 2,), self.dtype)
        return self._updates[key]

    def arena(self, member: Member) -> cl.Buffer:
        """Return the arena of a device, the same in each factorisation."""
        if member not in self._arenas:
            nbytes = self.on(member).device.arena_bytes
            self._arenas[member] = member.empty((max(1, nbytes),), np.uint8)
        buffer: cl.Buffer = self._arenas[member].base_data
        return buffer

    def status(self, member: Member) -> Array:
        """Return memory of a device for the pivot status of all fronts."""
        if member not in self._status:
            shape = max(1, len(self.symbolic.fronts)), FIELDS
            self._status[member] = member.empty(shape, DTYPE)
        return self._status[member]

    def values(self, member: Member, like: Array) -> Array:
        """Return memory of a device for the values of the matrix."""
        if member not in self._values:
            self._values[member] = member.empty(like.shape, like.dtype)
        return self._values[member]

    def factorise(self, number: int, member: Member) -> RepeatedSteps:
        """Return the factorisation of a part on a device."""
        return self._repeat(("factorise", number, member), self.on(member).chunk(number))

    def begin_solve(self, count: int) -> None:
        """Drop the recordings of the number of right-hand sides that was solved longest ago.

        The calling thread does so before the threads of the devices call :meth:`substitute`.
        """
        others = [other for other in self._counts if other != count]
        self._counts = [*others, count][-_MOST_COUNTS:]
        for key in list(self._repeated):
            if key[0] == "substitute" and key[-1] not in self._counts:
                self._repeated.pop(key, None)

    def substitute(self, number: int, member: Member, forward: bool, count: int) -> RepeatedSteps:
        """Return the substitution with a part on a device; see :meth:`begin_solve`."""
        plan = self.on(member).substitute_chunk(number, forward, count)
        return self._repeat(("substitute", number, member, forward, count), plan)

    def _repeat(self, key: Any, plan: Steps) -> RepeatedSteps:
        if key not in self._repeated:
            self._repeated[key] = RepeatedSteps(plan)
        return self._repeated[key]

    def close(self) -> None:
        """Free the memory."""
        for memory in (self._panels, self._updates, self._arenas, self._status, self._values):
            memory.clear()
        self._repeated.clear()

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the range of a part's panels in the factor."""
        numeric = self.on(self.first)
        return numeric.bounds(numeric.schedule.chunks[number])

    def bytes_of(self, member: Member) -> tuple[int, int]:
        """Return the workspace and the tables of a factorisation on a device."""
        numbers = [k for k, owner in enumerate(self.owners) if owner is member]
        numeric = self.on(member)
        workspace, tables = numeric.memory_of([numeric.chunk(k) for k in numbers])
        updates = sum(self._update_bytes(k) + self.moves(k, member) for k in numbers)
        return workspace + updates, tables

    def columns(self, number: int) -> tuple[int, int]:
        """Return the range of a part's columns in the permuted matrix."""
        ends, first = self.partition.ends, self.symbolic.fronts.first
        return int(first[ends[number - 1] if number else 0]), int(first[ends[number]])

    def contribution(self, number: int, member: Member) -> tuple[int, int]:
        """Return the range of the rows that a part contributes to a solve, on a device."""
        outer = self.partition.outer[number]
        if not len(outer):
            return 0, 0
        start = int(self.on(member).schedule.contribution_start[outer[0]])
        return start, start + int(self.symbolic.fronts.rows[outer].sum())

    def moves(self, number: int, member: Member) -> int:
        """Return the bytes of update matrices that a part needs from other devices."""
        return sum(
            self._update_bytes(k)
            for k in self.partition.sources(number)
            if self.owners[k] is not member
        )

    def _update_bytes(self, number: int) -> int:
        """Return the bytes of the update matrices that a part has for other parts."""
        return int(self.partition.elements[number]) * self.dtype.itemsize
