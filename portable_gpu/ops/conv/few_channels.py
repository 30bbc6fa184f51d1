"""Convolutions of few channels, as convolutions whose windows have whole chunks of channels.

Matrix units read chunks of 16 bytes, and few channels are less.  A padded copy of x (channels last,
zeros around each image and after the channels of each place) has the channels of all taps of a row
next to each other, and the step from a window to the next is whole chunks.  So the taps of a row
become channels, of windows that overlap in memory::

    x ─► padded x,  w ─► padded w ─► product of windows ─► y
    x ─► padded x, dy ─► product of windows ─► padded dw ─► dw

In the gradient of x, all places that are a stride apart have the same taps of dy.  These residues
of the stride become filters of a convolution of dy, whose results are then moved to their places::

    dy,  w ─► padded w ─► filters of all residues ─► product of windows ─► residues ─► dx
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd, prod

from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.conv.copies import moved
from portable_gpu.ops.conv.items import launch_sizes
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import variants as elementwise_variants
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import TuningTable

#: Elements of 16 bits in a chunk of 16 bytes.
_CHUNK = 8
#: The most filters that residues may become: the columns of the narrowest tiles.
_MOST_FILTERS = 64
NAME = "implicit_gemm, few channels"


@dataclass(frozen=True)
class PaddedCopy:
    """A copy of an array, channels last, with zeros around it and after its channels.

    Attributes:
        source: The array.
        outer, channels, size: The extents of the array: the leading axis, channels and space.
        before: The zeros in front of the array, along the axes of space.
        to_size, pitch: The extents of the copy, and its channels.
    """

    source: ImageStrides
    outer: int
    channels: int
    size: Triple
    before: Triple
    to_size: Triple
    pitch: int

    @property
    def strides(self) -> ImageStrides:
        """The strides of the copy."""
        outer, first, second, third, _ = contiguous_strides((1, *self.to_size, self.pitch))
        return ImageStrides(outer, 1, (first, second, third), 16)

    @property
    def elements(self) -> int:
        """The elements of the copy."""
        return self.outer * prod(self.to_size) * self.pitch

    @property
    def moved(self) -> int:
        """The bytes that the copy reads and writes."""
        return 2 * (self.outer * self.channels * prod(self.size) + self.elements)

    @property
    def _lanes(self) -> int:
        return gcd(self.pitch, _CHUNK)

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        parameters = [
            buffer("ushort", "s"), buffer("ushort", "t", writes=True), *scalars("int", "items"),
            *scalars("long", "s_offset", "t_offset"),
            *scalars("int", "batch", "blocks", "s_channels"),
            *scalars("long", "s_batch", "s_channel"),
            *(
                parameter for axis in range(3) for parameter in (
                    *scalars("int", f"t{axis}_size", f"s{axis}_size", f"before{axis}"),
                    *scalars("long", f"s_axis{axis}"),
                )
            ),
        ]  # fmt: skip
        return specialize("conv/padded", target, {"padded": parameters}, lanes=self._lanes)

    def plan(self, engine: Engine) -> OneLaunch:
        """Build the plan of the launch.  Operands: the array, and the copy."""
        items = self.elements // self._lanes
        constants = {
            "items": items, "batch": self.outer, "blocks": self.pitch // self._lanes,
            "s_channels": self.channels, "s_batch": self.source.outer,
            "s_channel": self.source.channel,
        }  # fmt: skip
        for axis in range(3):
            constants |= {
                f"t{axis}_size": self.to_size[axis], f"s{axis}_size": self.size[axis],
                f"before{axis}": self.before[axis], f"s_axis{axis}": self.source.space[axis],
            }  # fmt: skip
        text, sizes = self.specialization(engine.target), launch_sizes(items, 1, engine.target)
        return OneLaunch(
            engine, text, "padded", constants, ["s", "t"], *sizes, nbytes=self.moved
        )  # fmt: skip


@dataclass(frozen=True)
class _Merged:
    """A convolution of few channels as another one, which computes the same products.

    Attributes:
        inside: The other convolution.
        padded: The padded copies, by the operands that they replace.
        filters: The copy of padded filters to those of ``inside``, and the offset at which it
            begins to read; ``None`` if they are the same.
        result: The copy of its dense result to where it belongs; ``None`` if it is stored there.
    """

    inside: ConvProblem
    padded: dict[int, PaddedCopy]
    filters: tuple[ElementwiseProblem, int] | None = None
    result: ElementwiseProblem | None = None


def variant(
    problem: ConvProblem, target: Target, table: TuningTable,
    inner: Callable[[ConvProblem, Target, TuningTable], Variant],
) -> Variant | None:  # fmt: skip
    """Return the variant; ``None`` if channels are whole chunks, or are not merged.

    Args:
        problem, target, table: The convolution of arrays that have elements.
        inner: Returns the variant of products of windows.
    """
    merged = _merged(problem)
    if merged is None or not merged.inside.fits_int:
        return None
    costs = DeviceCosts.of("device", target)
    products = inner(merged.inside, target, table)
    filters = [merged.filters[0]] if merged.filters else []
    copies = [*filters, *([merged.result] if merged.result else [])]
    moves = [best_of(elementwise_variants(copy, target, table), target) for copy in copies]
    before, after = moves[: len(filters)], moves[len(filters) :]
    padded = merged.padded.values()
    padding = sum(copy.moved for copy in padded) / (costs.bandwidth * target.compute_units)
    workspace = problem.elem.itemsize * (
        sum(copy.elements for copy in padded) + sum(prod(copy.shape) for copy in copies)
    )
    return replace(
        products,
        name=NAME,
        kind=NAME,
        estimate=products.estimate + padding + sum(move.estimate for move in moves),
        launches=products.launches + len(padded) + len(moves),
        why="few channels merged with taps or residues; " + products.why,
        texts=lambda: [
            *(copy.specialization(target) for copy in padded),
            *(spec for move in before for spec in move.texts()),
            *products.texts(),
            *(spec for move in after for spec in move.texts()),
        ],
        bind=partial(_bind, problem=problem, merged=merged, inner=inner),
        details={
            **products.details, "flop": problem.flop, "bytes": problem.bytes,
            "workspace": products.details["workspace"] + workspace,
            "moved": problem.bytes + 2 * workspace,
        },
    )  # fmt: skip


def _merged(p: ConvProblem) -> _Merged | None:
    """Return the other convolution; ``None`` if there is none or windows have whole chunks."""
    if p.elem.itemsize != 2 or p.groups > 1 or p.channels % _CHUNK == 0:
        return None
    return _residues_as_filters(p) if p.direction == "input" else _taps_as_channels(p)


def _taps_as_channels(p: ConvProblem) -> _Merged | None:
    """Return the convolution whose channels are the taps of a row."""
    stride, taps = p.stride[2], p.w_size[2]
    if p.dilation[2] > 1 and taps > 1:
        return None
    # The least channels of a place for which windows are whole chunks apart.
    pitch = max(_CHUNK // gcd(stride, _CHUNK), 1 << (p.channels - 1).bit_length())
    pitch = max(2, pitch) if pitch < _CHUNK else -(-p.channels // _CHUNK) * _CHUNK
    channels = -(-taps * pitch // _CHUNK) * _CHUNK
    columns = (p.y_size[2] - 1) * stride + channels // pitch
    rows = [
        (q - 1) * step + (r - 1) * dilation + 1
        for q, step, r, dilation in zip(p.y_size, p.stride, p.w_size, p.dilation, strict=True)
    ]
    whole = _CHUNK // gcd(pitch, _CHUNK)  # places that are whole chunks
    to_size = rows[0], rows[1], -(-columns // whole) * whole
    x = PaddedCopy(p.x, p.batch, p.channels, p.x_size, p.before, to_size, pitch)
    filter_size = *p.w_size[:2], channels // pitch
    w = PaddedCopy(p.w, p.filters, p.channels, p.w_size, (0, 0, 0), filter_size, pitch)
    outer, first, second, _ = contiguous_strides((p.filters, *p.w_size[:2], channels))
    first_row, row, place = x.strides.space
    inside = replace(
        p,
        channels=channels,
        x_size=(rows[0], rows[1], p.y_size[2]),
        w_size=(*p.w_size[:2], 1),
        stride=(*p.stride[:2], 1),
        dilation=(*p.dilation[:2], 1),
        before=(0, 0, 0),
        x=ImageStrides(x.strides.outer, 1, (first_row, row, stride * place), 16),
        w=ImageStrides(outer, 1, (first, second, channels), 16),
    )
    if p.direction == "forward":
        return _Merged(inside, {0: x, 1: w})
    source = w.strides
    back = moved(
        p.elem, (p.filters, *p.w_size, p.channels), (source.outer, *source.space, 1),
        (p.w.outer, *p.w.space, p.w.channel),
    )  # fmt: skip
    return _Merged(inside, {0: x}, result=back)


def _residues_as_filters(p: ConvProblem) -> _Merged | None:
    """Return the convolution of dy whose filters are the residues of the stride."""
    counts = p.stride
    filters = prod(counts) * p.channels
    whole = not any(n % s for n, s in zip(p.x_size, counts, strict=True))
    plain = p.bias is None and not p.epilogue
    if prod(counts) == 1 or filters > _MOST_FILTERS or not whole or not plain:
        return None
    if any(d > 1 and r > 1 for d, r in zip(p.dilation, p.w_size, strict=True)):
        return None
    # At the place s u + a of x, tap a + before - s d reads dy at u + d, for d of these ranges.
    axes = list(zip(counts, p.before, p.w_size, strict=True))
    low = [-((taps - 1 - before) // s) for s, before, taps in axes]
    high = [(s - 1 + before) // s for s, before, _ in axes]
    if any(first > 0 for first in low):
        return None
    size = _triple([last - first + 1 for first, last in zip(low, high, strict=True)])
    to_size = _triple([s * n for s, n in zip(counts, size, strict=True)])
    in_front = [s * last - before for (s, before, _), last in zip(axes, high, strict=True)]
    w = PaddedCopy(
        p.w, p.filters, p.channels, p.w_size, _triple(in_front), to_size, _even(p.channels)
    )
    source = w.strides
    steps = [s * step for s, step in zip(counts, source.space, strict=True)]
    extents = (*counts, p.channels, *size, p.filters)
    strides = (*source.space, 1, *(-step for step in steps), source.outer)
    start = sum(step * (n - 1) for step, n in zip(steps, size, strict=True))
    inner_w = contiguous_strides((filters, *size, p.filters))
    flipped = moved(p.elem, extents, strides, contiguous_strides(extents))
    places = _triple([n // s for n, s in zip(p.x_size, counts, strict=True)])
    pitch = -(-filters // _CHUNK) * _CHUNK
    outer, *space, _ = contiguous_strides((p.batch, *places, pitch))
    inside = replace(
        p,
        direction="forward",
        channels=p.filters,
        filters=filters,
        x_size=p.y_size,
        w_size=size,
        y_size=places,
        stride=(1, 1, 1),
        dilation=(1, 1, 1),
        before=_triple([-first for first in low]),
        x=p.y,
        w=ImageStrides(inner_w[0], 1, _triple(inner_w[1:4]), 16),
        y=ImageStrides(outer, 1, _triple(space), 16),
    )
    by_residue = contiguous_strides((*counts, p.channels))
    sizes = (p.batch, *(n for pair in zip(places, counts, strict=True) for n in pair), p.channels)
    theirs = (outer, *(n for pair in zip(space, by_residue[:3], strict=True) for n in pair), 1)
    steps_of_x = [(s * step, step) for s, step in zip(counts, p.x.space, strict=True)]
    ours = (p.x.outer, *(step for pair in steps_of_x for step in pair), p.x.channel)
    return _Merged(
        inside, {1: w}, filters=(flipped, start), result=moved(p.elem, sizes, theirs, ours)
    )


def _even(channels: int) -> int:
    """The channels with a zero after them, if their number is odd."""
    return channels + channels % 2


def _triple(values: Sequence[int]) -> Triple:
    """The three values of the axes of space."""
    first, second, third = values
    return first, second, third


def _bind(
    engine: Engine, problem: ConvProblem, merged: _Merged,
    inner: Callable[[ConvProblem, Target, TuningTable], Variant],
) -> Plan:  # fmt: skip
    """The plan: padded copies, products, and the copy of the result."""
    inside, itemsize = merged.inside, problem.elem.itemsize

    def space(name: str, elements: int) -> Temporary:
        return Temporary(name, elements * itemsize, itemsize)

    def move(copy: ElementwiseProblem) -> Plan:
        return bind_best(engine, elementwise_variants(copy, engine.target, engine.table))

    padded = {place: space(f"padded {place}", x.elements) for place, x in merged.padded.items()}
    steps = [Step(x.plan(engine), (place, padded[place])) for place, x in merged.padded.items()]
    operands: list[int | Temporary] = [padded.get(n, n) for n in range(problem.last + 1)]
    if merged.filters is not None:
        flipped, start = merged.filters
        filters = space("filters", prod(flipped.shape))
        steps.append(Step(move(flipped), (Part(padded[1], start), filters)))
        operands[1] = filters
    result: int | Temporary = problem.last
    if merged.result is not None:
        elements = inside.w_elements if inside.direction == "weight" else _of_images(inside)
        result = space("result", elements)
        operands[problem.last] = result
    products = inner(inside, engine.target, engine.table).bind(engine)
    steps.append(Step(products, tuple(operands)))
    if merged.result is not None:
        steps.append(Step(move(merged.result), (result, problem.last)))
    return Steps(steps)


def _of_images(inside: ConvProblem) -> int:
    """Elements of the dense result, with those after its channels."""
    return inside.batch * inside.y.outer
