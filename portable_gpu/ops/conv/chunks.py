"""The number of images that a convolution with workspace computes at a time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from portable_gpu.targets import Target

#: Bytes of workspace for images at a time: a CPU's, which its caches keep in part, and a GPU's.
CHUNK_BYTES = {True: 1 << 23, False: 1 << 30}


def workspace_limit(limit: int | None, target: Target) -> int:
    """Return the most bytes of workspace."""
    max_bytes = target.facts.max_alloc_size
    return max_bytes if limit is None else min(limit, max_bytes)


def images_within(batch: int, workspace: Callable[[int], int], max_bytes: int) -> int:
    """Return a number of images whose workspace is within the limit; 1 if there is none.

    Args:
        batch: The images of the convolution.
        workspace: Gives the bytes for a number of images.
        max_bytes: The limit.
    """
    return max(1, bisect_right(range(1, batch + 1), max_bytes, key=workspace))


def chunks(batch: int, images: int) -> list[tuple[int, int]]:
    """Return the first image and the number of images of each chunk; the last may be smaller."""
    return [(first, min(images, batch - first)) for first in range(0, batch, images)]
