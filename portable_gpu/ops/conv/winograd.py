"""Convolutions of 3 x 3 by Winograd's F(2 x 2, 3 x 3): 16 products in place of 36 for 4 results.

::

    filters(w) ─► u (16, o, i) ─┐
    tiles(x) ───► v (16, i, q) ─┴─► m = u v (16, o, q) ─► results(m) ─► y

    tiles(dy) ──► m (16, o, q) ─┐
    tiles(x) ───► v (16, i, q) ─┴─► u = m v' (16, o, i) ─► weights(u) ─► dw

Lavin and Gray, "Fast algorithms for convolutional neural networks", 2016.  The gradient of the
input is a convolution too: of the gradient of y, with rotated filters.  Each step of the gradient
of the weights is the transpose of a step forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.conv.chunks import CHUNK_BYTES, chunks, images_within, workspace_limit
from portable_gpu.ops.conv.epilogue import array_names, finish, image_constants, image_parameters
from portable_gpu.ops.conv.estimates import ConvCosts, best_product, tiles_seconds
from portable_gpu.ops.conv.items import bound_operands, index_type, items_of_one, launch_sizes
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import make_plan as make_product
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.table import TuningTable

#: Results of a tile along an axis; products of a tile.
_RESULTS, _PRODUCTS = 2, 16
#: Tiles of a CPU's work-item, and the bytes of its vectors.
_BLOCK, _VECTOR_BYTES = 64, 32


@dataclass(frozen=True)
class Images:
    """The images that are read, or those that are written.

    Attributes:
        strides: The strides in memory, in elements.
        size: Extents.
        channels: Channels of all groups.
    """

    strides: ImageStrides
    size: Triple
    channels: int


@dataclass(frozen=True)
class Winograd:
    """A convolution by this algorithm on a target.

    Attributes:
        problem: The convolution.
        target: The device.
    """

    problem: ConvProblem
    target: Target

    @property
    def backward(self) -> bool:
        """Whether it is a gradient of the input."""
        return self.problem.direction == "input"

    @cached_property
    def source(self) -> Images:
        """The images of which tiles are read."""
        return self._images(self.backward)

    @cached_property
    def result(self) -> Images:
        """The images that are written."""
        return self._images(not self.backward)

    def _images(self, of_y: bool) -> Images:
        p = self.problem
        if of_y:
            return Images(p.y, p.y_size, p.filters)
        return Images(p.x, p.x_size, p.channels)

    @property
    def rows(self) -> int:
        """Rows of tiles of an image."""
        return -(-self.result.size[1] // _RESULTS)

    @property
    def columns(self) -> int:
        """Columns of tiles of an image."""
        return -(-self.result.size[2] // _RESULTS)

    @cached_property
    def by_channels(self) -> bool:
        """Whether channels are adjacent in both images, and therefore in tiles and products."""
        return all(
            images.strides.channel == 1 and images.channels > 1
            for images in (self.source, self.result)
        )

    @property
    def _filter_steps(self) -> tuple[int, int]:
        """The strides of the filters in memory: from a channel of the result, and of the source."""
        outer, channel = self.problem.w.outer, self.problem.w.channel
        return (channel, outer) if self.backward else (outer, channel)

    @property
    def by_results(self) -> bool:
        """Whether channels of the result, not of the source, are adjacent in transformed filters.

        On a CPU these are the channels whose weights are nearer to each other in memory.
        """
        result_step, source_step = map(abs, self._filter_steps)
        return self.target.is_cpu and result_step < source_step

    def pitch(self, size: int) -> int:
        """Return the distance between the 16 matrices, of ``size`` elements each.

        At distances of whole pages, equal places of the matrices fall into the same set of a cache.
        """
        itemsize = self.problem.elem.itemsize
        return size + (256 // itemsize - size) % (4096 // itemsize)

    def matrix_pitch(self, images: Images, batch: int) -> int:
        """Return the distance between the matrices of tiles of images, or between products."""
        return self.pitch(images.channels * batch * self.rows * self.columns)

    @property
    def pairs(self) -> int:
        """Pairs of a channel of the result and one of the source."""
        return self.result.channels * self.source.channels // self.problem.groups

    @property
    def weight_bytes(self) -> int:
        """Bytes of the transformed filters."""
        return _PRODUCTS * self.pitch(self.pairs) * self.problem.elem.itemsize

    def matrix_bytes(self, images: Images, batch: int) -> int:
        """Return the bytes of the tiles of images, or of the products."""
        return _PRODUCTS * self.matrix_pitch(images, batch) * self.problem.elem.itemsize

    def workspace(self, batch: int) -> int:
        """Return the bytes of workspace for ``batch`` images at a time."""
        matrices = sum(self.matrix_bytes(images, batch) for images in (self.source, self.result))
        return self.weight_bytes + matrices

    def images_at_a_time(self, limit: int | None) -> int:
        """Return the number of images at a time, at least one."""
        chunk = max(CHUNK_BYTES[self.target.is_cpu], self.weight_bytes)
        max_bytes = min(workspace_limit(limit, self.target), self.weight_bytes + chunk)
        return images_within(self.problem.batch, self.workspace, max_bytes)

    def product(self, batch: int) -> GemmProblem:
        """Return the products of ``batch`` images: of transformed filters and tiles, or of tiles.

        Those of several chunks of images are added.
        """
        p = self.problem
        places = batch * self.rows * self.columns
        sources, results = (i.channels // p.groups for i in (self.source, self.result))
        steps = (1, results) if self.by_results else (sources, 1)
        u = self._view(
            (_PRODUCTS, p.groups, results, sources),
            (self.pitch(self.pairs), results * sources, *steps),
        )
        matrices = []
        for images in (self.source, self.result):
            of_group = images.channels // p.groups
            pitch = self.matrix_pitch(images, batch)
            shape = (_PRODUCTS, p.groups, of_group, places)
            strides = (pitch, of_group * places, places, 1)
            if self.by_channels:
                shape = (_PRODUCTS, p.groups, places, of_group)
                strides = (pitch, of_group, images.channels, 1)
            matrices.append(self._view(shape, strides))
        v, m = matrices
        adds = False
        if p.direction == "weight":
            a, b, c, trans = m, v, u, "TN" if self.by_channels else "NT"
            adds = batch < p.batch
        else:
            a, b, c, trans = (v, u, m, "NT") if self.by_channels else (u, v, m, "NN")
        return bind(
            self.target, a, b, c, trans_a=trans[0], trans_b=trans[1], stages=(), extras=(),
            multiplies=True, reads_c=adds,
        )  # fmt: skip

    def _view(self, shape: Shape, strides: Shape) -> View:
        return View(None, 0, shape, strides, dtype_of(self.problem.elem.name), 128)

    def filters(self) -> WinogradKernel:
        """Return the transform of the filters, or that of the sums to their gradient."""
        p, (result_step, source_step) = self.problem, self._filter_steps
        _, down, right = p.w.space
        if self.backward:  # the filters rotated
            down, right = -down, -right
        sources, results = (i.channels // p.groups for i in (self.source, self.result))
        # Inner channels are adjacent in the transformed filters: their number and their step.
        inners, inner, outers, outer = sources, source_step, results, result_step
        if self.by_results:
            inners, inner, outers, outer = results, result_step, sources, source_step
        wide = _VECTOR_BYTES // p.elem.itemsize if self.target.is_cpu else 1
        wide = wide if inners >= wide else 1
        blocks = -(-inners // wide)
        constants = {
            "u_step": self.pitch(self.pairs), "blocks": blocks, "inners": inners,
            "outers": outers, "f_group": p.filters_of_group * p.w.outer, "f_outer": outer,
            "f_inner": inner, "f_axis1": down, "f_axis2": right,
        }  # fmt: skip
        context = {"elem": p.elem, "wide": wide, "adjacent": wide > 1 and inner == 1}
        items = p.groups * outers * blocks
        name, operands = ("weights", "uf") if p.direction == "weight" else ("filters", "fu")
        return WinogradKernel(name, p, self.target, context, items, constants, operands)

    @property
    def first_weight(self) -> int:
        """The offset of the first weight that is read."""
        _, down, right = self.problem.w.space
        return 2 * (down + right) if self.backward else 0

    def tiles(self, batch: int) -> WinogradKernel:
        """Return the transform of the images to tiles."""
        before = [2 - n if self.backward else n for n in self.problem.before]
        return self._tiles(self.source, before, _RESULTS + 2, batch)

    def tiles_of_gradient(self, batch: int) -> WinogradKernel:
        """Return the transform of the gradient of y to tiles, whose places are its results."""
        return self._tiles(self.result, (0, 0, 0), _RESULTS, batch)

    def _tiles(
        self, images: Images, before: Sequence[int], extent: int, batch: int
    ) -> WinogradKernel:
        """Return the transform of images to tiles of ``extent`` rows and columns."""
        p, s = self.problem, images
        context, items, constants = self._partition(s, batch, "v")
        constants |= {
            "s_batch": s.strides.outer, "s_channel": s.strides.channel, "s1_size": s.size[1],
            "s2_size": s.size[2], "s_axis1": s.strides.space[1], "s_axis2": s.strides.space[2],
            "before1": before[1], "before2": before[2],
        }  # fmt: skip
        context |= {"block": _BLOCK, "extent": extent}
        return WinogradKernel("tiles", p, self.target, context, items, constants, "sv")

    def results(self, batch: int) -> WinogradKernel:
        """Return the transform of the products to the results."""
        p, t = self.problem, self.result
        context, items, constants = self._partition(t, batch, "m")
        constants |= {
            "t_batch": t.strides.outer, "t_channel": t.strides.channel, "t1_size": t.size[1],
            "t2_size": t.size[2], "t_axis1": t.strides.space[1], "t_axis2": t.strides.space[2],
            "bias_step": p.bias or 0, "adds_bias": int(p.bias is not None),
        }  # fmt: skip
        context |= {"unit": t.strides.space[2] == 1, "finish": finish(p)}
        operands = ("m", "bias", *array_names(p), "t")
        return WinogradKernel("results", p, self.target, context, items, constants, operands)

    def _partition(
        self, images: Images, batch: int, matrix: str
    ) -> tuple[dict[str, Any], int, dict[str, int]]:
        """The common parameters of a text, the number of items, and the integers of a launch.

        An item is `wide` channels of one tile, or up to `count` adjacent tiles of one channel, T of
        them at a time; then a row of tiles is cut into parts of `count`.
        """
        elem, cpu = self.problem.elem, self.target.is_cpu
        full = _VECTOR_BYTES // elem.itemsize
        T = wide = count = 1
        if cpu and self.by_channels:
            wide = full if images.channels >= full else 1
        elif cpu:
            while min(full, self.columns) >= 2 * T:
                T *= 2
            blocks_of_row = -(-self.columns // _BLOCK)
            # Parts have the same length, and the last one overlaps.
            count = -(-self.columns // blocks_of_row) if T > 1 else 1
        blocks, parts = -(-images.channels // wide), -(-self.columns // count)
        places = batch * self.rows * self.columns
        order = [("n", "batch"), ("channel", "blocks"), ("row", "rows"), ("part", "parts")]
        if self.by_channels:
            order.append(order.pop(1))
        by_place = (images.channels, 1) if self.by_channels else (1, places)
        constants = {
            f"{matrix}_step": self.matrix_pitch(images, batch), f"{matrix}_place": by_place[0],
            f"{matrix}_channel": by_place[1], "batch": batch, "channels": images.channels,
            "blocks": blocks, "rows": self.rows, "columns": self.columns, "parts": parts,
            "count": count,
        }  # fmt: skip
        context = {"elem": elem, "order": order, "T": T, "wide": wide}
        return context, batch * blocks * self.rows * parts, constants


@dataclass(frozen=True)
class WinogradKernel:
    """One of the transforms.

    Attributes:
        name: The name of the kernel.
        problem: The convolution.
        target: The device.
        context: The values of the template's parameters.
        items: The number of items.
        constants: The integers of a launch.
        operands: The buffers.
    """

    name: str
    problem: ConvProblem
    target: Target
    context: Mapping[str, Any]
    items: int
    constants: Mapping[str, int]
    operands: Sequence[str]

    @property
    def items_each(self) -> int:
        """Items of a CPU's work-item."""
        return items_of_one(self.items, self.target)

    @property
    def specialization(self) -> Specialization:
        """The text and options of the kernel."""
        spans = [self.items, *(16 * abs(value) for value in self.constants.values())]
        index = index_type(max(spans), self.target) if self.problem.fits_int else "long"
        elem, arrays = self.context["elem"], array_names(self.problem)
        images = [name for name in self.operands if name not in arrays]
        parameters: list[Parameter] = [
            buffer(f"{elem.name}_t", name, writes=name == self.operands[-1]) for name in images
        ]
        parameters += scalars("long", *(f"{name}_offset" for name in images))
        parameters += scalars(index, "items", "items_each", *self.constants)
        parameters += image_parameters(self.context.get("finish"))
        return specialize(
            f"conv/winograd_{self.name}", self.target, {self.name: parameters}, I=index,
            **self.context,
        )  # fmt: skip


