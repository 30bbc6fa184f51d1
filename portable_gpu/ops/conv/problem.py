"""The properties of a convolution that do not depend on the variant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal, TypeAlias

from portable_gpu.codegen.epilogue import Stage
from portable_gpu.dtypes import BF16, Element

#: What is computed of ``y = x * w``: y, or the gradient of x or of w for a given gradient of y.
Direction: TypeAlias = Literal["forward", "input", "weight"]
Triple: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class ImageStrides:
    """The strides of an array with two leading axes and three axes of space, in elements.

    Attributes:
        outer: The stride of the batch; in arrays of weights that of the filters.
        channel: The stride of the channels.
        space: The strides of the axes of space.
        aligned: A power of two, at most 16, that divides the byte address of the first element.
    """

    outer: int
    channel: int
    space: Triple
    aligned: int = 1


@dataclass(frozen=True)
class StageArray:
    """An array that a stage of the epilogue reads, broadcast to the result.

    Attributes:
        elem: The element.
        strides: The strides; 0 along axes of one element.
    """

    elem: Element
    strides: ImageStrides


@dataclass(frozen=True)
class ConvProblem:
    """``y[n, k, q] = b[k] + sum_{c, r} x[n, c, q * stride + r * dilation - before] w[k, c, r]``.

    The sum runs over the channels c of the group of k.  Convolutions along fewer axes have axes of
    extent 1 in front.  The problem of a transposed convolution is that of the gradient of x.

    Attributes:
        direction: The result that is computed.
        elem: The element of all arrays.
        batch, groups: Images, and groups of channels.
        channels, filters: Channels of x and of y, of all groups.
        x_size, w_size, y_size: Extents along the axes of space.
        stride, dilation: Between the places of a filter, and between its taps.
        before: Zeros in front of x.
        x, w, y: The arrays.
        bias: The stride of b; ``None`` without one.  It is added to the gradient of x too.
        epilogue: The stages that each element of y, or of the gradient of x, passes.
        extras: The array of each stage that reads one, in order.
        precision: The precision of products; see :func:`portable_gpu.gemm`.
        pieces: The number of pieces of bfloat16 in which the arrays that are read store a value; 0:
            values are stored without pieces.  The pieces of all channels of a place are adjacent;
            those of weights are adjacent along the channels, or filters, that are summed.
    """

    direction: Direction
    elem: Element
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
    x: ImageStrides
    w: ImageStrides
    y: ImageStrides
    bias: int | None = None
    precision: str = "ieee"
    pieces: int = 0
    epilogue: tuple[Stage, ...] = ()
    extras: tuple[StageArray, ...] = ()

    @property
    def following(self) -> tuple[int, ...]:
        """The places of the bias and of the arrays of the epilogue among the operands of a plan.

        The two arrays that are convolved are before them, and the result is after them.
        """
        return tuple(range(2, self.last))

    @property
    def last(self) -> int:
        """The place of the result among the operands of a plan."""
        return 2 + (self.bias is not None) + len(self.extras)

    @property
    def without_epilogue(self) -> ConvProblem:
        """The convolution alone."""
        return replace(self, epilogue=(), extras=()) if self.epilogue else self

    @property
    def images(self) -> tuple[ImageStrides, Triple, int]:
        """The strides of the images that are written, their extents and their channels."""
        if self.direction == "input":
            return self.x, self.x_size, self.channels
        return self.y, self.y_size, self.filters

    @property
    def channels_of_group(self) -> int:
        """Channels of x of one group."""
        return self.channels // self.groups

    @property
    def filters_of_group(self) -> int:
        """Filters of one group."""
        return self.filters // self.groups

    @property
    def read_elem(self) -> Element:
        """The element of the arrays that are read."""
        return BF16 if self.pieces else self.elem

    @property
    def depthwise(self) -> bool:
        """Whether each channel of x has a group of its own, with one filter."""
        return self.channels == self.groups == self.filters

    @property
    def taps(self) -> int:
        """Weights of a filter and channel."""
        return prod(self.w_size)

    @property
    def flop(self) -> int:
        """Floating-point operations, with those of taps in the padding."""
        return (
            2 * self.batch * self.filters * prod(self.y_size) * self.channels_of_group * self.taps
        )

    @property
    def x_elements(self) -> int:
        """Elements of x."""
        return self.batch * self.channels * prod(self.x_size)

    @property
    def y_elements(self) -> int:
        """Elements of y."""
        return self.batch * self.filters * prod(self.y_size)

    @property
    def w_elements(self) -> int:
        """Elements of w."""
        return self.filters * self.channels_of_group * self.taps

    @property
    def bytes(self) -> int:
        """The least traffic without that of an epilogue's arrays: every array moved once."""
        return (self.x_elements + self.y_elements + self.w_elements) * self.elem.itemsize

    @property
    def extra_bytes(self) -> int:
        """The bytes of the arrays of the epilogue."""
        _, size, channels = self.images
        extents = self.batch, channels, *size
        result = 0
        for extra in self.extras:
            s = extra.strides
            steps = s.outer, s.channel, *s.space
            read = prod(n for n, step in zip(extents, steps, strict=True) if step)
            result += read * extra.elem.itemsize
        return result

    @property
    def fits_int(self) -> bool:
        """Whether 32-bit numbers hold the places of all arrays."""
        arrays = (
            (self.x, self.batch, self.channels, self.x_size),
            (self.y, self.batch, self.filters, self.y_size),
            (self.w, self.filters, self.channels_of_group, self.w_size),
        )
        return all(
            (outer - 1) * abs(array.outer)
            + (inner - 1) * abs(array.channel)
            + sum((n - 1) * abs(step) for n, step in zip(size, array.space, strict=True))
            < 1 << 30
            and outer * inner * prod(size) < 1 << 30
            for array, outer, inner, size in arrays
        )
