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
from portable_gpu.ops.caches import L1_BYTES, LINE_BYTES, PAGE_BYTES
from portable_gpu.ops.gemm.operands import (
    batch_parameters,
    extents,
    extras,
    factors,
    matrix_parameters,
    offsets,
    strides,
)
from portable_gpu.ops.gemm.packed.forms import PackedForm, in_place, is_small
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.gemm.packed.sharing import shared_operand
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target

#: Bytes of scratch that one call may use: a third each for A, B and unfinished sums.
WORKSPACE = 192 << 20
#: Where B is not packed: steps of a tile at a time, and bytes of a row of B for a work-item.
VISIT = 64
RUN_BYTES = 4 << 10
#: Work of one work-item that makes the cost of a work-group (some 0.1 us) small.
ITEM_FLOP = 2_000_000
#: A number of columns that no matrix has.
_EVERY_COLUMN = 1 << 40
#: Work for each compute unit that makes the cost of a launch (some 40 us) small.
LAUNCH_FLOP = 80_000_000


def loads(problem: GemmProblem, policy: PackedPolicy) -> list[tuple[Element, int]]:
    """The vector loads of packing: element and width in components."""
    result: set[tuple[str, int]] = set()
    elems = {operand.elem.name: operand.elem for operand in (problem.a, problem.b)}
    for operand, lanes in ((problem.a, policy.item_m), (problem.b, policy.item_n)):
        name, each = operand.elem.name, operand.elem.components
        result.update((name, w * each) for w in (4, *(w for _, w in pieces(lanes, 16 // each))))
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
        *scalars("long", "m", "n", "depth", "share"),
        *scalars("int", "splits", "chunk_a", "group_a", "chunk_b", "group_b"),
        *scalars("int", "panels_a", "panels_b", "once_a", "once_b"),
        *scalars("long", "first"),
        *a, *b, *batch_parameters(rank),
    ]  # fmt: skip
    tiles = [
        buffer("real_t", "packed_a"),
        buffer("real_t", "packed_b"),
        buffer("real_t", "partial", writes=True),
        *scalars("long", "m", "n", "row", "col", "over", "under", "depth", "share"),
        *scalars("int", "splits", "share0", "share_count", "block", "run", "visit", "products"),
        *scalars("int", "a_packed", "b_packed", "once_a", "once_b"),
        *scalars("long", "first"),
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
        *scalars("long", "products", "run", "strip", "across"),
        *scalars("int", "a_packed", "b_packed", "once_b", "lines_a", "lines_b"),
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
class Slab:
    """The parts of A and B that are packed and multiplied at once.

    Attributes:
        first, products: The first product of the batch, and their number.
        row, rows: The first row of A, and their number.
        col, cols: The first column of B, and their number.
        step, steps: The first step of k, and their number.
    """

    first: int
    products: int
    row: int
    rows: int
    col: int
    cols: int
    step: int
    steps: int


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


class PackedPlan(Plan):
    """A product bound to an engine: built once, called from any thread.

    Workspace: at most :data:`WORKSPACE` bytes, or what one panel of each operand needs.
    Order: fixed by the target, the policy and the shape.

    Attributes:
        problem: The product.
        form: The blocks, and the policy of the tiles.
    """

    def __init__(self, engine: Engine, problem: GemmProblem, form: PackedForm) -> None:
        """Build the kernels of a form."""
        self.problem, self.form = problem, form
        self.flop, self.bytes = problem.flop, problem.bytes
        #: The product as it is computed: transposed, if the form is.
        self._core = core = problem.transpose() if form.transposed else problem
        self._units = engine.target.compute_units
        self._is_small = is_small(core, engine.target)
        policy = form.policy
        self._panels_a = -(-core.m // policy.item_m)
        self._panels_b = -(-core.n // policy.item_n)
        self._once_a, self._once_b = not any(core.a.batch), not any(core.b.batch)
        self._programs = engine.programs
        self._spec = specialization_of(problem, form, engine.target)
        #: The panels of B that a work-item of the kernel `whole` computes.
        self._strip = form.strip or self._panels_b
        if self.form.whole:
            self._whole = self._bind_whole()
            strips = -(-self._panels_b // self._strip)
            self.workspace_bytes = self._whole_items()[0] * strips * self._whole_bytes()
        else:
            self._block_up()
            self._launches = [each for slab in self._slabs for each in self._bind_slab(slab)]
            self._launches_without: dict[str, list[PackedLaunch]] = {}
            self.workspace_bytes = self._bytes_a + self._bytes_b + self._bytes_sums

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`.

        Buffers: a, b, the epilogue's arrays, and c.  Scalars: alpha and beta.
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
        sizes = {"a": self._bytes_a, "b": self._bytes_b, "": self._bytes_sums}
        packed = [
            kept if each == name and kept else state.workspace(nbytes) if nbytes else empty
            for each, nbytes in sizes.items()
        ]
        event: cl.Event | None = None
        for each in self._launches_sharing(name) if kept else self._launches:
            at = at_a + each.move_a, at_b + each.move_b
            if each.packs:
                event = each.launch(state, (*packed[:2], a, b), at, wait_for)
            else:
                values = (*scalars, *at, *at_out)
                event = each.launch(state, (*packed, a, b, *out), values, wait_for)
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
        name = shared.name if not self.form.transposed else "ba"["ab".index(shared.name)]
        parts = {self._part(slab, name) for slab in self._slabs}
        nbytes = self._bytes_a if name == "a" else self._bytes_b
        if len(parts) > 1 or not nbytes:
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
        once = self._once_a if name == "a" else self._once_b
        sizes = width, core.batch, once, self._share, self._shares
        return name, operand, core.compute, self._part(self._slabs[0], name), sizes

    def _launches_sharing(self, name: str) -> list[PackedLaunch]:
        """Return the launches without the packing of an operand."""
        if name not in self._launches_without:
            self._launches_without[name] = [
                each for slab in self._slabs for each in self._bind_slab(slab, without=name)
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
        run = -(-core.batch_size // items)
        return -(-core.batch_size // run), run

    def _across(self) -> int:
        """The panels of B across which rows of C are stored: half of the L1 cache holds them.

        It is 1 for triangles, and if C is stored by columns.
        """
        core = self._core
        if core.triangle or abs(core.c.row) < abs(core.c.col):
            return 1
        panel = self.form.policy.item_n * core.k * core.compute.itemsize
        return max(1, L1_BYTES // 2 // max(1, panel))

    def _block_up(self) -> None:
        """Cut the product into slabs that fit the workspace, and k into shares.

        A third of the workspace is for packed parts of A, one for those of B, and one for sums of
        tiles.  k is divided as follows::

            share    steps of k that a work-item adds to the sums of a tile in one launch
            splits   shares that different work-items add at the same time, each with its own sums
            rounds   of such shares, one after the other: splits x rounds x share is at least k
            shares   shares of k in a slab, which are packed by one launch
        """
        core, form, policy = self._core, self.form, self.form.policy
        itemsize = core.compute.itemsize
        tiles = core.tiles(policy.item_m, policy.item_n) * core.batch_size
        target_splits = -(-4 * self._units // tiles)
        self.splits = splits = max(1, min(target_splits, core.k // 512)) if target_splits > 1 else 1
        third = WORKSPACE // 3
        if form.b_packed:
            worth = LAUNCH_FLOP * self._units * core.k // max(1, core.flop)  # steps of a launch
            max_depth = max(64, third // (itemsize * max(policy.item_m, policy.item_n)))
            depth = min(max_depth, max(policy.depth, min(4 * policy.depth, worth)))
        else:
            # No panels of B limit a share, and a work-item visits it VISIT steps at a time.
            depth = max_depth = max(policy.depth, VISIT << 10)
        whole = core.k <= splits * min(max_depth, 2 * depth)
        rounds = 1 if whole else -(-core.k // (splits * depth))
        self._share = share = max(1, -(-core.k // (splits * rounds)))
        self._visit = share if form.b_packed else min(share, VISIT)
        fits = max_depth // share
        if core.m * core.n * itemsize <= third:
            # Whole rows and columns: fewer, larger launches than of deep, small slabs.
            sides = (core.m * form.a_packed, core.n * form.b_packed)
            fits = third // max(1, itemsize * max(sides)) // share
        self._shares = shares = splits if splits > 1 else max(1, min(rounds, fits))
        slab_k = share * shares
        keeps_sums = share < core.k or self._visit < share  # a tile is computed by several visits
        rows = max(1, third // (slab_k * itemsize * policy.item_m)) * policy.item_m
        cols = max(1, third // (slab_k * itemsize * policy.item_n)) * policy.item_n
        rows = core.m if not form.a_packed else min(rows, core.m)
        cols = core.n if not form.b_packed else min(cols, core.n)
        if keeps_sums:
            panels = third // (splits * itemsize * policy.item_m * policy.item_n)
            cols = min(cols, max(1, panels) * policy.item_n)
            max_rows = third // (splits * itemsize * -(-cols // policy.item_n) * policy.item_n)
            rows = min(rows, max(1, max_rows // policy.item_m) * policy.item_m)
        rows, cols = _even(core.m, rows, policy.item_m), _even(core.n, cols, policy.item_n)
        bytes_of_product = slab_k * itemsize * max(rows * form.a_packed, cols * form.b_packed)
        if keeps_sums:
            bytes_of_product = max(bytes_of_product, splits * itemsize * rows * cols)
        is_whole = (rows, cols) == (core.m, core.n)
        products = max(1, third // max(1, bytes_of_product)) if is_whole else 1
        products = min(products, core.batch_size)
        self._grains = (
            grain(core.a.row, policy.item_m * core.a.elem.itemsize, policy.chunk),
            grain(core.b.col, policy.item_n * core.b.elem.itemsize, policy.chunk),
        )
        self._slabs = list(self._cut(products, rows, cols, slab_k))
        panels_a, panels_b = -(-rows // policy.item_m), -(-cols // policy.item_n)
        copies_a, copies_b = (1 if once else products for once in (self._once_a, self._once_b))
        slab_bytes = slab_k * itemsize
        self._bytes_a = form.a_packed * copies_a * panels_a * policy.item_m * slab_bytes
        self._bytes_b = form.b_packed * copies_b * panels_b * policy.item_n * slab_bytes
        tile_bytes = policy.item_m * policy.item_n * itemsize
        self._bytes_sums = keeps_sums * splits * products * panels_a * panels_b * tile_bytes
        flop_of_tile = 2 * policy.item_m * policy.item_n * core.compute.components * share
        run = max(1, ITEM_FLOP // max(1, flop_of_tile))
        if not form.b_packed:
            run = max(run, RUN_BYTES // (policy.item_n * itemsize))
        run = min(run, max(1, panels_a * panels_b * products // (8 * self._units)), panels_b)
        # Runs of panels of B are about equal, because threads share the items out.
        items = -(-panels_b // run)
        self._run = -(-panels_b // items)

    def _cut(self, products: int, rows: int, cols: int, steps: int) -> Iterator[Slab]:
        """Yield the slabs of at most these extents, without those outside of a triangle of C."""
        core = self._core
        for first in range(0, core.batch_size, products):
            for col in range(0, core.n, cols):
                for row in range(0, core.m, rows):
                    block = self._in_triangle(
                        row, min(row + rows, core.m), col, min(col + cols, core.n)
                    )
                    if block is None:
                        continue
                    top, bottom, left, right = block
                    for step in range(0, max(1, core.k), steps):
                        yield Slab(
                            first=first, products=min(products, core.batch_size - first), row=top,
                            rows=bottom - top, col=left, cols=right - left, step=step,
                            steps=min(steps, core.k - step),
                        )  # fmt: skip

    def _in_triangle(
        self, top: int, bottom: int, left: int, right: int
    ) -> tuple[int, int, int, int] | None:
        """The rows and columns of a block of C that have elements to compute, if there are any."""
        if self._core.triangle == "lower":
            top, right = max(top, left), min(right, bottom)
        elif self._core.triangle == "upper":
            left, bottom = max(left, top), min(bottom, right)
        return (top, bottom, left, right) if top < bottom and left < right else None

    # -- launches

    def _bind_whole(self) -> Launch:
        core = self._core
        items, run = self._whole_items()
        tiles = self._panels_a * self._panels_b
        constants = {
            "m": core.m,
            "n": core.n,
            "steps": core.k,
            "products": core.batch_size,
            "run": run,
            "strip": self._strip,
            "across": self._across(),
            **self._packed(),
            "once_b": self._once_b,
            "lines_a": lines_ahead(core.a, core.m, core.k, tiles),
            "lines_b": lines_ahead(core.b, core.k, core.n, tiles),
        }
        strips = -(-self._panels_b // self._strip)
        return self._bind("whole", constants, ["scratch"], (items, strips, 1))

    def _bind_slab(self, slab: Slab, without: str = "") -> Iterator[PackedLaunch]:
        """Pack its panels, multiply them, and add up the shares of k if there are several.

        Args:
            slab: The slab.
            without: The operand that is packed already.
        """
        core, form = self._core, self.form
        move_a = slab.row * core.a.row + slab.step * core.a.col
        move_b = slab.col * core.b.col + slab.step * core.b.row
        a_packed, b_packed = form.a_packed and without != "a", form.b_packed and without != "b"
        if slab.steps > 0 and (a_packed or b_packed):
            yield PackedLaunch(self._bind_pack(slab, a_packed, b_packed), True, move_a, move_b)
        last = slab.step + slab.steps >= core.k
        if self.splits > 1:
            tiles = self._bind_tiles(slab, 0, self.splits, parts=int(slab.step > 0), finish=False)
            yield PackedLaunch(tiles, False, move_a, move_b)
            if last:
                adds = self._bind_tiles(
                    replace(slab, steps=0), 0, 1, parts=self.splits, finish=True
                )
                yield PackedLaunch(adds, False, move_a, move_b)
            return
        count = max(1, -(-slab.steps // self._share))
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
        (chunk_a, group_a), (chunk_b, group_b) = self._grains
        constants = self._of_slab(slab) | {
            "chunk_a": chunk_a, "group_a": group_a, "chunk_b": chunk_b, "group_b": group_b,
            "panels_a": panels_a, "panels_b": panels_b,
            **strides({"a": core.a, "b": core.b}), **extents(core.batch),
        }  # fmt: skip
        items = -(-panels_a // group_a) * -(-self._share // chunk_a) * self._shares
        items += -(-panels_b // group_b) * -(-self._share // chunk_b) * self._shares
        size = (items, slab.products, 1)
        return self._programs.launch(
            self._spec, "pack", constants, ["packed_a", "packed_b", "a", "b"], offsets("ab"),
            size, (1, 1, 1),
        )  # fmt: skip

    def _bind_tiles(
        self, slab: Slab, share0: int, share_count: int, parts: int, finish: bool
    ) -> Launch:
        """Multiply panels of a slab.

        Args:
            slab: The slab.
            share0, share_count: The first share, and the number of shares; each has its own
                work-items.
            parts: The number of unfinished sums of each tile that are added first.
            finish: Whether the result is stored in C; otherwise sums remain unfinished.
        """
        policy = self.form.policy
        panels_a, panels_b = -(-slab.rows // policy.item_m), -(-slab.cols // policy.item_n)
        blocks = -(-panels_a // policy.block_m)
        block = -(-panels_a // blocks)
        constants = self._of_slab(slab) | {
            "row": slab.row, "col": slab.col, "share0": share0, "share_count": share_count,
            "block": block, "run": self._run, "visit": self._visit, "products": slab.products,
            "parts": parts, "finish": finish, **self._packed(), **self._band(),
        }  # fmt: skip
        size = (block, -(-panels_b // self._run), blocks * share_count * slab.products)
        return self._bind("tiles", constants, ["packed_a", "packed_b", "partial"], size)

    def _of_slab(self, slab: Slab) -> dict[str, int]:
        """The arguments that packing and multiplying a slab have in common."""
        # The kernels' `splits` are the shares of a slab, not `self.splits`.
        return {
            "m": slab.rows, "n": slab.cols, "depth": slab.steps, "share": self._share,
            "splits": self._shares, "first": slab.first,
            "once_a": self._once_a, "once_b": self._once_b,
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
            ["alpha", "beta", *offsets(operands)],
            size,
            (1, 1, 1),
        )


def _even(extent: int, most: int, multiple: int) -> int:
    """The size of the pieces, at most ``most``, into which an extent is cut most evenly."""
    if extent <= most:
        return extent
    return -(-extent // (-(-extent // most) * multiple)) * multiple


def grain(lane_stride: int, bytes_across: int, chunk: int) -> tuple[int, int]:
    """Steps and panels that one work-item packs: long runs of the source, one after the other."""
    return (16, max(1, PAGE_BYTES // bytes_across)) if lane_stride == 1 else (chunk, 1)


def lines_ahead(operand: Operand, rows: int, cols: int, tiles: int) -> int:
    """Return the cache lines of the next matrix of a batch to prefetch with each tile.

    Those of a dense matrix are all prefetched; others are not.
    """
    dense = (operand.row, operand.col) in ((cols, 1), (1, rows))
    if not dense or len(operand.batch) != 1 or not operand.batch[0]:
        return 0
    return -(-rows * cols * operand.elem.itemsize // (LINE_BYTES * tiles))
