"""Convolutions as products of matrices; windows are copied to workspace if necessary.

::

    forward   columns(x) ─► y = w columns + bias
    input     columns = w^T dy ─► dx = sums of windows + bias
    weight    columns(x), and dy by channels ─► dw = dy columns^T

Filters of one tap, with stride 1 and no padding, read x and y where they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod

from portable_gpu.codegen.epilogue import Stage
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.conv.chunks import CHUNK_BYTES, chunks, workspace_limit
from portable_gpu.ops.conv.copies import computed, moved
from portable_gpu.ops.conv.estimates import best_product, windows_seconds
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides
from portable_gpu.ops.conv.strips import SpaceAxis, axes_of
from portable_gpu.ops.conv.windows import ColumnStrides, Windows, WindowsPlan
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import variants as copied
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import make_plan as make_product
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

_BIAS = Stage("bias", "v + e", "row")
Location = int | Temporary | Part


def merged(size: Shape, steps: Shape) -> int | None:
    """Return the common stride of all places in C order; ``None`` if there is none."""
    known = [(n, step) for n, step in zip(size, steps, strict=True) if n > 1]
    for (_, slow), (n, fast) in pairwise(known):
        if slow != n * fast:
            return None
    return known[-1][1] if known else 0


@dataclass(frozen=True)
class ConvProduct:
    """A product within a convolution: its problem, and the places of its operands."""

    problem: GemmProblem
    operands: tuple[Location, ...]
    adds: bool


_Key = Windows | GemmProblem | ElementwiseProblem
_Step = ConvProduct | tuple[Windows | ElementwiseProblem, tuple[Location, ...]]


@dataclass(frozen=True)
class ConvProducts:
    """The steps of a convolution: copies of windows, products and sums of windows.

    Attributes:
        steps: The steps in their order, each with the places of its operands.
        workspace: The bytes of the windows.
        chunk: The number of images that are computed at a time.
    """

    steps: tuple[_Step, ...]
    workspace: int
    chunk: int

    def plan(self, engine: Engine) -> Plan:
        """Build the plans of all steps; equal steps share a plan."""
        made: dict[_Key, Plan] = {}
        result = []
        for step in self.steps:
            if isinstance(step, ConvProduct):
                key: _Key = step.problem
                if key not in made:
                    made[key] = make_product(engine, step.problem)
                scalars = (1.0, 1.0 if step.adds else 0.0)
                result.append(Step(made[key], step.operands, scalars=scalars))
            else:
                key, operands = step
                if key not in made:
                    made[key] = (
                        WindowsPlan(engine, key)
                        if isinstance(key, Windows)
                        else bind_best(engine, copied(key, engine.target, engine.table))
                    )
                result.append(Step(made[key], operands))
        return Steps(result)


def products(
    problem: ConvProblem, target: Target, limit: int | None, aligned: bool = True
) -> ConvProducts | None:
    """Return the products of a convolution, or ``None`` if its arrays do not allow them.

    A chunk has at least one image, even if its windows are larger than the limit.  Of a problem
    with an epilogue, the products apply it.
    """
    p, taps = problem, problem.taps
    computes = target.fp64 or not p.elem.needs_fp64
    if not (computes and p.x_elements and p.y_elements):
        return None
    places, itemsize = prod(p.y_size), p.elem.itemsize
    y_step = merged(p.y_size, p.y.space)
    points = (
        taps == 1 and p.x_size == p.y_size and p.before == (0, 0, 0)
        and all(s == 1 or n == 1 for s, n in zip(p.stride, p.y_size, strict=True))
    )  # fmt: skip
    x_step = merged(p.x_size, p.x.space) if points else None
    of_image = p.channels * places * taps * itemsize
    if p.direction == "input" and itemsize == 2:
        of_image *= 2
    last = target.is_cpu and p.groups == 1 and p.channels > 1 and p.x.channel == 1
    build = _StepsBuilder(p, target, places, last, aligned)
    max_bytes = workspace_limit(limit, target)
    if p.direction != "weight":
        if y_step is None or not build.has_common_steps:
            return None
        if x_step is not None:
            return build.at_points(x_step, y_step)
        if p.epilogue and p.direction == "input":  # the last kernel sums windows
            return None
        chunk = max(1, min(p.batch, min(max_bytes, CHUNK_BYTES[target.is_cpu]) // max(1, of_image)))
        return build.by_windows(y_step, chunk)
    steps = x_step, y_step
    joined = [
        step is not None and (p.batch == 1 or operand.outer == places * step)
        for step, operand in zip(steps, (p.x, p.y), strict=True)
    ]
    of_image = (0 if joined[0] else of_image) + (0 if joined[1] else p.filters * places * itemsize)
    chunk = p.batch
    if of_image and p.elem.itemsize > 2:
        chunk = max(1, min(p.batch, min(max_bytes, CHUNK_BYTES[target.is_cpu]) // of_image))
        # With one image at a time, arrays with a common stride of places need no copy.
        in_place = [
            step is not None and not is_joined
            for step, is_joined in zip(steps, joined, strict=True)
        ]
        copied = (p.channels * in_place[0] + p.filters * in_place[1]) * places
        if target.is_cpu and (chunk == 1 or p.w_elements < copied):
            return build.weights(*steps, 1)
    x_step, y_step = (
        step if is_joined else None for step, is_joined in zip(steps, joined, strict=True)
    )
    return build.weights(x_step, y_step, chunk)


class _StepsBuilder:
    """Makes the steps of one problem."""

    def __init__(
        self, problem: ConvProblem, target: Target, places: int, last: bool, aligned: bool
    ) -> None:
        self.p, self.target, self.places, self.last = problem, target, places, last
        self.dtype = dtype_of(problem.elem.name)
        self.aligned = aligned
        p = problem
        self.k = p.channels_of_group * p.taps
        extents = (p.channels_of_group, *p.w_size), (p.w.channel, *p.w.space)
        order = (1, 2, 3, 0) if last else (0, 1, 2, 3)
        self._w_extents, self._w_strides = (tuple(item[i] for i in order) for item in extents)
        #: The stride of a filter's weights in the order of the windows; ``None`` if there is none,
        #: and the weights are copied first.
        self.w_step = merged(self._w_extents, self._w_strides)

    def _view(self, shape: Shape, strides: Shape, alignment: int = 128) -> View:
        return View(None, 0, shape, strides, self.dtype, alignment)

    @property
    def _w_steps(self) -> tuple[int, int]:
        """The strides of the filters, and of the weights of a filter, for products."""
        return (self.k, 1) if self.w_step is None else (self.p.w.outer, self.w_step)

    def _weights(self) -> View:
        p = self.p
        filters = p.filters_of_group
        shape = p.groups, filters, self.k
        if self.w_step is None:
            return self._view(shape, (filters * self.k, self.k, 1))
        return self._view(shape, (filters * p.w.outer, p.w.outer, self.w_step), p.w.aligned)

    def _with_weights(
        self, steps: Sequence[_Step], place: int, at: Location, nbytes: int, chunk: int
    ) -> ConvProducts:
        """Return the steps, with a copy of the weights in the order of the windows if necessary.

        Args:
            steps: The steps; they read or write the weights at ``at``.
            place: The number of the operand that has the weights.
            at: The result of :meth:`_weights_at`.
            nbytes, chunk: See :class:`ConvProducts`.
        """
        if not isinstance(at, Temporary):
            return ConvProducts(tuple(steps), nbytes, chunk)
        p, extents = self.p, (self.p.filters, *self._w_extents)
        ours, theirs = (self.p.w.outer, *self._w_strides), contiguous_strides(extents)
        if p.direction == "weight":
            steps = [*steps, (moved(p.elem, extents, theirs, ours), (at, place))]
        else:
            steps = [(moved(p.elem, extents, ours, theirs), (place, at)), *steps]
        return ConvProducts(tuple(steps), nbytes + at.nbytes, chunk)

    def _weights_at(self, place: int) -> Location:
        """Return the place where products read the weights, or write their gradient."""
        if self.w_step is not None:
            return place
        itemsize = self.p.elem.itemsize
        return Temporary("weights", self.p.w_elements * itemsize, itemsize)

    def _columns(self, batch: int, tap: int, place: int) -> ColumnStrides:
        """Return the strides of the windows: those of a channel, or of a place, are contiguous."""
        if not self.last:
            return ColumnStrides(batch, tap * self.p.taps, tap, place)
        return ColumnStrides(self.k * self.places, 1, self.p.channels, self.k)

    def _product(
        self, a: View, b: View, c: View, operands: tuple[Location, ...], trans_a: str = "N",
        trans_b: str = "N", extras: Sequence[View] | None = None, adds: bool = False,
    ) -> ConvProduct:  # fmt: skip
        """Return a product; one that stores the result of the convolution has extras.

        Args:
            a, b, c: The operands and the result.
            operands: Their places, and those of the extras before the result's.
            trans_a, trans_b: Whether an operand is transposed.
            extras: See :meth:`_extras`.
            adds: Whether the product is added to c.
        """
        stages: tuple[Stage, ...] = ()
        if extras is not None:
            # Channels are rows here, and each array of the epilogue has a view of C's shape.
            stages = tuple(replace(s, spread=s.spread and "matrix") for s in self.p.epilogue)
            stages = (_BIAS, *stages) if self.p.bias is not None else stages
        problem = bind(
            self.target, a, b, c, trans_a=trans_a, trans_b=trans_b, stages=stages,
            extras=extras or (), multiplies=True, reads_c=adds,
        )  # fmt: skip
        problem = replace(problem, precision=self.p.precision, aligned=self.aligned)
        return ConvProduct(problem, operands, adds)

    @property
    def has_common_steps(self) -> bool:
        """Whether each array of the epilogue has a common stride of all places."""
        _, size, _ = self.p.images
        return all(merged(size, extra.strides.space) is not None for extra in self.p.extras)

    def _extras(self, count: int, joined: bool) -> list[View]:
        """Return the bias and the arrays of the epilogue, for the product of ``count`` images.

        Args:
            count: The number of images.
            joined: See :meth:`_image`.
        """
        p = self.p
        _, size, channels = p.images
        of_group, itemsize = channels // p.groups, p.elem.itemsize
        result = []
        if p.bias is not None:
            result.append(self._view((p.groups, of_group), (of_group * p.bias, p.bias), itemsize))
        for extra in p.extras:
            step = merged(size, extra.strides.space)
            assert step is not None
            view = self._image(extra.strides, count, channels, step, extra.elem.itemsize, joined)
            result.append(replace(view, dtype=dtype_of(extra.elem.name)))
        return result

    def _extra_places(self, first: int) -> list[Location]:
        """Return the operands of :meth:`_extras`, of images from ``first`` on."""
        p = self.p
        bias: list[Location] = [2] if p.bias is not None else []
        arrays = zip(p.following[len(bias) :], p.extras, strict=True)
        return [*bias, *(Part(at, first * extra.strides.outer) for at, extra in arrays)]

    def _image(
        self, operand: ImageStrides, batch: int, channels: int, step: int, alignment: int,
        joined: bool = False,
    ) -> View:  # fmt: skip
        """Return the view whose rows have all places of an image (``joined``: of all images)."""
        p = self.p
        of_group = channels // p.groups
        strides = operand.outer, of_group * operand.channel, operand.channel, step
        count = 1 if joined else batch
        places = batch * self.places // count
        return self._view((count, p.groups, of_group, places), strides, alignment)

    def at_points(self, x_step: int, y_step: int) -> ConvProducts:
        """Return the single product of filters of one tap."""
        p = self.p
        joined = self._are_joined(p.x, x_step) and self._are_joined(p.y, y_step)
        x = self._image(p.x, p.batch, p.channels, x_step, p.x.aligned, joined)
        y = self._image(p.y, p.batch, p.filters, y_step, p.y.aligned, joined)
        backward = p.direction == "input"
        source, result = (y, x) if backward else (x, y)
        w = self._weights_at(1)
        operands = (w, 0, *self._extra_places(0), p.last)
        extras = self._extras(p.batch, joined)
        product = self._product(
            self._weights(), source, result, operands, "T" if backward else "N", extras=extras
        )
        return self._with_weights([product], 1, w, 0, p.batch)

    def _are_joined(self, operand: ImageStrides, step: int) -> bool:
        """Whether the places of all images have a common stride."""
        is_line = self.p.batch > 1 and operand.outer == self.places * step
        return is_line and self.target.is_cpu

    def by_windows(self, y_step: int, chunk: int) -> ConvProducts:
        """Return copies of windows and products; backward, products and sums of windows."""
        p, backward = self.p, self.p.direction == "input"
        taps, last = p.taps, p.last
        of_image = p.channels * taps * self.places
        columns = self._columns(of_image, self.places, 1)
        joined = self.last and self._are_joined(p.y, y_step)
        w = self._weights_at(1)
        # Sums of 16-bit floats are rounded once, when all windows of an element have been added.
        stored = computed(p.elem) if backward else p.elem
        nbytes = chunk * of_image * stored.itemsize
        space = Temporary("windows", nbytes, stored.itemsize)
        steps: list[_Step] = []
        axes = tuple(axes_of(p, backward))
        for first, count in chunks(p.batch, chunk):
            x_at = Part(last if backward else 0, first * p.x.outer)
            y_at = Part(0 if backward else last, first * p.y.outer)
            windows = Windows(
                p.elem, stored, backward, count, p.channels, axes, p.x, columns,
                p.bias if backward else None,
            )  # fmt: skip
            shape = count, p.groups, self.k, self.places
            strides = of_image, self.k * self.places, self.places, 1
            if self.last:
                strides = of_image, 0, 1, self.k
            if joined:
                shape = 1, p.groups, self.k, count * self.places
            matrix = replace(self._view(shape, strides), dtype=dtype_of(stored.name))
            alignment = p.y.aligned if len(chunks(p.batch, chunk)) == 1 else p.elem.itemsize
            y = self._image(p.y, count, p.filters, y_step, alignment, joined)
            if backward:
                product = self._product(self._weights(), y, matrix, (w, y_at, space), "T")
                copied: tuple[Location, ...] = (space, *p.following, x_at)
                steps += [product, (windows, copied)]
            else:
                operands = (w, space, *self._extra_places(first), y_at)
                extras = self._extras(count, joined)
                product = self._product(self._weights(), matrix, y, operands, extras=extras)
                steps += [(windows, (x_at, space)), product]
        return self._with_weights(steps, 1, w, nbytes, chunk)

    def weights(self, x_step: int | None, y_step: int | None, chunk: int) -> ConvProducts:
        """Return products over all places of a chunk of images: the gradient of the weights.

        Args:
            x_step, y_step: The common stride of all images and places; ``None`` if there is none.
            chunk: The number of images that are computed at a time.
        """
        p = self.p
        steps: list[_Step] = []
        w = self._weights_at(2)
        axes = tuple(axes_of(p, backward=False))
        points = tuple(_points(n, step) for n, step in zip(p.y_size, p.y.space, strict=True))
        itemsize, nbytes, zeroed = p.elem.itemsize, 0, False
        for first, count in chunks(p.batch, chunk):
            whole = len(chunks(p.batch, chunk)) == 1
            k = count * self.places
            x_at: Location = Part(0, first * p.x.outer)
            y_at: Location = Part(1, first * p.y.outer)
            nbytes = 0
            of_x, of_y = (p.x.aligned, p.y.aligned) if whole else (itemsize, itemsize)
            column, row = p.x.channel, p.y.channel
            place = x_step if x_step is not None else 1
            if x_step is None:
                size = p.channels * p.taps * k
                space = Temporary("windows", chunk * size // count * itemsize, itemsize)
                columns = self._columns(self.places, k, 1)
                copy = Windows(p.elem, p.elem, False, count, p.channels, axes, p.x, columns)
                # If a kernel writes zeros first, all products add, and one program serves for all.
                if self.target.is_cpu and not (first or whole):
                    zeros = copy.zeros(p.filters, *self._w_steps, self.k)
                    if zeros is not None:
                        steps.append((zeros, (x_at, w)))
                        zeroed = True
                steps.append((copy, (x_at, space)))
                x_at, of_x = space, 128
                column, place = (1, self.k) if self.last else (k, 1)
                nbytes += space.nbytes
            if y_step is None:
                size = p.filters * k
                other = Temporary("gradient", chunk * size // count * itemsize, itemsize)
                columns = ColumnStrides(self.places, k, k, 1)
                copy = Windows(p.elem, p.elem, False, count, p.filters, points, p.y, columns)
                steps.append((copy, (y_at, other)))
                y_at, row, of_y = other, k, 128
                nbytes += other.nbytes
            filters = p.filters_of_group
            y = self._view(
                (p.groups, filters, k), (filters * row, row, y_step if y_step is not None else 1),
                of_y,
            )  # fmt: skip
            x = self._view(
                (p.groups, self.k, k),
                (self.k * column, column, place), of_x,
            )  # fmt: skip
            adds = zeroed or first > 0
            result = self._weights()
            steps.append(self._product(y, x, result, (y_at, x_at, w), "N", "T", adds=adds))
        return self._with_weights(steps, 2, w, nbytes, chunk)


def _points(n: int, step: int) -> SpaceAxis:
    """Return an axis whose windows are single elements."""
    return SpaceAxis(n, n, 1, 1, 1, 0, 1, 0, step, 0)


def variants(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
) -> Iterator[Variant]:
    """Yield the products of a convolution as a variant, if its arrays allow them."""
    made = products(problem, target, limit)
    if made is None:
        return
    texts: list[Specialization] = []
    seconds, launches, nbytes, known = 0.0, 0, 0, dict[_Key, tuple[float, int]]()
    for step in made.steps:
        key = step.problem if isinstance(step, ConvProduct) else step[0]
        if key not in known:
            if not isinstance(key, Windows):
                best = (
                    best_product(key, target, table)
                    if isinstance(key, GemmProblem)
                    else best_of(copied(key, target, table), target)
                )
                known[key] = best.estimate, best.launches
                texts += best.texts()
            else:
                known[key] = windows_seconds(key, target), 1
                texts.append(key.specialization(target))
        seconds += known[key][0]
        launches += known[key][1]
        nbytes += key.nbytes if isinstance(key, ElementwiseProblem) else key.bytes
    why = (
        f"products of matrices, with the windows of {made.chunk} image(s) in workspace"
        if made.workspace else "one product of matrices: filters of one tap"
    )  # fmt: skip
    yield Variant(
        path="im2col",
        name="im2col",
        kind="im2col",
        estimate=seconds,
        launches=launches,
        why=why,
        texts=lambda: list({spec.key: spec for spec in texts}.values()),
        bind=partial(_bind, problem=problem, limit=limit),
        details={
            "workspace": made.workspace, "moved": nbytes, "images at a time": made.chunk,
            "flop": problem.flop, "bytes": problem.bytes,
        },
    )  # fmt: skip


def _bind(engine: Engine, problem: ConvProblem, limit: int | None) -> Plan:
    made = products(problem, engine.target, limit, aligned=not engine.maps_host_memory)
    assert made is not None
    plan = made.plan(engine)
    plan.flop, plan.bytes = problem.flop, problem.bytes
    return plan
