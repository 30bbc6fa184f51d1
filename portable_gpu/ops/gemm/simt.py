"""Products on devices of many work-items: tiles in local memory, and one work-item per element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.gemm.choice import WORKSPACE, GemmChoice, choose, split_length
from portable_gpu.ops.gemm.operands import (
    BUFFER,
    INT,
    LONG,
    batch_parameters,
    parameters,
    scalar_type,
)
from portable_gpu.ops.gemm.policy import GemmPolicy, value_bytes
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.tiles import Panel, group_stagger, panel, register_tile
from portable_gpu.runtime.engine import Engine, QueueState
from portable_gpu.runtime.program import Launch
from portable_gpu.targets import Target

_GRID = 65535  # the extent that every device takes in the second and third dimension
_ELEMENTS = 1 << 30  # work-items of one launch of the kernels that run one per element


class SimtGemm:
    """A product bound to shapes and strides, ready to launch.

    Attributes:
        problem: What is computed (perhaps the transpose of what was asked for).
        choice: By which path and policy, and why.
        pairs: Whether tiles take two steps of k in one instruction.
    """

    def __init__(
        self,
        engine: Engine,
        problem: GemmProblem,
        choice: GemmChoice | None = None,
        pairs: bool = False,
    ) -> None:
        """Choose a path, and build its kernels.

        Args:
            engine: Whose device.
            problem: What is computed.
            choice: How; by least estimated time without it.
            pairs: Whether tiles are to take two steps of k in one instruction.

        Raises:
            PolicyError: The given choice's policy does not fit the device.
        """
        if choice is None:
            choice = choose(problem, engine.target, engine.table)
        choice = choice.fit(problem.k)
        if choice.transposed:
            problem = problem.transpose()
        self.problem = problem
        self.choice = choice
        self.pairs = pairs
        self._specs = specializations_of(
            problem, choice, engine.target, aligned=not engine.maps_host_memory, pairs=pairs
        )
        self._ab = [*parameters(problem.a), *parameters(problem.b)]
        scalar = scalar_type(problem)
        self._out = parameters(problem.c)
        for extra in problem.extras:
            self._out += parameters(extra)
        self._out += [scalar, scalar]
        self._batch = batch_parameters(problem)
        self._partial_bytes = 0
        self._launches: list[Launch] = []
        self._sums: list[Launch] = []
        if choice.policy is None:
            self._direct(engine)
        else:
            assert isinstance(choice.policy, GemmPolicy)
            self._tiled(engine, choice.policy)

    def enqueue(
        self,
        alpha: Any,
        beta: Any,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue the product; the event returned covers all of its kernels.

        Args:
            alpha, beta: The factors.
            state: The queue.
            buffers, offsets: Of a, b, c and the epilogue's arrays; offsets in elements.
            wait_for: Events to wait for.

        Raises:
            DeviceMemoryError: There is no room for the partial sums of a split k.
        """
        a, b, *out = buffers
        at_a, at_b, *at_out = offsets
        if self.choice.transposed:
            a, b, at_a, at_b = b, a, at_b, at_a
        scalars = (*at_out, alpha, beta)
        event = None
        if not self._sums:
            for launch in self._launches:
                event = launch(state.queue, (a, b, *out), (at_a, at_b, *scalars), wait_for)
                wait_for = None if state.in_order else [event]
        else:
            partial = state.workspace(self._partial_bytes)
            for launch, add in zip(self._launches, self._sums, strict=True):
                event = launch(state.queue, (a, b, partial), (at_a, at_b), wait_for)
                wait_for = None if state.in_order else [event]
                event = add(state.queue, (partial, *out), scalars, wait_for)
                wait_for = None if state.in_order else [event]
        assert event is not None  # the caller does not come with an empty C
        return event

    def _direct(self, engine: Engine) -> None:
        """One work-item for each element of C."""
        p = self.problem
        count, group = p.batch_size * p.m * p.n, direct_group_size(engine.target)
        for first in range(0, count, _ELEMENTS):
            head = [(LONG, value) for value in (p.m, p.n, p.k, count, first)]
            size = _round_up(min(_ELEMENTS, count - first), group)
            self._launches.append(
                engine.programs.launch(
                    self._specs[0],
                    "direct",
                    [*head, *self._ab, *self._out, *self._batch],
                    (size,),
                    (group,),
                )
            )

    def _tiled(self, engine: Engine, policy: GemmPolicy) -> None:
        """Tiles of C, a part of the batch at a time; where k is split, their sums after them."""
        p, splits = self.problem, self.choice.splits
        one = splits * p.m * p.n * value_bytes(p.compute)
        chunk = min(p.batch_size, _GRID)
        if splits > 1:
            chunk = max(1, min(chunk, WORKSPACE // one))
            self._partial_bytes = chunk * one
        out = self._out if splits == 1 else [BUFFER]
        tiles_m, tiles_n = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
        length, group = split_length(p.k, splits, policy.tile_k), direct_group_size(engine.target)
        for first in range(0, p.batch_size, chunk):
            products = min(chunk, p.batch_size - first)
            head: list[Any] = [(LONG, value) for value in (p.m, p.n, p.k, length, first)]
            head += [(INT, tiles_m), (INT, tiles_n)]
            self._launches.append(
                engine.programs.launch(
                    self._specs[0],
                    "gemm",
                    [*head, *self._ab, *out, *self._batch],
                    (tiles_m * tiles_n * policy.group_size, splits, products),
                    (policy.group_size, 1, 1),
                )
            )
            if splits > 1:
                count = products * p.m * p.n
                head = [(LONG, value) for value in (p.m, p.n, count, first)]
                self._sums.append(
                    engine.programs.launch(
                        self._specs[1],
                        "split_sum",
                        [*head, (INT, splits), BUFFER, *self._out, *self._batch],
                        (_round_up(count, group),),
                        (group,),
                    )
                )


def specializations_of(
    problem: GemmProblem,
    choice: GemmChoice,
    target: Target,
    aligned: bool = True,
    pairs: bool = False,
) -> list[Specialization]:
    """The texts of a chosen path, for a problem that is already the way round it is computed.

    Args:
        problem: What is computed.
        choice: How.
        target: For what device.
        aligned: Whether vectors in memory are known to be aligned to their size.
        pairs: Whether tiles take two steps of k in one instruction.

    Raises:
        PolicyError: The policy does not fit the target.
    """
    group = direct_group_size(target)
    policy = choice.policy
    if policy is None:
        return [specialize("gemm/direct", target, problem=problem, group_size=group)]
    assert isinstance(policy, GemmPolicy)
    policy.check(target, problem.compute)
    a = panel(problem, policy, "a", aligned, pairs)
    b = panel(problem, policy, "b", aligned, pairs)
    tile = register_tile(policy, problem.compute, pairs)
    partial = choice.splits > 1
    length = split_length(problem.k, choice.splits, policy.tile_k)
    repacked = tile.lines * policy.tile_n if policy.repack else 0
    tiled = specialize(
        "gemm/gemm",
        target,
        problem=problem,
        policy=policy,
        a=a,
        b=b,
        tile=tile,
        stagger=group_stagger(problem, target, a, b, length),
        partial=partial,
        tail=problem.k % a.steps != 0 or length % a.steps != 0,
        store=1 if partial else _store_width(problem, tile.width_n, aligned),
        loads=_vector_loads(a, b),
        aligned=aligned,
        local_elements=max(a.local_elements + b.local_elements, repacked),
    )
    if not partial:
        return [tiled]
    summing = specialize("gemm/split_sum", target, problem=problem, group_size=group)
    return [tiled, summing]


def direct_group_size(target: Target) -> int:
    """Work-items of a group in the kernels that run one per element."""
    return min(64 if target.is_cpu else 256, target.max_work_group_size)


def _vector_loads(a: Panel, b: Panel) -> list[tuple[Any, int]]:
    return list(dict.fromkeys((p.elem, p.width) for p in (a, b) if p.width > 1))


def _store_width(problem: GemmProblem, width: int, aligned: bool) -> int:
    c = problem.c
    plain = c.elem.storage == problem.compute.real and not c.elem.complex
    fits = c.aligned_bytes % (width * c.elem.itemsize) == 0 and problem.n % width == 0
    return width if aligned and plain and fits and c.col == 1 else 1


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
