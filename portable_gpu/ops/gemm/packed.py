"""gemm on a CPU: panels packed in parallel, register tiles, blocking for the caches.

Source: Goto & van de Geijn, *Anatomy of high-performance matrix multiplication*, TOMS 34(3),
2008; Van Zee & van de Geijn, *BLIS*, TOMS 41(3), 2015 (names MR, NR).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Annotated, Any

import pyopencl as cl

from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.operands import (
    BUFFER,
    INT,
    LONG,
    batch_parameters,
    parameters,
    scalar_type,
)
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan
from portable_gpu.runtime.program import Launch
from portable_gpu.runtime.queue_state import QueueState
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts, multiply_adds, overlapped, stride_waste
from portable_gpu.tuning.policy import Policy, Range
from portable_gpu.tuning.table import Choice, TuningTable

#: Bytes of scratch that one call may use: a third each for A, B and unfinished sums.
WORKSPACE = 192 << 20
#: OpenCL tells the size of one cache level only.  Assumed of the ones below: L2 holds a block of A
#: while panels of B pass by, L1 half a panel of B (recent cores of x86 and Arm: 0.5 to 2 MiB of
#: L2, 32 to 64 KiB of L1).
L2_BYTES = 1 << 20
L1_BYTES = 32 << 10
LINE_BYTES = 64
#: An operand that is used by no more tiles than this is read where it lies: in slabs (packing
#: costs a pass over memory), and where one work-item makes whole products (a pass over the cache).
SLAB_USES = 2
WHOLE_USES = 8
#: Where B is not packed: steps of a tile at a time, and bytes of a row of B for a work-item.
VISIT = 64
RUN_BYTES = 4 << 10
#: Steps of k from which on what is packed counts for more than how C is stored.
LONG_K = 100
#: Below this much work for each compute unit nothing is packed that need not be: it costs a launch.
LONE_FLOP = 8_000_000
#: Memory is read in runs of at least this length where panels lie across it.
PAGE_BYTES = 4 << 10
#: Below this much work a second thread costs more to wake than it saves.
SERIAL_FLOP = 3_000_000
#: Work of one work-item that makes the cost of a work-group (some 0.1 us) small.
ITEM_FLOP = 2_000_000
#: Work for each compute unit that makes the cost of a launch (some 40 us) small.
LAUNCH_FLOP = 80_000_000


@dataclass(frozen=True)
class PackedPolicy(Policy):
    """Sizes of the packed gemm.

    Attributes:
        vector: Lanes of a vector.
        item_m: Rows of a register tile (MR).
        item_n: Columns of a register tile (NR), a multiple of ``vector``.
        depth: Steps along k between two visits of a tile (kc).
        block_m: Panels of A that stay in the L2 cache.
        chunk: Steps of a panel that one work-item packs.
    """

    vector: Annotated[int, Range(2, 16)]
    item_m: Annotated[int, Range(1, 32)]
    item_n: Annotated[int, Range(2, 256)]
    depth: Annotated[int, Range(8, 1 << 14)]
    block_m: Annotated[int, Range(1, 4096)]
    chunk: Annotated[int, Range(4, 1 << 16)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> PackedPolicy:
        """Fill the vector registers with sums, and most of L2 with a block of A."""
        lane = elem.itemsize // elem.components
        vector = min(16, max(2, target.vector_bytes // lane))
        if registers(target) == 32:
            item_m, vectors = (6, 2) if elem.complex else (12, 2)
        else:
            item_m, vectors = (6, 1) if elem.complex else (6, 2)
        return cls.of_tile(vector, item_m, vectors, elem)

    @classmethod
    def of_tile(cls, vector: int, item_m: int, vectors: int, elem: Element) -> PackedPolicy:
        """The policy of a register tile: the cache blocks follow from it."""
        item_n = vectors * vector
        depth = L1_BYTES // 2 // (item_n * elem.itemsize)
        if depth < 256:  # too wide a panel of B to stay in L1: both come from L2, and stay long
            step = (item_m + item_n) * elem.itemsize  # of a panel of A and one of B
            depth = min(1024, max(64, L2_BYTES * 3 // 16 // step // 64 * 64))
        block_m = max(1, L2_BYTES * 3 // 4 // (item_m * elem.itemsize * depth))
        return cls(vector, item_m, item_n, depth, block_m, chunk=256)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """Tiles of other shapes, and deeper or shallower blocks."""
        base = cls.default(target, elem)
        return {
            "vector": (base.vector, max(2, base.vector // 2)),
            "item_m": (4, 6, 8, 12, 14),
            "item_n": tuple(base.vector * vectors for vectors in (1, 2, 3, 4)),
            "depth": (256, 384, 512, 1024, 2048),
            "block_m": (4, 8, 16, 32),
            "chunk": (128, 256, 512),
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.item_m, self.item_n, self.depth

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """What the kernels rely on."""
        sums = self.item_m * self.item_n // self.vector * elem.components
        return {
            "vector is 2, 4, 8 or 16": self.vector in (2, 4, 8, 16),
            "item_n is a multiple of vector": self.item_n % self.vector == 0,
            "chunk is a multiple of 4": self.chunk % 4 == 0,
            f"sums fit {registers(target)} vector registers": sums < 2 * registers(target),
        }

    def fit(self, m: int, n: int, k: int, elem: Element) -> PackedPolicy:
        """The policy with the register tile that wastes least on a product of m x n over k."""
        sums = self.item_m * self.item_n // self.vector
        shapes = {(self.item_m, self.item_n // self.vector)}
        small = m <= 8 * self.item_m or n <= 8 * self.item_n
        for rows in (1, 2, 3, 4, 6, 8, 12) if small else (4, 8):
            for vectors in (1, 2, 3, 4, 6, 8) if small else (3,):
                if rows * vectors == sums or (small and rows * vectors < sums):
                    shapes.add((rows, vectors))

        def cost(shape: tuple[int, int]) -> float:
            # A tile costs its multiply-adds (8 keep two pipes full), and some loads.
            rows, vectors = shape
            tiles = -(-m // rows) * -(-n // (vectors * self.vector))
            # B comes from memory once for each row of tiles, if it is too large for the cache.
            load = 3 if small and n * k * elem.itemsize > L2_BYTES else 1
            return tiles * (max(8, rows * vectors) + 0.25 * rows + load * vectors)

        best = min(sorted(shapes), key=cost)
        if best == (self.item_m, self.item_n // self.vector):
            return self
        return self.of_tile(self.vector, *best, elem)


#: Multiply-adds of a product that is called tiny: a second thread is not worth waking.
TINY = SERIAL_FLOP // 2
#: Sides of a product that differ by this factor make it deep, tall or wide.
OBLONG = 4


def shape_class(problem: GemmProblem) -> str:
    """What rows of the tuning table go by: batched, tiny, deep, tall, wide or square."""
    m, n, k = problem.m, problem.n, problem.k
    if problem.batch_size > 1:
        return "batched"
    if m * n * k <= TINY:
        return "tiny"
    if k >= OBLONG * max(m, n):
        return "deep"
    if m >= OBLONG * n:
        return "tall"
    return "wide" if n >= OBLONG * m else "square"


@dataclass(frozen=True)
class PackedChoice:
    """How the packed gemm goes about a product.

    Attributes:
        policy: Fitted to the extents of what is computed.
        swapped: Whether that is ``C^T = B^T A^T``.
        whole: Whether single work-items make whole products.
        a_packed, b_packed: Whether tiles read the operand packed, or where it lies.
        origin, evidence: Where the policy came from.
    """

    policy: PackedPolicy
    swapped: bool
    whole: bool
    a_packed: bool
    b_packed: bool
    origin: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def launches(self) -> int:
        """Kernels of a slab: of packing, if anything is packed, and of tiles."""
        return 1 if self.whole or not (self.a_packed or self.b_packed) else 2

    @property
    def way(self) -> str:
        """``packed, transposed, B in place``."""
        parts = ["whole" if self.whole else "packed"]
        parts += ["transposed"] if self.swapped else []
        parts += [] if self.a_packed else ["A in place"]
        parts += [] if self.b_packed else ["B in place"]
        return ", ".join(parts)


def choose_packed(problem: GemmProblem, target: Target, table: TuningTable) -> PackedChoice:
    """The row of the table, the product's extents and its strides decide."""
    row = _row(problem, target, table)
    swapped = prefers_transpose(problem, row.policy, target.compute_units)
    core = problem.transpose() if swapped else problem
    policy = row.policy.fit(core.m, core.n, core.k, core.compute)
    whole = takes_whole(core, policy, target.compute_units)
    a_packed, b_packed = _packs(core, policy, whole, target.compute_units)
    return PackedChoice(policy, swapped, whole, a_packed, b_packed, row.origin, row.evidence)


