"""Arguments of convolutions: extents, strides, paddings, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from portable_gpu.arguments import integers, shown, whole
from portable_gpu.errors import ArgumentError, ArgumentTypeError, ShapeError, reraise_of_signal
from portable_gpu.ops.conv.problem import Triple
from portable_gpu.runtime.views import Shape


@dataclass(frozen=True)
class ConvExtents:
    """The extents of a convolution ``y = x * w``.

    If there are less than three axes of space, axes of extent 1 precede them.

    Attributes:
        batched: Whether x and y have an axis of the batch.
        batch, groups, channels, filters, x_size, w_size, y_size, stride, dilation, before: The
            fields of :class:`~portable_gpu.ops.conv.problem.ConvProblem` with these names.
    """

    batched: bool
    batch: int
    groups: int
    channels: int
    filters: int
    x_size: Triple
    w_size: Triple
    y_size: Triple
    stride: Triple
    dilation: Triple
    before: Triple


class Options(NamedTuple):
    """The options of a convolution, as the caller gives them.

    Attributes:
        rank: The number of axes of space.
        stride, padding, dilation, groups: See :func:`portable_gpu.nn.conv2d`.
    """

    rank: int
    stride: Any
    padding: Any
    dilation: Any
    groups: Any


def whole_shape(value: Any, name: str, rank: int, least: int) -> Shape:
    """Return a shape with ``least`` to ``rank + 2`` axes.

    Raises:
        ArgumentTypeError, ShapeError: The value is not such a shape.
    """
    try:
        extents = tuple(value)
    except Exception as error:  # raised by the value's own methods, too
        reraise_of_signal(error)
        raise ArgumentTypeError(f"{name} is {shown(value)}; expected a shape") from None
    shape = tuple([whole(n, name) for n in extents])
    if not least <= len(shape) <= rank + 2 or min(shape, default=0) < 0:
        axes = " or ".join(str(n) for n in range(least, rank + 3))
        raise ShapeError(f"{name} is {shape}; a shape with {axes} axes is needed")
    return shape


def pads(
    o: Options, taps: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> list[tuple[int, int]]:
    """Return the padding before and after each axis of space.

    Raises:
        ArgumentTypeError, ArgumentError: ``padding`` is none of its forms.
    """
    value = o.padding
    if isinstance(value, str):
        if value == "valid":
            return [(0, 0)] * o.rank
        if value != "same":
            raise ArgumentError(f"padding is {value!r}; the known words are 'valid' and 'same'")
        if max(stride) > 1:
            raise ArgumentError(f"padding is 'same', which stride {tuple(stride)} does not have")
        totals = [d * (k - 1) for k, d in zip(taps, dilation, strict=True)]
        return [(total // 2, total - total // 2) for total in totals]
    if isinstance(value, (tuple, list)) and any(isinstance(n, (tuple, list)) for n in value):
        pairs = [integers(n, "padding", 2, 0) for n in value]
        if len(pairs) != o.rank:
            raise ArgumentError(f"padding is {shown(value)}; {o.rank} pairs are needed")
        return [(first, last) for first, last in pairs]
    return [(n, n) for n in integers(value, "padding", o.rank, 0)]


def geometry(
    o: Options,
    x: Shape | None,
    w: Shape,
    y: Shape | None,
    names: tuple[str, str, str],
    output_padding: Any = 0,
) -> ConvExtents:
    """Return the extents of a convolution whose arrays have these shapes.

    Args:
        o: The options.
        x, w, y: The shapes; x of a transposed convolution and y of a convolution are ``None``.
        names: The names of x, w and y in messages.
        output_padding: The argument of that name of a transposed convolution.

    Raises:
        ShapeError, ArgumentError, ArgumentTypeError: Shapes and options do not fit each other.
    """
    rank, (x_name, w_name, y_name) = o.rank, names
    stride, dilation = (
        integers(value, name, rank, 1)
        for value, name in ((o.stride, "stride"), (o.dilation, "dilation"))
    )
    groups = whole(o.groups, "groups")
    if len(w) != rank + 2 or 0 in w:
        raise ShapeError(f"{w_name} has shape {w}; {rank + 2} axes, none of extent 0, are needed")
    filters, in_group, *taps = w
    if groups < 1 or filters % groups:
        raise ArgumentError(
            f"groups is {groups}, which does not divide the {filters} filters of {w_name} {w}"
        )
    channels = in_group * groups
    for shape, name, count in ((x, x_name, channels), (y, y_name, filters)):
        if shape is None:
            continue
        if len(shape) not in (rank + 1, rank + 2):
            raise ShapeError(
                f"{name} has shape {shape}; {rank + 2} axes are needed, or {rank + 1} without batch"
            )
        if shape[-rank - 1] != count:
            raise ShapeError(
                f"{name} has shape {shape}, with {shape[-rank - 1]} channels; {w_name} {w} and "
                f"groups {groups} need {count}"
            )
    padding = pads(o, taps, stride, dilation)
    spans = [d * (k - 1) + 1 for k, d in zip(taps, dilation, strict=True)]
    known = x if x is not None else y
    assert known is not None
    if x is not None:
        x_space = x[-rank:]
        y_space = _forward(x_space, spans, padding, stride, x_name, x)
        expected = (*x[: len(x) - rank - 1], filters, *y_space)
        if y is not None and tuple(y) != expected:
            raise ShapeError(
                f"{y_name} has shape {tuple(y)}; for {x_name} {x}, {w_name} {w}, stride {stride}, "
                f"padding {shown(o.padding)} and dilation {dilation} it has to be {expected}"
            )
    else:
        assert y is not None
        y_space = y[-rank:]
        extra = integers(output_padding, "output_padding", rank, 0)
        if any(n and n >= max(s, d) for n, s, d in zip(extra, stride, dilation, strict=True)):
            raise ArgumentError(
                f"output_padding is {extra}; it has to be below stride {stride} or dilation "
                f"{dilation}"
            )
        x_space = _transposed(y_space, spans, padding, stride, extra, y_name, y)
    ones = (1,) * (3 - rank)
    zeros = (0,) * (3 - rank)
    return ConvExtents(
        batched=len(known) == rank + 2,
        batch=known[0] if len(known) == rank + 2 else 1,
        groups=groups,
        channels=channels,
        filters=filters,
        x_size=_triple(ones, x_space),
        w_size=_triple(ones, taps),
        y_size=_triple(ones, y_space),
        stride=_triple(ones, stride),
        dilation=_triple(ones, dilation),
        before=_triple(zeros, [first for first, _ in padding]),
    )


def _transposed(
    space: Sequence[int],
    spans: Sequence[int],
    padding: Sequence[tuple[int, int]],
    stride: Sequence[int],
    output_padding: Sequence[int],
    name: str,
    shape: Shape,
) -> tuple[int, ...]:
    """Return the extents of the result of a transposed convolution.

    Args:
        space: The extents of its input.
        spans: The places from the first tap of a filter to the last.
        padding, stride, output_padding: Those of each axis.
        name, shape: The name and the shape of the input, for messages.
    """
    extents = tuple(
        (places - 1) * step - sum(pad) + span + extra
        for places, step, pad, span, extra in zip(
            space, stride, padding, spans, output_padding, strict=True
        )
    )
    if any(extent < 1 and places for extent, places in zip(extents, space, strict=True)):
        raise ShapeError(
            f"{name} has shape {shape}: the result would have the extents {extents}; reduce padding"
        )
    return tuple(max(0, extent) for extent in extents)


def _forward(
    space: Sequence[int],
    spans: Sequence[int],
    padding: Sequence[tuple[int, int]],
    stride: Sequence[int],
    name: str,
    shape: Shape,
) -> tuple[int, ...]:
    padded = [n + sum(pad) for n, pad in zip(space, padding, strict=True)]
    if any(n and r > n for n, r in zip(padded, spans, strict=True)):
        raise ShapeError(
            f"{name} has shape {shape}; its padded extents {tuple(padded)} are below those of the "
            f"dilated filter, {tuple(spans)} with this dilation"
        )
    return tuple(
        (n - r) // s + 1 if n else 0 for n, r, s in zip(padded, spans, stride, strict=True)
    )


def _triple(front: tuple[int, ...], space: Sequence[int]) -> Triple:
    first, second, third = (*front, *space)
    return first, second, third