def transform_plan(engine: Engine, kernel: WinogradKernel) -> OneLaunch:
    """Return the plan of a transform.

    Operands: those of the kernel, the bias only if there is one.
    """
    # Only a kernel with the operand "bias" may lack it; for others, True changes nothing.
    has_bias = "bias" not in kernel.operands or bool(kernel.constants["adds_bias"])
    operands, constants = bound_operands(kernel.operands, has_bias)
    constants |= {**kernel.constants, "items": kernel.items, "items_each": kernel.items_each}
    if kernel.context.get("finish"):
        p = kernel.problem
        constants |= image_constants(p, [extra.strides.space for extra in p.extras])
    return OneLaunch(
        engine, kernel.specialization, kernel.name, constants, operands,
        *launch_sizes(kernel.items, kernel.items_each, engine.target),
    )  # fmt: skip


def takes(p: ConvProblem, target: Target) -> bool:
    """Whether the algorithm computes a problem: filters of 3 x 3 with stride 1, in IEEE floats.

    The gradient of the weights by it was measured on CPUs alone.
    """
    return (
        (p.direction != "weight" or target.is_cpu)
        and p.elem.name in ("f32", "f64")
        and (p.precision == "ieee" or p.elem.needs_fp64)
        and (target.fp64 or not p.elem.needs_fp64)
        and p.w_size == (1, 3, 3)
        and p.x_size[0] == p.y_size[0] == 1
        and p.before[0] == 0
        and p.stride[1:] == p.dilation[1:] == (1, 1)
        and p.x_elements > 0
        and p.y_elements > 0
    )


