"""Convolutions of float32 in the pieces of ``precision``, on matrix units.

::

    x, w ─► pieces of bfloat16 ─► products of gathered windows ─► y   (or a dense copy ─► y)

The first pass stores each value as the nearest bfloat16, that of the remainder, and so on.  Of each
place, the pieces of all channels are adjacent, so the products read their windows like those of
16-bit floats, piece after piece; windows are not in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from portable_gpu.codegen.axes import Axis, merged
from portable_gpu.dtypes import Element
from portable_gpu.ops.conv.copies import moved
from portable_gpu.ops.conv.implicit import bind_products, channels_last, taken_products
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import variants as elementwise_variants
from portable_gpu.ops.gemm.matrix.estimates import MOST_BATCH, repack_seconds
from portable_gpu.ops.gemm.matrix.format import F32, PRODUCTS, format_of
from portable_gpu.ops.gemm.matrix.repack import Repack
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.ops.gemm.variants import fastest
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.figures import Figures
from portable_gpu.tuning.table import TuningTable

_CHUNK = 8  # elements that a work-item copies at a time
_LEAST = (
    16  # channels of a place that are not few: the windows of fewer are many short runs of memory
)


@dataclass(frozen=True)
class FewChannelCosts(Figures):
    """The factors of the time of passes and products if places have few channels.

    Attributes:
        few: Forward, and for the gradient of the input.
        few_by_weights: For the gradient of the weights.
    """

    few: float
    few_by_weights: float


def variants(problem: ConvProblem, target: Target, table: TuningTable) -> Iterator[Variant]:
    """Yield the variant, if the precision takes pieces and matrix units read the windows.

    The products store the result where it belongs, or a dense one that is copied there, if that is
    estimated faster.
    """
    dense = stored_in_pieces(problem)
    if dense is None or target.matrix_units != "wgmma":
        return
    there = {"forward": replace(dense, y=problem.y), "input": replace(dense, x=problem.x)}
    insides = dict.fromkeys((dense, there.get(problem.direction, dense)))
    listed = [_variant(problem, inside, target, table) for inside in insides if inside.fits_int]
    possible = [variant for variant in listed if variant is not None]
    if possible:
        yield best_of(possible, target)


def _variant(
    problem: ConvProblem, inside: ConvProblem, target: Target, table: TuningTable
) -> Variant | None:
    """Return the variant whose products compute ``inside``, if matrix units read its windows."""
    products = [item.problem for item in taken_products(inside, target, table)]
    forms = [format_of(product, target) for product in products]
    if not all(
        form is not None and form.supports_readers(product)
        for form, product in zip(forms, products, strict=True)
    ):
        return None
    passes = _passes(problem, inside, target)
    possible = [list(fastest(product, target, table)) for product in products]
    if not possible or not all(possible) or any(prod(x.repack.batch) > MOST_BATCH for x in passes):
        return None
    multiplied = [best_of(every, target) for every in possible]
    copy = _copy_of_result(problem, inside)
    copied = [best_of(elementwise_variants(copy, target, table), target)] if copy else []
    launched = [*multiplied, *copied]
    read = problem.filters if problem.direction == "input" else problem.channels
    costs, slower = FewChannelCosts.of("convolutions in pieces", target), 1.0
    if read // problem.groups < _LEAST:
        slower = costs.few_by_weights if problem.direction == "weight" else costs.few
    workspace = sum(item.space.nbytes for item in passes) + (_result(inside).nbytes if copy else 0)
    return Variant(
        path="implicit_gemm",
        name="implicit_gemm, in pieces",
        estimate=slower * (
            sum(item.estimate for item in launched)
            + repack_seconds([item.repack.moved for item in passes], target)
        ),
        launches=len(passes) + sum(item.launches for item in launched),
        why=f"windows gathered from images in pieces of bfloat16: {multiplied[0].name}",
        texts=lambda: [
            *(item.repack.spec for item in passes),
            *(spec for item in launched for spec in item.texts()),
        ],
        bind=partial(_bind, problem=problem, inside=inside),
        works=multiplied[0].works,
        row=multiplied[0].row,
        details={
            "products": len(products), "flop": problem.flop, "bytes": problem.bytes,
            "workspace": workspace, "moved": problem.bytes + 2 * workspace,
        },
    )  # fmt: skip


def stored_in_pieces(p: ConvProblem) -> ConvProblem | None:
    """Return the convolution of arrays in pieces, whose result is dense with adjacent channels.

    Channels that are summed, or that are columns of a gradient of the weights, are filled up with
    zeros to whole chunks; so are filters.  ``None`` if the precision has no pieces of bfloat16, or
    the channels of a group are no whole chunks.
    """
    pieces = len(PRODUCTS[p.precision]) if p.precision.startswith("bf16") else 0
    reads_x, reads_y = p.direction != "input", p.direction != "forward"
    chunks = [p.channels_of_group] * reads_x + [p.filters_of_group] * reads_y
    if p.elem != F32 or not pieces or (p.groups > 1 and any(n % _CHUNK for n in chunks)):
        return None
    channels = -(-p.channels // _CHUNK) * _CHUNK if reads_x else p.channels
    filters = -(-p.filters // _CHUNK) * _CHUNK if reads_y else p.filters
    last = channels_last(p)
    x = _image(p.batch, p.x_size, pieces * channels) if reads_x else last.x
    y = _image(p.batch, p.y_size, pieces * filters) if reads_y else last.y
    of_group = channels // p.groups
    if p.direction == "forward":
        *space, outer, channel = contiguous_strides((*p.w_size, filters, pieces * of_group))
    elif p.direction == "input":
        *space, channel, outer = contiguous_strides((*p.w_size, of_group, pieces * filters))
    else:
        outer, *space, channel = contiguous_strides((filters, *p.w_size, of_group))
    w = ImageStrides(outer, channel, (space[0], space[1], space[2]), 16)
    if p.direction == "weight" and replace(p.w, aligned=16) == w:
        w = p.w
    return replace(p, channels=channels, filters=filters, x=x, w=w, y=y, pieces=pieces)


def _image(batch: int, size: Triple, line: int) -> ImageStrides:
    """The strides of an image whose places have lines of ``line`` elements."""
    outer, *space, _ = contiguous_strides((batch, *size, line))
    return ImageStrides(outer, 1, (space[0], space[1], space[2]), 16)


@dataclass(frozen=True)
class _Pass:
    """The pass over an array that is read: what it writes, and the number of its operand."""

    repack: Repack
    space: Temporary
    operand: int


def _passes(p: ConvProblem, inside: ConvProblem, target: Target) -> list[_Pass]:
    """The passes over the two arrays that are read."""
    x = (p.batch, *p.x_size), (p.x.outer, *p.x.space), p.x.channel, p.channels, inside.channels
    y = (p.batch, *p.y_size), (p.y.outer, *p.y.space), p.y.channel, p.filters, inside.filters
    by_filters = (
        (*p.w_size, p.filters), (*p.w.space, p.w.outer), p.w.channel, p.channels_of_group,
        inside.channels_of_group,
    )  # fmt: skip
    by_channels = (
        (*p.w_size, p.channels_of_group), (*p.w.space, p.w.channel), p.w.outer, p.filters,
        inside.filters,
    )  # fmt: skip
    read = {"forward": (x, by_filters), "input": (y, by_channels), "weight": (x, y)}[p.direction]
    result = []
    for number, (extents, strides, col, k, pitch) in enumerate(read):
        repack = _repack(p.elem, extents, strides, col, k, pitch, inside.pieces, target)
        space = Temporary(f"pieces {number}", repack.nbytes, repack.elem.itemsize)
        result.append(_Pass(repack, space, number))
    return result


def _repack(
    elem: Element, extents: Sequence[int], strides: Sequence[int], col: int, k: int, pitch: int,
    pieces: int, target: Target,
) -> Repack:  # fmt: skip
    """The pass over lines of ``k`` elements ``col`` apart; the last axis has the rows."""
    axes = merged(Axis(n, (s,)) for n, s in zip(extents, strides, strict=True))
    *batch, rows = axes or [Axis(1, (0,))]
    steps = tuple(axis.strides[0] for axis in batch)
    source = Operand(elem, rows.strides[0], col, steps, False, elem.itemsize)
    sizes = tuple(axis.size for axis in batch)
    return Repack.into_pieces(source, rows.size, k, sizes, pieces, pitch, target)


def _copy_of_result(p: ConvProblem, inside: ConvProblem) -> ElementwiseProblem | None:
    """The copy of a dense result to where it belongs; ``None`` if the products store it there."""
    extents, ours, theirs = {
        "forward": ((p.batch, *p.y_size, p.filters), p.y, inside.y),
        "input": ((p.batch, *p.x_size, p.channels), p.x, inside.x),
        "weight": ((p.filters, *p.w_size, p.channels_of_group), p.w, inside.w),
    }[p.direction]
    filled_up = p.direction == "weight" and (
        (inside.filters, inside.channels) != (p.filters, p.channels)
    )
    if ours == theirs and not filled_up:
        return None
    strides = [(array.outer, *array.space, array.channel) for array in (theirs, ours)]
    return moved(p.elem, extents, strides[0], strides[1])


def _result(inside: ConvProblem) -> Temporary:
    """The dense result."""
    elements = {
        "forward": inside.y_elements, "input": inside.x_elements, "weight": inside.w_elements,
    }[inside.direction]  # fmt: skip
    return Temporary("result", elements * inside.elem.itemsize, inside.elem.itemsize)


def _bind(engine: Engine, problem: ConvProblem, inside: ConvProblem) -> Plan:
    """The plan: pieces, products, and the copy of the result."""
    passes = _passes(problem, inside, engine.target)
    steps = [Step(x.repack.plan(engine), (x.operand, x.space)) for x in passes]
    copy = _copy_of_result(problem, inside)
    last = problem.last
    result: int | Temporary = last if copy is None else _result(inside)
    products = bind_products(engine, inside)
    steps.append(Step(products, (*(x.space for x in passes), *problem.following, result)))
    if copy is not None:
        back = bind_best(engine, elementwise_variants(copy, engine.target, engine.table))
        steps.append(Step(back, (result, last)))
    plan = Steps(steps)
    plan.flop, plan.bytes = problem.flop, problem.bytes
    return plan
