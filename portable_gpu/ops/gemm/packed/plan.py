"""gemm on a CPU: panels packed in parallel, register tiles, slabs that fit the workspace."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyopencl as cl

from portable_gpu.codegen.epilogue import stored_operands
from portable_gpu.codegen.parameters import Declared, Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L1_BYTES, LINE_BYTES
from portable_gpu.ops.gemm.operands import (
    batch_parameters,
    extents,
    extras,
    factors,
    matrix_parameters,
    offsets,
    strides,
)
from portable_gpu.ops.gemm.packed.blocks import Blocks, Slab
from portable_gpu.ops.gemm.packed.forms import PackedForm, in_core, in_place, is_small
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.packed.sharing import shared_operand
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: A number of columns that no matrix has.
_EVERY_COLUMN = 1 << 40
_PACKED_OFFSETS = "packed_a_offset", "packed_b_offset"


def loads(problem: GemmProblem, policy: PackedPolicy) -> list[tuple[Element, int]]:
    """The vector loads of packing: element and width in components."""
    result: set[tuple[str, int]] = set()
    elems = {operand.elem.name: operand.elem for operand in (problem.a, problem.b)}
    for operand, lanes in ((problem.a, policy.item_m), (problem.b, policy.item_n)):
        name, components = operand.elem.name, operand.elem.components
        result.update(
            (name, w * components) for w in (4, *(w for _, w in pieces(lanes, 16 // components)))
        )
    return [(elems[name], width) for name, width in sorted(result)]


def pieces(lanes: int, widest: int) -> list[tuple[int, int]]:
    """``lanes`` as vectors of 2, 4 ... ``widest`` lanes: (first lane, width); 1 may be left."""
    result, first = [], 0
    while lanes - first >= 2:
        width = min(widest, 1 << ((lanes - first).bit_length() - 1))
        result.append((first, width))
        first += width
    return result


def specialization_of(problem: GemmProblem, form: PackedForm, target: Target) -> Specialization:
    """The text of a form, for a problem in its requested orientation."""
    core = problem.transpose() if form.transposed else problem
    name = "gemm/packed_whole" if form.whole else "gemm/packed"
    return specialize(
        name,
        target,
        _whole_parameters(core) if form.whole else _parameters(core),
        problem=core,
        policy=form.policy,
        loads=loads(core, form.policy),
        pieces=pieces,
        direct=[x for x, item in (("a", core.a), ("b", core.b)) if in_place(item, core.compute)],
    )


def _parameters(p: GemmProblem) -> Declared:
    """The parameters of the kernels ``pack`` and ``tiles``."""
    rank = len(p.batch)
    a, b = (matrix_parameters(x, item.elem, rank) for x, item in (("a", p.a), ("b", p.b)))
    pack = [
        buffer("real_t", "packed_a", writes=True),
        buffer("real_t", "packed_b", writes=True),
        *scalars("long", "m", "n", "depth", "share_steps"),
        *scalars("int", "shares", "chunk_a", "group_a", "chunk_b", "group_b"),
        *scalars("int", "panels_a", "panels_b", "common_a", "common_b"),
        *scalars("long", "first", "packed_a_offset", "packed_b_offset"),
        *a, *b, *batch_parameters(rank),
    ]  # fmt: skip
    tiles = [
        buffer("real_t", "packed_a"),
        buffer("real_t", "packed_b"),
        buffer("real_t", "partial", writes=True),
        *scalars("long", "m", "n", "row", "col", "over", "under", "depth", "share_steps"),
        *scalars(
            "int",
            "shares",
            "first_share",
            "share_count",
            "block",
            "panels_each",
            "visit_steps",
            "products",
        ),
        *scalars("int", "a_packed", "b_packed", "common_a", "common_b"),
        *scalars("long", "first", "packed_a_offset", "packed_b_offset"),
        *scalars("int", "parts", "finish"),
        *_stored(p),
    ]
    return {"pack": pack, "tiles": tiles}


def _whole_parameters(p: GemmProblem) -> Declared:
    """The parameters of the kernel ``whole``."""
    parameters = [
        buffer("real_t", "scratch", writes=True, restrict=False),
        *scalars("long", "m", "n"),
        *scalars("int", "steps"),
        *scalars("long", "products", "products_each", "strip", "across"),
        *scalars("int", "a_packed", "b_packed", "common_b", "lines_a", "lines_b"),
        *_stored(p),
    ]
    return {"whole": parameters}


def _stored(p: GemmProblem) -> list[Parameter]:
    """Alpha and beta, and all operands with strides."""
    rank = len(p.batch)
    return [
        *factors(p.compute),
        *matrix_parameters("a", p.a.elem, rank),
        *matrix_parameters("b", p.b.elem, rank),
        *matrix_parameters("c", p.c.elem, rank, writes=True),
        *batch_parameters(rank),
        *stored_operands(p.extras, rank),
    ]


@dataclass(frozen=True)
class PackedLaunch:
    """One launch.

    Attributes:
        launch: The launch.
        packs: Whether it packs a slab; otherwise it computes tiles.
        move_a, move_b: The offsets of its slab in A and in B, in elements.
    """

    launch: Launch
    packs: bool
    move_a: int
    move_b: int


@dataclass(frozen=True)
class Panels:
    """The layout of a packed operand: see the template ``gemm/packed``.

    Attributes:
        width: Rows or columns of a panel.
        share_steps, shares: Steps of k of a share, and the number of shares.
        nbytes: Bytes of the panels of all products.
    """

    width: int
    share_steps: int
    shares: int
    nbytes: int


def prepacked_panels(
    problem: GemmProblem, form: PackedForm, target: Target, name: str
) -> Panels | None:
    """Return the layout of an operand that calls of :class:`PackedPlan` can pass packed.

    ``None`` if it is not packed, or if parts of it follow each other in the same memory.

    Args:
        problem, form: The product and its form.
        target: The device.
        name: The operand of the problem: ``"a"`` or ``"b"``.
    """
    if form.whole:
        return None
    core = problem.transpose() if form.transposed else problem
    blocks, name = Blocks(core, form, target.compute_units), in_core(name, form)
    if len(blocks.slabs) > 1 or not blocks.sizes[name]:
        return None
    width = form.policy.item_m if name == "a" else form.policy.item_n
    return Panels(width, blocks.share_steps, blocks.shares, blocks.sizes[name])


class OperandPacking(Plan):
    """The packing of an operand of several products that have the same form, for all of them.

    Operands: the operand as it is stored, and packed, whose offset counts elements of the product.
    """

    def __init__(self, engine: Engine, problem: GemmProblem, form: PackedForm, name: str) -> None:
        """Build the kernel.

        Args:
            engine: The engine.
            problem, form, name: See :func:`prepacked_panels`, which are not ``None``.
        """
        plan = PackedPlan(engine, problem, form)
        self._name = in_core(name, form)
        self._launch = plan.packing(self._name)

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`."""
        source, packed = buffers
        at_source, at_packed = offsets
        of_a, empty = self._name == "a", state.empty_buffer
        memories = [packed if of_a else empty, empty if of_a else packed]
        memories += [source if of_a else empty, empty if of_a else source]
        return self._launch(state, memories, (at_packed, at_packed, at_source, at_source), wait_for)


