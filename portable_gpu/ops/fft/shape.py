"""The shape of a work-group's transforms: stages, work-items, and places in local memory.

A transform whose length has primes without a butterfly is a convolution: a transform of another
length there, and one back by the same stages in the other order, so that it begins where the
results of the way there are.
"""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.ops.fft.problem import Form
from portable_gpu.powers_of_two import is_power_of_two

#: Work-items that exchange by a barrier of a sub-group; see ``cl_kernels/subgroup/warp_barrier``.
_WARP = 32
#: Pairs of a staged target that a work-item takes from local memory before it stores them.  H200,
#: float32: 4096 lines of 4096 in 42.0 us, all 9 at once in 44.3; 16384 of 1024 in 39.6 and 41.9.
_TOGETHER = 4


@dataclass(frozen=True)
class Layout:
    """Places of the rows of all slots in local memory.

    Attributes:
        rows, slots: How many.
        beside: Whether the slots of a row lie side by side, else the rows of a slot.
        block, gap: A gap of so many numbers comes after each block of rows.
        stride: Numbers from a slot to the next one, where rows lie side by side.
    """

    rows: int
    slots: int
    beside: bool
    block: int
    gap: int
    stride: int = 0

    @property
    def length(self) -> int:
        """Numbers of a slot, with the gaps."""
        return self.rows + (self.rows - 1) // self.block * self.gap

    @property
    def size(self) -> int:
        """Numbers of one part, re or im."""
        return self.slots * (self.length if self.beside else self.stride)

    def place(self, row: str, slot: str) -> str:
        """C expression of where a row of a slot is."""
        at = f"({row} + {row} / {self.block} * {self.gap})" if self.gap else row
        return (
            f"({at} * {self.slots} + {slot})" if self.beside else f"({slot} * {self.stride} + {at})"
        )

    def step(self, rows: int) -> int:
        """How far it is to a row so much further on, in the same block or whole blocks away."""
        far = rows + rows // self.block * self.gap
        return far * self.slots if self.beside else far

    def even(self, rows: int) -> bool:
        """Whether that is so of any row."""
        return not self.gap or rows % self.block == 0


@dataclass(frozen=True)
class Stage:
    """One stage.

    Attributes:
        number: From 0 on.
        radix: Numbers of a butterfly.
        before: Product of the earlier radices.
        count: Butterflies of a transform.
        butterflies: Those of a work-item.
        table: Where its roots begin.
        layout: Of its rows in local memory.
        mirrored: Whether work-items have butterflies j and count - j, the first of them 0 and
            count / 2.
    """

    number: int
    radix: int
    before: int
    count: int
    butterflies: int
    table: int
    layout: Layout
    mirrored: bool = False

    @property
    def roots(self) -> int:
        """How many its table has: none of the first stage of a way."""
        return (self.radix - 1).bit_length() * self.before if self.before > 1 else 0

    def butterfly(self, b: int, items: int) -> str:
        """C expression of the number of a work-item's butterfly b."""
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
        """C name of a work-item's number in its transform: the first stage has its own order."""
        return "t" if self.number else "t0"

    @property
    def slot(self) -> str:
        """C name of the slot."""
        return "slot" if self.number else "slot0"


