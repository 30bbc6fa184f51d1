r"""Sparse Cholesky factors on a group: devices have parts of the elimination tree.

:mod:`portable_gpu.sparse.partition` cuts the tree into subtrees and the fronts above them::

                     t          level 2: device 0
                  /     \
               s           u    level 1: device 0 factorises s, device 1 factorises u
             /   \       /   \
            a     b     c     d    level 0: device 0 has a and b, device 1 has c and d

A part's update matrices are moved to the device of the part above it.  The first factorisation
allocates the memory of panels, updates and arenas, because a driver may wait for all kernels where
memory is freed.  The second one records the kernels of the parts, which are thousands of short
ones.
A solve moves the parts' contributions up the tree, and then solutions down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyopencl as cl
import scipy.sparse

from portable_gpu.dtypes import element
from portable_gpu.errors import UnsupportedError
from portable_gpu.linalg.refinement import corrections
from portable_gpu.multi import transfers
from portable_gpu.multi.array import GroupArray
from portable_gpu.multi.issue import LEAST_BYTES_FOR_THREADS
from portable_gpu.multi.member import DEVICE_ERRORS, Member
from portable_gpu.multi.operations.operands import operand, recorded_kernels, refuse
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.plan import Steps
from portable_gpu.runtime.replay import RepeatedSteps
from portable_gpu.runtime.report import DTYPE, FIELDS
from portable_gpu.runtime.views import View
from portable_gpu.sparse import Factor, Symbolic, analyze
from portable_gpu.sparse.functions import dtype_for, factor_of_system
from portable_gpu.sparse.memory import scheduled_in_parts
from portable_gpu.sparse.numeric import SYSTEMS, Numeric, operand_of
from portable_gpu.sparse.partition import Partition
from portable_gpu.sparse.parts import FactorParts
from portable_gpu.sparse.solution import wait

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup


#: Multiplications and additions of a GPU, and of a CPU, in the time in which an element is moved to
#: another device: estimates, 0.5 ns at 2e13 in a second, and 5 ns at 1e10.
_ELEMENT_WORK = 1e4, 50.0
#: Numbers of right-hand sides whose recorded substitutions stay; each has a kernel object a launch.
_MOST_COUNTS = 2


class GroupFactor(Factor):
    """A Cholesky factor of a sparse matrix, on the devices of a group.

    :func:`portable_gpu.sparse.cholesky` with ``engine=`` a group creates it.  It is used as a
    :class:`portable_gpu.sparse.Factor`, whose arrays on a device are on the first one of the group.
    Calls wait until they are finished.

    Attributes:
        group: The group.
    """

    def __init__(self, group: DeviceGroup, symbolic: Symbolic, dtype: Any) -> None:
        """Assign parts of the fronts to the devices; the factor has no values yet.

        Args:
            group: The group.
            symbolic, dtype: As for :class:`portable_gpu.sparse.Factor`.

        Raises:
            DTypeError, UnsupportedError, DeviceMemoryError: As in
                :class:`portable_gpu.sparse.Factor`.
        """
        self.group = group
        with self._named_errors():
            super().__init__(symbolic, dtype, group.members[0].engine)

    def refactorize(
        self,
        values: Any,
        *,
        triangle: str | None = None,
        check: str = "late",
        progress: Any = None,
    ) -> Factor:
        """See :meth:`portable_gpu.sparse.Factor.refactorize`; there is no progress bar."""
        refuse({"progress": progress}, "progress")
        with self._named_errors():
            return super().refactorize(values, triangle=triangle, check=check)

    def solve(
        self, b: Any, system: str = "A", *, refine: str | int | None = None, out: Any = None
    ) -> Any:
        """See :meth:`portable_gpu.sparse.Factor.solve`.

        ``b`` may be an array of the group; then ``out`` is not taken, and the result is replicated.
        """
        is_of_group = isinstance(b, GroupArray)
        if is_of_group:
            refuse({"out": out}, "out")
            self.group.check_own(b, "b")
            b = b.asnumpy()
        with self._named_errors():
            x = super().solve(b, system, refine=refine, out=out)
        return self.group.broadcast(x) if is_of_group else x

    def inv_diag(self) -> np.ndarray[Any, Any]:
        """Raise UnsupportedError."""
        raise _no_inverse()

    def close(self) -> None:
        """See :meth:`portable_gpu.sparse.Factor.close`."""
        super().close()
        self._parts.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the first device in errors that name no device."""
        try:
            yield
        except DEVICE_ERRORS as error:
            if re.match(r"(block \d+ of \d+ on )?device \d+ ", str(error)):
                raise
            raise self.group.members[0].named(error) from error

    @property
    def _is_in_parts(self) -> bool:
        return True

    def _plans(self, limit: int | None) -> Numeric:
        self._parts = _PartPlans(self.group, self.symbolic, self.dtype)
        return self._parts.on(self.group.members[0])

    def _run(self, call: Call, views: tuple[View, View, View], callback: Any) -> FactorParts:
        wait(call)
        self.queue.finish()  # kernels that compute the values, which other devices receive
        return _GroupPanels(self._parts, *views)

    def _memory(self) -> tuple[int, int]:
        bytes_of = self._parts.bytes_of
        workspaces, tables = zip(*(bytes_of(member) for member in self.group.members), strict=True)
        return sum(workspaces), sum(tables)


