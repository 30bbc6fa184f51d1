"""Products on devices of many work-items: tiles in local memory, and one work-item per element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.operators import sum_accumulator
from portable_gpu.codegen.parameters import scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.gemm.operands import (
    as_given,
    extents,
    extras,
    offsets,
    product_parameters,
    shared_sums,
    strides,
    tables,
    triangle_arguments,
    triangle_parameters,
    which_triangle,
)
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.split_k import SplitSpace
from portable_gpu.ops.gemm.tiled.estimates import LANES
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy, value_words
from portable_gpu.ops.gemm.tiled.tile import (
    Panel,
    RegisterTile,
    group_stagger,
    panels,
    register_tile,
)
from portable_gpu.ops.gemm.tiling import WORKSPACE, Tiling, split_length
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

_GRID = 65535  # the extent that every device takes in the second and third dimension
_ELEMENTS = 1 << 30  # work-items of one launch of the kernels that run one per element


class TiledPlan(Plan):
    """A product bound to shapes and strides, ready to launch.

    Attributes:
        problem: The product, or its transpose where that is computed.
        tiling: The path and the policy.
        pairs: Whether tiles take two steps of k in one instruction.
    """

    def __init__(
        self,
        engine: Engine,
        problem: GemmProblem,
        tiling: Tiling,
        pairs: bool = False,
    ) -> None:
        """Build the kernel of a tiling.

        Args:
            engine: The engine of the device.
            problem: The product.
            tiling: The path and the policy.
            pairs: Whether tiles are to take two steps of k in one instruction.

        Raises:
            PolicyError: The policy of ``tiling`` does not fit the device.
        """
        tiling = tiling.fit(problem.k)
        if tiling.transposed:
            problem = problem.transpose()
        self.problem = problem
        self.tiling = tiling
        self.pairs = pairs
        self.flop, self.bytes = problem.flop, problem.bytes
        self._spec = specialization_of(problem, tiling, engine.target, pairs=pairs)
        operands = {"a": problem.a, "b": problem.b, "c": problem.c, **extras(problem)}
        self._constants = {
            "m": problem.m, "n": problem.n, "k": problem.k,
            **strides(operands), **extents(problem.batch),
        }  # fmt: skip
        self._tables = {name: engine.upload(table) for name, table in tables(operands).items()}
        self.kept_bytes = sum(table.size for table in self._tables.values())
        self._buffers = as_given(operands, tiling.transposed)
        self._scalars = [*offsets(self._buffers), "alpha", "beta"]
        self._space: SplitSpace | None = None
        self._launches: list[Launch] = []
        if tiling.policy is None:
            self._direct(engine)
        else:
            assert isinstance(tiling.policy, GemmPolicy)
            self._tiled(engine, tiling.policy)

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`: of a, b, the epilogue's arrays and c, and by alpha and beta."""
        scalars = (*offsets, *scalars)
        if self._space is not None:
            buffers = (*self._space.allocate(state), *buffers)
        event = None
        for launch in self._launches:
            event = launch(state, buffers, scalars, wait_for)
            wait_for = state.after(event)
        return event

    def _direct(self, engine: Engine) -> None:
        """One work-item for each element of C."""
        p = self.problem
        count, group = p.batch_size * p.m * p.n, direct_group_size(engine.target)
        lanes, most = self.tiling.splits, _ELEMENTS // self.tiling.splits
        max_lanes = _max_lanes(p, lanes, engine.target)
        for first in range(0, count, most):
            size = _round_up(lanes * min(most, count - first), group)
            constants = {
                **self._constants, **which_triangle(p), "count": count, "first": first,
                **({"lanes_log2": lanes.bit_length() - 1} if max_lanes > 1 else {}),
            }  # fmt: skip
            self._launches.append(
                engine.programs.launch(
                    self._spec, "direct", constants, self._buffers, self._scalars, (size,), (group,)
                )
            )

    def _tiled(self, engine: Engine, policy: GemmPolicy) -> None:
        """Tiles of C, a part of the batch at a time."""
        p, tiling = self.problem, self.tiling
        tiles_m, tiles_n = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
        units, chunk = p.tiles(policy.tile_m, policy.tile_n), min(p.batch_size, _GRID)
        constants, split = {**self._constants, "tiles_m": tiles_m, "tiles_n": tiles_n}, []
        constants |= triangle_arguments(p, units)
        tile = register_tile(policy, p.compute, self.pairs)
        if len(_store_widths(p, tiling, tile, engine.target)) > 1:
            constants["store_width"] = _store_width(p, tile.width_n)
        if tiling.splits > 1:
            split_tiles, area = units - tiling.unsplit, policy.tile_m * policy.tile_n
            item = SplitSpace.of(split_tiles, split_tiles * tiling.splits, area, p.compute)
            chunk = max(1, min(chunk, WORKSPACE // item.nbytes))
            tiles = chunk * split_tiles
            self._space = SplitSpace.of(tiles, tiles * tiling.splits, area, p.compute)
            self.workspace_bytes = self._space.nbytes
            units += split_tiles * (tiling.splits - 1)
            length = split_length(p.k, tiling.splits, policy.tile_k)
            constants |= {"k_split": length, "unsplit": tiling.unsplit, "splits": tiling.splits}
            split = ["partial", "counters"]
        for first in range(0, p.batch_size, chunk):
            self._launches.append(
                engine.programs.launch(
                    self._spec,
                    "gemm",
                    {**constants, "first_product": first},
                    [*split, *self._buffers],
                    self._scalars,
                    (units * policy.group_size, min(chunk, p.batch_size - first)),
                    (policy.group_size, 1),
                    bound=self._tables,
                )
            )


def specialization_of(
    problem: GemmProblem,
    tiling: Tiling,
    target: Target,
    pairs: bool = False,
) -> Specialization:
    """Render the kernel of a tiling, for a problem in its computed orientation.

    Args:
        problem: The problem.
        tiling: The tiling.
        target: The target.
        pairs: Whether an instruction multiplies two steps of k.

    Raises:
        PolicyError: The policy does not fit the target.
    """
    policy = tiling.policy
    if policy is None:
        return _direct_specialization(problem, tiling.splits, target)
    assert isinstance(policy, GemmPolicy)
    policy.check(target, problem.compute)
    aligned = problem.aligned
    a, b = panels(problem, policy, target, aligned, pairs)
    tile = register_tile(policy, problem.compute, pairs)
    length = split_length(problem.k, tiling.splits, policy.tile_k)
    # A text without a guard of the last steps of k would be a second program for other k.  Where
    # registers are not short, the guard costs less than that.
    ends_whole = problem.k % a.steps == 0 and length % a.steps == 0
    parameters = [
        *scalars("long", "m", "n", "k", "first_product"),
        *scalars("int", "tiles_m", "tiles_n"),
        *triangle_parameters(problem),
    ]
    widths = _store_widths(problem, tiling, tile, target)
    if len(widths) > 1:
        parameters += scalars("int", "store_width")
    if tiling.splits > 1:
        parameters += [*scalars("long", "k_split"), *scalars("int", "unsplit", "splits")]
        parameters += shared_sums()
    return specialize(
        "gemm/gemm",
        target,
        {"gemm": [*parameters, *product_parameters(problem)]},
        problem=problem,
        policy=policy,
        a=a,
        b=b,
        tile=tile,
        stagger=group_stagger(problem, target, a, b, length),
        split=tiling.splits > 1,
        tail=not (ends_whole and policy.is_tight(target, problem.compute)),
        widths=widths,
        contiguous=problem.c.col == 1,
        loads=_vector_loads(a, b),
        aligned=aligned,
        local_elements=a.local_elements + b.local_elements,
    )


def _direct_specialization(problem: GemmProblem, lanes: int, target: Target) -> Specialization:
    """Render the kernel in which ``lanes`` work-items compute each element of C."""
    small = problem.batch_size * problem.m * problem.n < 1 << 31
    max_lanes = _max_lanes(problem, lanes, target)
    parameters = [
        *scalars("long", "m", "n", "k", "count", "first"),
        *scalars("int", "is_upper") * bool(problem.triangle),
        *scalars("uint", "lanes_log2") * (max_lanes > 1),
        *product_parameters(problem),
    ]
    return specialize(
        "gemm/direct",
        target,
        {"direct": parameters},
        problem=problem,
        group_size=direct_group_size(target),
        max_lanes=max_lanes,
        index="uint" if small else "long",
        acc=sum_accumulator(problem.compute.real, problem.compute.complex),
    )


def direct_group_size(target: Target) -> int:
    """Return the work-items of a group in kernels with work-items for each element of C."""
    return min(64, target.max_work_group_size)


def _max_lanes(problem: GemmProblem, lanes: int, target: Target) -> int:
    """Return the most work-items of an element that the text of the direct path serves."""
    return max(lanes, min(LANES, target.subgroup_size)) if problem.compute.floating else lanes


def _vector_loads(a: Panel, b: Panel) -> list[tuple[Any, int]]:
    return list(dict.fromkeys((p.elem, p.width) for p in (a, b) if p.width > 1))


def _store_widths(
    problem: GemmProblem, tiling: Tiling, tile: RegisterTile, target: Target
) -> tuple[int, ...]:
    """Return the widths of stores that the text has, of which an argument selects one.

    Each has its own code.  So there is one width on CPUs, where compilation takes longer, and if
    elements take more than a multiplication.  There also is one if the sums take half of the
    registers, if they have two words, or if parts of k are added: the kernel would need more
    registers.
    """
    policy, width = tiling.policy, _store_width(problem, tile.width_n)
    assert isinstance(policy, GemmPolicy)
    computed = problem.reads_c or problem.epilogue or not _stores_vectors(problem)
    tight = value_words(problem.compute) > 1 or policy.is_tight(target, problem.compute)
    if target.is_cpu or computed or tight or tiling.splits > 1:
        return (width,)
    return tuple(w for w in (4, 2, 1) if w <= tile.width_n)


def _store_width(problem: GemmProblem, width: int) -> int:
    """Return the widest aligned store of C, of at most ``width`` elements."""
    c = problem.c
    if not _stores_vectors(problem) or c.col != 1:
        return 1
    while width > 1 and (c.aligned_bytes % (width * c.elem.itemsize) or problem.n % width):
        width //= 2
    return width


def _stores_vectors(problem: GemmProblem) -> bool:
    """Whether sums are stored as they are, so that vectors of them could be."""
    c = problem.c
    plain = c.elem.storage == problem.compute.real and not c.elem.complex
    plain &= not (c.elem.boolean and problem.epilogue)  # whose values are to become 0 or 1
    return problem.aligned and plain and c.reader is None


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
