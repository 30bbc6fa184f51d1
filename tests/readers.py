"""Random readers of operands, and the matrices that they read, element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.gemm.reader import Gather


def dense(reader: Gather, memory: np.ndarray[Any, Any], depth: int) -> np.ndarray[Any, Any]:
    """The matrix (s, k) of an operand, by the definition of its reader."""
    assert reader.table is not None
    table, checked = reader.table(), reader.rank - reader.places
    result = np.zeros((int(np.prod(reader.extents)), depth), memory.dtype)
    for s, index in enumerate(np.ndindex(*reader.extents)):
        for k in range(depth):
            entry = table[k % reader.period]
            places = [
                index[checked + j] * reader.pitches[j] + entry[1 + j] for j in range(reader.places)
            ]
            if all(0 <= x < n for x, n in zip(places, reader.bounds, strict=True)):
                at = (
                    np.dot(index, reader.strides)
                    + entry[0]
                    + k // reader.period * (reader.repeat or 0)
                )
                result[s, k] = memory[at]
    return result


def windows(
    rng: np.random.Generator, side: Any, places: int, wraps: bool, width: int
) -> tuple[Gather, np.ndarray[Any, Any], int]:
    """A reader of the windows of images, the memory that it reads, and the number of steps.

    Steps are the window's elements, channels last; where the reader wraps, of some images.
    """
    channels, images = (
        max(4, width) * int(rng.integers(1, 4)),
        int(rng.integers(2, 4)) if wraps else 1,
    )
    bounds = tuple(int(n) for n in rng.integers(5, 9, places))
    sizes, pads = rng.integers(1, 4, places), rng.integers(0, 3, places)
    pitches, dilations = (tuple(int(n) for n in rng.integers(1, 3, places)) for _ in range(2))
    extents = tuple(int(n) for n in rng.integers(2, 5, places)) or (17,)
    steps, memory_strides = [], []
    for j in range(places):
        memory_strides.append(channels * int(np.prod(bounds[j + 1 :])))
    image = channels * int(np.prod(bounds)) if places else channels * 17
    for at in np.ndindex(*sizes):
        place = [int(d * x - pad) for d, x, pad in zip(dilations, at, pads, strict=True)]
        offset = sum(x * stride for x, stride in zip(place, memory_strides, strict=True))
        steps += [[offset + c, *place] for c in range(channels)]
    repeats = 1 if not wraps else -(-8 // len(steps))
    table = np.tile(np.array(steps, np.int32), (repeats, 1))
    table[:, 0] += np.repeat(np.arange(repeats, dtype=np.int32) * image, len(steps))
    strides = tuple(p * s for p, s in zip(pitches, memory_strides, strict=True)) or (channels,)
    reader = Gather(
        side=side, extents=extents, strides=strides, pitches=pitches, bounds=bounds,
        table=lambda: table, period=len(table),
        repeat=image * repeats if wraps else None,
        along="k" if width > 1 else "s", width=width,
    )  # fmt: skip
    memory = rng.integers(-8, 9, image * images * repeats).astype(np.float32)
    return reader, memory, len(table) * images
