"""The shape of a work-group's transforms: stages, work-items, and the layout of local memory.

A transform whose length has primes without a butterfly is a convolution: a forward transform of
another length, and an inverse one by the same stages in reverse order, whose first stage reads the
results of the forward transform from the same work-items.
"""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.ops.fft.problem import Form
from portable_gpu.powers_of_two import is_power_of_two

#: Work-items that a sub-group's barrier synchronises; see ``cl_kernels/subgroup/warp_barrier``.
_WARP = 32
#: Pairs of a staged target that a work-item reads from local memory before it stores them.
_PAIRS_AT_ONCE = 4


@dataclass(frozen=True)
class LocalLayout:
    """Positions of the rows of all slots in local memory; a slot holds one transform.

    Attributes:
        rows, slots: Their numbers.
        slots_adjacent: Whether the slots of a row are adjacent; else the rows of a slot are.
        block, gap: After each ``block`` rows, ``gap`` numbers are left out (to avoid bank
            conflicts).
        stride: Numbers from one slot to the next if the rows of a slot are adjacent.
    """

    rows: int
    slots: int
    slots_adjacent: bool
    block: int
    gap: int
    stride: int = 0

    @property
    def length(self) -> int:
        """Numbers of a slot, with the gaps."""
        return self.rows + (self.rows - 1) // self.block * self.gap

    @property
    def size(self) -> int:
        """Numbers of one component, real or imaginary, of all slots."""
        return self.slots * (self.length if self.slots_adjacent else self.stride)

    def place(self, row: str, slot: str) -> str:
        """C expression of the index of a row of a slot."""
        at = f"({row} + {row} / {self.block} * {self.gap})" if self.gap else row
        return (
            f"({at} * {self.slots} + {slot})"
            if self.slots_adjacent
            else f"({slot} * {self.stride} + {at})"
        )

    def step(self, rows: int) -> int:
        """Distance of two rows that are ``rows`` apart, within a block or by whole blocks."""
        far = rows + rows // self.block * self.gap
        return far * self.slots if self.slots_adjacent else far

    def even(self, rows: int) -> bool:
        """Whether that distance is the same for every row."""
        return not self.gap or rows % self.block == 0


@dataclass(frozen=True)
class FftStage:
    """One stage of a transform in registers.

    Attributes:
        number: Its number, from 0; the stages of the inverse transform of a convolution follow.
        radix: Numbers of a butterfly.
        before: Product of the radices of earlier stages.
        count: Butterflies of a transform.
        butterflies: Butterflies of a work-item.
        table: The index of its first twiddle factor.
        layout: The layout of its input rows in local memory.
        mirrored: Whether a work-item has butterflies j and count - j; the first work-item has 0 and
            count / 2.
    """

    number: int
    radix: int
    before: int
    count: int
    butterflies: int
    table: int
    layout: LocalLayout
    mirrored: bool = False

    @property
    def roots(self) -> int:
        """The number of its twiddle factors; a first stage has none."""
        return (self.radix - 1).bit_length() * self.before if self.before > 1 else 0

    def butterfly(self, b: int, items: int) -> str:
        """C expression of the index of a work-item's butterfly b."""
        if not self.mirrored:
            return f"{self.item} + {b * items}"
        from_start = b // 2 * items
        if b % 2 == 0:
            return f"{self.item} + {from_start}"
        if from_start:
            return f"{self.count - from_start} - {self.item}"
        return f"({self.item} ? {self.count} - {self.item} : {self.count // 2})"

    @property
    def item(self) -> str:
        """C name of a work-item's index in its transform; the first stage has its own order."""
        return "t" if self.number else "t0"

    @property
    def slot(self) -> str:
        """C name of the slot."""
        return "slot" if self.number else "slot0"


