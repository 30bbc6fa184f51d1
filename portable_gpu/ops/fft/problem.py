"""Descriptions of transforms, of whole arrays and along one axis, without a way to compute them."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2, prod
from typing import Literal

from portable_gpu.codegen.axes import Axis
from portable_gpu.dtypes import Element
from portable_gpu.runtime.views import Shape

#: From complex to complex; from real to the non-redundant half of the spectrum, n // 2 + 1 numbers
#: (Hermitian symmetry); and from that half to real.
TransformKind = Literal["c2c", "r2c", "c2r"]
#: How the numbers of a transform are stored in a source or target:
#:
#: * ``complex``, ``real``: one number for each row;
#: * ``half``: rows 0 to n // 2 of the spectra of two real sequences;
#: * ``folded``: n complex rows, of which those above n // 2 are stored as the conjugates of rows
#:   n - k (Hermitian symmetry);
#: * ``ordered``: the real input of a cosine transform: even rows, then odd rows in reverse order;
#: * ``rotated``: the real output of a cosine transform: the real parts of the spectra of two real
#:   sequences, multiplied by factors;
#: * ``packed``: a real sequence of 2 n numbers as n complex numbers;
#: * ``split``: rows 0 to n of the spectrum of 2 n real numbers, from the transform of ``packed``.
Form = Literal["complex", "real", "half", "folded", "ordered", "rotated", "packed", "split"]


@dataclass(frozen=True)
class FftProblem:
    """One transform without the values of its arrays: the key of its plan.

    Attributes:
        kind: The kind of transform.  In ``c2r`` the complex axes are transformed before the real
            one, in ``r2c`` after it.
        from_real: Whether the input of a ``c2c`` transform is real.
        inverse: Whether exponents are positive.
        real: Element of the real numbers.
        axes: The transformed axes; the last is the real one.
        lengths: The length of the transform along each.
        shape_in, shape_out: The shapes of the arrays.
        strides_in, strides_out: Their strides, in elements.
        scaled: Whether results are multiplied by a scale.
        first: For ``c2r`` with results that are cropped to ``shape_out``: the index of the first
            result that is stored along each axis.
        apart: The number of leading axes that count independent transforms: no pair of real lines
            has different indices along them.
    """

    kind: TransformKind
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
    first: Shape = ()
    apart: int = 0

    @property
    def size(self) -> int:
        """The number of elements of the larger of input and output."""
        return max(prod(self.shape_in), prod(self.shape_out))

    @property
    def flop(self) -> int:
        """Flop by the usual convention: 5 N log2 N for N complex numbers, half for real ones."""
        points = prod(self.lengths)
        others = prod(n for axis, n in enumerate(self.shape_out) if axis not in self.axes)
        of_complex = 5 * points * log2(points) * others if points > 1 else 0
        return round(of_complex if self.kind == "c2c" else of_complex / 2)

    @property
    def bytes(self) -> int:
        """Bytes of the input and the output, each moved once."""
        parts = (2 - (self.kind == "r2c" or self.from_real), 2 - (self.kind == "c2r"))
        return self.real.itemsize * (
            parts[0] * prod(self.shape_in) + parts[1] * prod(self.shape_out)
        )


@dataclass(frozen=True)
class LineOperand:
    """The source or the target of the transforms along one axis.

    Attributes:
        form: The form of its numbers.
        count: The number of elements that exist in memory; a transform reads others as zeros, and
            does not write them.
        step: The stride between them, in elements.
        first: For a target, the index of the first result that is stored: results are cropped.
    """

    form: Form
    count: int
    step: int
    first: int = 0

    @property
    def end(self) -> int:
        """The index after the last element."""
        return self.first + self.count


@dataclass(frozen=True)
class LineMultiplier:
    """An array by which results are multiplied, element by element.

    Attributes:
        step: Its stride along the axis, in elements; ``Line.others`` has those of other axes.
        conjugate: Whether its numbers are conjugated.
    """

    step: int
    conjugate: bool = False


@dataclass(frozen=True)
class Line:
    """The transforms along one axis of an array, of all its lines.

    Attributes:
        n: Length of the transform.
        inverse: Whether exponents are positive.
        real: Element of the real numbers.
        source, target: The arrays that are read and written, along the axis.
        others: The other axes, with their strides in the source, in the target, and in the array by
            which results are multiplied.
        times: The array by which results are multiplied, if any; targets must not be real.
        apart: The number of leading axes of ``others`` along which the lines of a pair do not
            differ.
    """

    n: int
    inverse: bool
    real: Element
    source: LineOperand
    target: LineOperand
    others: tuple[Axis, ...]
    times: LineMultiplier | None = None
    apart: int = 0

    @property
    def lines(self) -> int:
        """The number of lines."""
        return prod(axis.size for axis in self.others)

    @property
    def paired(self) -> bool:
        """Whether two real lines share one complex transform, if one pass transforms them."""
        return "half" in (self.source.form, self.target.form)
