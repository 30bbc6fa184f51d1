"""A matrix-vector product, independent of how a path computes it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from portable_gpu.codegen.epilogue import Finish
from portable_gpu.dtypes import Element
from portable_gpu.powers_of_two import ceil_power_of_two

#: How a matrix may be taken: as it is, transposed, conjugated and transposed.
TRANSPOSES = ("N", "T", "C")


@dataclass(frozen=True)
class GemvProblem:
    """``y = alpha * A x + beta * y``, where A is the matrix after its transposition.

    The scalars are arguments of a launch.  Strides count elements.

    Attributes:
        elem: Element type of all three.
        m, n: Outputs, and summed elements of each.
        a_out, a_sum: A's strides along the outputs and along the summed axis.
        x_step, y_step: Strides of the vectors.
        conj: Whether A is conjugated.
        a_aligned, x_aligned: Powers of two, at most 16, that divide the byte addresses of the
            first elements.
        shifts: Elements to add to the offsets of a, x and y, where an axis is reversed.
        vectors: The number of vectors x and y; it is above 1 for a gemm of few columns on a GPU.
        x_pitch, y_pitch: Strides from a vector to the next.
        finish: The epilogue of each element of y; it takes the number of the element and that of
            its vector.
    """

    elem: Element
    m: int
    n: int
    a_out: int
    a_sum: int
    x_step: int
    y_step: int
    conj: bool = False
    a_aligned: int = 16
    x_aligned: int = 16
    shifts: tuple[int, int, int] = (0, 0, 0)
    vectors: int = 1
    x_pitch: int = 0
    y_pitch: int = 0
    finish: Finish | None = None

    @property
    def flop(self) -> int:
        """Floating-point operations (a complex multiply-add counts 8)."""
        return (8 if self.elem.complex else 2) * self.m * self.n * self.vectors

    @property
    def bytes(self) -> int:
        """The least global traffic: every operand moved once."""
        return (self.m * self.n + self.vectors * (self.n + self.m)) * self.elem.itemsize

    @property
    def padded_vectors(self) -> int:
        """The number of vectors that a kernel is built for: the next power of two."""
        return ceil_power_of_two(self.vectors)

    @property
    def real(self) -> str:
        """The C type of sums: integers wrap around as unsigned ones do."""
        if self.elem.floating:
            return self.elem.real
        return "ulong" if self.elem.itemsize == 8 else "uint"

    @property
    def by_rows(self) -> bool:
        """Whether A is contiguous along the summed axis, or has the smaller stride there."""
        if self.m == 1 or self.n == 1:
            return self.m == 1
        if self.a_sum == 1 or self.a_out == 1:
            return self.a_sum == 1
        return abs(self.a_sum) <= abs(self.a_out)

    def forwards(self) -> GemvProblem:
        """Return the problem with the axes reversed along which A has the stride -1.

        Outputs are not reversed where there is an epilogue, which takes their numbers.
        """
        problem = self
        if self.a_sum == -1 and self.n > 1:
            problem = problem._reversed(out=False)
        if self.a_out == -1 and self.m > 1 and not self.finish:
            problem = problem._reversed(out=True)
        return problem

    def _reversed(self, *, out: bool) -> GemvProblem:
        shift_a, shift_x, shift_y = self.shifts
        # The element that was the last one may have no alignment beyond its size.
        result = replace(self, a_aligned=min(self.a_aligned, self.elem.itemsize))
        if out:
            last = self.m - 1
            shifts = shift_a + last * self.a_out, shift_x, shift_y + last * self.y_step
            return replace(result, shifts=shifts, a_out=-self.a_out, y_step=-self.y_step)
        last = self.n - 1
        shifts = shift_a + last * self.a_sum, shift_x + last * self.x_step, shift_y
        return replace(result, shifts=shifts, a_sum=-self.a_sum, x_step=-self.x_step)
