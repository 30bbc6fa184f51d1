"""The panels of a sparse factor on the devices of a group, and solves with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.errors import UnsupportedError
from portable_gpu.multi import moves, transfers
from portable_gpu.multi.issue import LEAST_BYTES_FOR_THREADS
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations.operands import recorded_kernels
from portable_gpu.multi.operations.sparse_plans import PartPlans
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.report import DTYPE, FIELDS
from portable_gpu.runtime.views import View
from portable_gpu.sparse.numeric import SYSTEMS, operand_of
from portable_gpu.sparse.parts import FactorParts


class _FactorPart(NamedTuple):
    """A factorised part: its device, its panels, and its update matrices by their fronts."""

    member: Member
    panels: Array
    updates: dict[int, Array]


class GroupPanels(FactorParts):
    """The panels of one factorisation; see :class:`portable_gpu.sparse.parts.FactorParts`."""

    def __init__(self, plans: PartPlans, values: View, panels: View, report: View) -> None:
        """Factorise, and wait.

        Args:
            plans: The plans.
            values, panels, report: The views of the operands of a factorisation, on the first
                device; there are no panels.

        Raises:
            DeviceMemoryError, DeviceFailedError: A device lacks memory, or fails.
        """
        self._plans = plans
        self._parts: dict[int, _FactorPart] = {}
        group, partition = plans.group, plans.partition
        self._values = {plans.first: _array_of(plans.first, values)}
        self._status: dict[Member, Array] = {}
        for level in partition.levels:
            owners = [plans.owners[k] for k in level]
            moved = sum(plans.moves(k, m) for k, m in zip(level, owners, strict=True))

            def work(member: Member, index: int, level: tuple[int, ...] = level) -> _FactorPart:
                return self._factorise(member, level[index])

            done = group.for_blocks(owners, work, waits=moved >= LEAST_BYTES_FOR_THREADS)
            self._parts.update(zip(level, done, strict=True))
        self._report(report)
        del self._values, self._status

    def _factorise(self, member: Member, number: int) -> _FactorPart:
        """Enqueue the factorisation of a part."""
        plans, partition = self._plans, self._plans.partition
        fronts, itemsize = plans.symbolic.fronts, plans.dtype.itemsize
        numeric, state = plans.on(member), member.engine.state()
        queue, device = member.engine.queue, numeric.device
        arena = plans.arena(member)
        first, end = partition.ends[number - 1] if number else 0, partition.ends[number]
        for k in partition.sources(number):
            part = self._parts[k]
            updates = {f: u for f, u in part.updates.items() if first <= fronts.parent[f] < end}
            if part.member is not member:
                fetched = {front: plans.update(front, member) for front in updates}
                boxes = [moves.all_bytes(updates[front], fetched[front]) for front in updates]
                moves.move_boxes(part.member, boxes, member)
                updates = fetched
            for front, update in updates.items():
                _copy(queue, update, arena, int(device.update[front]) * itemsize)
        values, status = self._values_for(member), self._status_for(member)
        (start, _), panels = plans.bounds(number), plans.panels(number, member)
        # The operands of a plan of a factorisation: values, panels, report, updates, status.
        buffers = [values.base_data, panels.base_data, state.empty_buffer, arena, status.base_data]
        offsets = (values.offset // itemsize, -start, 0, 0, 0)
        with recorded_kernels(member, number):
            plans.factorise(number, member).enqueue(state, buffers, offsets)
        updates = {front: plans.update(front, member) for front in partition.outer[number].tolist()}
        for front, update in updates.items():
            copied = cl.enqueue_copy(
                queue, update.base_data, arena, byte_count=update.nbytes,
                src_offset=int(device.update[front]) * itemsize,
            )  # fmt: skip
            update.events = [copied]
        queue.flush()
        return _FactorPart(member, panels, updates)

    def _values_for(self, member: Member) -> Array:
        """Return the values of the matrix on a device; the first one has them."""
        first = self._plans.first
        if member not in self._values:
            source = self._values[first]
            target = self._plans.values(member, source)
            moves.move_boxes(first, [moves.all_bytes(source, target)], member)
            self._values[member] = target
        return self._values[member]

    def _status_for(self, member: Member) -> Array:
        """Return the pivot status of all fronts, which is written for the parts of a device."""
        if member not in self._status:
            self._status[member] = self._plans.status(member)
        return self._status[member]

    def _report(self, report: View) -> None:
        """Write the report of a factorisation: the first column that failed, and its pivot."""
        plans, first = self._plans, self._plans.first
        if not plans.symbolic.n:
            return
        status = np.empty((len(plans.symbolic.fronts), FIELDS), DTYPE)
        ends = plans.partition.ends
        for member, status_of_member in self._status.items():
            member.finish()
            host = np.empty_like(status)
            transfers.download(member, status_of_member, host)
            for number, part in self._parts.items():
                if part.member is member:
                    which = slice(ends[number - 1] if number else 0, ends[number])
                    status[which] = host[which]
        target, state = self._status_for(first), first.engine.state()
        transfers.upload(first, status, target)
        buffers = [state.empty_buffer, state.empty_buffer, report.buffer, state.empty_buffer]
        plan = plans.on(first).report()
        plan.enqueue(state, [*buffers, target.base_data], (0, 0, report.offset, 0, 0))
        first.finish()

    def solve(self, system: str, count: int, b: View, x: View) -> None:
        """See :meth:`FactorParts.solve`."""
        plans = self._plans
        first, n = plans.first, plans.symbolic.n
        numeric, state = plans.on(first), first.engine.state()
        permuted = first.empty((n, count), plans.dtype)
        permute = numeric.permute_rhs(system, count, operand_of(b))
        event = permute.enqueue(state, [b.buffer, permuted.base_data], (b.offset, 0))
        permuted.add_event(state.event(event))
        first.engine.queue.flush()  # copies on another queue wait for the event
        steps = _Substitution(plans, self._parts, permuted)
        if "L" in SYSTEMS[system]:
            steps.forward()
        if "H" in SYSTEMS[system]:
            steps.backward()
        steps.gather()
        unpermute = numeric.unpermute_solution(system, count, operand_of(x))
        unpermute.enqueue(state, [x.buffer, permuted.base_data], (x.offset, 0))
        first.finish()

    def inverse_diagonal(self, out: View) -> None:
        """See :meth:`FactorParts.inverse_diagonal`."""
        raise no_inverse()

    def panels(self) -> np.ndarray[Any, Any]:
        """See :meth:`FactorParts.panels`."""
        numeric = self._plans.on(self._plans.first)
        whole = np.empty(numeric.device.size, self._plans.dtype)
        for number, part in self._parts.items():
            start, end = self._plans.bounds(number)
            transfers.download(part.member, part.panels, whole[start:end])
        return whole

    def close(self) -> None:
        """See :meth:`FactorParts.close`."""
        self._parts.clear()


class _Substitution:
    """A solve with the parts: on each device the right-hand sides, and contributions to them."""

    def __init__(self, plans: PartPlans, parts: Mapping[int, _FactorPart], x: Array) -> None:
        """Copy the right-hand sides to each device.

        Args:
            plans: The plans.
            parts: The factorised parts.
            x: The permuted right-hand sides on the first device, n x count; the solution replaces
                them.
        """
        self._plans, self._parts, self._count = plans, parts, x.shape[1]
        plans.begin_solve(self._count)
        first = plans.first
        members = dict.fromkeys(part.member for part in parts.values())
        self._x = {m: x if m is first else moves.move(first, x, m) for m in members}
        self._x[first] = x
        self._contributions = {
            m: m.empty((max(1, plans.on(m).schedule.rows), self._count), plans.dtype)
            for m in members
        }
        self._events: dict[int, cl.Event] = {}

    def forward(self) -> None:
        """Replace B by ``L^-1 B``, from the leaves to the roots."""
        partition = self._plans.partition
        there: set[tuple[int, Member]] = set()  # each part, and a device that has its rows

        def before(member: Member, number: int) -> None:
            parts = partition.sources(number)
            self._fetch(self._contributions, parts, self._plans.contribution, member, there)

        for level in partition.levels:
            self._substitute(level, before, True)

    def backward(self) -> None:
        """Replace Y by ``L^-H Y``, from the roots to the leaves."""
        partition = self._plans.partition
        there: set[tuple[int, Member]] = set()  # each part, and a device that has its rows

        def before(member: Member, number: int) -> None:
            parts = partition.ancestors(number)
            self._fetch(self._x, parts, lambda k, _: self._plans.columns(k), member, there)

        for level in reversed(partition.levels):
            self._substitute(level, before, False)

    def gather(self) -> None:
        """Copy the solution to the first device."""
        first = self._plans.first
        first.finish()  # its kernels read what it has of these rows
        for number, part in self._parts.items():
            if part.member is not first:
                columns = self._plans.columns(number)
                self._move(self._x, number, columns, first, columns)

    def _substitute(self, level: tuple[int, ...], before: Any, forward: bool) -> None:
        """Enqueue the substitution with the parts of a level."""

        def work(member: Member, index: int) -> None:
            number = level[index]
            part = self._parts[number]
            before(member, number)
            state = member.engine.state()
            plan = self._plans.substitute(number, member, forward, self._count)
            arrays = part.panels, self._x[member], self._contributions[member]
            start, _ = self._plans.bounds(number)
            with recorded_kernels(member, number):
                event = plan.enqueue(state, [a.base_data for a in arrays], (-start, 0, 0))
            self._events[number] = state.event(event)
            member.engine.queue.flush()

        members = [self._parts[k].member for k in level]
        self._plans.group.for_blocks(members, work, can_move=False)

    def _fetch(
        self,
        arrays: Mapping[Member, Array],
        parts: Iterable[int],
        rows_on: Callable[[int, Member], tuple[int, int]],
        member: Member,
        there: set[tuple[int, Member]],
    ) -> None:
        """Copy the rows of parts to a device that does not have them yet.

        Args:
            arrays: The array of each device.
            parts: The numbers of the parts.
            rows_on: Returns the range of a part's rows in the array of a device.
            member: The device.
            there: The parts and devices whose rows are copied, to which these are added.
        """
        for k in parts:
            owner = self._parts[k].member
            if owner is not member and (k, member) not in there:
                self._move(arrays, k, rows_on(k, owner), member, rows_on(k, member))
                there.add((k, member))

    def _move(
        self,
        arrays: Mapping[Member, Array],
        number: int,
        source: tuple[int, int],
        member: Member,
        target: tuple[int, int],
    ) -> None:
        """Copy rows of an array that a part has computed to the array of another device."""
        owner = self._parts[number].member
        rows = source[1] - source[0]
        if not rows:
            return
        row_bytes, shape = self._count * self._plans.dtype.itemsize, (rows, self._count)

        def rows_of(device: Member, first: int, events: list[cl.Event]) -> Array:
            return Array(
                device.engine.queue, shape, self._plans.dtype, data=arrays[device].base_data,
                offset=first * row_bytes, events=events,
            )  # fmt: skip

        computed = rows_of(owner, source[0], [self._events[number]])
        # No kernel of the other device that is enqueued so far uses its rows.
        box = moves.all_bytes(computed, rows_of(member, target[0], []))
        moves.move_boxes(owner, [box], member)


def _copy(queue: cl.CommandQueue, source: Array, target: Any, offset: int) -> None:
    """Enqueue a copy of an array to a buffer of the same device, from a byte on."""
    cl.enqueue_copy(
        queue, target, source.base_data, byte_count=source.nbytes, src_offset=source.offset,
        dst_offset=offset,
    )  # fmt: skip


def _array_of(member: Member, values: View) -> Array:
    """Return the matrix's values, which a call has on a device, as an array."""
    return Array(
        member.engine.queue, values.shape, values.dtype, data=values.buffer,
        offset=values.offset * values.dtype.itemsize,
    )  # fmt: skip


def no_inverse() -> UnsupportedError:
    """Return the error of ``inv_diag`` on a group."""
    return UnsupportedError(
        "inv_diag() is not computed on a DeviceGroup; a factor with engine= one of its engines "
        "has it"
    )
