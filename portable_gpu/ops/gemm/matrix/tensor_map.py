"""Tensor maps: descriptions of an operand for the copy engine (SM 90)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.gemm.matrix.format import strides
from portable_gpu.ops.gemm.matrix.lines import Lines
from portable_gpu.ops.gemm.matrix.policy import LINE
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_BYTES = 128


@dataclass(frozen=True)
class TensorMap:
    """The map of an operand at any address: ``cl_kernels/gemm/_boxes`` adds the address.

    Attributes:
        spec: The kernel that writes the map.
        extent: The number of adjacent elements of a line of the matrix.
        count: The number of lines.
        pitch: Bytes from one line to the next.
        box_lines: The number of lines of a box, at most ``count``.
        box_bytes: Bytes of local memory of the boxes of a tile.
    """

    spec: Specialization
    extent: int
    count: int
    pitch: int
    box_lines: int
    box_bytes: int

    @classmethod
    def of(cls, operand: Operand, lines: Lines, rows: int, k: int, target: Target) -> TensorMap:
        """Return the map of an operand with ``rows`` rows (columns of B) in the layout of lines."""
        along_rows, along_k = strides(operand, lines.name)
        extent, count, step = (rows, k, along_k) if lines.across else (k, rows, along_rows)
        pitch = step * operand.elem.itemsize if count > 1 else 16  # one line has no pitch
        box_lines = lines.box_lines if lines.across else min(lines.box_lines, count)
        parameters = [
            buffer("uint", "map", writes=True, restrict=False),
            *scalars("long", "extent", "count", "pitch"),
            *scalars("int", "box_lines"),
        ]
        kernels = {"tensor_map": parameters}
        spec = specialize("gemm/tensor_map", target, kernels, elem=operand.elem, depth=lines.depth)
        box_bytes = lines.boxes * box_lines * LINE
        return cls(spec, extent, count, pitch, box_lines, box_bytes)

    def made(self, engine: Engine) -> Any:
        """The map, in a buffer; it is there when this returns."""
        memory = engine.allocate(_BYTES)
        sizes = {
            "extent": self.extent, "count": self.count, "pitch": self.pitch,
            "box_lines": self.box_lines,
        }  # fmt: skip
        launch = engine.programs.launch(self.spec, "tensor_map", sizes, ["map"], [], (32,), (32,))
        state = engine.state(engine.own_queue)
        state.event(launch(state, (memory,))).wait()
        return memory
