"""Products on matrix units: operands are repacked if necessary, then the product is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import pyopencl as cl

from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.errors import PolicyError
from portable_gpu.ops.gemm.matrix import stores
from portable_gpu.ops.gemm.matrix.format import MatrixFormat, Side, format_of
from portable_gpu.ops.gemm.matrix.lines import Lines
from portable_gpu.ops.gemm.matrix.policy import (
    MatrixPolicy,
    MmaPolicy,
    WgmmaPolicy,
    requires_k_along_b,
)
from portable_gpu.ops.gemm.matrix.repack import Repack
from portable_gpu.ops.gemm.matrix.tensor_map import TensorMap
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
)
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.reader import Table
from portable_gpu.ops.gemm.split_k import SplitSpace
from portable_gpu.ops.gemm.tiling import Tiling, split_length
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target


class MatrixPlan(Plan):
    """A product bound to shapes and strides, ready to launch.

    Attributes:
        problem: The computed problem, which may be the transpose of the requested one.
        tiling: The tiling.
    """

    def __init__(self, engine: Engine, problem: GemmProblem, tiling: Tiling) -> None:
        """Build the kernels of a tiling.

        Raises:
            PolicyError: The policy does not fit the device.
            BuildError: The driver refused a kernel.
        """
        policy = tiling.policy
        assert isinstance(policy, MatrixPolicy)
        policy.check(engine.target, problem.compute)
        if tiling.transposed:
            problem = problem.transpose()
        self.problem, self.tiling = problem, tiling
        plan = arrange(problem, tiling, engine.target)
        self._maps = [tensor_map.made(engine) for tensor_map in plan.maps]
        self._repacks = {side: repack.plan(engine) for side, repack in plan.repacks.items()}
        self._starts, self._repacked_bytes = plan.starts, plan.nbytes
        p, splits = plan.problem, tiling.splits
        self.flop, self.bytes = problem.flop, problem.bytes
        tiles_m, tiles_n = -(-p.m // policy.tile_m), -(-p.n // policy.tile_n)
        tiles = p.tiles(policy.tile_m, policy.tile_n)
        # Whole tiles, and parts of tiles, of all products: each is computed by one group.
        units = p.batch_size * (tiling.unsplit + splits * (tiles - tiling.unsplit))
        if tiling.shares:
            units = p.batch_size * tiles
        length = split_length(p.k, splits, plan.depth)
        operands = {"a": p.a, "b": p.b, "c": p.c, **extras(p)}
        constants = {
            "m": p.m, "n": p.n, "k": p.k, "k_split": length, "first_product": 0,
            "tiles_m": tiles_m, "tiles_n": tiles_n, "splits": splits, "units": units,
            **({"box_bytes": sum(item.box_bytes for item in plan.maps)} if plan.maps else {}),
            **strides(operands), **extents(p.batch), **triangle_arguments(p, tiles),
        }  # fmt: skip
        names = as_given(operands, tiling.transposed)
        self._places: dict[Side, int] = {"a": names.index("a"), "b": names.index("b")}
        buffers = [*(["a_map", "b_map"] if self._maps else []), *names]
        self._space: SplitSpace | None = None
        area = policy.tile_m * policy.tile_n
        if splits > 1:
            split_tiles = p.batch_size * (tiles - tiling.unsplit)
            self._space = SplitSpace.of(split_tiles, split_tiles * splits, area, p.compute)
        if isinstance(policy, MmaPolicy):
            constants["unsplit"] = tiling.unsplit if splits > 1 else tiles
            if stores.store_kinds(p, policy, engine.target):
                constants["store_kind"] = stores.store_kind(p)
        if tiling.shares:
            steps = (units - tiling.unsplit) // tiling.lanes * -(-p.k // plan.depth)
            # The steps of k of a share; the first ``longer`` shares have one more.
            share, longer = divmod(steps, tiling.shares // tiling.lanes)
            self._space = SplitSpace.of(1 + tiling.shares, tiling.shares, area, p.compute)
            constants |= {
                "unsplit": tiling.unsplit, "share": share, "longer": longer, "lists": tiling.lanes,
            }  # fmt: skip
        read = {**tables(operands), **({"k_ranges": _ranges(p)} if p.k_parts else {})}
        bound = {name: engine.upload(table) for name, table in read.items()}
        self.kept_bytes = sum(table.size for table in bound.values())
        if self._space is not None:
            buffers = ["partial", "counters", *buffers]
        elif plan.adds_parts:  # there are none: the kernel accesses neither buffer
            nothing = engine.upload(np.zeros(1, np.int32))
            bound |= {"partial": nothing, "counters": nothing}
        self.workspace_bytes = plan.nbytes + (self._space.nbytes if self._space else 0)
        groups = tiling.shares or units
        if self._space is None:
            groups = min(units, policy.groups(engine.target))
        self._product = engine.programs.launch(
            plan.spec,
            "gemm",
            constants,
            buffers,
            [*offsets(names), "alpha", "beta"],
            (groups * policy.group_size,),
            (policy.group_size,),
            bound=bound,
        )

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`TiledPlan.enqueue`."""
        arrays, starts = list(buffers), list(offsets)
        if self._repacks:
            workspace = state.workspace(self._repacked_bytes)
            events = []
            for side, repack in self._repacks.items():
                place, start = self._places[side], self._starts[side]
                source_and_target = arrays[place], workspace
                moved = (starts[place], start)
                events.append(repack.enqueue(state, source_and_target, moved, (), wait_for))
                arrays[place], starts[place] = workspace, start
            wait_for = state.after(*events)
        buffers, scalars = (*self._maps, *arrays), (*starts, *scalars)
        if self._space is not None:
            buffers = (*self._space.allocate(state), *buffers)
        return self._product(state, buffers, scalars, wait_for)


