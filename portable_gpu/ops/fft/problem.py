"""What a transform computes, whatever the way: of arrays, and of one axis of theirs."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, prod
from typing import Literal

from portable_gpu.codegen.axes import Axis
from portable_gpu.dtypes import Element
from portable_gpu.runtime.views import Shape

#: complex to complex; real to the half of its transform that says all; that half to real.
Kind = Literal["c2c", "r2c", "c2r"]
#: What a row of a source or target is.  ``half``: of two transforms of real sequences, the rows up
#: to n // 2.  ``folded``: complex, those behind the middle being conjugates of those before it.
#: ``ordered``: real, of a source: the even rows, and then the odd ones from the end.  ``turned``:
#: real, of a target: the real parts of all rows of two transforms of real sequences, times factors.
Form = Literal["complex", "real", "half", "folded", "ordered", "turned", "packed", "split"]


@dataclass(frozen=True)
class FftProblem:
    """One transform apart from its arrays' values: the key of its plan.

    Attributes:
        kind: Of its first step: complex axes come before a ``c2r`` one, and after an ``r2c`` one.
        from_real: Whether the input of complex axes is real.
        inverse: Whether exponents are positive.
        real: Element of the real numbers.
        axes: Transformed ones; the last is the real one.
        lengths: Of the transform along each.
        shape_in, shape_out: Of the arrays.
        strides_in, strides_out: Likewise, in elements.
        scaled: Whether results are multiplied by a scale.
    """

    kind: Kind
    from_real: bool
    inverse: bool
    real: Element
    axes: tuple[int, ...]
    lengths: tuple[int, ...]
    shape_in: Shape
    shape_out: Shape
    strides_in: Shape
    strides_out: Shape
    scaled: bool = True

    @property
    def size(self) -> int:
        """Numbers of all transforms, as the real or complex numbers of the longer side."""
        return max(prod(self.shape_in), prod(self.shape_out))

    @property
    def flop(self) -> int:
        """The field's convention: 5 N log2 N of N complex numbers, half of it for real ones."""
        points = prod(self.lengths)
        others = prod(n for axis, n in enumerate(self.shape_out) if axis not in self.axes)
        of_complex = 5 * points * log2(points) * others if points > 1 else 0
        return round(of_complex if self.kind == "c2c" else of_complex / 2)

    @property
    def bytes(self) -> int:
        """Each input read once, each result written once."""
        parts = (2 - (self.kind == "r2c" or self.from_real), 2 - (self.kind == "c2r"))
        return self.real.itemsize * (
            parts[0] * prod(self.shape_in) + parts[1] * prod(self.shape_out)
        )


@dataclass(frozen=True)
class End:
    """One side of a line of numbers.

    Attributes:
        form: Of its numbers.
        count: How many there are; a transform reads 0 for others, and does not write them.
        step: Between them, in elements.
        first: Of a target, the number of the first one that is there: a result is cropped.
    """

    form: Form
    count: int
    step: int
    first: int = 0

    @property
    def end(self) -> int:
        """The number behind the last one."""
        return self.first + self.count


@dataclass(frozen=True)
class Product:
    """Results are multiplied by the numbers of another array.

    Attributes:
        step: Between them along the axis, in elements; other axes have their strides in ``others``.
        conjugate: Whether by their conjugates.
    """

    step: int
    conjugate: bool = False


@dataclass(frozen=True)
class Line:
    """The transforms along one axis, of all lines of an array.

    Attributes:
        n: Length of the transform.
        inverse: Whether exponents are positive.
        real: Element of the real numbers.
        source, target: What is read and written along the axis.
        others: The other axes, with their strides in the source and in the target, and in what
            results are multiplied by.
        times: What results are multiplied by, number by number; not of real targets.
    """

    n: int
    inverse: bool
    real: Element
    source: End
    target: End
    others: tuple[Axis, ...]
    times: Product | None = None

    @property
    def lines(self) -> int:
        """How many there are."""
        return prod(axis.size for axis in self.others)