def variants(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
) -> Iterator[Variant]:
    """Yield the variant, if it computes the problem."""
    if not takes(problem, target):
        return
    p, w = problem, Winograd(problem, target)
    chunk = w.images_at_a_time(limit)
    device, costs = DeviceCosts.of("device", target), ConvCosts.of("convolutions", target)
    product = w.product(chunk)
    best = best_product(product, target, table)
    # The transforms move each array on both of their sides once.
    moved = w.weight_bytes + p.w_elements * p.elem.itemsize
    for images in (w.source, w.result):
        elements = p.batch * images.channels * prod(images.size)
        moved += elements * p.elem.itemsize + w.matrix_bytes(images, p.batch)
    transforms = costs.winograd_time * moved / (device.bandwidth * target.compute_units)
    of_results = w.tiles_of_gradient if p.direction == "weight" else w.results
    if target.is_cpu:
        part = p.batch / chunk
        for kernel, count in ((w.filters(), 1), (w.tiles(chunk), part), (of_results(chunk), part)):
            parts = kernel.items, kernel.context, kernel.constants, target
            transforms += count * tiles_seconds(*parts)
    yield Variant(
        name="winograd",
        estimate=best.estimate * p.batch / chunk + transforms,
        launches=1 + len(chunks(p.batch, chunk)) * (2 + best.launches),
        why="filters of 3 x 3 with stride 1: 16 products in place of 36 for 4 results",
        texts=lambda: [
            w.filters().specialization, w.tiles(chunk).specialization, *best.texts(),
            of_results(chunk).specialization,
        ],
        bind=partial(_bind, problem=problem, limit=limit),
        details={
            "workspace": w.workspace(chunk),
            "moved": moved + round(product.bytes * p.batch / chunk), "images at a time": chunk,
            "flop": problem.flop, "bytes": problem.bytes,
        },
    )  # fmt: skip