@dataclass(frozen=True)
class ArrangedProduct:
    """A product as the matrix unit computes it: each operand in its own layout, or repacked.

    Attributes:
        problem: The problem with the operands that the unit reads.
        depth: Elements of k of a step.
        repacks: The first passes of operands that are repacked.
        starts: The start of each repacked operand in the workspace, in elements.
        nbytes: Bytes of the workspace.
        maps: The tensor maps of the operands, if the copy engine copies them.
        adds_parts: Whether the kernel can add the sums of several groups.
        spec: The kernel of the product.
    """

    problem: GemmProblem
    depth: int
    repacks: dict[Side, Repack]
    starts: dict[Side, int]
    nbytes: int
    maps: tuple[TensorMap, ...]
    adds_parts: bool
    spec: Specialization


def arrange(problem: GemmProblem, tiling: Tiling, target: Target) -> ArrangedProduct:
    """Arrange a problem that :func:`format_of` has a format for.

    Args:
        problem: The problem in the orientation in which it is computed.
        tiling: The tiling.
        target: The target.

    Raises:
        PolicyError: The stages of the policy do not hold whole steps of a value's pieces, or its
            tiles are too narrow for B, or its copies do not serve an operand's reader.
    """
    form, policy = format_of(problem, target), tiling.policy
    assert form is not None
    assert isinstance(policy, MatrixPolicy)
    by_engine = isinstance(policy, WgmmaPolicy) and policy.bulk
    if problem.has_readers and (by_engine or not form.supports_readers(problem)):
        raise PolicyError(f"{policy} does not copy operands that have these readers")
    if isinstance(policy, WgmmaPolicy):
        policy.check_pieces(form.parts)
    if not form.supports_parts(problem, by_engine):
        raise PolicyError(f"{policy} does not copy operands in these parts of k")
    repacks: dict[Side, Repack] = {}
    starts: dict[Side, int] = {}
    elements = 0
    operands = {"a": problem.a, "b": problem.b}
    lines, maps = {}, []
    sides: tuple[tuple[Side, int, int], ...] = (
        ("a", problem.m, policy.tile_m),
        ("b", problem.n, policy.tile_n),
    )
    for side, extent, tile in sides:
        layout = form.layout(problem, side, by_engine, tiling.gather)
        if side == "b" and layout.across and requires_k_along_b(policy):
            raise PolicyError(f"{policy} takes B with k along its lines: tile_n % 64 is not 0")
        if layout.repacked:
            repack = repacks[side] = Repack.of(problem, side, extent, form, layout.across, target)
            operands[side] = repack.result(problem.batch)
            starts[side] = elements
            elements += repack.elements
        lines[side] = Lines.of(side, operands[side], tile, layout, policy.copiers)
        if by_engine:
            k = repacks[side].parts * repacks[side].pitch if layout.repacked else problem.k
            maps.append(TensorMap.of(operands[side], lines[side], extent, k, target))
    arranged = replace(problem, a=operands["a"], b=operands["b"])
    types = {side: f"const {operands[side].elem.name}_t" for side in ("a", "b")}
    types["c"] = f"{problem.c.elem.name}_t"
    types |= {f"e{i}": f"const {e.elem.name}_t" for i, e in enumerate(problem.extras)}
    registers = form.through_registers(problem, by_engine, tiling.gather)
    store = _store_of(problem, policy, form.kernel, registers, target)
    # All shapes share few texts of mma: for any k, whole or split, and for any triangle of C.
    adds_parts = tiling.is_cut or form.kernel == "mma"
    spec = specialize(
        f"gemm/{form.kernel}",
        target,
        {"gemm": _parameters(arranged, adds_parts, form, by_engine, store.store_kinds)},
        problem=arranged,
        policy=policy,
        a=lines["a"],
        b=lines["b"],
        kind=form.kind,
        instruction=form.instruction,
        pieces=form.parts,
        products=form.products,
        flush=policy.flush,
        split=adds_parts,
        tail=any(length % form.depth for length in problem.k_parts or (problem.k,)),
        **store._asdict(),
        registers=registers,
        types=types,
    )
    nbytes = elements * form.elem.itemsize
    return ArrangedProduct(
        problem=arranged, depth=form.depth, repacks=repacks, starts=starts, nbytes=nbytes,
        maps=tuple(maps), adds_parts=adds_parts, spec=spec,
    )  # fmt: skip