def packed_choices(
    problem: GemmProblem, target: Target, table: TuningTable
) -> Iterator[PackedChoice]:
    """Every choice that the kernels can carry out with the table's policy."""
    row = _row(problem, target, table)
    for swapped in (False, True):
        core = problem.transpose() if swapped else problem
        policy = row.policy.fit(core.m, core.n, core.k, core.compute)
        fits = whole_bytes(core, policy) <= L2_BYTES
        a_ways = (True, False) if in_place(core.a, core.compute) else (True,)
        b_ways = (True, False) if _reads_b_in_place(core, policy) else (True,)
        for whole, a_packed, b_packed in product(
            (False, True) if fits else (False,), a_ways, b_ways
        ):
            yield PackedChoice(policy, swapped, whole, a_packed, b_packed, row.origin, row.evidence)


#: What a form takes that the rules of :func:`choose_packed` advise against, at least: a factor.
_UNWANTED = 1.1


def packed_estimates(
    problem: GemmProblem, target: Target, table: TuningTable
) -> Iterator[tuple[float, int, PackedChoice]]:
    """Every choice with its seconds on the device, and its launches.

    The rules, which were measured, say which form is best; what the others lose by is not known to
    a per cent.
    """
    costs = DeviceCosts.of("device", target)
    wanted = choose_packed(problem, target, table)
    p, units = problem, target.compute_units
    products = p.batch_size * p.m * p.n * p.k * multiply_adds(p.compute)
    waste = max(stride_waste(min(abs(one.row), abs(one.col))) for one in (p.a, p.b))
    computing = products / (costs.multiply_adds * units)
    seconds = overlapped(computing, waste * p.moving(costs, units))
    whole = costs.seconds(seconds, wanted.launches)
    for choice in packed_choices(problem, target, table):
        yield seconds if choice == wanted else _UNWANTED * whole, choice.launches, choice


