"""Convolutions of few channels, rewritten so that channels fill chunks of 16 bytes.

Matrix units read chunks of 16 bytes, which the channels of a pixel do not fill.  In a padded copy
of x (channels last, with zeros around each image and after the channels of each pixel), the taps of
a row of a filter are contiguous, and windows begin a whole number of chunks apart.  So the taps of
a row act as channels, and the windows of neighbouring results overlap in memory::

    x ─► padded x,  w ─► padded w ─► implicit GEMM over windows ─► y
    x ─► padded x, dy ─► implicit GEMM over windows ─► padded dw ─► dw

For the gradient of x, pixels with the same index modulo the stride form a residue, and read dy by
the same taps.  Each residue has filters of its own, of one convolution of dy with stride 1, whose
results are then moved to their pixels::

    dy,  w ─► padded w ─► filters of all residues ─► implicit GEMM over windows ─► dx

The last chunk of a window may have elements beyond its taps, whose weights are zero: an infinity
or a NaN there makes a result NaN.
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
#: The limit of the filters of all residues: the columns of the narrowest tiles.
_MAX_FILTERS = 64
NAME = "implicit_gemm, few channels"


@dataclass(frozen=True)
class PaddedCopy:
    """A copy of images or filters, channels last, with zeros around them and after the channels.

    Attributes:
        source: The strides of the array.
        outer, channels, size: The images or filters, channels, and extents along axes of space.
        before: The zeros in front of each image, along the axes of space.
        to_size: The extents of the copy along the axes of space.
        pitch: The channels of a pixel of the copy, zeros included.
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
    def bytes_moved(self) -> int:
        """The bytes that the copy reads and writes."""
        return 2 * (self.outer * self.channels * prod(self.size) + self.elements)

    @property
    def _lanes(self) -> int:
        """The elements that a work-item stores."""
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
            engine, text, "padded", constants, ["s", "t"], *sizes, nbytes=self.bytes_moved
        )  # fmt: skip


@dataclass(frozen=True)
class _EquivalentConv:
    """An equivalent convolution, and the copies that it needs.

    Attributes:
        conv: The equivalent convolution.
        padded: The padded copies, by the index of the operand that each replaces.
        filters: The rearrangement of the padded filters, and its first element; ``None`` without.
        result: The copy of a temporary result to the operand; ``None`` if it is written directly.
    """

    conv: ConvProblem
    padded: dict[int, PaddedCopy]
    filters: tuple[ElementwiseProblem, int] | None = None
    result: ElementwiseProblem | None = None

    @property
    def result_elements(self) -> int:
        """The elements of the temporary result, with the zeros after its channels."""
        c = self.conv
        return c.w_elements if c.direction == "weight" else c.batch * c.y.outer


def variant(
    problem: ConvProblem, target: Target, table: TuningTable,
    implicit_gemm: Callable[[ConvProblem, Target, TuningTable], Variant],
) -> Variant | None:  # fmt: skip
    """Return the variant; ``None`` if channels fill chunks, or no equivalent convolution applies.

    Args:
        problem, target, table: The convolution, whose arrays have elements; its target and table.
        implicit_gemm: Returns the fastest variant of products of windows.
    """
    rewritten = _rewritten(problem)
    if rewritten is None or not rewritten.conv.fits_int:
        return None
    costs = DeviceCosts.of("device", target)
    products = implicit_gemm(rewritten.conv, target, table)

    def moves_of(copy: ElementwiseProblem | None) -> list[Variant]:
        return [best_of(elementwise_variants(copy, target, table), target)] if copy else []

    before = moves_of(rewritten.filters[0] if rewritten.filters else None)
    after = moves_of(rewritten.result)
    moves = [*before, *after]
    padded = rewritten.padded.values()
    padding = sum(copy.bytes_moved for copy in padded) / (costs.bandwidth * target.compute_units)
    elements = sum(copy.elements for copy in padded)
    elements += prod(rewritten.filters[0].shape) if rewritten.filters else 0
    elements += rewritten.result_elements if rewritten.result else 0
    workspace = problem.elem.itemsize * elements
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
        bind=partial(_bind, problem=problem, rewritten=rewritten, implicit_gemm=implicit_gemm),
        details={
            **products.details, "flop": problem.flop, "bytes": problem.bytes,
            "workspace": products.details["workspace"] + workspace,
            "moved": problem.bytes + 2 * workspace,
        },
    )  # fmt: skip


