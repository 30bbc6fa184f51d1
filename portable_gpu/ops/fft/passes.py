"""Passes: many transforms of a length that scratch holds, by one launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from portable_gpu.dtypes import Element
from portable_gpu.ops.fft.problem import Form
from portable_gpu.ops.fft.tables import chirp_length, is_prime, largest_prime
from portable_gpu.runtime.views import Shape

#: ``across``: lanes lie side by side.  ``along``: the rows of a lane do.
Layout = Literal["across", "along", "any"]


@dataclass(frozen=True)
class Side:
    """A source or target, as far as kernels are rendered for it.

    Attributes:
        form: Of a row.
        layout: How lanes and rows lie.
        factor: What its numbers are multiplied by: nothing, a number of each row, or one of each
            row and lane.
        times: How the lanes of an array lie that its numbers are multiplied by, if there is one:
            ``same`` if all have one number.
        dense: From a lane to the next one, where a text is for lanes without gaps between them;
            else 0.
        stepped: Whether the numbers of rows depend on the last batch axis.
    """

    form: Form
    layout: Layout
    factor: Literal["", "rows", "lanes"] = ""
    times: Literal["", "across", "same", "any"] = ""
    dense: int = 0
    stepped: bool = False

    @property
    def reals(self) -> int:
        """Real numbers of a row."""
        return 2 if self.form == "packed" else self.components

    @property
    def components(self) -> int:
        """Real numbers of an element."""
        return 1 if self.form in ("real", "ordered", "turned", "packed") else 2


@dataclass(frozen=True)
class Times:
    """An array that the numbers of a target are multiplied by: the other side of a convolution.

    Attributes:
        row, lane, batch: Strides, in elements.
        conjugate: Whether by the conjugates of its numbers.
    """

    row: int
    lane: int
    batch: Shape
    conjugate: bool = False


@dataclass(frozen=True)
class Rows:
    """One side of a pass.

    Attributes:
        form: Of a row.
        rows: Those that are there.
        row, lane, batch: Strides, in elements.
        limit: Row i of a lane is number ``i * limit_row + b * limit_batch + lane``, b being that
            along the last batch axis; numbers from ``limit`` on are not there.  Of a folded side it
            is the length of the sequence.
        limit_row, limit_batch: See there.
        factor: See :class:`Side`; of lanes, the number says which.
        first: Of a target, the number (the row, if ``limit_row`` is 0) that is the first to be
            there, and lies where number 0 would without it.
        times: What the numbers of a complex target are multiplied by.
    """

    form: Form
    rows: int
    row: int
    lane: int
    batch: Shape = ()
    limit: int = 1 << 62
    limit_row: int = 0
    limit_batch: int = 0
    factor: Literal["", "rows", "lanes"] = ""
    first: int = 0
    times: Times | None = None

    @property
    def first_row(self) -> int:
        """The first row of which something is there."""
        return self.first // self.limit_row if self.limit_row else self.first

    @property
    def begin(self) -> int:
        """Numbers before it are not there."""
        return self.first if self.limit_row else 0

    @property
    def shift(self) -> int:
        """How many elements before the first one number 0 would lie."""
        return self.first * (self.lane if self.limit_row else self.row)

    def is_whole(self, n: int, lanes: int) -> bool:
        """Whether each lane has every row that a transform of n has."""
        wanted = {"half": n // 2 + 1, "split": n + 1}.get(self.form, n)
        last = (wanted - 1) * self.limit_row + lanes
        if self.limit_batch:
            last += self.limit_row - self.limit_batch
        return self.rows >= wanted and self.limit >= last and not self.first

    @property
    def dense(self) -> int:
        """From a lane to the next one, if there is no gap between them, else 0."""
        return self.rows if self.row == 1 and self.lane == self.rows else 0

    @property
    def unit(self) -> int:
        """From a row to the next one, where rows lie side by side."""
        return 2 if self.form == "packed" else 1

    @property
    def side(self) -> Side:
        """What a kernel is rendered for."""
        layout: Layout = "across" if self.lane == 1 else "along" if self.row == self.unit else "any"
        times: Literal["", "across", "same", "any"] = ""
        if self.times is not None:
            step = self.times.lane
            times = "same" if step == 0 else "across" if step == 1 else "any"
        return Side(self.form, layout, self.factor, times, stepped=bool(self.limit_batch))


@dataclass(frozen=True)
class Pass:
    """Transforms by one launch.

    Attributes:
        n: Length: a product of the radices that have straight code, or any where a pass has chirps.
        inverse: Whether exponents are positive.
        real: Element of the real numbers.
        lanes: Transforms side by side: the axis that vectors, or neighbouring work-items, go along.
        batch: Extents of the other axes.
        source, target: What it reads and writes.
        whole: Length of the transform of which this is the first of two passes, else 0: then row k
            of lane l is multiplied by the root ``k l / whole`` of one.  If the source has a
            ``limit_batch``, l is the number of its row 0.
        by_batch: Whether l of these roots is the number along the last batch axis instead.
        parts: Of a pass that shares its launch with another one: into how many parts the leading
            batch axes cut both.  A part of the second pass reads what the first one made of it.
        scaled: Whether results are multiplied by a scale.
    """

    n: int
    inverse: bool
    real: Element
    lanes: int
    batch: Shape
    source: Rows
    target: Rows
    whole: int = 0
    parts: int = 1
    by_batch: bool = False
    scaled: bool = True

    @property
    def paired(self) -> bool:
        """Whether a lane has two transforms: of real sequences, one complex transform has both."""
        return not {"half", "turned"}.isdisjoint((self.source.form, self.target.form))

    @property
    def planes(self) -> int:
        """Transforms of a lane."""
        return 2 if self.paired else 1

    @property
    def count(self) -> int:
        """Transforms in all."""
        found = self.lanes
        for extent in self.batch:
            found *= extent
        return found

    @property
    def bytes(self) -> int:
        """Each row that is there read once, or written once."""
        return moved([self])


def moved(runs: Sequence[Pass]) -> int:
    """Bytes that a launch of these passes reads and writes, but for what lies between them."""
    ends = ((runs[0], runs[0].source), (runs[-1], runs[-1].target))
    numbers = sum(run.count * side.rows * side.side.reals for run, side in ends)
    return runs[0].real.itemsize * numbers


@dataclass(frozen=True)
class Reach:
    """How far a pass goes.

    Attributes:
        most: The longest transform by butterflies.
        lanes: Transforms that a pass wants side by side: of a vector, or of a run of memory.
        broad: The longest transform of which a pass takes enough side by side.
        cut: The shortest line that two passes may make where there are few, though one would do.
        chirps: Whether a pass makes transforms of lengths with other primes, by a convolution: see
            :meth:`stage_length`.
        prime: The largest prime that has a butterfly in a quarter of the longest transform.
        cyclic: The largest prime that has one in a cyclic convolution.
        by_batch: Whether roots between passes may be those of a number along a batch axis.
    """

    most: int
    lanes: int
    broad: int
    cut: int
    chirps: bool = False
    prime: int = 13
    cyclic: int = 13
    by_batch: bool = False

    def takes(self, n: int) -> bool:
        """Whether one pass makes transforms of this length."""
        if self.has_butterflies(n):
            return n <= self.most
        return self.chirps and self.stage_length(n) <= self.most

    def stage_length(self, n: int) -> int:
        """The length of which the stages of a transform of n are.

        Of a prime n it is n - 1, if that has butterflies: a convolution of as many numbers (Rader).
        Others are convolutions with a chirp, of at least 2 n - 1 numbers (Bluestein).
        """
        if self.has_butterflies(n):
            return n
        cyclic = is_prime(n) and largest_prime(n - 1) <= self.cyclic
        return n - 1 if cyclic and self.has_butterflies(n - 1) else chirp_length(n)

    def has_butterflies(self, n: int) -> bool:
        """Whether a length is made of butterflies; large ones have registers for few work-items."""
        prime = largest_prime(n)
        return prime <= 13 or (prime <= self.prime and n <= self.most // 4)