class _Store(NamedTuple):
    """The code for stores of C in a text; the functions of :mod:`stores` describe each kind.

    Attributes:
        pair: ``rows`` or ``columns`` whose elements are stored in pairs, or neither.
        wide: ``rows`` or ``columns`` that are stored in 16 bytes at a time, or neither.
        by_lines: Whether whole warps store rows.
        store_kinds: The kinds among which an argument selects; empty if there is one.
    """

    pair: str
    wide: str
    by_lines: bool
    store_kinds: tuple[str, ...]


def _store_of(
    problem: GemmProblem, policy: MatrixPolicy, kernel: str, registers: bool, target: Target
) -> _Store:
    """Return the stores of a kernel; ``registers``: A is multiplied from registers."""
    store_kinds = stores.store_kinds(problem, policy, target)
    if store_kinds:
        wide_rows = "" if problem.reads_c or problem.extras else "rows"
        return _Store("rows", wide_rows, True, store_kinds)
    wide, is_mma = stores.wide(problem), kernel == "mma"
    if wide == "columns" and (registers or kernel != "wgmma"):
        wide = ""
    if problem.extras and kernel != "wgmma":
        wide = ""
    if is_mma and problem.triangle and not wide and stores.lines_fit(problem, policy, target):
        return _Store("", wide, True, ())
    pair = stores.pairs(problem, is_mma or registers or wide == "columns")
    return _Store(pair, wide, not registers and stores.by_lines(problem, policy, target), ())


def _ranges(problem: GemmProblem) -> Table:
    """Return the first element of k of each product of the batch, and their number."""
    starts = accumulate(problem.k_parts, initial=0)
    return np.array(list(zip(starts, problem.k_parts, strict=False)), np.int32)


def _parameters(
    problem: GemmProblem,
    adds_parts: bool,
    form: MatrixFormat,
    by_engine: bool,
    store_kinds: tuple[str, ...],
) -> list[Parameter]:
    """Return the parameters of the main kernel of an arranged product."""
    parts = ["unsplit"] * (form.kernel == "mma")
    result = [
        *scalars("long", "m", "n", "k", "k_split", "first_product"),
        *scalars("int", "tiles_m", "tiles_n", "splits", *parts, "units"),
        *triangle_parameters(problem), *(scalars("int", "store_kind") if store_kinds else ()),
    ]  # fmt: skip
    if adds_parts:
        if form.kernel == "wgmma":
            result += scalars("int", "unsplit", "share", "longer", "lists")
        result += shared_sums()
    if problem.k_parts:
        result += [buffer("int2", "k_ranges")]
    if by_engine:
        maps = (buffer("uint", f"{side}_map", restrict=False) for side in "ab")
        result += [*scalars("int", "box_bytes"), *maps]
    return result + product_parameters(problem)


def repacked_bytes(
    problem: GemmProblem, form: MatrixFormat, bulk: bool, gather: bool = False
) -> list[int]:
    """Return the bytes that each first pass moves, for a problem in its computed orientation."""
    p, result = problem, []
    sides: tuple[tuple[Side, Operand, int], ...] = (("a", p.a, p.m), ("b", p.b, p.n))
    for side, operand, extent in sides:
        if form.layout(p, side, bulk, gather).repacked:
            products = p.batch_size if any(operand.batch) else 1
            bytes_of_element = operand.elem.itemsize + form.parts * form.elem.itemsize
            result.append(products * extent * p.k * bytes_of_element)
    return result


def specializations_of(
    problem: GemmProblem, tiling: Tiling, target: Target
) -> list[Specialization]:
    """Render the kernels of a tiling, for a problem in its requested orientation."""
    problem = problem.transpose() if tiling.transposed else problem
    plan = arrange(problem, tiling, target)
    maps, repacks = plan.maps, plan.repacks.values()
    return [*(item.spec for item in maps), *(item.spec for item in repacks), plan.spec]