def _bind(engine: Engine, problem: ConvProblem, limit: int | None) -> Plan:
    """The plan.  Operands: x (or the gradient of y), w, the bias if there is one, the result.

    For the gradient of the weights: x, the gradient of y, the result.
    """
    p, w = problem, Winograd(problem, engine.target)
    itemsize, chunk = p.elem.itemsize, w.images_at_a_time(limit)
    u = Temporary("filters", w.weight_bytes, itemsize)
    v, m = (
        Temporary(name, w.matrix_bytes(images, chunk), itemsize)
        for name, images in (("tiles", w.source), ("products", w.result))
    )
    bind_steps = _gradient_of_weights if p.direction == "weight" else _results
    plan = Steps(bind_steps(engine, w, chunk, u, v, m))
    plan.flop, plan.bytes = p.flop, p.bytes
    return plan


def _gradient_of_weights(
    engine: Engine, w: Winograd, chunk: int, u: Temporary, v: Temporary, m: Temporary
) -> list[Step]:
    """Return the steps: tiles of both images and their products, for each chunk; the weights."""
    p = w.problem
    made: dict[int, tuple[Plan, Plan, Plan]] = {}
    steps = []
    for first, count in chunks(p.batch, chunk):
        if count not in made:
            product = replace(w.product(count), aligned=not engine.maps_host_memory)
            made[count] = (
                transform_plan(engine, w.tiles(count)),
                transform_plan(engine, w.tiles_of_gradient(count)),
                make_product(engine, product),
            )  # fmt: skip
        tiles, of_gradient, multiplied = made[count]
        steps += [
            Step(tiles, (Part(0, first * p.x.outer), v)),
            Step(of_gradient, (Part(1, first * p.y.outer), m)),
            Step(multiplied, (m, v, u), scalars=(1.0, 1.0 if first else 0.0)),
        ]
    return [*steps, Step(transform_plan(engine, w.filters()), (u, p.last))]


