"""A streamed operation: its operands, the blocks of its result, and the steps of each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from portable_gpu.multi.streaming.storage import Index, TiledOperand, Values
from portable_gpu.runtime.engine import Engine


@dataclass(frozen=True)
class StreamStep:
    """A call on one tile of each operand.

    Attributes:
        reads: The tile of each operand.
        work: Its operations, for the progress bar.
        options: Other arguments of the call.
    """

    reads: tuple[Index, ...]
    work: float
    options: Any = None


@dataclass(frozen=True)
class StreamBlock:
    """A part of the result that one device computes.

    Attributes:
        place: Its tile of the result, or the number of a partial result.
        steps: The calls, in order.
    """

    place: Any
    steps: Sequence[StreamStep]


class Sink(Protocol):
    """The destination of the blocks."""

    def in_place(self, place: Any, dtype: np.dtype[Any]) -> Values | None:
        """Return memory of the host for a block, if there is some of this dtype."""

    def write(self, place: Any, tile: Any) -> None:
        """Store a block."""


@dataclass(frozen=True)
class Job:
    """A streamed operation.

    Attributes:
        name: Its name.
        operands: The arrays that are read.
        tiles: The largest extents of a tile of each.
        blocks: The blocks.
        compute: Computes a step, given an engine, the step, the tiles, and the array of
            the block (None if ``block`` is None).  Returns the array of the block.
        sink: Stores the blocks.
        block: The largest extents and the dtype of a block; None if calls return new arrays.
    """

    name: str
    operands: Sequence[TiledOperand]
    tiles: Sequence[tuple[int, ...]]
    blocks: Sequence[StreamBlock]
    compute: Callable[[Engine, StreamStep, Sequence[Any], Any], Any]
    sink: Sink
    block: tuple[tuple[int, ...], np.dtype[Any]] | None = None


def extents_of(index: Index) -> tuple[int, ...]:
    """Return the shape of a tile."""
    return tuple([part.stop - part.start for part in index])
