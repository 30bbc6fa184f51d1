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
    argument_types,
    arguments,
    scalar_type,
)
from portable_gpu.ops.gemm.policy import GemmPolicy, value_bytes
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.tiles import Panel, panel, register_tile
from portable_gpu.runtime.engine import Engine, QueueState
from portable_gpu.runtime.views import View
from portable_gpu.targets import Target

_GRID = 65535  # the extent that every device takes in the second and third dimension
_ELEMENTS = 1 << 30  # work-items of one launch of the kernels that run one per element


class SimtGemm:
    """A product bound to shapes and strides, ready to launch.

    Attributes:
        problem: What is computed (perhaps the transpose of what was asked for).
        choice: By which path and policy, and why.
    """

    def __init__(
        self, engine: Engine, problem: GemmProblem, choice: GemmChoice | None = None
    ) -> None:
        """Choose a path, and build its kernels.

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
        self._exchange = choice.transposed
        self._batch = list(problem.batch)
        rank = len(problem.batch)
        ab = argument_types(rank) * 2
        extras = argument_types(rank) * len(problem.extras)
        scalar = scalar_type(problem)
        c = [*argument_types(rank), *extras, scalar, scalar]
        batch = [LONG] * rank
        specs = specializations_of(
            problem, choice, engine.target, aligned=not engine.maps_host_memory
        )
        kernel = engine.programs.kernel
        if choice.policy is None:
            types = [LONG] * 5 + ab + c + batch
            self._kernel = kernel(specs[0], "direct", types)
            return
        head = [LONG] * 5 + [INT] * 2
        if choice.splits == 1:
            self._kernel = kernel(specs[0], "gemm", head + ab + c + batch)
        else:
            self._kernel = kernel(specs[0], "gemm", [*head, *ab, BUFFER, *batch])
            self._sum = kernel(specs[1], "split_sum", [*[LONG] * 4, INT, BUFFER, *c, *batch])

    def __call__(
        self,
        state: QueueState,
        a: View,
        b: View,
        c: View,
        extras: Sequence[View],
        alpha: Any,
        beta: Any,
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event:
        """Enqueue the product; the event returned covers all of its kernels.

        Raises:
            DeviceMemoryError: There is no room for the partial sums of a split k.
        """
        problem = self.problem
        if self._exchange:
            a, b = b, a
        ab = [*arguments(a, problem.a), *arguments(b, problem.b)]
        out = arguments(c, problem.c)
        for view, extra in zip(extras, problem.extras, strict=True):
            out += arguments(view, extra)
        out += [alpha, beta]
        if self.choice.policy is None:
            return self._direct(state, [*ab, *out, *self._batch], wait_for)
        if self.choice.splits == 1:
            return self._tiled(state, self.choice.policy, [*ab, *out, *self._batch], wait_for)
        return self._split(state, self.choice.policy, ab, out, wait_for)

    def _direct(
        self, state: QueueState, args: list[Any], wait_for: Sequence[cl.Event] | None
    ) -> cl.Event:
        p = self.problem
        count, group = p.batch_size * p.m * p.n, direct_group_size(state.engine.target)
        event = None
        for first in range(0, count, _ELEMENTS):
            size = _round_up(min(_ELEMENTS, count - first), group)
            head = [p.m, p.n, p.k, count, first]
            event = self._kernel(state.queue, (size,), (group,), head + args, wait_for)
            wait_for = [event]
        assert event is not None  # the caller does not come with an empty C
        return event

    def _tiled(
        self,
        state: QueueState,
        policy: GemmPolicy,
        args: list[Any],
        wait_for: Sequence[cl.Event] | None,
    ) -> cl.Event:
        batch, event = self.problem.batch_size, None
        for first in range(0, batch, _GRID):
            event = self._launch(state, policy, first, min(_GRID, batch - first), args, wait_for)
            wait_for = [event]
        assert event is not None
        return event

    def _split(
        self,
        state: QueueState,
        policy: GemmPolicy,
        ab: list[Any],
        out: list[Any],
        wait_for: Sequence[cl.Event] | None,
    ) -> cl.Event:
        p, splits = self.problem, self.choice.splits
        one = splits * p.m * p.n * value_bytes(p.compute)
        chunk = max(1, min(p.batch_size, _GRID, WORKSPACE // one))
        partial = state.workspace(chunk * one)
        group, event = direct_group_size(state.engine.target), None
        for first in range(0, p.batch_size, chunk):
            products = min(chunk, p.batch_size - first)
            args = [*ab, partial, *self._batch]
            event = self._launch(state, policy, first, products, args, wait_for)
            count = products * p.m * p.n
            head = [p.m, p.n, count, first, splits, partial]
            size = (_round_up(count, group),)
            args = [*head, *out, *self._batch]
            event = self._sum(state.queue, size, (group,), args, [event])
            wait_for = [event]
        assert event is not None
        return event

    def _launch(
        self,
        state: QueueState,
        policy: GemmPolicy,
        first: int,
        products: int,
        args: list[Any],
        wait_for: Sequence[cl.Event] | None,
    ) -> cl.Event:
        p = self.problem
        tiles_m, tiles_n = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
        grid = (tiles_m * tiles_n * policy.group_size, self.choice.splits, products)
        head = [
            p.m,
            p.n,
            p.k,
            split_length(p.k, self.choice.splits, policy),
            first,
            tiles_m,
            tiles_n,
        ]
        return self._kernel(state.queue, grid, (policy.group_size, 1, 1), head + args, wait_for)


def specializations_of(
    problem: GemmProblem, choice: GemmChoice, target: Target, aligned: bool = True
) -> list[Specialization]:
    """The texts of a chosen path, for a problem that is already the way round it is computed.

    Args:
        problem: What is computed.
        choice: How.
        target: For what device.
        aligned: Whether vectors in memory are known to be aligned to their size.

    Raises:
        PolicyError: The policy does not fit the target.
    """
    group = direct_group_size(target)
    policy = choice.policy
    if policy is None:
        return [specialize("gemm/direct", target, problem=problem, group_size=group)]
    policy.check(target, problem.compute)
    a, b = panel(problem, policy, "a", aligned), panel(problem, policy, "b", aligned)
    tile = register_tile(policy, problem.compute)
    partial = choice.splits > 1
    length = split_length(problem.k, choice.splits, policy)
    repacked = tile.lines * policy.tile_n if policy.repack else 0
    tiled = specialize(
        "gemm/gemm",
        target,
        problem=problem,
        policy=policy,
        a=a,
        b=b,
        tile=tile,
        partial=partial,
        tail=problem.k % policy.tile_k != 0 or length % policy.tile_k != 0,
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