@dataclass(frozen=True)
class GroupShape:
    """The properties of a pass for which a kernel's text is rendered, except the forms of rows.

    Attributes:
        n: The length, which is also the number of rows.
        length: The length that the stages transform: n; for a chirp convolution at least 2 n - 1;
            for a cyclic convolution n - 1.
        stages: The stages of the (forward) transform.
        back: The stages of the inverse transform of a convolution; else empty.
        items: Work-items of a transform.
        slots: Transforms, or pairs of real ones, of a group.
        rounds: The components, real and imaginary, that are exchanged through local memory at once.
        source_across, target_across: Whether neighbouring work-items access neighbouring lanes.
        staged_source, staged_target: Whether the source or target is moved through local memory.
        natural: The layout of a staged source or target in local memory.
    """

    n: int
    length: int
    stages: tuple[FftStage, ...]
    back: tuple[FftStage, ...]
    items: int
    slots: int
    rounds: tuple[tuple[str, ...], ...]
    source_across: bool
    target_across: bool
    staged_source: bool
    staged_target: bool
    natural: LocalLayout

    @property
    def group(self) -> int:
        """Work-items of a group."""
        return self.items * self.slots

    @property
    def chirp(self) -> bool:
        """Whether transforms are convolutions with a chirp."""
        return self.length > self.n

    @property
    def cyclic(self) -> bool:
        """Whether transforms of a prime length are cyclic convolutions of all rows but one."""
        return self.length < self.n

    @property
    def final(self) -> FftStage:
        """The last stage."""
        return (self.back or self.stages)[-1]

    @property
    def n_in_text(self) -> str:
        """C expression of n, a variable if the text serves several lengths (chirp convolutions)."""
        return "n" if self.chirp else str(self.n)

    def rows(self, form: Form) -> str:
        """C expression of the number of rows of a source or target."""
        if form == "half":
            return "(n / 2 + 1)" if self.chirp else str(self.n // 2 + 1)
        return self.n_in_text

    def at_once(self, form: Form) -> int:
        """The maximum of numbers of a staged source or target that a work-item has."""
        n = (self.length + 1) // 2 if self.chirp else self.n
        rows = n // 2 + 1 if form == "half" else n
        return -(-rows // self.items)

    @property
    def used_inputs(self) -> int:
        """The number of inputs of a butterfly of the first stage that may be nonzero.

        In a convolution with a chirp, rows from n on are zeros: at least half of all rows.
        """
        radix = self.stages[0].radix
        return -(-radix // 2) if self.chirp else radix

    @property
    def used_outputs(self) -> int:
        """The number of outputs of a butterfly of the last stage that may be results."""
        radix = self.final.radix
        return -(-radix // 2) if self.chirp else radix

    @property
    def after(self) -> bool:
        """Whether neighbours have neighbouring slots from the first exchange on."""
        return self.source_across if self.staged_target else self.target_across

    @property
    def before(self) -> bool:
        """Whether neighbours have neighbouring slots before the first exchange."""
        return self.after if self.staged_source else self.source_across

    @property
    def numbers_per_item(self) -> int:
        """The number of complex numbers in the registers of a work-item."""
        return max(stage.radix * stage.butterflies for stage in self.stages)

    @property
    def local_numbers(self) -> int:
        """Real numbers in local memory."""
        parts = len(self.rounds[0])
        reached = (*self.stages[1:], *self.back[1:])
        sizes = [1, *(parts * stage.layout.size for stage in reached)]
        if self.staged_source or self.staged_target:
            sizes.append(2 * self.natural.size)
        return max(sizes)

    def steps(self, form: Form) -> int:
        """Bits of the largest row number of a butterfly, or of a work-item's staged rows."""
        rows = self.at_once(form) if self.staged_target else self.used_outputs
        return (rows - 1).bit_length()

    def twiddles_in_local(self, form: Form) -> int:
        """Twiddle factors between two passes that a group stores in local memory."""
        first = 1 if self.staged_target else self.final.butterflies
        return self.steps(form) * self.slots + first * self.group

    @property
    def within_subgroup(self) -> bool:
        """Whether the work-items of a transform are in one run of 32."""
        alone = not self.before and not self.after and is_power_of_two(self.items)
        return self.group % _WARP == 0 and (self.group == _WARP or (alone and self.items <= _WARP))

    @property
    def barrier(self) -> str:
        """The barrier between writing and reading local memory."""
        return "SUBGROUP_SYNC()" if self.within_subgroup else "barrier(CLK_LOCAL_MEM_FENCE)"

    def order(self, across: bool, stage: FftStage) -> str:
        """C declarators of a work-item's index in its transform, and of its slot."""
        t, slot = stage.item, stage.slot
        if self.slots == 1:
            return f"{t} = id, {slot} = 0"
        if across:
            return f"{t} = id / {self.slots}, {slot} = id % {self.slots}"
        return f"{t} = id % {self.items}, {slot} = id / {self.items}"

    def registers(self, form: Form) -> int:
        """Numbers of a staged target that a work-item has in registers at once."""
        return _PAIRS_AT_ONCE if form == "half" else self.at_once(form)

    def walk(self, across: bool, rows: str, u: int) -> str:
        """C declarators of the slot and the row of a work-item's number u of a staged array."""
        e = f"id + {u * self.group}"
        if self.slots == 1:
            return f"s{u} = 0, i{u} = {e}"
        if across:
            return f"s{u} = id % {self.slots}, i{u} = id / {self.slots} + {u * self.items}"
        if rows.isdigit() and self.group % int(rows) == 0:
            return f"s{u} = id / {rows} + {u * self.group // int(rows)}, i{u} = id % {rows}"
        return f"s{u} = ({e}) / {rows}, i{u} = {e} - s{u} * {rows}"

    def there(self, across: bool, rows: str, u: int) -> str:
        """C condition that a work-item's number u of a staged array exists; empty if always."""
        if rows.isdigit() and (u + 1) * self.group <= int(rows) * self.slots:
            return ""
        return f"i{u} < {rows}" if across or self.slots == 1 else f"s{u} < {self.slots}"
