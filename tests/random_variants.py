"""Random convolutions by transforms, and by the variants that were timed.

A call of ``algo="winograd"`` or ``"fft"`` draws extents, groups, paddings, layouts, limits of
workspace, and elements that are infinite or NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import log2, prod
from typing import Any

import numpy as np
import pytest
from layers import convolution as sums
from random_layers import _given, _made, _operand, _wide
from random_linalg import values
from reference import assert_within, unit_roundoff

from portable_gpu import nn
from portable_gpu.errors import ArgumentError

Call = Any  # random_functions.Call, which imports this module
_DIRECTIONS = ("conv", "conv", "input", "weight", "transpose")


def transformed(d: Call) -> None:
    """A convolution or a gradient by Winograd's algorithm or by Fourier transforms."""
    is_fft = d.programs.random() < 0.6
    has_weights = is_fft or d.engine.target.is_cpu
    direction = d.programs.choice(
        _DIRECTIONS if has_weights else [one for one in _DIRECTIONS if one != "weight"]
    )
    dtype = np.dtype(d.programs.choice(("float32", "float32", *d.names("float64"))))
    rank, kernel, space = _spectral_extents(d) if is_fft else _winograd_extents(d)
    pads = [
        (d.draw.randint(0, k - 1), d.draw.randint(0, k + 1)) if k > 1 else (0, 0) for k in kernel
    ]
    stride, dilation = (1,) * rank, (1,) * rank
    groups = d.draw.choice((1, 1, 1, 2, 3, 7))
    of_x, of_y = (d.draw.choice((1, 1, 2, 3, 4, 9, 16)) for _ in range(2))
    batch = d.draw.choice((0, 1, 1, 2, 3, 5))
    space = [max(n, k - sum(pad)) for n, k, pad in zip(space, kernel, pads, strict=True)]
    kind = sums.Kind(kernel, stride, dilation, pads)
    x_shape, w_shape = (batch, groups * of_x, *space), (groups * of_y, of_x, *kernel)
    y_shape = (batch, groups * of_y, *sums.extents_of(np.empty(x_shape), kind))
    if (
        is_fft
        and direction == "weight"
        and any(n <= before for n, (before, _) in zip(y_shape[2:], pads, strict=True))
    ):
        return  # more padding than the transforms take
    x, w, dy = (d.filled(shape, dtype) for shape in (x_shape, w_shape, y_shape))
    bad = _spoil(d, dy if direction in ("input", "transpose") else x)
    first, second = (x, w) if direction == "conv" else (dy, x if direction == "weight" else w)
    passed = [_given(d, first), _given(d, second)]
    if direction == "weight":
        arrays: list[Any] = [passed[1], w_shape, passed[0]]
    else:
        arrays = {"conv": passed, "input": [x_shape, passed[1], passed[0]], "transpose": passed}[
            direction
        ]
    X, W, DY = (np.where(np.isfinite(a), _wide(a), 0) for a in (x, w, dy))
    exact = (
        sums.forward(X, W, kind, groups)
        if direction == "conv"
        else sums.gradients(X, W, DY, kind, groups)[direction == "weight"]
    )
    size, shift = _size(is_fft, direction, (X, W, DY), kind, groups), 0.0
    if direction in ("conv", "transpose") and d.flag():
        bias = d.filled((exact.shape[1],), dtype)
        arrays.append(d.give(bias))
        shift = _wide(bias).reshape(-1, *[1] * rank)
    name = f"conv{rank}d_{direction}"
    name = {"conv": f"conv{rank}d", "transpose": f"conv_transpose{rank}d"}.get(direction, name)
    options = {
        "padding": pads, "groups": groups, "algo": "fft" if is_fft else "winograd",
        "workspace_limit": None,
    }  # fmt: skip
    if batch and d.flag(0.3):
        options["workspace_limit"] = _limit(d, name, arrays, options)
    got = _made(d, name, arrays, (exact.shape, dtype), **options)
    terms = {"conv": of_x, "weight": batch}.get(direction, of_y)
    factor = terms + 12.0
    if is_fft:
        factor = 21 * log2(prod(2 * n + 2 for n in space)) + terms + 5
    elif direction == "weight":
        factor = batch * prod(-(-n // 2) for n in y_shape[2:]) + 9
    bound = np.broadcast_to(factor * unit_roundoff(dtype) * (size + abs(shift)), exact.shape)
    lost = _lost(is_fft, direction, bad, exact.shape, kind, groups)
    assert not np.isfinite(got[lost]).any()
    # Lines of other planes share transforms with those that are lost, as do weights of a filter.
    if (is_fft or direction == "weight") and lost.any():
        lost |= ~np.isfinite(got)
    assert_within(got[~lost], (exact + shift)[~lost], bound[~lost])


def _winograd_extents(d: Call) -> Any:
    rank = d.programs.choice((2, 2, 3))
    space = [d.draw.choice((1, 2, 3, 5, 8, 17, d.draw.randint(1, 40))) for _ in range(2)]
    if d.flag(0.2):
        space[1] = d.draw.randint(60, 200)
    return rank, (1,) * (rank - 2) + (3, 3), [1] * (rank - 2) + space


def _spectral_extents(d: Call) -> Any:
    """Lengths of transforms are what programs are built for."""
    rank = d.programs.choice((1, 2, 2, 3))
    kernel = tuple(d.programs.choice((1, 2, 3, 5, 9)) for _ in range(rank))
    few = {1: (1, 7, 20, 150, 700), 2: (1, 4, 9, 14, 30), 3: (1, 3, 6, 8)}[rank]
    return rank, kernel, [d.programs.choice(few) for _ in range(rank)]


def _spoil(d: Call, source: Any) -> Any:
    """Make one element infinite or NaN in a fifth of the calls; return where elements are so."""
    if source.size and d.flag(0.2):
        at = tuple(int(d.rng.integers(0, n)) for n in source.shape)
        source[at] = d.rng.choice((np.inf, -np.inf, np.nan))
    return ~np.isfinite(source)


def _size(is_fft: bool, direction: str, arrays: Any, kind: sums.Kind, groups: int) -> Any:
    """The sums of magnitudes in the bounds of docs/nn.md."""
    rank = len(kind.kernel)
    if is_fft:
        ones = (1,) * rank
        point = sums.Kind(ones, ones, ones, ((0, 0),) * rank)
        of = [sums.norms(a) for a in arrays]
        if direction == "conv":
            return sums.forward(of[0], of[1], point, groups)
        return sums.gradients(*of, point, groups)[direction == "weight"]
    flat = [a.reshape(*a.shape[:2], *a.shape[-2:]) for a in arrays]
    pads, plane = kind.pads[-2:], sums.Kind((3, 3), (1, 1), (1, 1), kind.pads[-2:])
    if direction == "weight":
        size = sums.amplified_weights(flat[0], flat[2], pads, groups)
        return size.reshape(*size.shape[:2], *[1] * (rank - 2), 3, 3)
    if direction != "conv":
        source, flat[1] = sums.turned(flat[2], flat[1], pads, groups)
        flat[0], plane = source, plane._replace(pads=[(0, 0), (0, 0)])
    result = sums.amplified(flat[0], flat[1], plane, groups)
    return result.reshape(*result.shape[:2], *[1] * (rank - 2), *result.shape[2:])


def _lost(is_fft: bool, direction: str, bad: Any, shape: Any, kind: sums.Kind, groups: int) -> Any:
    """Which results an element that is not finite makes infinite or NaN."""
    lost = np.zeros(shape, bool)
    for at in np.argwhere(bad):
        n, channel = at[:2]
        of = bad.shape[1] // groups
        if direction == "weight":
            rows = shape[0] // groups
            taps: list[Any] = []
            for c, k in enumerate(kind.kernel):
                place = int(at[2 + c]) + kind.pads[c][0]
                last = bad.shape[2 + c] + sum(kind.pads[c]) - k  # of the places of y
                taps.append(slice(None) if is_fft else slice(max(0, place - last), place + 1))
            lost[(slice(channel // of * rows, (channel // of + 1) * rows), channel % of, *taps)] = (
                True
            )
            continue
        results = shape[1] // groups
        group = slice(channel // of * results, (channel // of + 1) * results)
        if is_fft:
            lost[n, group] = True
            continue
        space: list[Any] = []
        for c, extent in enumerate(shape[2:]):
            k, (before, _) = kind.kernel[c], kind.pads[c]
            place = int(at[2 + c])
            first = place - before if direction != "conv" else place + before - (k - 1)
            space.append(slice(max(0, first), max(0, min(extent, first + k))))
        lost[(n, group, *space)] = True
    return lost


def _limit(d: Call, name: str, arrays: list[Any], options: dict[str, Any]) -> int:
    """The workspace of one image, or some more."""
    with pytest.raises(ArgumentError) as refused:
        getattr(nn, name)(*arrays, **options | {"workspace_limit": 1}, engine=d.engine)
    minimum = int(re.findall(r"needs (\d+) bytes", str(refused.value))[0])
    return minimum + int(d.draw.choice((0, 0, 1)) * d.draw.random() * 3 * minimum)


def timed(d: Call) -> None:
    """``find_conv2d`` and its siblings, then ``algo="found"``: the bits of the fastest variant."""
    rank, direction = d.programs.choice((1, 2, 3)), d.programs.choice(("conv", "input", "weight"))
    dtype = np.dtype(d.programs.choice(("float32", "float16")))
    kernel = tuple(d.programs.choice((1, 3)) for _ in range(rank))
    stride = tuple(d.programs.choice((1, 1, 2)) for _ in range(rank))
    pads = [(d.draw.randint(0, 2), d.draw.randint(0, 2)) for _ in kernel]
    groups, batch = d.draw.choice((1, 1, 2, 3)), d.draw.choice((0, 1, 2))
    of_x, of_y = d.draw.choice((1, 3, 8)), d.draw.choice((1, 4))
    space = [d.draw.randint(max(1, k - sum(p)), 9) for k, p in zip(kernel, pads, strict=True)]
    kind = sums.Kind(kernel, stride, (1,) * rank, pads)
    x_shape, w_shape = (batch, groups * of_x, *space), (groups * of_y, of_x, *kernel)
    y_shape = (batch, groups * of_y, *sums.extents_of(np.empty(x_shape), kind))
    (_, x), (_, w), (_, dy) = (_operand(d, shape, dtype) for shape in (x_shape, w_shape, y_shape))
    arrays, result = {
        "conv": ((x, w), y_shape), "input": ((x_shape, w, dy), x_shape),
        "weight": ((x, w_shape, dy), w_shape),
    }[direction]  # fmt: skip
    name = f"conv{rank}d" if direction == "conv" else f"conv{rank}d_{direction}"
    options: dict[str, Any] = {"stride": stride, "padding": pads, "groups": groups}
    every = getattr(nn, f"find_{name}")(*arrays, **options, **d.record(f"nn.find_{name} {options}"))
    if not every:
        assert not prod(result) or not prod(y_shape)
    names = [one.algo for one in every]
    limit = d.draw.choice((None, 0, *(one.workspace for one in every)))
    options["workspace_limit"] = limit

    def called(algo: str) -> Any:
        """The result by an algorithm; ``None`` if no chunk of images is within the limit."""
        try:
            made = getattr(nn, name)(*arrays, algo=algo, engine=d.engine, **options)
        except ArgumentError as error:
            if algo == "direct" or "bytes of workspace" not in str(error):
                raise
            return None
        return np.asarray(values(made))

    again = next((a for a in map(called, names or ["auto"]) if a is not None), None)
    if again is None:
        with pytest.raises(ArgumentError, match="need more workspace"):
            getattr(nn, name)(*arrays, algo="found", engine=d.engine, **options)
        return
    got = called("found")
    assert got.shape == tuple(result)
    assert got.tobytes() == again.tobytes(), (every, limit)


#: By name.
FAMILIES: dict[str, Callable[[Call], None]] = {"transformed": transformed, "found": timed}