class _PartPlans:
    """The parts of the fronts, their devices, and the plans on each device.

    Attributes:
        group, symbolic, dtype: The group, the analysis, and the dtype of L.
        partition: The parts.
        owners: The device of each part; with ``on_failure="retry"`` another may compute it.
    """

    def __init__(self, group: DeviceGroup, symbolic: Symbolic, dtype: np.dtype[Any]) -> None:
        self.group, self.symbolic, self.dtype = group, symbolic, dtype
        self.partition = Partition.of(symbolic.fronts)
        on_cpu = all(member.engine.target.is_cpu for member in group.members)
        owners = self.partition.owners(group.shares, _ELEMENT_WORK[on_cpu])
        self.owners = [group.members[k] for k in owners]
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

    def substitute(self, number: int, member: Member, forward: bool, count: int) -> RepeatedSteps:
        """Return the substitution with a part on a device."""
        if count not in self._counts:
            self._counts = [*self._counts, count][-_MOST_COUNTS:]
            for key in list(self._repeated):
                if key[0] == "substitute" and key[-1] not in self._counts:
                    self._repeated.pop(key, None)
        plan = self.on(member).substitute_chunk(number, forward, count)
        return self._repeat(("substitute", number, member, forward, count), plan)

    def _repeat(self, key: Any, plan: Steps) -> RepeatedSteps:
        if key not in self._repeated:
            self._repeated[key] = RepeatedSteps(plan)
        return self._repeated[key]

    def close(self) -> None:
        """Free the memory."""
        for each in (self._panels, self._updates, self._arenas, self._status, self._values):
            each.clear()
        self._repeated.clear()

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the range of a part's panels in the factor."""
        numeric = self.on(self.group.members[0])
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
        start = int(self.on(member).schedule.started[outer[0]])
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


class _FactorPart(NamedTuple):
    """A factorised part: its device, its panels, and its update matrices by their fronts."""

    member: Member
    panels: Array
    updates: dict[int, Array]


