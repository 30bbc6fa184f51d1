"""One operation on one size: what is timed, tuned, checked and built ahead."""

from __future__ import annotations

from dataclasses import dataclass

from portable_gpu.dtypes import PRECISIONS
from portable_gpu.ops.registry import BENCHMARKS, OPERATIONS
from portable_gpu.runtime.views import Shape


@dataclass(frozen=True)
class Case:
    """One operation on one size.

    Attributes:
        operation: Its name: ``sum``, ``gemv``, ``gemm`` ...
        extents: Shape of a reduction's arrays; (m, n) of gemv's matrix; (m, k, n) of gemm: see
            :attr:`OperationRecord.shapes`.
        dtype: NumPy name of the element type.
        axis: The axis of a reduction; None: all axes.
        trans: A letter for each operand that may be transposed: N or T for gemv, two for gemm.
        batch: Products of a batch; ``None`` for a single one.
        manner: The ``precision`` of float32 products (``bf16x6``), or the dtype of the result of
            16-bit floats (``float32``); empty as it is by default.
    """

    operation: str
    extents: tuple[int, ...]
    dtype: str = "float32"
    axis: int | None = None
    trans: str = ""
    batch: int | None = None
    manner: str = ""

    @property
    def precision(self) -> str:
        """As :func:`portable_gpu.gemm` takes it."""
        return self.manner if self.manner in PRECISIONS else "ieee"

    @property
    def result(self) -> str:
        """NumPy name of the result's element type."""
        return self.dtype if self.manner in ("", *PRECISIONS) else self.manner

    @property
    def type(self) -> str:
        """The dtype, and the manner, as ``--dtype`` takes them."""
        return f"{self.dtype}:{self.manner}" if self.manner else self.dtype

    @property
    def size(self) -> str:
        """The size as ``--sizes`` takes it."""
        text = "x".join(_short(extent) for extent in self.extents)
        variant = self.trans if self.axis is None else str(self.axis)
        batch = "" if self.batch is None else f"{self.batch}:"
        return f"{batch}{text}" + (f"/{variant}" if variant else "")

    def __str__(self) -> str:
        return f"{self.operation} {self.size} {self.type}"

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Shapes of the operands, as stored."""
        return OPERATIONS[self.operation].shapes(self)

    @property
    def flop(self) -> int:
        """Floating-point operations; comparisons count as such."""
        return BENCHMARKS[self.operation].flop(self)

    @property
    def bytes(self) -> int:
        """The least traffic: every operand moved once."""
        return BENCHMARKS[self.operation].bytes(self)

    @property
    def command(self) -> str:
        """The command that times this case alone."""
        return f"portable-gpu bench {self.operation} --sizes {self.size} --dtype {self.type}"


def _short(extent: int) -> str:
    """``2^20`` for large powers of two."""
    power = extent.bit_length() - 1
    return f"2^{power}" if power > 14 and extent == 1 << power else str(extent)