def _results(
    engine: Engine, w: Winograd, chunk: int, u: Temporary, v: Temporary, m: Temporary
) -> list[Step]:
    """Return the steps: the filters; tiles, products and results of each chunk of images."""
    p = w.problem
    made: dict[int, tuple[Plan, Plan, Plan]] = {}
    steps = [Step(transform_plan(engine, w.filters()), (Part(1, w.first_weight), u))]
    # The operands after the two images: the bias, if there is one, the extras, the result.
    last = p.last
    bias, extras = p.following[: last - 2 - len(p.extras)], p.following[last - 2 - len(p.extras) :]
    for first, count in chunks(p.batch, chunk):
        if count not in made:
            product = replace(w.product(count), aligned=not engine.maps_host_memory)
            made[count] = (
                transform_plan(engine, w.tiles(count)), make_product(engine, product),
                transform_plan(engine, w.results(count)),
            )  # fmt: skip
        tiles, multiplied, results = made[count]
        source = Part(0, first * w.source.strides.outer)
        result = Part(last, first * w.result.strides.outer)
        arrays = [
            Part(operand, first * extra.strides.outer)
            for operand, extra in zip(extras, p.extras, strict=True)
        ]
        operands = (v, u, m) if w.by_channels else (u, v, m)
        steps += [
            Step(tiles, (source, v)), Step(multiplied, operands, scalars=(1.0, 0.0)),
            Step(results, (m, *bias, *arrays, result)),
        ]  # fmt: skip
    return steps