def _rewritten(p: ConvProblem) -> _EquivalentConv | None:
    """Return the equivalent convolution; ``None`` if none applies, or channels fill chunks."""
    if p.elem.itemsize != 2 or p.groups > 1 or p.channels % _CHUNK == 0:
        return None
    return _residues_as_filters(p) if p.direction == "input" else _taps_as_channels(p)


def _taps_as_channels(p: ConvProblem) -> _EquivalentConv | None:
    """Return the convolution whose channels are the taps of a row."""
    stride, taps = p.stride[2], p.w_size[2]
    if p.dilation[2] > 1 and taps > 1:
        return None
    # The fewest channels of a pixel, at least a pair, for which windows are whole chunks apart.
    pitch = max(2, _CHUNK // gcd(stride, _CHUNK), 1 << (p.channels - 1).bit_length())
    if pitch >= _CHUNK:
        pitch = -(-p.channels // _CHUNK) * _CHUNK
    merged_channels = -(-taps * pitch // _CHUNK) * _CHUNK
    columns = (p.y_size[2] - 1) * stride + merged_channels // pitch
    planes, rows = (
        (p.y_size[j] - 1) * p.stride[j] + (p.w_size[j] - 1) * p.dilation[j] + 1 for j in (0, 1)
    )
    pixels = _CHUNK // gcd(pitch, _CHUNK)  # that are whole chunks
    to_size = planes, rows, -(-columns // pixels) * pixels
    x = PaddedCopy(p.x, p.batch, p.channels, p.x_size, p.before, to_size, pitch)
    filter_size = *p.w_size[:2], merged_channels // pitch
    w = PaddedCopy(p.w, p.filters, p.channels, p.w_size, (0, 0, 0), filter_size, pitch)
    outer, plane, row, _ = contiguous_strides((p.filters, *p.w_size[:2], merged_channels))
    x_steps = x.strides.space
    conv = replace(
        p,
        channels=merged_channels,
        x_size=(planes, rows, p.y_size[2]),
        w_size=(*p.w_size[:2], 1),
        stride=(*p.stride[:2], 1),
        dilation=(*p.dilation[:2], 1),
        before=(0, 0, 0),
        x=ImageStrides(x.strides.outer, 1, (*x_steps[:2], stride * x_steps[2]), 16),
        w=ImageStrides(outer, 1, (plane, row, merged_channels), 16),
    )
    if p.direction == "forward":
        return _EquivalentConv(conv, {0: x, 1: w})
    padded = w.strides
    unpadded = moved(
        p.elem, (p.filters, *p.w_size, p.channels), (padded.outer, *padded.space, 1),
        (p.w.outer, *p.w.space, p.w.channel),
    )  # fmt: skip
    return _EquivalentConv(conv, {0: x}, result=unpadded)


def _residues_as_filters(p: ConvProblem) -> _EquivalentConv | None:
    """Return the convolution of dy that has filters for each residue of the stride."""
    stride, filters = p.stride, prod(p.stride) * p.channels
    axes = list(zip(stride, p.before, p.w_size, strict=True))
    # The pixel s u + a of x reads dy at u + d by the tap a + before - s d, for low <= d <= high.
    low = [-((taps - 1 - before) // s) for s, before, taps in axes]
    high = [(s - 1 + before) // s for s, before, _ in axes]
    if (
        prod(stride) == 1 or filters > _MAX_FILTERS
        or any(n % s for n, s in zip(p.x_size, stride, strict=True))
        or any(d > 1 and taps > 1 for d, taps in zip(p.dilation, p.w_size, strict=True))
        or any(d > 0 for d in low)  # dy would have negative padding
        or p.bias is not None or p.epilogue
    ):  # fmt: skip
        return None
    taps = _triple([last - first + 1 for first, last in zip(low, high, strict=True)])
    to_size = _triple([s * n for s, n in zip(stride, taps, strict=True)])
    in_front = _triple([s * last - before for (s, before, _), last in zip(axes, high, strict=True)])
    w = PaddedCopy(p.w, p.filters, p.channels, p.w_size, in_front, to_size, _even(p.channels))
    # The axes of the filters: a (three), channels, d (three, backwards), channels of dy.
    padded = w.strides
    steps = [s * step for s, step in zip(stride, padded.space, strict=True)]
    extents = (*stride, p.channels, *taps, p.filters)
    strides = (*padded.space, 1, *(-step for step in steps), padded.outer)
    start = sum(step * (n - 1) for step, n in zip(steps, taps, strict=True))
    rearranged = moved(p.elem, extents, strides, contiguous_strides(extents))
    w_outer, *w_space, _ = contiguous_strides((filters, *taps, p.filters))
    size = _triple([n // s for n, s in zip(p.x_size, stride, strict=True)])
    outer, *space, _ = contiguous_strides((p.batch, *size, -(-filters // _CHUNK) * _CHUNK))
    conv = replace(
        p,
        direction="forward",
        channels=p.filters,
        filters=filters,
        x_size=p.y_size,
        w_size=taps,
        y_size=size,
        stride=(1, 1, 1),
        dilation=(1, 1, 1),
        before=_triple([-first for first in low]),
        x=p.y,
        w=ImageStrides(w_outer, 1, _triple(w_space), 16),
        y=ImageStrides(outer, 1, _triple(space), 16),
    )
    # The axes of the result: images, u and a by turns (six), channels.
    residue = contiguous_strides((*stride, p.channels))[:3]
    x_steps = [s * step for s, step in zip(stride, p.x.space, strict=True)]
    to_x = moved(
        p.elem,
        (p.batch, *_by_turns(size, stride), p.channels),
        (outer, *_by_turns(space, residue), 1),
        (p.x.outer, *_by_turns(x_steps, p.x.space), p.x.channel),
    )
    return _EquivalentConv(conv, {1: w}, filters=(rearranged, start), result=to_x)


def _by_turns(first: Sequence[int], second: Sequence[int]) -> tuple[int, ...]:
    """The values of two sequences, alternately."""
    return tuple(value for pair in zip(first, second, strict=True) for value in pair)


def _even(channels: int) -> int:
    """Return the channels, with a zero if their number is odd: copies store pairs at least."""
    return channels + channels % 2


def _triple(values: Sequence[int]) -> Triple:
    """The three values of the axes of space."""
    first, second, third = values
    return first, second, third


def _bind(
    engine: Engine, problem: ConvProblem, rewritten: _EquivalentConv,
    implicit_gemm: Callable[[ConvProblem, Target, TuningTable], Variant],
) -> Plan:  # fmt: skip
    """The plan: padded copies, the rearrangement of filters, products, the copy of the result."""
    conv, itemsize = rewritten.conv, problem.elem.itemsize

    def temporary(name: str, elements: int) -> Temporary:
        return Temporary(name, elements * itemsize, itemsize)

    def move(copy: ElementwiseProblem) -> Plan:
        return bind_best(engine, elementwise_variants(copy, engine.target, engine.table))

    copies = rewritten.padded.items()
    padded = {n: temporary(f"padded {n}", copy.elements) for n, copy in copies}
    steps = [Step(copy.plan(engine), (n, padded[n])) for n, copy in copies]
    operands: list[int | Temporary] = [padded.get(n, n) for n in range(problem.last + 1)]
    if rewritten.filters is not None:
        rearranged, start = rewritten.filters
        operands[1] = temporary("filters", prod(rearranged.shape))
        steps.append(Step(move(rearranged), (Part(padded[1], start), operands[1])))
    if rewritten.result is not None:
        operands[problem.last] = temporary("result", rewritten.result_elements)
    products = implicit_gemm(conv, engine.target, engine.table).bind(engine)
    steps.append(Step(products, tuple(operands)))
    if rewritten.result is not None:
        steps.append(Step(move(rewritten.result), (operands[problem.last], problem.last)))
    return Steps(steps)
