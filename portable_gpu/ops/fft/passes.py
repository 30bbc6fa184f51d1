"""Passes: each is one launch that computes many transforms of a length that a work-group holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from portable_gpu.dtypes import Element
from portable_gpu.ops.fft.problem import Form
from portable_gpu.ops.fft.tables import chirp_length, is_prime, largest_prime
from portable_gpu.runtime.views import Shape

#: Which elements of an array are adjacent in memory: the lanes of a row (``across``), the rows of a
#: lane (``along``), or neither (``any``).  A lane is one transform of a pass, a row one number of
#: each transform.
Orientation = Literal["across", "along", "any"]


@dataclass(frozen=True)
class RenderedOperand:
    """The properties of a source or target for which a kernel's text is rendered.

    Attributes:
        form: The form of a row: see :data:`~portable_gpu.ops.fft.problem.Form`.
        layout: Which of lanes and rows are adjacent in memory.
        factor: The table by which its numbers are multiplied: none, one number for each row
            (``rows``), or one for each row and lane (``lanes``).
        times: The layout of the array by which its numbers are multiplied, if there is one:
            ``same`` if all lanes have the same number.
        dense: Elements from one lane to the next, if the text is for lanes without gaps; else 0.
        stepped: Whether the numbers of rows depend on the last batch axis.
    """

    form: Form
    layout: Orientation
    factor: Literal["", "rows", "lanes"] = ""
    times: Literal["", "across", "same", "any"] = ""
    dense: int = 0
    stepped: bool = False

    @property
    def reals(self) -> int:
        """Real numbers of a row, 1 or 2."""
        return 2 if self.form == "packed" else self.components

    @property
    def components(self) -> int:
        """Real numbers of an element, 1 or 2."""
        return 1 if self.form in ("real", "ordered", "rotated", "packed") else 2


@dataclass(frozen=True)
class PassMultiplier:
    """An array by which the results of a pass are multiplied: the other input of a convolution.

    Attributes:
        row, lane, batch: Strides, in elements.
        conjugate: Whether its numbers are conjugated.
    """

    row: int
    lane: int
    batch: Shape
    conjugate: bool = False


@dataclass(frozen=True)
class PassOperand:
    """The source or the target of a pass.

    Attributes:
        form: The form of a row.
        rows: The number of rows that exist in memory; others are read as zeros, and not written.
        row, lane, batch: Strides, in elements.
        limit: The number of elements of the line.  Row i of a lane is element ``i * limit_row + b *
            limit_batch + lane`` of the line, where b is the index along the last batch axis;
            elements from ``limit`` on do not exist in memory.  In the form ``folded`` it is the
            length of the mirrored sequence.
        limit_row, limit_batch: The strides in that formula.
        factor: See :class:`RenderedOperand`; the table of ``lanes`` is indexed by that element.
        first: For a target, the first element (the first row, if ``limit_row`` is 0) that is
            written; it is stored where element 0 would be if ``first`` were 0.
        times: The array by which the numbers of a complex target are multiplied.
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
    times: PassMultiplier | None = None

    @property
    def first_row(self) -> int:
        """The first row of which an element exists."""
        return self.first // self.limit_row if self.limit_row else self.first

    @property
    def begin(self) -> int:
        """The first element that exists, if elements are numbered by ``limit_row``."""
        return self.first if self.limit_row else 0

    @property
    def shift(self) -> int:
        """The distance of element 0 before the first element, in elements of the array."""
        return self.first * (self.lane if self.limit_row else self.row)

    def is_whole(self, n: int, lanes: int) -> bool:
        """Whether all rows of a transform of n exist in each lane."""
        count = {"half": n // 2 + 1, "split": n + 1}.get(self.form, n)
        last = (count - 1) * self.limit_row + lanes
        if self.limit_batch:
            last += self.limit_row - self.limit_batch
        return self.rows >= count and self.limit >= last and not self.first

    @property
    def dense(self) -> int:
        """Elements from one lane to the next if there is no gap between them, else 0."""
        return self.rows if self.row == 1 and self.lane == self.rows else 0

    @property
    def unit(self) -> int:
        """Elements from one row to the next if rows are adjacent."""
        return 2 if self.form == "packed" else 1

    @property
    def rendered(self) -> RenderedOperand:
        """The properties for which a kernel is rendered."""
        layout: Orientation = "any"
        if self.lane == 1 or self.row == self.unit:
            layout = "across" if self.lane == 1 else "along"
        times: Literal["", "across", "same", "any"] = ""
        if self.times is not None:
            step = self.times.lane
            times = "same" if step == 0 else "across" if step == 1 else "any"
        return RenderedOperand(
            self.form, layout, self.factor, times, stepped=bool(self.limit_batch)
        )


@dataclass(frozen=True)
class Pass:
    """Transforms of one length that a launch computes.

    Attributes:
        n: The length: a product of radices, or any length if kernels have chirp convolutions.
        inverse: Whether exponents are positive.
        real: Element of the real numbers.
        lanes: The extent of the axis along which the lanes of vectors, or neighbouring work-items,
            have different transforms.
        batch: Extents of the other axes.
        source, target: The arrays that it reads and writes.
        twiddle_length: The length N of the transform of which this is the first of two passes,
            else 0.  Row k of lane l is then multiplied by the twiddle factor exp(-2 pi i k l / N).
            If the source has a ``limit_batch``, l is the element number of its row 0.
        by_batch: Whether l is the index along the last batch axis instead.
        parts: The number of parts into which the leading batch axes divide two passes that share a
            launch.  A part of the second pass reads the results of the same part of the first.
        scaled: Whether results are multiplied by a scale.
    """

    n: int
    inverse: bool
    real: Element
    lanes: int
    batch: Shape
    source: PassOperand
    target: PassOperand
    twiddle_length: int = 0
    parts: int = 1
    by_batch: bool = False
    scaled: bool = True

    @property
    def paired(self) -> bool:
        """Whether a lane has two transforms of real numbers, computed as one complex transform."""
        return not {"half", "rotated"}.isdisjoint((self.source.form, self.target.form))

    @property
    def planes(self) -> int:
        """Transforms of a lane, 1 or 2."""
        return 2 if self.paired else 1

    @property
    def count(self) -> int:
        """The number of lanes of all batches."""
        return self.lanes * prod(self.batch)

    @property
    def bytes(self) -> int:
        """The bytes of all rows that exist, each read once or written once."""
        return moved([self])


def moved(passes: Sequence[Pass]) -> int:
    """Bytes that a launch of these passes reads and writes, without those between the passes."""
    ends = ((passes[0], passes[0].source), (passes[-1], passes[-1].target))
    numbers = sum(pass_.count * side.rows * side.rendered.reals for pass_, side in ends)
    return passes[0].real.itemsize * numbers


@dataclass(frozen=True)
class PassLimits:
    """The lengths that one pass can transform.

    Attributes:
        max_length: The longest transform by butterflies.
        lanes: Adjacent transforms of a vector, or of a contiguous part of memory.
        max_batched_length: The longest transform of which a pass holds ``lanes`` at once.
        min_split_length: The shortest line for which two passes are considered if lines are few,
            although one pass could transform it.
        chirps: Whether a pass transforms lengths with other primes, as convolutions: see
            :meth:`stage_length`.
        max_prime: The largest prime with a butterfly, in transforms of up to ``max_length / 4``.
        max_cyclic_prime: The largest prime with a butterfly in a cyclic convolution.
        twiddles_by_batch: Whether twiddle factors may depend on the index along a batch axis.
    """

    max_length: int
    lanes: int
    max_batched_length: int
    min_split_length: int
    chirps: bool = False
    max_prime: int = 13
    max_cyclic_prime: int = 13
    twiddles_by_batch: bool = False

    def allows(self, n: int) -> bool:
        """Whether one pass can transform this length."""
        if self.has_butterflies(n):
            return n <= self.max_length
        return self.chirps and self.stage_length(n) <= self.max_length

    def stage_length(self, n: int) -> int:
        """The length that the stages of a transform of n compute.

        For a prime n it is n - 1, if that has butterflies: a cyclic convolution (Rader).  Other
        lengths without butterflies are convolutions with a chirp, of at least 2 n - 1 (Bluestein).
        """
        if self.has_butterflies(n):
            return n
        cyclic = is_prime(n) and largest_prime(n - 1) <= self.max_cyclic_prime
        return n - 1 if cyclic and self.has_butterflies(n - 1) else chirp_length(n)

    def has_butterflies(self, n: int) -> bool:
        """Whether all prime factors of a length have butterflies.

        Butterflies of large primes need many registers, so there are fewer work-items.
        """
        prime = largest_prime(n)
        return prime <= 13 or (prime <= self.max_prime and n <= self.max_length // 4)