@dataclass(frozen=True)
class GroupPlan:
    """What a kernel's text depends on beside the forms of rows.

    Attributes:
        n: Length, which is also the number of rows.
        length: Of what the stages transform: n, or where there is a chirp at least 2 n - 1, or
            n - 1 of a cyclic convolution.
        stages: Of the transform.
        back: Of a convolution, those of the way back.
        items: Work-items of a transform.
        slots: Transforms, or pairs of real ones, of a group.
        rounds: Parts that go through local memory at once.
        source_across, target_across: Whether neighbours go along lanes there.
        staged_source, staged_target: Whether that side goes through local memory.
        natural: Of staged sides in local memory.
    """

    n: int
    length: int
    stages: tuple[Stage, ...]
    back: tuple[Stage, ...]
    items: int
    slots: int
    rounds: tuple[tuple[str, ...], ...]
    source_across: bool
    target_across: bool
    staged_source: bool
    staged_target: bool
    natural: Layout

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
        """Whether transforms, of a prime length, are cyclic convolutions of their rows but one."""
        return self.length < self.n

    @property
    def final(self) -> Stage:
        """The last stage."""
        return (self.back or self.stages)[-1]

    @property
    def n_in_text(self) -> str:
        """C expression of n: programs of chirps serve several lengths."""
        return "n" if self.chirp else str(self.n)

    def rows(self, form: Form) -> str:
        """C expression of how many rows a side has."""
        if form == "half":
            return "(n / 2 + 1)" if self.chirp else str(self.n // 2 + 1)
        return self.n_in_text

    def at_once(self, form: Form) -> int:
        """Numbers of a staged side that a work-item has, at most."""
        n = (self.length + 1) // 2 if self.chirp else self.n
        rows = n // 2 + 1 if form == "half" else n
        return -(-rows // self.items)

    @property
    def given(self) -> int:
        """Numbers of a butterfly of the first stage that may be no zeros.

        Of a convolution with a chirp, rows from n on are zeros: at least half of them.
        """
        radix = self.stages[0].radix
        return -(-radix // 2) if self.chirp else radix

    @property
    def wanted(self) -> int:
        """Numbers of a butterfly of the last stage that may be wanted."""
        radix = self.final.radix
        return -(-radix // 2) if self.chirp else radix

    @property
    def after(self) -> bool:
        """Whether neighbours go along slots from the first exchange on."""
        return self.source_across if self.staged_target else self.target_across

    @property
    def before(self) -> bool:
        """Whether they do until then."""
        return self.after if self.staged_source else self.source_across

    @property
    def held(self) -> int:
        """Numbers that a work-item holds."""
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
        """Powers of two up to the last row of a butterfly, or of a work-item's staged rows."""
        rows = self.at_once(form) if self.staged_target else self.wanted
        return (rows - 1).bit_length()

    def twists(self, form: Form) -> int:
        """Roots between two passes that a group has in local memory."""
        first = 1 if self.staged_target else self.final.butterflies
        return self.steps(form) * self.slots + first * self.group

    @property
    def within_subgroup(self) -> bool:
        """Whether the work-items of a transform are in one run of 32."""
        alone = not self.before and not self.after and is_power_of_two(self.items)
        return self.group % _WARP == 0 and (self.group == _WARP or (alone and self.items <= _WARP))

    @property
    def barrier(self) -> str:
        """What lies between writing and reading local memory."""
        return "SUBGROUP_SYNC()" if self.within_subgroup else "barrier(CLK_LOCAL_MEM_FENCE)"

    def order(self, across: bool, stage: Stage) -> str:
        """Declarators of a work-item's number in its transform, and of its slot."""
        t, slot = stage.item, stage.slot
        if self.slots == 1:
            return f"{t} = id, {slot} = 0"
        if across:
            return f"{t} = id / {self.slots}, {slot} = id % {self.slots}"
        return f"{t} = id % {self.items}, {slot} = id / {self.items}"

    def together(self, form: Form) -> int:
        """Numbers of a staged target that a work-item has in registers at once."""
        return _TOGETHER if form == "half" else self.at_once(form)

    def walk(self, across: bool, rows: str, u: int) -> str:
        """Declarators of the slot and the row of a work-item's number u of a staged side."""
        e = f"id + {u * self.group}"
        if self.slots == 1:
            return f"s{u} = 0, i{u} = {e}"
        if across:
            return f"s{u} = id % {self.slots}, i{u} = id / {self.slots} + {u * self.items}"
        if rows.isdigit() and self.group % int(rows) == 0:
            return f"s{u} = id / {rows} + {u * self.group // int(rows)}, i{u} = id % {rows}"
        return f"s{u} = ({e}) / {rows}, i{u} = {e} - s{u} * {rows}"

    def there(self, across: bool, rows: str, u: int) -> str:
        """C condition that a staged side has a work-item's number u; nothing if it always has."""
        if rows.isdigit() and (u + 1) * self.group <= int(rows) * self.slots:
            return ""
        return f"i{u} < {rows}" if across or self.slots == 1 else f"s{u} < {self.slots}"
