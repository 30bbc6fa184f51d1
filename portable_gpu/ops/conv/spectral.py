"""Convolutions by Fourier transforms of whole images and filters.

::

    x ─► spectra of images ──┐
    w ─► spectra of filters ─┴─► products, summed over channels ─► y

Each of x, w and y is a convolution of the two others.  To compute y, the filters are reversed along
all axes of space.  To compute the gradient of the weights, y is reversed, and products are summed
over images instead of channels.  Transforms are so long that no returned result wraps around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from math import prod

from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.ops.conv.chunks import CHUNK_BYTES, chunks, images_within, workspace_limit
from portable_gpu.ops.conv.estimates import ConvCosts, fourier_seconds, spectra_seconds
from portable_gpu.ops.conv.items import bound_operands, index_type, items_of_one, launch_sizes
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.ops.fft.passes import Pass
from portable_gpu.ops.fft.problem import FftProblem
from portable_gpu.ops.fft.tables import fast_length
from portable_gpu.ops.fft.variants import launches_of, strips_of
from portable_gpu.ops.fft.variants import make_plan as make_transform
from portable_gpu.ops.fft.variants import variants as transforms
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.variant import Variant, best_of
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.costs import multiply_adds
from portable_gpu.tuning.table import TuningTable

#: Bytes of a CPU's vectors.
_VECTOR_BYTES = 32
#: The most rows and columns of a work-item.
_TILE = 2
#: Planes of frequencies start at multiples of this many complex numbers.
_PITCH = 8


@dataclass(frozen=True)
class Spectra:
    """Images or filters, and their spectra.

    Attributes:
        name: The name of the spectra in the workspace.
        outer, channels: Extents of the leading axes.
        size: Extents of the axes of space.
        strides: The strides in memory, in elements.
        reverses: Whether they are read in reverse order along the axes of space.
    """

    name: str
    outer: int
    channels: int
    size: Triple
    strides: ImageStrides
    reverses: bool = False

    @property
    def shape(self) -> Shape:
        """The extents of all axes."""
        return (self.outer, self.channels, *self.size)

    @property
    def steps(self) -> Shape:
        """The strides of all axes, as they are read."""
        sign = -1 if self.reverses else 1
        s = self.strides
        return (s.outer, s.channel, *(sign * step for step in s.space))

    @property
    def start(self) -> int:
        """The offset of the first element that is read."""
        if not self.reverses:
            return 0
        return sum((n - 1) * s for n, s in zip(self.size, self.strides.space, strict=True))


@dataclass(frozen=True)
class Spectral:
    """A convolution by transforms on a target.

    Attributes:
        problem: The convolution.
        target: The device.
    """

    problem: ConvProblem
    target: Target

    @cached_property
    def axes(self) -> tuple[int, ...]:
        """The transformed axes of space; an image of one element is transformed along the last."""
        p = self.problem
        sizes = zip(p.x_size, p.w_size, p.y_size, strict=True)
        return tuple(c for c, extents in enumerate(sizes) if max(extents) > 1) or (2,)

    def operands(self, batch: int) -> tuple[Spectra, Spectra, Spectra]:
        """Return the operand of the rows of products, that of the columns, and the result."""
        p, direction = self.problem, self.problem.direction
        x = Spectra("x", batch, p.channels, p.x_size, p.x)
        y = Spectra("y", batch, p.filters, p.y_size, p.y, direction == "weight")
        w = Spectra(
            "w", p.filters, p.channels_of_group, p.w_size, p.w, direction == "forward"
        )  # fmt: skip
        return {"forward": (x, w, y), "input": (y, w, x), "weight": (y, x, w)}[direction]

    @cached_property
    def first(self) -> Triple:
        """The index of the first result in the convolution of the operands."""
        p = self.problem
        before = p.before
        if p.direction != "input":
            reversed_size = p.w_size if p.direction == "forward" else p.y_size
            n0, n1, n2 = (n - 1 - b for n, b in zip(reversed_size, before, strict=True))
            return n0, n1, n2
        return before

    @cached_property
    def lengths(self) -> Triple:
        """The lengths of the transforms along each axis of space; 1 along others."""
        a, b, result = self.operands(1)
        lengths = [1, 1, 1]
        for c in self.axes:
            n, m, first, count = a.size[c], b.size[c], self.first[c], result.size[c]
            # What wraps around must fall before the first or after the last result that is kept.
            lengths[c] = fast_length(max(n, m, first + count, n + m - 1 - first))
        return lengths[0], lengths[1], lengths[2]

    @cached_property
    def spectrum(self) -> Shape:
        """The extents of a plane of frequencies: half of them along the last axis."""
        lengths = list(self.lengths)
        lengths[self.axes[-1]] = lengths[self.axes[-1]] // 2 + 1
        return tuple(lengths)

    @cached_property
    def plane(self) -> int:
        """The distance between two planes, in complex numbers."""
        return -(-prod(self.spectrum) // _PITCH) * _PITCH

    def temporary(self, spectra: Spectra) -> Temporary:
        """Return the spectra in the workspace."""
        itemsize = 2 * self.problem.elem.itemsize
        nbytes = spectra.outer * spectra.channels * self.plane * itemsize
        return Temporary(f"spectra of {spectra.name}", -(-nbytes // 256) * 256, itemsize)

    def transform(self, spectra: Spectra, inverse: bool = False) -> FftProblem:
        """Return the transforms to spectra, or from them to the results that are returned."""
        shape = (spectra.outer, spectra.channels, *self.spectrum)
        steps = (spectra.channels * self.plane, self.plane, *contiguous_strides(self.spectrum))
        axes = tuple(2 + c for c in self.axes)
        lengths = tuple(self.lengths[c] for c in self.axes)
        real = self.problem.elem
        # Images are independent, except for the gradient of the weights, which sums over them.
        apart = int(spectra.name != "w" and self.problem.direction != "weight")
        if inverse:
            return FftProblem(
                kind="c2r", from_real=False, inverse=True, real=real, axes=axes, lengths=lengths,
                shape_in=shape, shape_out=spectra.shape, strides_in=steps,
                strides_out=spectra.steps, scaled=True,
                first=tuple(self.first[c] for c in self.axes), apart=apart,
            )  # fmt: skip
        return FftProblem(
            kind="r2c", from_real=False, inverse=False, real=real, axes=axes, lengths=lengths,
            shape_in=spectra.shape, shape_out=shape, strides_in=spectra.steps, strides_out=steps,
            scaled=False, apart=apart,
        )  # fmt: skip

    def images_at_a_time(self, limit: int | None) -> int:
        """Return the number of images at a time, at least one."""
        max_bytes = workspace_limit(limit, self.target)
        if not self.target.is_cpu:
            max_bytes = min(max_bytes, self.workspace(0) + CHUNK_BYTES[False])
        return images_within(self.problem.batch, self.workspace, max_bytes)

    def workspace(self, batch: int) -> int:
        """Return the bytes of the spectra of ``batch`` images and of the weights, at most.

        Transforms along several axes need further memory of the size of the largest spectra.
        """
        spectra = [self.temporary(spectra).nbytes for spectra in self.operands(batch)]
        return sum(spectra) + (max(spectra) if len(self.axes) > 1 else 0)

    def products(self, batch: int, adds: bool) -> SpectraKernel:
        """Return the products of spectra, with a sum over channels or images."""
        p, plane = self.problem, self.plane
        of_x, of_y = p.channels_of_group, p.filters_of_group
        w_row, w_group = of_x * plane, of_y * of_x * plane
        x_group, y_group = of_x * plane, of_y * plane
        x_row, y_row = p.channels * plane, p.filters * plane
        if p.direction == "forward":
            extents = batch, of_y, of_x
            steps = (x_row, plane, x_group), (w_row, plane, w_group), (y_row, plane, y_group)
        elif p.direction == "input":
            extents = batch, of_x, of_y
            steps = (y_row, plane, y_group), (plane, w_row, w_group), (x_row, plane, x_group)
        else:
            extents = of_y, of_x, batch
            steps = (plane, y_row, y_group), (plane, x_row, x_group), (w_row, plane, w_group)
        (a_row, a_step, a_group), (b_row, b_step, b_group), (o_row, o_column, o_group) = steps
        rows, columns, depth = extents
        constants = {
            "rows": rows, "columns": columns, "depth": depth, "a_row": a_row, "a_step": a_step,
            "a_group": a_group, "b_row": b_row, "b_step": b_step, "b_group": b_group,
            "o_row": o_row, "o_column": o_column, "o_group": o_group, "groups": p.groups,
            "adds": int(adds), "bias_step": p.bias or 0, "adds_bias": int(p.bias is not None),
            "points": prod(self.lengths),
        }  # fmt: skip
        numbers = max(
            2 * spectra.outer * spectra.channels * plane for spectra in self.operands(batch)
        )
        return SpectraKernel(p, self.target, constants, plane, numbers)


@dataclass(frozen=True)
class SpectraKernel:
    """The kernel of products of spectra.

    Attributes:
        problem: The convolution.
        target: The device.
        constants: The integers of a launch that say what is multiplied.
        plane: Complex numbers of a plane, with its padding.
        numbers: Real numbers of the largest spectra.
    """

    problem: ConvProblem
    target: Target
    constants: dict[str, int]
    plane: int
    numbers: int

    @property
    def vector(self) -> int:
        """Frequencies of a work-item."""
        return _VECTOR_BYTES // self.problem.elem.itemsize if self.target.is_cpu else 1

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of a work-item."""
        return min(_TILE, self.constants["rows"]), min(_TILE, self.constants["columns"])

    @cached_property
    def counts(self) -> dict[str, int]:
        """The blocks and tiles along each coordinate of an item."""
        TI, TL = self.tile
        return {
            "blocks": self.plane // self.vector, "tile_rows": -(-self.constants["rows"] // TI),
            "tile_columns": -(-self.constants["columns"] // TL),
        }  # fmt: skip

    @property
    def items(self) -> int:
        """The number of items."""
        return prod(self.counts.values()) * self.constants["groups"]

    @property
    def items_each(self) -> int:
        """Items of a CPU's work-item."""
        return items_of_one(self.items, self.target)

    @property
    def flop(self) -> int:
        """Floating-point operations: 4 multiply-adds for each product."""
        c = self.constants
        return 8 * self.plane * c["rows"] * c["columns"] * c["depth"] * c["groups"]

    @property
    def specialization(self) -> Specialization:
        """The text and options."""
        elem, (TI, TL) = self.problem.elem, self.tile
        tiles = [("group", "groups"), ("row", "tile_rows"), ("column", "tile_columns")]
        block = ("block", "blocks")
        # The planes of a block of frequencies stay in a CPU's cache; a GPU's lanes go along them.
        order = [block, *tiles] if self.target.is_cpu else [*tiles, block]
        spans = self.items, self.numbers, self.problem.filters * abs(self.problem.bias or 0)
        index = index_type(max(spans), self.target)
        operands = ("a", "b", "bias", "o")
        parameters: list[Parameter] = [
            buffer(f"{elem.name}_t", name, writes=name == "o") for name in operands
        ]
        parameters += scalars("long", *(f"{name}_offset" for name in operands))
        parameters += scalars(index, "items", "items_each", *self.counts, *self.constants)
        return specialize(
            "conv/spectra", self.target, {"spectra": parameters}, elem=elem, I=index,
            order=order, V=self.vector, TI=TI, TL=TL,
        )  # fmt: skip


def spectra_plan(engine: Engine, kernel: SpectraKernel) -> OneLaunch:
    """Return the plan of products of spectra.

    Operands: both factors, the bias if there is one, the result.
    """
    has_bias = kernel.problem.bias is not None
    operands, constants = bound_operands(("a", "b", "bias", "o"), has_bias)
    constants |= {
        **kernel.counts, **kernel.constants, "items": kernel.items, "items_each": kernel.items_each,
    }  # fmt: skip
    return OneLaunch(
        engine, kernel.specialization, "spectra", constants, operands,
        *launch_sizes(kernel.items, kernel.items_each, engine.target),
    )  # fmt: skip


def takes(p: ConvProblem, target: Target) -> bool:
    """Whether transforms compute a problem: stride and dilation 1, IEEE floats.

    The padding must be smaller than the filters; for the gradient of the weights, smaller than y.
    """
    return (
        p.elem.name in ("f32", "f64")
        and (p.precision == "ieee" or p.elem.needs_fp64)
        and (target.fp64 or not p.elem.needs_fp64)
        and all(s == 1 or n == 1 for s, n in zip(p.stride, p.y_size, strict=True))
        and all(d == 1 or n == 1 for d, n in zip(p.dilation, p.w_size, strict=True))
        and p.x_elements > 0
        and p.y_elements > 0
        and min(Spectral(p, target).first) >= 0
    )


def variants(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
) -> Iterator[Variant]:
    """Yield the variant, if it computes the problem."""
    if not takes(problem, target):
        return
    p, s = problem, Spectral(problem, target)
    images = s.images_at_a_time(limit)
    every = chunks(p.batch, images)
    needed = _transforms_needed(s, images)
    other_launches = _other_launches(needed, target, table)
    best = [
        (best_of(transforms(transform, target, table, other_launches), target), n)
        for transform, n in needed.items()
    ]
    kernel = s.products(images, adds=False)
    part = p.batch / images
    spectra_bytes = sum(s.temporary(spectra).nbytes for spectra in s.operands(images))
    multiplied = kernel.flop // 2 * multiply_adds(p.elem)
    depth = kernel.constants["depth"]
    products = part * spectra_seconds(kernel.tile, depth, multiplied, spectra_bytes, target)
    transforming = ConvCosts.of("convolutions", target).transform_time * sum(
        variant.estimate * n for variant, n in best
    )
    if target.is_cpu:
        of_cpu = [(strips_of(transform, target, table), n) for transform, n in needed.items()]
        strips, numbers = (sum(n * counts[i] for counts, n in of_cpu) for i in range(2))
        numbers *= multiply_adds(p.elem)  # vectors have half as many numbers of float64
        transforming = fourier_seconds(strips, numbers, round(part * spectra_bytes), target)
    moved = part * spectra_bytes + sum(variant.details["bytes"] * n for variant, n in best)
    yield Variant(
        name="fft",
        estimate=products + transforming,
        launches=len(every) + sum(variant.launches * n for variant, n in best),
        why=f"transforms of {' x '.join(str(s.lengths[c]) for c in s.axes)}, products of spectra",
        texts=lambda: [
            *(spec for variant, _ in best for spec in variant.texts()),
            *(s.products(count, adds=False).specialization for count in {n for _, n in every}),
        ],
        bind=partial(_bind, problem=problem, limit=limit),
        details={
            "workspace": s.workspace(images), "moved": round(moved), "images at a time": images,
            "flop": problem.flop,
            "bytes": problem.bytes,
        },
    )  # fmt: skip


def _transforms_needed(s: Spectral, images: int) -> Counter[FftProblem]:
    """Count the transforms of a convolution of ``images`` at a time."""
    is_weight = s.problem.direction == "weight"
    w = next(spectra for spectra in s.operands(images) if spectra.name == "w")
    needed = Counter([s.transform(w, inverse=is_weight)])
    for _, count in chunks(s.problem.batch, images):
        *operands, result = s.operands(count)
        needed.update(s.transform(spectra) for spectra in operands if spectra.name != "w")
        if result.name != "w":
            needed[s.transform(result, inverse=True)] += 1
    return needed


def _other_launches(
    needed: Iterable[FftProblem], target: Target, table: TuningTable
) -> list[Sequence[Pass]]:
    """Return the passes of all launches of transforms, which have one text on a CPU."""
    if not target.is_cpu:
        return []
    return [passes for transform in needed for passes in launches_of(transform, target, table)]


def _bind(engine: Engine, problem: ConvProblem, limit: int | None) -> Plan:
    """The plan.  Operands: those of the direction, the bias if there is one, the result."""
    p, s = problem, Spectral(problem, engine.target)
    images = s.images_at_a_time(limit)
    weights = p.direction == "weight"
    # Where x, w and y are among the operands of the call.
    places = {"forward": "xwy", "input": "ywx", "weight": "xyw"}[p.direction]
    places = places if p.bias is None else f"{places[:2]}b{places[2]}"
    bias = () if p.bias is None else (places.index("b"),)
    whole = s.operands(images)
    spaces = {spectra.name: s.temporary(spectra) for spectra in whole}
    needed = _transforms_needed(s, images)
    other_launches = _other_launches(needed, engine.target, engine.table)
    transforms_made: dict[FftProblem, Plan] = {}
    products_made: dict[tuple[int, bool], Plan] = {}

    def transformed(spectra: Spectra, first: int, inverse: bool = False) -> Step:
        transform = s.transform(spectra, inverse)
        if transform not in transforms_made:
            transforms_made[transform] = make_transform(engine, transform, other_launches)
        outer = first * spectra.strides.outer if spectra.name != "w" else 0
        memory = Part(places.index(spectra.name), outer + spectra.start)
        space = spaces[spectra.name]
        if inverse:
            scale = 1 / prod(s.lengths)
            return Step(transforms_made[transform], (space, memory), scalars=(scale,))
        return Step(transforms_made[transform], (memory, space), scalars=(1.0,))

    steps = []
    if not weights:
        steps.append(transformed(whole[1], 0))
    for first, count in chunks(p.batch, images):
        a, b, result = s.operands(count)
        steps += [transformed(spectra, first) for spectra in (a, b) if spectra.name != "w"]
        key = count, weights and first > 0
        if key not in products_made:
            products_made[key] = spectra_plan(engine, s.products(*key))
        operands = spaces[a.name], spaces[b.name], *bias, spaces[result.name]
        steps.append(Step(products_made[key], operands))
        if not weights:
            steps.append(transformed(result, first, inverse=True))
    if weights:
        steps.append(transformed(whole[2], 0, inverse=True))
    plan = Steps(steps)
    plan.flop, plan.bytes = p.flop, p.bytes
    return plan
