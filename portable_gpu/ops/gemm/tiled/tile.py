"""The copies and sums of each work-item of a group: the geometry behind the gemm template."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from portable_gpu.codegen.operators import Sums, component, vector
from portable_gpu.dtypes import Element
from portable_gpu.ops.gemm.problem import GemmProblem, Operand, step
from portable_gpu.ops.gemm.reader import Gather
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.ops.stagger import Stagger, stagger
from portable_gpu.targets import Target


@dataclass(frozen=True)
class Panel:
    """How a group copies a panel of A or B to local memory.

    Attributes:
        name: ``a`` or ``b``.
        elem: The element in memory.
        conj: Whether elements are conjugated when they are copied.
        extent, depth: The number of rows of A (columns of B) of the panel, and the number of its
            values along k; see ``pairs``.
        along: The axis along which adjacent work-items load adjacent vectors: ``k`` or ``s`` (rows
            of A, columns of B); ``either``: single elements, along the axis that the kernel's
            arguments select.
        width: Elements of one load.
        group: The number of work-items that share the loads.
        pad: Elements between two rows of local memory, against bank conflicts.
        buffers: The number of panels in local memory.
        aligned: Whether complex elements are aligned to their size.
        offset_type: A C type that holds byte offsets inside the panel.
        pairs: Whether a value in local memory is a word of two elements adjacent along k.
        reader: The reader of the operand; ``None`` if it has two strides.
    """

    name: Literal["a", "b"]
    elem: Element
    conj: bool
    extent: int
    depth: int
    along: Literal["k", "s", "either"]
    width: int
    group: int
    pad: int
    buffers: int
    aligned: bool
    offset_type: Literal["uint", "long"]
    pairs: bool
    reader: Gather | None = None

    @property
    def pack(self) -> int:
        """The number of elements of a value in local memory."""
        return 2 if self.pairs else 1

    @property
    def steps(self) -> int:
        """The number of steps of k of a panel."""
        return self.depth * self.pack

    @property
    def loads_each(self) -> int:
        """The number of loads from global memory that make a vector of values of local memory."""
        return 1 if self.along == "k" and self.width > 1 else self.pack

    @property
    def values(self) -> int:
        """The number of values in a vector that is stored in local memory."""
        return self.width * self.loads_each // self.pack

    @property
    def local_type(self) -> str:
        """C type of one value in local memory."""
        return "uint" if self.pairs else "value_t"

    @property
    def stored_type(self) -> str:
        """C type of one element in memory."""
        return self.elem.value if self.elem.complex else self.elem.storage

    @property
    def raw_type(self) -> str:
        """C type of one load, by the names of ``common/element.cl.mako``."""
        if self.width > 1:
            return f"{self.elem.name}_x{self.width}"
        return self.stored_type if self.aligned else f"{self.elem.name}_t"

    @property
    def value_type(self) -> str:
        """C type of one load in local memory."""
        if self.values == 1:
            return self.local_type
        return vector("uint" if self.pairs else self.elem.real, self.values)

    @property
    def loads(self) -> int:
        """The number of vectors of values that a work-item copies."""
        return self.extent * self.depth // (self.values * self.group)

    @property
    def pitch(self) -> int:
        """Elements from one step of k to the next in local memory."""
        return self.extent + self.pad

    @property
    def local_elements(self) -> int:
        """Elements in local memory."""
        return self.buffers * self.depth * self.pitch

    @property
    def s_stride(self) -> str:
        """The suffix of the kernel argument that is the stride between rows of A (columns of B)."""
        return "row" if self.name == "a" else "col"

    @property
    def k_stride(self) -> str:
        """The suffix of the kernel argument that is the stride along k."""
        return "col" if self.name == "a" else "row"

    def place_s(self, i: int) -> str:
        """C expression of the row (column) in the panel of load ``i`` of work-item ``t``."""
        if self.along == "either":
            return self._stepped("s", i)
        across, down = self._split(i)
        return down if self.along == "k" else across

    def place_k(self, i: int) -> str:
        """C expression of the step of k in the panel of load ``i`` of work-item ``t``."""
        if self.along == "either":
            return self._stepped("k", i)
        across, down = self._split(i)
        return across if self.along == "k" else down

    @property
    def rows(self) -> list[str]:
        """The distinct values of :meth:`place_s` over all loads."""
        return list(dict.fromkeys(self.place_s(i) for i in range(self.loads)))

    @property
    def columns(self) -> list[str]:
        """The distinct values of :meth:`place_k` over all loads."""
        return list(dict.fromkeys(self.place_k(i) for i in range(self.loads)))

    def _stepped(self, axis: str, i: int) -> str:
        """C expression of the place of load ``i``, by the names of ``gemm/_panel.cl.mako``."""
        first = f"{self.name}_{axis}"
        return f"{first} + {i} * {first}_step" if i else first

    def _split(self, i: int) -> tuple[str, str]:
        """C expressions of the places of load ``i`` on the panel's fast and slow axes."""
        per_line = (self.depth if self.along == "k" else self.extent) // self.values
        if self.group % per_line == 0:
            across, down = f"t % {per_line}", f"t / {per_line} + {i * self.group // per_line}"
        else:
            item = f"(t + {i * self.group})"
            across, down = f"{item} % {per_line}", f"{item} / {per_line}"
        return (across if self.values == 1 else f"{across} * {self.values}"), down


