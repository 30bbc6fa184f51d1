"""Sums of convolutions, tap by tap, of NumPy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

Pads = Sequence[tuple[int, int]]


class Kind(NamedTuple):
    """Properties that kernels may be built for; the extents of arrays are their arguments."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pads: Pads


def taps(w: Any) -> Any:
    return product(*(range(n) for n in w.shape[2:]))


def places(kind: Kind, tap: tuple[int, ...], extents: Sequence[int]) -> Any:
    """The slices of the padded input that a tap multiplies."""
    space = [
        slice(r * d, r * d + (n - 1) * s + 1 if n else r * d, s)
        for r, s, d, n in zip(tap, kind.stride, kind.dilation, extents, strict=True)
    ]
    return (slice(None), slice(None), *space)


def padded(x: Any, pads: Pads) -> Any:
    return np.pad(x, [(0, 0), (0, 0), *pads])


def extents_of(x: Any, kind: Kind) -> tuple[int, ...]:
    sizes = [n + sum(pad) for n, pad in zip(x.shape[2:], kind.pads, strict=True)]
    return tuple(
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(sizes, kind.kernel, kind.stride, kind.dilation, strict=True)
    )


def split(x: Any, groups: int) -> Any:
    """(N, C, ...) as (N, groups, C / groups, ...)."""
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def forward(x: Any, w: Any, kind: Kind, groups: int) -> Any:
    """The convolution, tap by tap."""
    out = extents_of(x, kind)
    y = np.zeros((x.shape[0], groups, w.shape[0] // groups, *out))
    source = padded(x, kind.pads)
    for tap in taps(w):
        part = split(source[places(kind, tap, out)], groups)
        weights = w[(..., *tap)].reshape(groups, -1, w.shape[1])
        y += np.einsum("ngc...,gkc->ngk...", part, weights)
    return y.reshape(x.shape[0], w.shape[0], *out)


def gradients(x: Any, w: Any, dy: Any, kind: Kind, groups: int) -> tuple[Any, Any]:
    """The gradients of x and of w, tap by tap."""
    source, out = padded(x, kind.pads), dy.shape[2:]
    dx, dw = np.zeros_like(source), np.zeros_like(w)
    dy = split(dy, groups)
    for tap in taps(w):
        at = places(kind, tap, out)
        weights = w[(..., *tap)].reshape(groups, -1, w.shape[1])
        moved = np.einsum("ngk...,gkc->ngc...", dy, weights)
        dx[at] += moved.reshape(x.shape[0], x.shape[1], *out)
        part = split(source[at], groups)
        letters = "abd"[: len(out)]
        sums = np.einsum(f"ngk{letters},ngc{letters}->gkc", dy, part)
        dw[(..., *tap)] = sums.reshape(w.shape[:2])
    inner = [slice(a, n - b) for (a, b), n in zip(kind.pads, source.shape[2:], strict=True)]
    return dx[(slice(None), slice(None), *inner)], dw


def by_channels(a: Any) -> Any:
    """Return the same array with its channels adjacent in memory."""
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)


def laid_out(a: Any, layout: str) -> Any:
    """Return the same array by channels, as a view of every second element, or as it is."""
    if layout == "channels":
        return by_channels(a)
    return np.repeat(a, 2, -1)[..., ::2] if layout == "sliced" else a


#: Magnitudes of the matrices of Winograd's F(2 x 2, 3 x 3).
G = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [0, 0, 1]])
B = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 1, 0, 1]])
A = np.array([[1, 1, 1, 0], [0, 1, 1, 1]])


def amplified(x: Any, w: Any, kind: Kind, groups: int) -> Any:
    """The convolution with the magnitudes of all elements and of the transforms' matrices."""
    x = padded(abs(x), kind.pads)
    n, _, *size = x.shape
    rows, columns = (-(-(extent - 2) // 2) for extent in size)
    x = np.pad(x, [(0, 0), (0, 0), (0, 2 * rows + 2 - size[0]), (0, 2 * columns + 2 - size[1])])
    tiles = np.lib.stride_tricks.sliding_window_view(x, (4, 4), axis=(2, 3))[:, :, ::2, ::2]
    tiles = (B @ tiles @ B.T).reshape(n, groups, w.shape[1], rows, columns, 4, 4)
    filters = (G @ abs(w) @ G.T).reshape(groups, -1, w.shape[1], 4, 4)
    products = np.einsum("ngcrqij,gkcij->ngkrqij", tiles, filters)
    y = (A @ products @ A.T).transpose(0, 1, 2, 3, 5, 4, 6)
    return y.reshape(n, w.shape[0], 2 * rows, 2 * columns)[..., : size[0] - 2, : size[1] - 2]


def amplified_weights(x: Any, dy: Any, pads: Pads, groups: int) -> Any:
    """The same of the gradient of filters of 3 x 3."""
    x, dy = padded(abs(x), pads), abs(dy)
    n, filters, *size = dy.shape
    rows, columns = (-(-extent // 2) for extent in size)
    ends = [(0, 2 * rows + 2 - x.shape[2]), (0, 2 * columns + 2 - x.shape[3])]
    tiles = np.lib.stride_tricks.sliding_window_view(
        np.pad(x, [(0, 0), (0, 0), *ends]), (4, 4), axis=(2, 3)
    )[:, :, ::2, ::2]
    tiles = (B @ tiles @ B.T).reshape(n, groups, x.shape[1] // groups, rows, columns, 4, 4)
    ends = [(0, extent % 2) for extent in size]
    dy = np.pad(dy, [(0, 0), (0, 0), *ends])
    dy = dy.reshape(n, groups, filters // groups, rows, 2, columns, 2)
    of_dy = A.T @ dy.swapaxes(4, 5) @ A
    products = np.einsum("ngcrqij,ngkrqij->gkcij", tiles, of_dy)
    return (G.T @ products @ G).reshape(filters, x.shape[1] // groups, 3, 3)


def turned(dy: Any, w: Any, pads: Pads, groups: int) -> tuple[Any, Any]:
    """The images and filters of 3 x 3 whose convolution without padding is the gradient of x.

    Filters are rotated, channels and filters of each group change places, and what is before is
    2 - padding.
    """
    rotated = w[..., ::-1, ::-1].reshape(groups, -1, *w.shape[1:]).swapaxes(1, 2)
    crop = [(2 - first, 2 - last) for first, last in pads]
    whole = padded(dy, [(max(0, a), max(0, z)) for a, z in crop])
    for axis, (a, z) in enumerate(crop, 2):
        inside = range(max(0, -a), whole.shape[axis] - max(0, -z))
        whole = whole.take(inside, axis)
    return whole, rotated.reshape(-1, w.shape[0] // groups, 3, 3)


def norms(a: Any) -> Any:
    """The 2-norms of planes."""
    return np.sqrt((a.astype(np.float64) ** 2).sum(tuple(range(2, a.ndim)), keepdims=True))