def _row(problem: GemmProblem, target: Target, table: TuningTable) -> Choice[PackedPolicy]:
    """The policy before it is fitted to the extents."""
    return table.choose("gemm_packed", PackedPolicy, target, problem.compute, shape_class(problem))


def _packs(core: GemmProblem, policy: PackedPolicy, whole: bool, units: int) -> tuple[bool, bool]:
    """Whether it pays to pack A, and B: by how many tiles each is used."""
    a_fits, b_fits = in_place(core.a, core.compute), _reads_b_in_place(core, policy)
    if a_fits and b_fits and not whole and core.flop <= LONE_FLOP * units:
        return False, False
    uses = WHOLE_USES if whole else SLAB_USES
    panels_a, panels_b = -(-core.m // policy.item_m), -(-core.n // policy.item_n)
    a_packed = panels_b > uses and not _reads_rows(core, policy)
    return a_packed or not a_fits, panels_a > uses or not b_fits


def _reads_rows(core: GemmProblem, policy: PackedPolicy) -> bool:
    """Whether A is better read where it lies, by how many tiles it may be used.

    Its rows lie along k, are few enough to walk along together, and not at distances that put
    them all into one set of the cache.  Measured: 1 to 3 % over packing.
    """
    a, pitch = core.a, core.a.row * core.a.elem.itemsize
    return a.col == 1 and policy.item_m <= 6 and pitch % (2 * PAGE_BYTES) != 0


def _reads_b_in_place(core: GemmProblem, policy: PackedPolicy) -> bool:
    """Whether tiles can read B where it lies: vectors along its rows, one of them at least."""
    b = core.b
    return in_place(b, core.compute) and b.col == 1 and core.n >= policy.item_n


def registers(target: Target) -> int:
    """Vector registers: 32 with 512-bit vectors, else 16 assumed (Arm has 32 of 128 bits)."""
    return 32 if target.vector_bytes >= 64 else 16


@dataclass(frozen=True)
class Form:
    """What, besides policy and dtypes, the text of the kernels depends on.

    Attributes:
        mode_a, mode_b: How a panel is packed (see ``cl_kernels/gemm/_pack.cl.mako``).
        a_packed, b_packed: Whether tiles read the operand packed, or where it lies.
        swapped: Whether the product is the transpose of the caller's.
    """

    mode_a: str
    mode_b: str
    a_packed: bool
    b_packed: bool
    swapped: bool

    @classmethod
    def of(cls, core: GemmProblem, choice: PackedChoice) -> Form:
        """The form of a choice, for a problem as it is computed."""
        return cls(
            mode(core.a.row, core.a.col), mode(core.b.col, core.b.row),
            choice.a_packed, choice.b_packed, choice.swapped,
        )  # fmt: skip

    def loads(self, problem: GemmProblem, policy: PackedPolicy) -> list[tuple[Element, int]]:
        """The vector loads of packing: element and width in components."""
        found: set[tuple[str, int]] = set()
        elems = {operand.elem.name: operand.elem for operand in (problem.a, problem.b)}
        for operand, lanes, mode in (
            (problem.a, policy.item_m, self.mode_a),
            (problem.b, policy.item_n, self.mode_b),
        ):
            elem, each = operand.elem, operand.elem.components
            if mode == "steps":
                found.add((elem.name, 4 * each))
            elif mode == "lanes":
                found.update((elem.name, w * each) for _, w in pieces(lanes, 16 // each))
        return [(elems[name], width) for name, width in sorted(found)]


def pieces(lanes: int, widest: int) -> list[tuple[int, int]]:
    """``lanes`` as vectors of 2, 4 ... ``widest`` lanes: (first lane, width); 1 may be left."""
    found, first = [], 0
    while lanes - first >= 2:
        width = min(widest, 1 << ((lanes - first).bit_length() - 1))
        found.append((first, width))
        first += width
    return found


def specialization_of(problem: GemmProblem, choice: PackedChoice, target: Target) -> Specialization:
    """The text of a choice, for a problem as it is asked for."""
    core = problem.transpose() if choice.swapped else problem
    name = "gemm/packed_whole" if choice.whole else "gemm/packed"
    return specialize(
        name, target, problem=core, policy=choice.policy, form=Form.of(core, choice), pieces=pieces
    )


@dataclass(frozen=True)
class Slab:
    """One stretch of rows, columns and steps that is packed and multiplied at once."""

    first: int
    products: int
    row: int
    rows: int
    col: int
    cols: int
    step: int
    steps: int


@dataclass(frozen=True)
class Step:
    """One launch: of packing or of tiles, and how far its slab lies from A's and B's start."""

    launch: Launch
    packs: bool
    move_a: int
    move_b: int


class PackedGemm(Plan):
    """A product bound to an engine: built once, called from any thread.

    Workspace: at most :data:`WORKSPACE` bytes, or what one panel of each operand needs.
    Order: fixed by the target, the policy and the shape.

    Attributes:
        problem: What is computed.
        choice: How.
        form: What the text of the kernels depends on.
    """

    def __init__(self, engine: Engine, problem: GemmProblem, choice: PackedChoice) -> None:
        """Build the kernels of a choice."""
        self.problem, self.choice = problem, choice
        self.flop, self.bytes = problem.flop, problem.bytes
        self._core = core = problem.transpose() if choice.swapped else problem
        self._units = engine.target.compute_units
        policy = choice.policy
        self._panels_a = -(-core.m // policy.item_m)
        self._panels_b = -(-core.n // policy.item_n)
        self._whole_bytes = whole_bytes(core, policy)
        self.form = Form.of(core, choice)
        self._once_a, self._once_b = not any(core.a.batch), not any(core.b.batch)
        self._programs = engine.programs
        self._spec = specialization_of(problem, choice, engine.target)
        if self.choice.whole:
            self._whole = self._bind_whole()
            self.workspace_bytes = self._whole_items()[0] * self._whole_bytes
        else:
            self._block_up()
            self._steps = [step for slab in self._slabs for step in self._bind_slab(slab)]
            self.workspace_bytes = self._bytes_a + self._bytes_b + self._bytes_sums

    def enqueue(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        offsets: tuple[int, ...],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """See :meth:`Plan.enqueue`: of a, b, the epilogue's arrays and c, and by alpha and beta."""
        a, b, *extras, c = buffers
        at_a, at_b, *at_extras, at_c = offsets
        out, at_out = (c, *extras), (at_c, *at_extras)
        if self.choice.swapped:
            a, b, at_a, at_b = b, a, at_b, at_a
        if self.choice.whole:
            scratch = state.workspace(self.workspace_bytes)
            return self._whole(
                state, (scratch, a, b, *out), (*scalars, at_a, at_b, *at_out), wait_for
            )
        empty = state.empty_buffer
        packed = [
            state.workspace(nbytes) if nbytes else empty
            for nbytes in (self._bytes_a, self._bytes_b, self._bytes_sums)
        ]
        event: cl.Event | None = None
        for step in self._steps:
            at = at_a + step.move_a, at_b + step.move_b
            if step.packs:
                event = step.launch(state, (*packed[:2], a, b), at, wait_for)
            else:
                values = (*scalars, *at, *at_out)
                event = step.launch(state, (*packed, a, b, *out), values, wait_for)
            wait_for = state.after(event)
        return event

    # -- choices

    def _whole_items(self) -> tuple[int, int]:
        """Work-items, and products of each."""
        core = self._core
        items = 1 if core.flop <= SERIAL_FLOP else min(core.batch_size, 64 * self._units)
        run = -(-core.batch_size // items)
        return -(-core.batch_size // run), run

    def _block_up(self) -> None:
        """Cut the product into slabs that fit the workspace, and k into shares."""
        core, policy = self._core, self.choice.policy
        lane = core.compute.itemsize
        tiles = self._panels_a * self._panels_b * core.batch_size
        wanted = -(-4 * self._units // tiles)
        self.splits = splits = max(1, min(wanted, core.k // 512)) if wanted > 1 else 1
        third = WORKSPACE // 3
        if self.form.b_packed:
            worth = LAUNCH_FLOP * self._units * core.k // max(1, core.flop)  # steps of a launch
            most = max(64, third // (lane * max(policy.item_m, policy.item_n)))
            depth = min(most, max(policy.depth, min(4 * policy.depth, worth)))
        else:
            depth = most = max(policy.depth, VISIT << 10)
        whole = core.k <= splits * min(most, 2 * depth)
        rounds = 1 if whole else -(-core.k // (splits * depth))
        self._share = share = max(1, -(-core.k // (splits * rounds)))
        self._visit = share if self.form.b_packed else min(share, VISIT)
        fits = most // share
        if core.m * core.n * lane <= third:
            # Whole rows and columns: fewer, larger launches than of deep, small slabs.
            sides = (core.m * self.form.a_packed, core.n * self.form.b_packed)
            fits = third // max(1, lane * max(sides)) // share
        self._shares = shares = splits if splits > 1 else max(1, min(rounds, fits))
        slab_k = share * shares
        multiple = share < core.k or self._visit < share
        rows = max(1, third // (slab_k * lane * policy.item_m)) * policy.item_m
        cols = max(1, third // (slab_k * lane * policy.item_n)) * policy.item_n
        rows = core.m if not self.form.a_packed else min(rows, core.m)
        cols = core.n if not self.form.b_packed else min(cols, core.n)
        if multiple:
            most = third // (splits * lane * policy.item_m * policy.item_n)
            cols = min(cols, max(1, most) * policy.item_n)
            most = third // (splits * lane * -(-cols // policy.item_n) * policy.item_n)
            rows = min(rows, max(1, most // policy.item_m) * policy.item_m)
        rows, cols = _even(core.m, rows, policy.item_m), _even(core.n, cols, policy.item_n)
        each = slab_k * lane * max(rows * self.form.a_packed, cols * self.form.b_packed)
        if multiple:
            each = max(each, splits * lane * rows * cols)
        products = max(1, third // max(1, each)) if (rows, cols) == (core.m, core.n) else 1
        products = min(products, core.batch_size)
        self._grains = (
            grain(self.form.mode_a, policy.item_m * core.a.elem.itemsize, policy.chunk),
            grain(self.form.mode_b, policy.item_n * core.b.elem.itemsize, policy.chunk),
        )
        self._slabs = list(self._cut(products, rows, cols, slab_k))
        panels_a, panels_b = -(-rows // policy.item_m), -(-cols // policy.item_n)
        self._bytes_a = panels_a * policy.item_m * slab_k * lane * (
            1 if self._once_a else products
        ) * self.form.a_packed  # fmt: skip
        self._bytes_b = panels_b * policy.item_n * slab_k * lane * (
            1 if self._once_b else products
        ) * self.form.b_packed  # fmt: skip
        self._bytes_sums = (
            splits * products * panels_a * panels_b * policy.item_m * policy.item_n * lane
            if multiple
            else 0
        )
        flop_of_tile = 2 * policy.item_m * policy.item_n * core.compute.components * share
        run = max(1, ITEM_FLOP // max(1, flop_of_tile))
        if not self.form.b_packed:
            run = max(run, RUN_BYTES // (policy.item_n * lane))
        run = min(run, max(1, panels_a * panels_b * products // (8 * self._units)), panels_b)
        self._run = -(
            -panels_b // -(-panels_b // run)
        )  # as even as can be: threads share items out

    def _cut(self, products: int, rows: int, cols: int, steps: int) -> Iterator[Slab]:
        core = self._core
        for first in range(0, core.batch_size, products):
            for col in range(0, core.n, cols):
                for row in range(0, core.m, rows):
                    for step in range(0, max(1, core.k), steps):
                        yield Slab(
                            first, min(products, core.batch_size - first),
                            row, min(rows, core.m - row), col, min(cols, core.n - col),
                            step, min(steps, core.k - step),
                        )  # fmt: skip

    # -- launches

    def _bind_whole(self) -> Launch:
        core = self._core
        items, run = self._whole_items()
        tiles = self._panels_a * self._panels_b
        lines = (
            lines_ahead(core.a, core.m, core.k, tiles), lines_ahead(core.b, core.k, core.n, tiles),
        )  # fmt: skip
        head = [
            BUFFER, (LONG, core.m), (LONG, core.n), (INT, core.k), (LONG, core.batch_size),
            (LONG, run), (INT, self._once_b), *_constants(INT, lines),
        ]  # fmt: skip
        return self._bind("whole", [*head, *self._tail()], (items, 1, 1))

    def _bind_slab(self, slab: Slab) -> Iterator[Step]:
        """Pack its panels, multiply them, and add up the shares of k if there are several."""
        core, form = self._core, self.form
        move_a = slab.row * core.a.row + slab.step * core.a.col
        move_b = slab.col * core.b.col + slab.step * core.b.row
        if slab.steps > 0 and (form.a_packed or form.b_packed):
            yield Step(self._bind_pack(slab), True, move_a, move_b)
        last = slab.step + slab.steps >= core.k
        if self.splits > 1:
            tiles = self._bind_tiles(slab, 0, self.splits, parts=int(slab.step > 0), finish=False)
            yield Step(tiles, False, move_a, move_b)
            if last:
                adds = self._bind_tiles(
                    replace(slab, steps=0), 0, 1, parts=self.splits, finish=True
                )
                yield Step(adds, False, move_a, move_b)
            return
        count = max(1, -(-slab.steps // self._share))
        for share in range(count):
            tiles = self._bind_tiles(
                slab, share, 1, parts=int(slab.step + share > 0),
                finish=last and share == count - 1,
            )  # fmt: skip
            yield Step(tiles, False, move_a, move_b)

    def _bind_pack(self, slab: Slab) -> Launch:
        core, policy, form = self._core, self.choice.policy, self.form
        panels_a = -(-slab.rows // policy.item_m) * form.a_packed
        panels_b = -(-slab.cols // policy.item_n) * form.b_packed
        (chunk_a, group_a), (chunk_b, group_b) = self._grains
        longs = (slab.rows, slab.cols, slab.steps, self._share)
        ints = (
            self._shares, chunk_a, group_a, chunk_b, group_b, panels_a, panels_b,
            self._once_a, self._once_b,
        )  # fmt: skip
        head = [BUFFER, BUFFER, *_constants(LONG, longs), *_constants(INT, ints)]
        operands = [*parameters(core.a), *parameters(core.b), *batch_parameters(core)]
        items = -(-panels_a // group_a) * -(-self._share // chunk_a) * self._shares
        items += -(-panels_b // group_b) * -(-self._share // chunk_b) * self._shares
        size = (items, slab.products, 1)
        return self._bind("pack", [*head, (LONG, slab.first), *operands], size)

    def _bind_tiles(
        self, slab: Slab, share0: int, together: int, parts: int, finish: bool
    ) -> Launch:
        policy = self.choice.policy
        panels_a, panels_b = -(-slab.rows // policy.item_m), -(-slab.cols // policy.item_n)
        blocks = -(-panels_a // policy.block_m)
        block = -(-panels_a // blocks)
        longs = (slab.rows, slab.cols, slab.row, slab.col, slab.steps, self._share)
        ints = (
            self._shares, share0, together, block, self._run, self._visit, slab.products,
            self._once_a, self._once_b,
        )  # fmt: skip
        head = [
            *[BUFFER] * 3, *_constants(LONG, longs), *_constants(INT, ints),
            (LONG, slab.first), (INT, parts), (INT, finish),
        ]  # fmt: skip
        size = (block, -(-panels_b // self._run), blocks * together * slab.products)
        return self._bind("tiles", [*head, *self._tail()], size)

    def _tail(self) -> list[Any]:
        """The parameters from alpha on."""
        core = self._core
        scalar = scalar_type(core)
        operands = [p for operand in (core.a, core.b, core.c) for p in parameters(operand)]
        extras = [p for operand in core.extras for p in parameters(operand)]
        return [scalar, scalar, *operands, *batch_parameters(core), *extras]

    def _bind(self, name: str, parameters: list[Any], size: tuple[int, ...]) -> Launch:
        return self._programs.launch(self._spec, name, parameters, size, (1, 1, 1))


def _even(extent: int, most: int, multiple: int) -> int:
    """The size of pieces of at most ``most`` that an extent is cut into, as even as can be."""
    if extent <= most:
        return extent
    return -(-extent // (-(-extent // most) * multiple)) * multiple


def _constants(kind: Any, values: Sequence[int]) -> list[Any]:
    return [(kind, value) for value in values]


def mode(lane_stride: int, step_stride: int) -> str:
    """How panels of an operand with these strides are packed."""
    if lane_stride == 1:
        return "lanes"
    return "steps" if step_stride == 1 else "any"


def grain(mode: str, bytes_across: int, chunk: int) -> tuple[int, int]:
    """Steps and panels that one work-item packs: long runs of the source, one after the other."""
    return (16, max(1, PAGE_BYTES // bytes_across)) if mode == "lanes" else (chunk, 1)


def in_place(operand: Operand, compute: Element) -> bool:
    """Whether tiles can read the operand where it lies: no conversion is needed."""
    return operand.elem == compute and not compute.complex and not compute.boolean


def lines_ahead(operand: Operand, rows: int, cols: int, tiles: int) -> int:
    """Cache lines of the next matrix of a batch to call for with each tile: all, if it is dense.

    With 1000 products of 32 x 32 in float64, on two cores of Zen 4, they come from memory in 0.67
    of the time.
    """
    dense = (operand.row, operand.col) in ((cols, 1), (1, rows))
    if not dense or len(operand.batch) != 1 or not operand.batch[0]:
        return 0
    return -(-rows * cols * operand.elem.itemsize // (LINE_BYTES * tiles))


def whole_bytes(core: GemmProblem, policy: PackedPolicy) -> int:
    """Scratch of a work-item that makes a whole product: both operands, packed."""
    rows, cols = -(-core.m // policy.item_m), -(-core.n // policy.item_n)
    lanes = rows * policy.item_m + cols * policy.item_n
    return max(64, lanes * core.k * core.compute.itemsize)


def takes_whole(core: GemmProblem, policy: PackedPolicy, units: int) -> bool:
    """Whether single work-items make whole products."""
    return whole_bytes(core, policy) <= L2_BYTES and is_item(core, units)


def is_item(problem: GemmProblem, units: int) -> bool:
    """Whether a product is work for one work-item, if it fits the cache."""
    return problem.flop <= SERIAL_FLOP or problem.batch_size >= 4 * units


def prefers_transpose(problem: GemmProblem, policy: PackedPolicy, units: int) -> bool:
    """Whether ``C^T = B^T A^T`` is the better product.

    What decides is an operand that is better read where it lies, on either side; else C's rows
    should be contiguous.
    """
    for one, swapped in ((problem, False), (problem.transpose(), True)):
        turn = _wide_b_turns(one, policy, units)
        if turn is not None:
            return turn != swapped
    c = problem.c
    return c.col != 1 and (c.row == 1 or abs(c.row) < abs(c.col))


def _wide_b_turns(p: GemmProblem, policy: PackedPolicy, units: int) -> bool | None:
    """Whether a B that is wider than A is tall turns the product about; ``None``: it does not say.

    Beside few rows of A it is best read where it lies: as B where its own rows are contiguous, else
    as A of the transposed product, whose few columns are soon packed.  One work-item packs B and
    not A, which over a long k had better be the narrower one.
    """
    if p.m >= p.n or not in_place(p.b, p.compute):
        return None
    in_rows = _reads_b_in_place(p, policy.fit(p.m, p.n, p.k, p.compute))
    if in_rows:
        return False if p.m <= SLAB_USES * policy.item_m < p.n else None
    few = p.b.row == 1 and p.m <= SLAB_USES * policy.item_n < p.n
    return True if p.k >= LONG_K and (few or is_item(p, units)) else None


__all__ = ["PackedGemm", "PackedPolicy"]