@dataclass(frozen=True)
class RegisterTile:
    """Which sums of the group's tile a work-item holds; see ``gemm/_register_tile.cl.mako``."""

    policy: GemmPolicy
    width_m: int
    width_n: int
    real: str
    value: str
    boolean: bool
    pairs: bool

    @property
    def fragment_m(self) -> str:
        """C type of a fragment of A."""
        return self._fragment(self.width_m)

    @property
    def fragment_n(self) -> str:
        """C type of a fragment of B."""
        return self._fragment(self.width_n)

    @property
    def type_n(self) -> str:
        """C type of ``width_n`` sums."""
        return self.value if self.width_n == 1 else vector(self.real, self.width_n)

    @property
    def mad(self) -> str:
        """The code that adds a value of A times a fragment of B to sums."""
        return "MAD_PAIRS" if self.pairs else "MAD"

    @property
    def item_m(self) -> int:
        """Rows of sums."""
        return self.policy.item_m

    @property
    def lanes_m(self) -> int:
        """Lanes one below the other."""
        return self.policy.lanes_m

    @property
    def lanes_n(self) -> int:
        """Lanes side by side."""
        return self.policy.lanes_n

    @property
    def lanes(self) -> int:
        """Work-items of one arrangement of lanes (a warp)."""
        return self.policy.lanes_m * self.policy.lanes_n

    @property
    def blocks_m(self) -> int:
        """Fragments of A."""
        return self.policy.item_m // self.width_m

    @property
    def blocks_n(self) -> int:
        """Fragments of B, and vectors of sums in a row."""
        return self.policy.item_n // self.width_n

    @property
    def stride_m(self) -> int:
        """Rows from one fragment of A to the next."""
        return self.policy.lanes_m * self.width_m

    @property
    def stride_n(self) -> int:
        """Columns from one fragment of B to the next."""
        return self.policy.lanes_n * self.width_n

    @property
    def warp_m(self) -> int:
        """Rows of one warp."""
        return self.policy.lanes_m * self.policy.item_m

    @property
    def warp_n(self) -> int:
        """Columns of one warp."""
        return self.policy.lanes_n * self.policy.item_n

    @property
    def warps_n(self) -> int:
        """Warps side by side."""
        return self.policy.tile_n // self.warp_n

    @property
    def prefetch(self) -> bool:
        """Whether fragments are loaded a step ahead."""
        return self.policy.prefetch_local

    @property
    def unroll(self) -> int:
        """Iterations of the innermost loop in straight code."""
        per_iteration = 2 if self.prefetch else 1
        return max(1, min(self.policy.unroll, self.policy.tile_k) // per_iteration)

    def row(self, i: int) -> int:
        """Row of sums ``i``, from the work-item's first."""
        return i // self.width_m * self.stride_m + i % self.width_m

    def sums(self) -> Iterator[tuple[str, int, int]]:
        """Each vector of sums: its name, and its row and first column from the item's first."""
        for i in range(self.item_m):
            for j in range(self.blocks_n):
                yield f"acc{i}_{j}", self.row(i), j * self.stride_n

    def reals(self) -> Sums:
        """The real numbers of the sums."""
        width = self.width_n if self.real == self.value else 2
        names = [acc + component(width, j) for acc, _, _ in self.sums() for j in range(width)]
        return Sums(names, self.real, "|" if self.boolean else "+")

    def _fragment(self, width: int) -> str:
        if self.pairs:
            return vector("uint", width)
        return self.value if width == 1 else vector(self.real, width)


@dataclass(frozen=True)
class GroupStagger:
    """The start of each group along k.

    Attributes:
        along: The starts, in steps of a panel's depth.
        group: C expression of the number on which the start depends; it is the same for groups that
            share a panel of the operand.
    """

    along: Stagger
    group: str


def group_stagger(
    problem: GemmProblem, target: Target, a: Panel, b: Panel, length: int
) -> GroupStagger | None:
    """Return different starts for groups, if all rows of A or columns of B start in one channel.

    ``None``: all groups start at the same step.  ``length`` is the number of steps of k of a group.
    """
    lines = (("row", a, problem.a.row, problem.a.col), ("col", b, problem.b.col, problem.b.row))
    result = {}
    for name, panel, pitch, k_step in lines:
        if k_step == 1 and not panel.reader:
            size = panel.elem.itemsize
            steps = length // panel.steps
            number = f"first_{name} / {panel.extent}"
            result[number] = stagger(target, pitch * size, panel.steps * size, steps)
    colliding = {number: along for number, along in result.items() if along}
    if not colliding:
        return None
    return GroupStagger(next(iter(colliding.values())), " + ".join(colliding))


def takes_pairs(problem: GemmProblem, target: Target) -> bool:
    """Whether the target has an instruction for two products of A and B."""
    if problem.a.reader or problem.b.reader:
        return False
    return target.dot2 and problem.a.elem.name == problem.b.elem.name == "f16"


def panels(
    problem: GemmProblem, policy: GemmPolicy, target: Target, aligned: bool, pairs: bool
) -> tuple[Panel, Panel]:
    """Return the panels of A and B: loaded in full vectors, or in elements along either axis.

    Shorter vectors, and single elements along an axis that the text fixes, are used for large
    tiles, which have no registers for the axis as an argument, and for pairs.  Elsewhere they would
    be as fast, and would need more programs.
    """
    tight = policy.is_tight(target, problem.compute)

    def panel_of(name: Literal["a", "b"]) -> Panel:
        wide = panel(problem, policy, name, aligned, pairs, policy.vector)
        if wide.reader or pairs or tight or wide.width == policy.vector > 1:
            return wide
        single = panel(problem, policy, name, aligned, pairs, 1)
        whole_lines = single.group % single.extent == single.group % single.depth == 0
        return replace(single, along="either", pad=policy.vector) if whole_lines else single

    return panel_of("a"), panel_of("b")


def panel(
    problem: GemmProblem,
    policy: GemmPolicy,
    name: Literal["a", "b"],
    aligned: bool,
    pairs: bool,
    widest: int,
) -> Panel:
    """The panel of operand ``name``: along its unit stride, as wide as its alignment allows.

    ``aligned`` says whether buffers start at multiples of 16 bytes, ``pairs`` whether values of
    local memory are pairs along k.  ``widest``: the most elements of a load, or pairs along k.
    """
    operand: Operand = getattr(problem, name)
    extent = policy.tile_m if name == "a" else policy.tile_n
    count = problem.m if name == "a" else problem.n
    s_step, k_step = (operand.row, operand.col) if name == "a" else (operand.col, operand.row)
    along: Literal["k", "s"] = "k" if step(k_step, problem.k) < step(s_step, count) else "s"
    reader = operand.reader
    if reader is not None:
        along, widest = reader.along, min(widest, reader.width)
        s_step, k_step = (0, 1) if along == "k" else (1, 0)
    packed = 2 if pairs and along == "k" else 1
    width = widest * packed
    if operand.elem.value != problem.compute.value or 1 not in (s_step, k_step):
        width = 1
    if (k_step if along == "k" else s_step) != 1:
        width = 1
    while width > 1 and not (
        operand.aligned_bytes % (width * operand.elem.itemsize) == 0
        and (policy.tile_k if along == "k" else count) % width == 0
        and packed * extent * policy.tile_k % (width * policy.group_size) == 0
    ):
        width //= 2
    if width * operand.elem.itemsize < 4:  # some compilers pass two bytes through memory
        width = 1
    forwards = s_step >= 0 and k_step >= 0
    span = extent * abs(s_step) + (2 if pairs else 1) * policy.tile_k * abs(k_step)
    return Panel(
        name=name,
        elem=operand.elem,
        conj=operand.conj,
        extent=extent,
        depth=policy.tile_k,
        along=along,
        width=width,
        group=policy.group_size,
        pad=policy.vector if along == "k" else 0,
        buffers=policy.buffers,
        aligned=aligned and operand.aligned_bytes % min(16, operand.elem.itemsize) == 0,
        offset_type="uint" if forwards and span * operand.elem.itemsize < 1 << 32 else "long",
        pairs=pairs,
        reader=reader,
    )


def register_tile(policy: GemmPolicy, compute: Element, pairs: bool) -> RegisterTile:
    """The register tile, in vectors as wide as the item's sides allow."""
    width_m, width_n = (
        next(w for w in (4, 2, 1) if w <= policy.vector and side % w == 0)
        for side in (policy.item_m, policy.item_n)
    )
    if policy.interleave:
        width_n = 1
    boolean = compute.name == "b8"
    return RegisterTile(policy, width_m, width_n, compute.real, compute.value, boolean, pairs)