class _GroupPanels(FactorParts):
    """The panels of one factorisation; see :class:`portable_gpu.sparse.parts.FactorParts`."""

    def __init__(self, plans: _PartPlans, values: View, panels: View, report: View) -> None:
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
        self._values = {group.members[0]: _array_of(group.members[0], values)}
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
                boxes = [transfers.all_bytes(updates[front], fetched[front]) for front in updates]
                transfers.move_boxes(part.member, boxes, member)
                updates = fetched
            for front, update in updates.items():
                _copy(queue, update, arena, int(device.update[front]) * itemsize)
        values, status = self._values_for(member), self._status_for(member)
        (start, _), panels = plans.bounds(number), plans.panels(number, member)
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
        first = self._plans.group.members[0]
        if member not in self._values:
            source = self._values[first]
            target = self._plans.values(member, source)
            transfers.move_boxes(first, [transfers.all_bytes(source, target)], member)
            self._values[member] = target
        return self._values[member]

    def _status_for(self, member: Member) -> Array:
        """Return the pivot status of all fronts, which is written for the parts of a device."""
        if member not in self._status:
            self._status[member] = self._plans.status(member)
        return self._status[member]

    def _report(self, report: View) -> None:
        """Find the first column that failed."""
        plans, first = self._plans, self._plans.group.members[0]
        if not plans.symbolic.n:
            return
        status = np.empty((len(plans.symbolic.fronts), FIELDS), DTYPE)
        ends = plans.partition.ends
        for member, its in self._status.items():
            member.finish()
            host = np.empty_like(status)
            transfers.download(member, its, host)
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
        first, n = plans.group.members[0], plans.symbolic.n
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
        """See :meth:`GroupFactor.inv_diag`."""
        raise _no_inverse()

    def panels(self) -> np.ndarray[Any, Any]:
        """See :meth:`FactorParts.panels`."""
        numeric = self._plans.on(self._plans.group.members[0])
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

    def __init__(self, plans: _PartPlans, parts: Mapping[int, _FactorPart], x: Array) -> None:
        """Copy the right-hand sides to each device.

        Args:
            plans: The plans.
            parts: The factorised parts.
            x: The permuted right-hand sides on the first device, n x count; the solution replaces
                them.
        """
        self._plans, self._parts, self._count = plans, parts, x.shape[1]
        first = plans.group.members[0]
        members = dict.fromkeys(part.member for part in parts.values())
        self._x = {m: x if m is first else transfers.move(first, x, m) for m in members}
        self._x[first] = x
        self._contributions = {
            m: m.empty((max(1, plans.on(m).schedule.rows), self._count), plans.dtype)
            for m in members
        }
        self._events: dict[int, cl.Event] = {}

    def forward(self) -> None:
        """Replace B by ``L^-1 B``, from the leaves to the roots."""
        partition = self._plans.partition
        there: set[tuple[int, Member]] = set()

        def before(member: Member, number: int) -> None:
            for k in partition.sources(number):
                if self._parts[k].member is not member and (k, member) not in there:
                    source = self._plans.contribution(k, self._parts[k].member)
                    target = self._plans.contribution(k, member)
                    self._move(self._contributions, k, source, member, target)
                    there.add((k, member))

        for level in partition.levels:
            self._substitute(level, before, True)

    def backward(self) -> None:
        """Replace Y by ``L^-H Y``, from the roots to the leaves."""
        partition = self._plans.partition
        there: set[tuple[int, Member]] = set()

        def before(member: Member, number: int) -> None:
            for k in partition.ancestors(number):
                if self._parts[k].member is not member and (k, member) not in there:
                    columns = self._plans.columns(k)
                    self._move(self._x, k, columns, member, columns)
                    there.add((k, member))

        for level in reversed(partition.levels):
            self._substitute(level, before, False)

    def gather(self) -> None:
        """Copy the solution to the first device."""
        first = self._plans.group.members[0]
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

        def rows_of(its: Member, first: int, events: list[cl.Event]) -> Array:
            return Array(
                its.engine.queue, shape, self._plans.dtype, data=arrays[its].base_data,
                offset=first * row_bytes, events=events,
            )  # fmt: skip

        computed = rows_of(owner, source[0], [self._events[number]])
        # No kernel of the other device that is enqueued so far uses its rows.
        box = transfers.all_bytes(computed, rows_of(member, target[0], []))
        transfers.move_boxes(owner, [box], member)


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


def _no_inverse() -> UnsupportedError:
    return UnsupportedError(
        "inv_diag() is not computed on a DeviceGroup; a factor with engine= one of its engines "
        "has it"
    )


def cholesky(group: DeviceGroup, arguments: Mapping[str, Any]) -> GroupFactor:
    """Factorise a sparse matrix; arguments: see :func:`portable_gpu.sparse.cholesky`."""
    refuse(arguments, "memory_limit", "spill_dir", "progress")
    matrix, triangle, symbolic = (arguments[name] for name in ("A", "triangle", "symbolic"))
    if symbolic is None:
        symbolic = analyze(
            matrix, arguments["ordering"], relax=arguments["relax"], triangle=triangle,
            engine=group.engines[0],
        )  # fmt: skip
    factor = GroupFactor(group, symbolic, dtype_for(matrix, symbolic, arguments["dtype"]))
    factor.refactorize(matrix, triangle=triangle)
    return factor


def spsolve(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Solve with a sparse matrix; arguments: see :func:`portable_gpu.sparse.spsolve`.

    Returns:
        A replicated :class:`GroupArray` if ``b`` is an array of the group, else an array of NumPy
        or a sparse one.
    """
    refine = corrections(arguments["refine"])
    b = arguments["b"]
    if not scipy.sparse.issparse(b):
        b = operand(group, b, "b")
    factor = factor_of_system(
        arguments["A"], b, arguments["ordering"], arguments["triangle"], arguments["dtype"],
        refine, group.engines[0], engine=group,
    )  # fmt: skip
    with factor:
        return factor.solve(b, refine=refine, out=arguments["out"])
