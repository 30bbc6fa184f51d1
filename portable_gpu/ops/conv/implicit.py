"""Convolutions as matrix products whose operands are gathered from the images.

No matrix of windows is in memory (:mod:`portable_gpu.ops.conv.products` describes the products).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

from portable_gpu.ops.conv import few_channels
from portable_gpu.ops.conv.copies import computed, moved
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.conv.products import inputs_at_once, products_of, residues
from portable_gpu.ops.conv.window_matrix import PackedCopy, WindowProduct
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import variants as elementwise_variants
from portable_gpu.ops.gemm.variants import fastest
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import TuningTable


def variants(problem: ConvProblem, target: Target, table: TuningTable) -> list[Variant]:
    """The fastest products by estimate; none on a CPU, whose products are packed.

    Matrix units read windows of 16-bit floats whose channels are adjacent.  Other images may be
    copied so first.  The products store the result where it belongs, or a dense one that is copied
    back, if that is estimated faster.  Few channels are merged with taps, or with residues of the
    stride.
    """
    if target.is_cpu or not (problem.fits_int and problem.x_elements and problem.y_elements):
        return []
    candidates = _by_windows(problem, target, table)
    if target.matrix_units == "wgmma":
        merged = few_channels.variant(problem, target, table, best_by_windows)
        candidates += [merged] if merged else []
    return candidates


def best_by_windows(p: ConvProblem, target: Target, table: TuningTable) -> Variant:
    """Return the fastest product of windows of the images where they are, or of copies."""
    return best_of(_by_windows(p, target, table), target)


def _by_windows(p: ConvProblem, target: Target, table: TuningTable) -> list[Variant]:
    candidates = [_of_windows(p, target, table)]
    if p.elem.itemsize == 2 and target.matrix_units == "wgmma":
        copied = [by_copies(p, inside, target, table) for inside in _with_copies(p)]
        candidates += [best_of(copied, target)] if copied else []
    return candidates


def _with_copies(p: ConvProblem) -> list[ConvProblem]:
    """The convolutions of copies with adjacent channels: of all images, and of those it reads."""
    last = channels_last(p)
    read = {"forward": replace(last, y=p.y), "input": replace(last, x=p.x), "weight": last}
    return [inside for inside in dict.fromkeys((last, read[p.direction])) if inside != p]


def channels_last(p: ConvProblem) -> ConvProblem:
    """Return the convolution of dense copies of images, whose channels are adjacent."""

    def last(array: ImageStrides, channels: int, size: Triple) -> ImageStrides:
        if array.channel == 1 or channels == 1:
            return array
        strides = contiguous_strides((p.batch, *size, channels))
        return ImageStrides(strides[0], 1, (strides[1], strides[2], strides[3]), 16)

    return replace(p, x=last(p.x, p.channels, p.x_size), y=last(p.y, p.filters, p.y_size))


def by_copies(
    problem: ConvProblem, inside: ConvProblem, target: Target, table: TuningTable
) -> Variant:
    """The variant that copies images, so that channels are adjacent, and the result back."""
    variant = _of_windows(inside, target, table)
    copies = _image_copies(problem, inside)
    moved = [best_of(elementwise_variants(copy, target, table), target) for copy, _, _ in copies]
    moves = list(zip(moved, (place == problem.last for _, _, place in copies), strict=True))
    copied = sum(space.nbytes for _, space, _ in copies)
    return replace(
        variant,
        name="implicit_gemm, channels last",
        kind="implicit_gemm, channels last",
        estimate=variant.estimate + sum(item.estimate for item in moved),
        launches=variant.launches + len(moved),
        why="images copied with adjacent channels; " + variant.why,
        texts=lambda: [
            *(spec for move, is_last in moves if not is_last for spec in move.texts()),
            *variant.texts(),
            *(spec for move, is_last in moves if is_last for spec in move.texts()),
        ],
        bind=partial(_bind_copies, problem=problem, inside=inside),
        details={
            **variant.details,
            "workspace": variant.details["workspace"] + copied,
            "moved": variant.details["moved"] + 2 * copied,
        },
    )


def _image_copies(
    p: ConvProblem, inside: ConvProblem
) -> list[tuple[ElementwiseProblem, Temporary, int]]:
    """The copies of images before and after the products: each with its memory and its operand."""
    last = p.last
    of_x, of_y = {"forward": (0, last), "input": (last, 0), "weight": (0, 1)}[p.direction]
    candidates = []
    for place, image, dense, channels, size in (
        (of_x, p.x, inside.x, p.channels, p.x_size),
        (of_y, p.y, inside.y, p.filters, p.y_size),
    ):
        if image == dense:
            continue
        extents = p.batch, *size, channels
        source, to = ((array.outer, *array.space, array.channel) for array in (image, dense))
        if place == last:
            source, to = to, source
        copy = moved(p.elem, extents, source, to, min(image.aligned, dense.aligned))
        itemsize = p.elem.itemsize
        candidates.append(
            (copy, Temporary(f"images {place}", prod(extents) * itemsize, itemsize), place)
        )
    return candidates


def _bind_copies(engine: Engine, problem: ConvProblem, inside: ConvProblem) -> Plan:
    operands: list[int | Temporary] = list(range(problem.last + 1))
    before, after = [], []
    for copy, space, place in _image_copies(problem, inside):
        plan = bind_best(engine, elementwise_variants(copy, engine.target, engine.table))
        if place == problem.last:
            after.append(Step(plan, (space, place)))
        else:
            before.append(Step(plan, (place, space)))
        operands[place] = space
    products = bind_products(engine, inside)
    return Steps([*before, Step(products, tuple(operands)), *after])


def _of_windows(problem: ConvProblem, target: Target, table: TuningTable) -> Variant:
    """The variant whose products gather windows of the images where they are."""
    products = taken_products(problem, target, table)
    multiplied = [best_of(fastest(item.problem, target, table), target) for item in products]
    before, after = (
        [best_of(elementwise_variants(copy, target, table), target) for copy in copies]
        for copies in _copies(problem, products)
    )
    launched, first = [*before, *multiplied, *after], (multiplied or before)[0]
    workspace = problem.elem.itemsize * sum(
        prod(item.copied.extents) for item in products if item.copied
    )
    return Variant(
        name="implicit_gemm",
        estimate=sum(item.estimate for item in launched),
        launches=sum(item.launches for item in launched),
        why=f"products of windows gathered from the images: {first.name}",
        texts=lambda: [spec for item in launched for spec in item.texts()],
        bind=partial(bind_products, problem=problem),
        row=first.row,
        details={
            "products": len(products), "flop": problem.flop, "bytes": problem.bytes,
            "workspace": workspace, "moved": problem.bytes + 2 * workspace,
        },
    )  # fmt: skip


def taken_products(p: ConvProblem, target: Target, table: TuningTable) -> list[WindowProduct]:
    """Return the products of all residues, or all of them as one if that is estimated faster."""
    products = list(products_of(p))
    at_once = inputs_at_once(p) if target.matrix_units == "wgmma" else None
    if at_once is None:
        return products
    whole, *by_residue = (list(fastest(x.problem, target, table)) for x in (at_once, *products))
    if not whole or not all(by_residue):
        return [at_once] if whole else products
    costs = DeviceCosts.of("device", target)
    if _has_empty_sums(p, products):
        by_residue.append(elementwise_variants(_fill(p), target, table))
    seconds = sum(best_of(variants, target).seconds(costs) for variants in by_residue)
    return [at_once] if best_of(whole, target).seconds(costs) < seconds else products


def bind_products(engine: Engine, problem: ConvProblem) -> Plan:
    """The plan: copies of weights, then the products."""
    target, table = engine.target, engine.table
    products = taken_products(problem, target, table)
    if products and products[0].problem.k_parts:
        works = best_of(fastest(products[0].problem, target, table), target).works
        if works is not None and not works(engine):
            products = list(products_of(problem))
    steps = []
    weight = problem.direction == "weight"
    last = problem.last
    if _has_empty_sums(problem, products):
        filled = _fill(problem)
        plan = bind_best(engine, elementwise_variants(filled, engine.target, engine.table))
        steps.append(Step(plan, (*([2] if problem.bias is not None else []), last)))
    for number, item in enumerate(products):
        copy = _copy(problem, item)
        read = Part(1, item.weights_start)
        operands: list[int | Temporary | Part] = [0, read]
        if copy is not None:
            itemsize = problem.elem.itemsize
            weights = Temporary(f"weights {number}", prod(copy.shape) * itemsize, itemsize)
            plan = bind_best(engine, elementwise_variants(copy, engine.target, engine.table))
            steps.append(Step(plan, (read, weights)))
            operands[1] = weights
        if weight:
            operands = [1, 0]
        bias = [2] if problem.bias is not None else []
        arrays = problem.following[len(bias) :]
        extras = [Part(*placed) for placed in zip(arrays, item.extra_starts, strict=True)]
        multiplied = replace(item.problem, aligned=not engine.maps_host_memory)
        plan = bind_best(engine, fastest(multiplied, engine.target, engine.table))
        result: Part | Temporary = Part(last, item.result_start)
        if item.packed_result is not None:
            itemsize = problem.elem.itemsize
            nbytes = prod(item.packed_result.extents) * itemsize
            result = Temporary("result", nbytes, itemsize)
        steps.append(Step(plan, (*operands, *bias, *extras, result), scalars=(1.0, 0.0)))
        if item.packed_result is not None:
            back = _from_packed(problem, item.packed_result)
            plan = bind_best(engine, elementwise_variants(back, engine.target, engine.table))
            steps.append(Step(plan, (result, last)))
    return Steps(steps)


def _copy(p: ConvProblem, item: WindowProduct) -> ElementwiseProblem | None:
    """The copy of the weights to the order in which a product reads them."""
    if item.copied is None:
        return None
    extents = item.copied.extents
    return moved(p.elem, extents, item.copied.strides, contiguous_strides(extents))


def _from_packed(p: ConvProblem, packed: PackedCopy) -> ElementwiseProblem:
    """The copy of a packed result to its places in the result array."""
    return moved(p.elem, packed.extents, contiguous_strides(packed.extents), packed.strides)


def _copies(
    p: ConvProblem, products: Sequence[WindowProduct]
) -> tuple[list[ElementwiseProblem], list[ElementwiseProblem]]:
    """All elementwise kernels before the products, and those after them."""
    before = [_fill(p)] if _has_empty_sums(p, products) else []
    before += [copy for item in products if (copy := _copy(p, item)) is not None]
    return before, [_from_packed(p, item.packed_result) for item in products if item.packed_result]


def _has_empty_sums(p: ConvProblem, products: Sequence[WindowProduct]) -> bool:
    """Whether some places of the result have sums without terms."""
    return sum(len(item.problem.k_parts) or 1 for item in products) < residues(p)


def _fill(p: ConvProblem) -> ElementwiseProblem:
    """The kernel that sets x to the value of an empty sum: zero, or the bias."""
    extents = (p.batch, p.channels, *p.x_size)
    strides = (p.x.outer, p.x.channel, *p.x.space)
    if p.bias is None:
        return ElementwiseProblem(
            expression="0", names=(), inputs=(), updated=(), scalars=(), compute=computed(p.elem),
            result=p.elem, shape=extents, strides=(strides,), alignment=1,
        )  # fmt: skip
    return ElementwiseProblem(
        expression="x", names=("x",), inputs=(p.elem,), updated=(), scalars=(),
        compute=computed(p.elem), result=p.elem, shape=extents,
        strides=((0, p.bias, 0, 0, 0), strides), alignment=1,
    )  # fmt: skip