class PackedPlan(Plan):
    """A product bound to an engine: built once, called from any thread.

    Workspace: at most :data:`WORKSPACE` bytes, or what one panel of each operand needs.
    Order: fixed by the target, the policy and the shape.

    Attributes:
        problem: The product.
        form: The form, with the policy of the tiles.
        blocks: Its slabs, and the shares of k; products that are computed whole have none.
    """

    def __init__(
        self, engine: Engine, problem: GemmProblem, form: PackedForm, prepacked: str = ""
    ) -> None:
        """Build the kernels of a form.

        Args:
            engine: The engine.
            problem, form: The product and its form.
            prepacked: The operands, of ``"a"`` and ``"b"`` of the problem, that calls pass packed,
                at offsets in elements of the product: see :func:`prepacked_panels`.
        """
        self.problem, self.form = problem, form
        self._prepacked = "".join(in_core(name, form) for name in prepacked)
        self.flop, self.bytes = problem.flop, problem.bytes
        #: The product as it is computed: transposed, if the form is.
        self._core = core = problem.transpose() if form.transposed else problem
        self._units = engine.target.compute_units
        self._is_small = is_small(core, engine.target)
        policy = form.policy
        self._panels_a = -(-core.m // policy.item_m)
        self._panels_b = -(-core.n // policy.item_n)
        self._common_b = not any(core.b.batch)
        self._programs = engine.programs
        self._spec = specialization_of(problem, form, engine.target)
        #: The panels of B that a work-item of the kernel `whole` computes.
        self._strip = form.strip or self._panels_b
        if self.form.whole:
            self._whole = self._bind_whole()
            strips = -(-self._panels_b // self._strip)
            self.workspace_bytes = self._whole_items()[0] * strips * self._whole_bytes()
        else:
            self.blocks = Blocks(core, form, self._units)
            self._sizes = self.blocks.sizes | dict.fromkeys(self._prepacked, 0)
            self._launches = [
                launch
                for slab in self.blocks.slabs
                for launch in self._bind_slab(slab, self._prepacked)
            ]
            self._launches_without: dict[str, list[PackedLaunch]] = {}
            self.workspace_bytes = sum(self._sizes.values())

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`.

        Buffers: a, b, the epilogue's arrays, and c; of a prepacked operand, its panels.
        Scalars: alpha and beta.
        """
        a, b, *extras, c = buffers
        at_a, at_b, *at_extras, at_c = offsets
        out, at_out = (c, *extras), (at_c, *at_extras)
        if self.form.transposed:
            a, b, at_a, at_b = b, a, at_b, at_a
        if self.form.whole:
            scratch = state.workspace(self.workspace_bytes)
            return self._whole(
                state, (scratch, a, b, *out), (*scalars, at_a, at_b, *at_out), wait_for
            )
        empty = state.empty_buffer
        kept, name, key = self._shared(state, (a, b), (at_a, at_b))
        packed = [
            kept if operand == name and kept else state.workspace(nbytes) if nbytes else empty
            for operand, nbytes in self._sizes.items()
        ]
        at_packed = [0, 0]
        if "a" in self._prepacked:
            packed[0], at_packed[0], a, at_a = a, at_a, empty, 0
        if "b" in self._prepacked:
            packed[1], at_packed[1], b, at_b = b, at_b, empty, 0
        event: cl.Event | None = None
        for launch in self._launches_sharing(name) if kept else self._launches:
            at = *at_packed, at_a + launch.move_a, at_b + launch.move_b
            if launch.packs:
                event = launch.launch(state, (*packed[:2], a, b), at, wait_for)
            else:
                values = (*scalars, *at, *at_out)
                event = launch.launch(state, (*packed, a, b, *out), values, wait_for)
            wait_for = state.after(event)
        shared = shared_operand()
        if name and not kept and shared is not None:
            shared.packed[key] = packed[name == "b"]
        return event

    # -- operands that are packed once for several products

    def _shared(
        self, state: QueueState, memories: tuple[Any, Any], offsets: tuple[int, int]
    ) -> tuple[Any, str, Hashable]:
        """Return the packed operand that is kept, or ``None``; its name in `_core`, and its key.

        The name is empty if no operand can be kept: there is none in common with other products, it
        is not packed, or parts of it follow each other in the same memory.
        """
        shared = shared_operand()
        if shared is None or state.recording is not None or not state.in_order:
            return None, "", None
        name = in_core(shared.name, self.form)
        parts = {self._part(slab, name) for slab in self.blocks.slabs}
        if len(parts) > 1 or not self._sizes[name]:
            return None, "", None
        at = "ab".index(name)
        memory = memories[at]
        address = memory.svm_ptr if isinstance(memory, cl.SVM) else memory.int_ptr
        key = state.pointer.value, address, offsets[at], self._layout(name)
        return shared.packed.get(key), name, key

    def _part(self, slab: Slab, name: str) -> tuple[int, ...]:
        """Return the part of an operand that a slab reads."""
        side = (slab.row, slab.rows) if name == "a" else (slab.col, slab.cols)
        return (*side, slab.step, slab.steps, slab.first, slab.products)

    def _layout(self, name: str) -> Hashable:
        """Return all on which the layout of a packed operand depends."""
        core, policy = self._core, self.form.policy
        operand, width = (core.a, policy.item_m) if name == "a" else (core.b, policy.item_n)
        is_common = self.blocks.common_a if name == "a" else self.blocks.common_b
        sizes = width, core.batch, is_common, self.blocks.share_steps, self.blocks.shares
        return name, operand, core.compute, self._part(self.blocks.slabs[0], name), sizes

    def packing(self, name: str) -> Launch:
        """Return the launch that packs an operand of the computed product, in its only part."""
        (slab,) = self.blocks.slabs
        return self._bind_pack(slab, name == "a", name == "b")

    def _launches_sharing(self, name: str) -> list[PackedLaunch]:
        """Return the launches without the packing of an operand."""
        if name not in self._launches_without:
            self._launches_without[name] = [
                launch
                for slab in self.blocks.slabs
                for launch in self._bind_slab(slab, self._prepacked + name)
            ]
        return self._launches_without[name]

    # -- choices

    def _whole_bytes(self) -> int:
        """Scratch of a work-item that computes a whole product, or `_strip` panels of B of it."""
        form, policy = self.form, self.form.policy
        lanes = form.a_packed * self._panels_a * policy.item_m
        lanes += form.b_packed * self._strip * policy.item_n
        return max(64, lanes * self._core.k * self._core.compute.itemsize)

    def _whole_items(self) -> tuple[int, int]:
        """Work-items along the batch, and products of each."""
        core = self._core
        items = (
            1 if self._is_small and not self.form.strip else min(core.batch_size, 64 * self._units)
        )
        products_each = -(-core.batch_size // items)
        return -(-core.batch_size // products_each), products_each

    def _across(self) -> int:
        """The panels of B across which rows of C are stored: half of the L1 cache holds them.

        It is 1 for triangles, and if C is stored by columns.
        """
        core = self._core
        if core.triangle or abs(core.c.row) < abs(core.c.col):
            return 1
        panel = self.form.policy.item_n * core.k * core.compute.itemsize
        return max(1, L1_BYTES // 2 // max(1, panel))

    # -- launches

    def _bind_whole(self) -> Launch:
        core = self._core
        items, products_each = self._whole_items()
        tiles = self._panels_a * self._panels_b
        constants = {
            "m": core.m,
            "n": core.n,
            "steps": core.k,
            "products": core.batch_size,
            "products_each": products_each,
            "strip": self._strip,
            "across": self._across(),
            **self._packed(),
            "common_b": self._common_b,
            "lines_a": lines_ahead(core.a, core.m, core.k, tiles),
            "lines_b": lines_ahead(core.b, core.k, core.n, tiles),
        }
        strips = -(-self._panels_b // self._strip)
        return self._bind("whole", constants, ["scratch"], (items, strips, 1))

    def _bind_slab(self, slab: Slab, without: str) -> Iterator[PackedLaunch]:
        """Pack its panels, multiply them, and add up the shares of k if there are several.

        Args:
            slab: The slab.
            without: The operands that are packed already.
        """
        core, form = self._core, self.form
        move_a = slab.row * core.a.row + slab.step * core.a.col
        move_b = slab.col * core.b.col + slab.step * core.b.row
        a_packed = form.a_packed and "a" not in without
        b_packed = form.b_packed and "b" not in without
        if slab.steps > 0 and (a_packed or b_packed):
            yield PackedLaunch(self._bind_pack(slab, a_packed, b_packed), True, move_a, move_b)
        last = slab.step + slab.steps >= core.k
        splits = self.blocks.splits
        if splits > 1:
            tiles = self._bind_tiles(slab, 0, splits, parts=int(slab.step > 0), finish=False)
            yield PackedLaunch(tiles, False, move_a, move_b)
            if last:
                adds = self._bind_tiles(replace(slab, steps=0), 0, 1, parts=splits, finish=True)
                yield PackedLaunch(adds, False, move_a, move_b)
            return
        count = max(1, -(-slab.steps // self.blocks.share_steps))
        for share in range(count):
            tiles = self._bind_tiles(
                slab, share, 1, parts=int(slab.step + share > 0),
                finish=last and share == count - 1,
            )  # fmt: skip
            yield PackedLaunch(tiles, False, move_a, move_b)

    def _bind_pack(self, slab: Slab, a_packed: bool, b_packed: bool) -> Launch:
        core, policy = self._core, self.form.policy
        panels_a = -(-slab.rows // policy.item_m) * a_packed
        panels_b = -(-slab.cols // policy.item_n) * b_packed
        (chunk_a, group_a), (chunk_b, group_b) = self.blocks.pack_sizes
        constants = self._of_slab(slab) | {
            "chunk_a": chunk_a, "group_a": group_a, "chunk_b": chunk_b, "group_b": group_b,
            "panels_a": panels_a, "panels_b": panels_b,
            **strides({"a": core.a, "b": core.b}), **extents(core.batch),
        }  # fmt: skip
        share_steps, shares = self.blocks.share_steps, self.blocks.shares
        items = -(-panels_a // group_a) * -(-share_steps // chunk_a) * shares
        items += -(-panels_b // group_b) * -(-share_steps // chunk_b) * shares
        size = (items, slab.products, 1)
        return self._programs.launch(
            self._spec, "pack", constants, ["packed_a", "packed_b", "a", "b"],
            [*_PACKED_OFFSETS, *offsets("ab")], size, (1, 1, 1),
        )  # fmt: skip

    def _bind_tiles(
        self, slab: Slab, first_share: int, share_count: int, parts: int, finish: bool
    ) -> Launch:
        """Multiply panels of a slab.

        Args:
            slab: The slab.
            first_share, share_count: The first share, and the number of shares; each has its own
                work-items.
            parts: The number of unfinished sums of each tile that are added first.
            finish: Whether the result is stored in C; otherwise sums remain unfinished.
        """
        policy = self.form.policy
        panels_a, panels_b = -(-slab.rows // policy.item_m), -(-slab.cols // policy.item_n)
        blocks = -(-panels_a // policy.block_m)
        block = -(-panels_a // blocks)
        constants = self._of_slab(slab) | {
            "row": slab.row, "col": slab.col, "first_share": first_share,
            "share_count": share_count, "block": block, "panels_each": self.blocks.panels_each,
            "visit_steps": self.blocks.visit_steps, "products": slab.products, "parts": parts,
            "finish": finish, **self._packed(), **self._band(),
        }  # fmt: skip
        items_b = -(-panels_b // self.blocks.panels_each)
        size = block, items_b, blocks * share_count * slab.products
        return self._bind("tiles", constants, ["packed_a", "packed_b", "partial"], size)

    def _of_slab(self, slab: Slab) -> dict[str, int]:
        """The arguments that packing and multiplying a slab have in common."""
        return {
            "m": slab.rows, "n": slab.cols, "depth": slab.steps,
            "share_steps": self.blocks.share_steps, "shares": self.blocks.shares,
            "first": slab.first,
            "common_a": self.blocks.common_a, "common_b": self.blocks.common_b,
        }  # fmt: skip

    def _packed(self) -> dict[str, int]:
        return {"a_packed": self.form.a_packed, "b_packed": self.form.b_packed}

    def _band(self) -> dict[str, int]:
        """The number of computed columns on each side of the diagonal."""
        triangle = self._core.triangle
        return {
            "over": 0 if triangle == "lower" else _EVERY_COLUMN,
            "under": 0 if triangle == "upper" else _EVERY_COLUMN,
        }

    def _bind(
        self, name: str, constants: dict[str, int], scratch: list[str], size: tuple[int, ...]
    ) -> Launch:
        """A kernel that writes C."""
        core = self._core
        operands = {"a": core.a, "b": core.b, "c": core.c, **extras(core)}
        return self._programs.launch(
            self._spec,
            name,
            {**constants, **strides(operands), **extents(core.batch)},
            [*scratch, *operands],
            ["alpha", "beta", *(_PACKED_OFFSETS if name == "tiles" else ()), *offsets(operands)],
            size,
            (1, 1, 1),
        )


def lines_ahead(operand: Operand, rows: int, cols: int, tiles: int) -> int:
    """Return the cache lines of the next matrix of a batch to prefetch with each tile.

    Those of a dense matrix are all prefetched; others are not.
    """
    dense = (operand.row, operand.col) in ((cols, 1), (1, rows))
    if not dense or len(operand.batch) != 1 or not operand.batch[0]:
        return 0
    return -(-rows * cols * operand.elem.itemsize // (LINE_BYTES * tiles))
