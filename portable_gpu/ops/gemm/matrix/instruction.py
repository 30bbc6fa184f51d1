"""The matrix instructions of wavefronts: the elements of operands and sums that each lane holds.

In a product of ``side`` rows and columns, lane i holds elements of row ``i % side`` of A and of
column ``i % side`` of B, at ``lane_depth`` steps of k: those from ``lane_depth * (i / side)`` on.
It holds sums of column ``i % side``.  Source: AMD's composable_kernel, ``mfma_type`` in
``xdlops_gemm.hpp``.

The sums are float32's, or float64's.  Products of float32 and of float64 are fused multiply-adds of
that type, so they are as accurate as those of ``ieee`` precision.
"""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.ops.gemm.matrix.policy import LANES
from portable_gpu.targets import Target


@dataclass(frozen=True)
class MatrixInstruction:
    """One instruction.

    Attributes:
        name: The name, as in :attr:`Target.matrix_instructions`.
        kind: The element type of the operands.
        side: Rows and columns of the product.
        lane_depth: Steps of k of which a lane holds a row of A and a column of B.
        itemsize: Bytes of an element.
        type: The C type of a lane's elements of an operand, for the compiler's built-in function.
        scattered: Whether the rows of a lane's sums are spread evenly, not in groups of 4.
    """

    name: str
    kind: str
    side: int
    lane_depth: int
    itemsize: int
    type: str
    scattered: bool = False

    @property
    def slices(self) -> int:
        """Lanes that share a row of A or a column of B."""
        return LANES // self.side

    @property
    def depth(self) -> int:
        """Steps of k."""
        return self.lane_depth * self.slices

    @property
    def words(self) -> int:
        """32-bit words that a lane holds of an operand."""
        return self.lane_depth * self.itemsize // 4

    @property
    def sums(self) -> int:
        """Sums that a lane holds."""
        return self.side * self.side // LANES

    @property
    def sum_type(self) -> str:
        """C type of one sum."""
        return "double" if self.kind == "f64" else "float"

    def row(self, r: int) -> str:
        """C expression: the row of a lane's ``r``-th sum; ``slice`` is the lane over ``side``."""
        if self.scattered:
            return f"{self.slices * r} + slice"
        return f"{r // 4 * 4 * self.slices + r % 4} + 4 * slice"


_INSTRUCTIONS = (
    MatrixInstruction("f32_32x32x2f32", "f32", 32, 1, 4, "float"),
    MatrixInstruction("f32_32x32x8f16", "f16", 32, 4, 2, "half4"),
    MatrixInstruction("f32_32x32x8bf16_1k", "bf16", 32, 4, 2, "short4"),
    MatrixInstruction("f32_32x32x4bf16", "bf16", 32, 2, 2, "short2"),
    MatrixInstruction("f64_16x16x4f64", "f64", 16, 1, 8, "double", scattered=True),
)


def instruction_of(kind: str, target: Target) -> MatrixInstruction | None:
    """The instruction of a target for a kind of elements, if it has one."""
    result = (i for i in _INSTRUCTIONS if i.kind == kind and i.name in target.matrix_instructions)
    return next(result, None)
