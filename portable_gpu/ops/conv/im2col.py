"""Convolutions as products of matrices; windows are copied to workspace if necessary.

::

    forward   columns(x) ─► y = w columns + bias
    input     columns = w^T dy ─► dx = sums of windows + bias
    weight    columns(x), and dy by channels ─► dw = dy columns^T

Filters of one tap, with stride 1 and no padding, read x and y where they are stored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import prod

from portable_gpu.codegen.epilogue import Stage
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import Element, dtype_of
from portable_gpu.ops.conv.axis_taps import SpaceAxis, axes_of
from portable_gpu.ops.conv.bands import Band, bands, least_rows, rows_axis, whole_image
from portable_gpu.ops.conv.chunks import chunks, workspace_limit
from portable_gpu.ops.conv.copies import computed, moved
from portable_gpu.ops.conv.estimates import (
    best_product,
    form_of,
    packing_seconds,
    windows_seconds,
)
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides
from portable_gpu.ops.conv.windows import ColumnStrides, Windows, windows_plan
from portable_gpu.ops.elementwise.problem import ElementwiseProblem
from portable_gpu.ops.elementwise.variants import variants as copied
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.packed.forms import PackedForm
from portable_gpu.ops.gemm.packed.plan import OperandPacking, PackedPlan, prepacked_panels
from portable_gpu.ops.gemm.problem import GemmProblem
from portable_gpu.ops.gemm.variants import make_plan as make_product
from portable_gpu.ops.variant import Variant, best_of, bind_best
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Part, Plan, Step, Steps, Temporary
from portable_gpu.runtime.views import Shape, View, contiguous_strides
from portable_gpu.targets import Target
from portable_gpu.tuning.table import TuningTable

#: Bytes of copies at a time: a CPU's, which its caches keep in part, and a GPU's.
_COPY_BYTES = {True: 1 << 22, False: 1 << 30}
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
    """A product within a convolution.

    Attributes:
        problem: The product.
        operands: The places of its operands.
        adds: Whether it is added to the result.
        form: Its form, if some operands are packed before.
        prepacked: These operands, ``"a"``, ``"b"`` or ``"ab"``.
    """

    problem: GemmProblem
    operands: tuple[Location, ...]
    adds: bool
    form: PackedForm | None = None
    prepacked: str = ""

    def plan(self, engine: Engine) -> Plan:
        """Build the plan."""
        if self.form is None:
            return make_product(engine, self.problem)
        return PackedPlan(engine, self.problem, self.form, self.prepacked)


@dataclass(frozen=True)
class PackedWeights:
    """The weights of several products, packed once."""

    problem: GemmProblem
    form: PackedForm

    @property
    def nbytes(self) -> int:
        """The bytes of the weights."""
        return self.problem.a.nbytes(self.problem.m * self.problem.k)


_Key = Windows | GemmProblem | ElementwiseProblem | PackedWeights
_Step = ConvProduct | tuple[Windows | ElementwiseProblem | PackedWeights, tuple[Location, ...]]


@dataclass(frozen=True)
class ConvProducts:
    """The steps of a convolution: copies of windows, products and sums of windows.

    Attributes:
        steps: The steps in their order, each with the places of its operands.
        workspace: The bytes of the windows.
        chunk: The number of images that are computed at a time.
        bands: The number of bands of rows into which an image is cut.
    """

    steps: tuple[_Step, ...]
    workspace: int
    chunk: int
    bands: int = 1

    def plan(self, engine: Engine) -> Plan:
        """Build the plan of all steps; equal steps share a plan."""
        made: dict[_Key, Plan] = {}
        result = []
        for step in self.steps:
            if isinstance(step, ConvProduct):
                key: _Key = step.problem
                if key not in made:
                    made[key] = step.plan(engine)
                scalars = (1.0, 1.0 if step.adds else 0.0)
                result.append(Step(made[key], step.operands, scalars=scalars))
            else:
                key, operands = step
                if key not in made:
                    made[key] = _plan_of(key, engine)
                result.append(Step(made[key], operands))
        return Steps(result)


def _plan_of(key: Windows | ElementwiseProblem | PackedWeights, engine: Engine) -> Plan:
    """Build the plan of a step that is not a product."""
    if isinstance(key, Windows):
        return windows_plan(engine, key)
    if isinstance(key, PackedWeights):
        return OperandPacking(engine, key.problem, key.form, "a")
    return bind_best(engine, copied(key, engine.target, engine.table))


def products(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None,
    aligned: bool = True,
) -> ConvProducts | None:  # fmt: skip
    """Return the products of a convolution, or ``None`` if its arrays do not allow them.

    A chunk has at least one image; one whose windows are larger than the limit is cut into bands of
    rows.  Of a problem with an epilogue, the products apply it.

    Args:
        problem: The convolution, or one of its gradients.
        target, table: The device, and measured policies.
        limit: The most bytes of workspace; see ``workspace_limit`` of the public functions.
        aligned: See :class:`~portable_gpu.ops.gemm.problem.GemmProblem`.
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
    of_windows = p.channels * places * taps * itemsize  # bytes of the windows of an image
    if p.direction == "input" and itemsize == 2:
        of_windows *= 2  # this gradient has its windows in float32
    channels_last = target.is_cpu and p.groups == 1 and p.channels > 1 and p.x.channel == 1
    build = _StepsBuilder(p, target, table, channels_last, aligned)
    max_bytes = workspace_limit(limit, target) - build.weight_bytes
    if p.direction != "weight":
        if y_step is None or not build.has_common_steps:
            return None
        if x_step is not None:
            return build.at_points(x_step, y_step)
        if p.epilogue and p.direction == "input":  # the last kernel sums windows
            return None
        chunk = _images(p, of_windows, max_bytes, target)
        return build.by_windows(y_step, chunk, _bands(p, of_windows, max_bytes, target), max_bytes)
    steps = x_step, y_step
    joined = [
        step is not None and (p.batch == 1 or operand.outer == places * step)
        for step, operand in zip(steps, (p.x, p.y), strict=True)
    ]
    of_copies = of_windows, p.filters * places * itemsize
    of_image = sum(n for n, is_joined in zip(of_copies, joined, strict=True) if not is_joined)
    chunk = p.batch
    if itemsize == 2 and of_image * p.batch > max_bytes:
        build = _StepsBuilder(p, target, table, channels_last, aligned, apart=True)
        max_bytes = workspace_limit(limit, target) - build.weight_bytes
    if of_image and (itemsize > 2 or build.apart):
        chunk = _images(p, of_image, max_bytes, target)
        # With one image at a time, arrays with a common stride of places need no copy.
        in_place = [
            step is not None and not is_joined
            for step, is_joined in zip(steps, joined, strict=True)
        ]
        copied_elements = (p.channels * in_place[0] + p.filters * in_place[1]) * places
        on_cpu = target.is_cpu and (chunk == 1 or p.w_elements < copied_elements)
        if on_cpu or of_image > max_bytes:
            of_image = sum(n for n, step in zip(of_copies, steps, strict=True) if step is None)
            return build.weights(*steps, 1, _bands(p, of_image, max_bytes, target))
    x_step, y_step = (
        step if is_joined else None for step, is_joined in zip(steps, joined, strict=True)
    )
    return build.weights(x_step, y_step, chunk, [whole_image(p)])


def _images(p: ConvProblem, of_image: int, max_bytes: int, target: Target) -> int:
    """Return the number of images whose copies fit the limit and `_COPY_BYTES`; at least 1."""
    at_a_time = min(max_bytes, _COPY_BYTES[target.is_cpu])
    return max(1, min(p.batch, at_a_time // max(1, of_image)))


def _bands(p: ConvProblem, of_image: int, max_bytes: int, target: Target) -> list[Band]:
    """Return bands of an image whose copies are within the limit, if any are.

    Bands that a cache keeps are larger if too many of their rows would be computed twice.
    """
    rows, cached = p.y_size[rows_axis(p)], _COPY_BYTES[target.is_cpu]
    near = max(cached * rows // max(1, of_image), least_rows(p))
    allowed = max_bytes * rows // max(1, of_image)
    return bands(p, max(1, min(near, allowed)))


class _StepsBuilder:
    """The steps of one problem.

    The operands of the plan are numbered: 0 and 1 are x and the weights, the gradient of y and the
    weights, or x and the gradient of y.  Then follow bias, arrays of the epilogue, and the result.

    Args:
        problem, aligned: See :func:`products`.
        target, table: See :func:`products`.
        channels_last: Whether the window of a place is contiguous, with the channels of each tap.
        apart: Whether the gradient of 16-bit weights is first added up in float32.
    """

    def __init__(
        self, problem: ConvProblem, target: Target, table: TuningTable, channels_last: bool,
        aligned: bool, apart: bool = False,
    ) -> None:  # fmt: skip
        self.p, self.target, self.table, self.apart = problem, target, table, apart
        self.channels_last = channels_last
        self.places = prod(problem.y_size)
        self.dtype = dtype_of(problem.elem.name)
        self.aligned = aligned
        p = problem
        self.k = p.channels_of_group * p.taps
        extents = (p.channels_of_group, *p.w_size), (p.w.channel, *p.w.space)
        order = (1, 2, 3, 0) if channels_last else (0, 1, 2, 3)
        self._w_extents, self._w_strides = (tuple(item[i] for i in order) for item in extents)
        #: The stride of a filter's weights in the order of the windows; ``None`` if there is none,
        #: and the weights are copied first.  The gradient of 16-bit weights as the sum of several
        #: products is summed ``apart``, in float32.
        self.w_step = None if apart else merged(self._w_extents, self._w_strides)
        self._w_elem = computed(problem.elem) if apart else problem.elem
        self._forms: dict[GemmProblem, PackedForm | None] = {}

    def _of_band(self, band: Band) -> _StepsBuilder:
        """Return what makes the steps of a band of an image."""
        of = _StepsBuilder(band.problem, self.target, self.table, self.channels_last, self.aligned)
        of._forms = self._forms
        return of

    def _form_of(self, problem: GemmProblem) -> PackedForm | None:
        """See :func:`form_of`; bands and chunks of images have products in common."""
        if problem not in self._forms:
            self._forms[problem] = form_of(problem, self.target, self.table)
        return self._forms[problem]

    @property
    def weight_bytes(self) -> int:
        """The bytes of the weights in the order of the windows; 0 where they are so in memory."""
        return 0 if self.w_step is not None else self.p.w_elements * self._w_elem.itemsize

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
            view = self._view(shape, (filters * self.k, self.k, 1))
            return replace(view, dtype=dtype_of(self._w_elem.name))
        return self._view(shape, (filters * p.w.outer, p.w.outer, self.w_step), p.w.aligned)

    def _with_weights(
        self, steps: Sequence[_Step], operand: int, at: Location, nbytes: int, chunk: int,
        bands: int = 1,
    ) -> ConvProducts:  # fmt: skip
        """Return the steps, with a copy of the weights in the order of the windows if necessary.

        Args:
            steps: The steps; they read or write the weights at ``at``.
            operand: The number of the operand that has the weights.
            at: The result of :meth:`_weights_at`.
            nbytes, chunk, bands: See :class:`ConvProducts`.
        """
        if not isinstance(at, Temporary):
            return ConvProducts(tuple(steps), nbytes, chunk, bands)
        p, extents = self.p, (self.p.filters, *self._w_extents)
        ours, theirs = (self.p.w.outer, *self._w_strides), contiguous_strides(extents)
        if p.direction == "weight":
            copy = moved(p.elem, extents, theirs, ours, read=self._w_elem)
            steps = [*steps, (copy, (at, operand))]
        else:
            steps = [(moved(p.elem, extents, ours, theirs), (operand, at)), *steps]
        return ConvProducts(tuple(steps), nbytes + at.nbytes, chunk, bands)

    def _weights_at(self, operand: int) -> Location:
        """Return the place where products read the weights, or write their gradient."""
        if self.w_step is not None:
            return operand
        return Temporary("weights", self.weight_bytes, self._w_elem.itemsize)

    def _columns(self, batch: int, tap: int, place: int) -> ColumnStrides:
        """Return the strides of the windows: those of a channel, or of a place, are contiguous."""
        if not self.channels_last:
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

    def _extra_places(self, first: int, band: Band) -> list[Location]:
        """Return the operands of :meth:`_extras`, of a band of the images from ``first`` on."""
        p = self.p
        bias: list[Location] = [2] if p.bias is not None else []
        arrays = zip(p.following[len(bias) :], p.extras, strict=True)
        return [*bias, *(Part(at, band.y_start(extra.strides, first)) for at, extra in arrays)]

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
        operands = (w, 0, *self._extra_places(0, whole_image(p)), p.last)
        extras = self._extras(p.batch, joined)
        product = self._product(
            self._weights(), source, result, operands, "T" if backward else "N", extras=extras
        )
        return self._with_weights([product], 1, w, 0, p.batch)

    def _are_joined(self, operand: ImageStrides, step: int) -> bool:
        """Whether the places of all images have a common stride."""
        is_line = self.p.batch > 1 and operand.outer == self.places * step
        return is_line and self.target.is_cpu

    def by_windows(
        self, y_step: int, chunk: int, bands: list[Band], max_bytes: int
    ) -> ConvProducts:
        """Return copies of windows and products; backward, products and sums of windows.

        Args:
            y_step: The common stride of the places of y.
            chunk: The number of images that are computed at a time.
            bands: The bands of an image, which are computed one after the other.
            max_bytes: The limit of the windows.
        """
        p, backward = self.p, self.p.direction == "input"
        is_cut = bands != [whole_image(p)]
        joined = self.channels_last and self._are_joined(p.y, y_step) and not is_cut
        w = self._weights_at(1)
        # Sums of 16-bit floats are rounded once, when all windows of an element have been added.
        stored = computed(p.elem) if backward else p.elem
        max_places = max(prod(band.problem.y_size) for band in bands)
        nbytes = chunk * p.channels * p.taps * max_places * stored.itemsize
        space = Temporary("windows", nbytes, stored.itemsize)
        whole = chunk >= p.batch and not is_cut
        steps: list[_Step] = []
        for first, count in chunks(p.batch, chunk):
            for band in bands:
                of = self._of_band(band)
                x_at = Part(p.last if backward else 0, band.x_start(p.x, first))
                y_at = Part(0 if backward else p.last, band.y_start(p.y, first))
                windows, matrix = of._windows(count, stored, joined)
                alignment = p.y.aligned if whole else p.elem.itemsize
                y = of._image(p.y, count, p.filters, y_step, alignment, joined)
                if backward:
                    product = of._product(of._weights(), y, matrix, (w, y_at, space), "T")
                    operands: tuple[Location, ...] = (space, *p.following, x_at)
                    steps += [product, (windows, operands)]
                else:
                    operands = (w, space, *self._extra_places(first, band), y_at)
                    extras = of._extras(count, joined)
                    product = of._product(of._weights(), matrix, y, operands, extras=extras)
                    at = space
                    if not is_cut:
                        windows, product, at = self._in_panels(windows, product, at, max_bytes)
                    nbytes = max(nbytes, at.nbytes)
                    steps += [(windows, (x_at, at)), product]
        if self.target.is_cpu:
            steps = self._packed_once(steps)
        return self._with_weights(steps, 1, w, nbytes, chunk, len(bands))

    def _in_panels(
        self, windows: Windows, product: ConvProduct, space: Temporary, max_bytes: int
    ) -> tuple[Windows, ConvProduct, Temporary]:
        """Return a copy of windows as the product packs them, that product, and their place.

        Where this is not possible, the arguments are returned.

        Args:
            windows, product: The copy, and the product that reads it.
            space: The place of the copy.
            max_bytes: The limit of its size.
        """
        p, problem = self.p, product.problem
        is_plain = problem.compute == windows.matrix and p.groups == 1 and not windows.last
        if not (self.target.is_cpu and is_plain):
            return windows, product, space
        form = self._form_of(problem)
        if form is None or form.transposed:
            return windows, product, space
        panels = prepacked_panels(problem, form, self.target, "b")
        if panels is None or panels.nbytes > max_bytes:
            return windows, product, space
        of_image = panels.nbytes // windows.batch // windows.matrix.itemsize
        columns = ColumnStrides(of_image, 0, 0, 1)
        space = replace(space, nbytes=panels.nbytes)
        weights, _, *others = product.operands
        return (
            replace(windows, columns=columns, panels=panels),
            replace(product, operands=(weights, space, *others), form=form, prepacked="b"),
            space,
        )

    def _packed_once(self, steps: list[_Step]) -> list[_Step]:
        """Return the steps, in which the weights of equal products are packed once for all."""
        counts = Counter(step.problem for step in steps if isinstance(step, ConvProduct))
        packed: list[_Step] = []
        shared: dict[GemmProblem, tuple[PackedForm, Temporary]] = {}
        for step in steps:
            if not isinstance(step, ConvProduct) or counts[step.problem] < 2:
                continue
            problem = step.problem
            if problem in shared:
                continue
            form = self._form_of(problem)
            panels = prepacked_panels(problem, form, self.target, "a") if form else None
            if form and panels:
                itemsize = problem.compute.itemsize
                space = Temporary(f"packed weights {len(shared)}", panels.nbytes, itemsize)
                shared[problem] = form, space
                packed.append((PackedWeights(problem, form), (step.operands[0], space)))
        for number, step in enumerate(steps):
            if isinstance(step, ConvProduct) and step.problem in shared:
                form, space = shared[step.problem]
                operands = space, *step.operands[1:]
                prepacked = "a" + step.prepacked
                steps[number] = replace(step, operands=operands, form=form, prepacked=prepacked)
        return [*packed, *steps]

    def _windows(self, count: int, stored: Element, joined: bool) -> tuple[Windows, View]:
        """Return the windows of ``count`` images, and the view of their matrix for a product.

        Args:
            count: The number of images.
            stored: The element of the matrix.
            joined: See :meth:`_image`.
        """
        p, backward = self.p, self.p.direction == "input"
        of_image = p.channels * p.taps * self.places
        windows = Windows(
            elem=p.elem, matrix=stored, sums=backward, batch=count, channels=p.channels,
            axes=tuple(axes_of(p, backward)), image=p.x,
            columns=self._columns(of_image, self.places, 1), bias=p.bias if backward else None,
        )  # fmt: skip
        shape = count, p.groups, self.k, self.places
        strides = of_image, self.k * self.places, self.places, 1
        if self.channels_last:
            strides = of_image, 0, 1, self.k
        if joined:
            shape = 1, p.groups, self.k, count * self.places
        return windows, replace(self._view(shape, strides), dtype=dtype_of(stored.name))

    def weights(
        self, x_step: int | None, y_step: int | None, chunk: int, bands: Sequence[Band]
    ) -> ConvProducts:
        """Return products over all places of a chunk of images: the gradient of the weights.

        Args:
            x_step, y_step: The common stride of all images and places; ``None`` if there is none.
            chunk: The number of images that are computed at a time.
            bands: The bands of an image, which are computed one after the other.
        """
        p = self.p
        steps: list[_Step] = []
        w = self._weights_at(2)
        itemsize, adds = p.elem.itemsize, False
        max_places = chunk * max(prod(band.problem.y_size) for band in bands)
        space = Temporary("windows", p.channels * p.taps * max_places * itemsize, itemsize)
        other = Temporary("gradient", p.filters * max_places * itemsize, itemsize)
        nbytes = (space.nbytes if x_step is None else 0) + (other.nbytes if y_step is None else 0)
        whole = chunk >= p.batch and len(bands) == 1
        for first, count in chunks(p.batch, chunk):
            for band in bands:
                q, of = band.problem, self._of_band(band)
                k = count * of.places
                # Without windows, the places of x are those of y.
                start = band.x_start if x_step is None else band.y_start
                x_at: Location = Part(0, start(p.x, first))
                y_at: Location = Part(1, band.y_start(p.y, first))
                of_x, of_y = (p.x.aligned, p.y.aligned) if whole else (itemsize, itemsize)
                column, row = p.x.channel, p.y.channel
                place = x_step if x_step is not None else 1
                if x_step is None:
                    axes = _merged_points(axes_of(q, backward=False))
                    columns = of._columns(of.places, k, 1)
                    copy = Windows(
                        elem=p.elem, matrix=p.elem, sums=False, batch=count, channels=p.channels,
                        axes=axes, image=p.x, columns=columns,
                    )  # fmt: skip
                    # If a kernel writes zeros first, all products add, and one program serves.
                    if self.target.is_cpu and not (adds or whole or self.apart):
                        zeros = copy.zeros(p.filters, *self._w_steps, self.k)
                        if zeros is not None:
                            steps.append((zeros, (x_at, w)))
                            adds = True
                    steps.append((copy, (x_at, space)))
                    x_at, of_x = space, 128
                    column, place = (1, self.k) if self.channels_last else (k, 1)
                if y_step is None:
                    axes = _merged_points(list(map(_points, q.y_size, p.y.space)))
                    columns = ColumnStrides(of.places, k, k, 1)
                    copy = Windows(
                        elem=p.elem, matrix=p.elem, sums=False, batch=count, channels=p.filters,
                        axes=axes, image=p.y, columns=columns,
                    )  # fmt: skip
                    steps.append((copy, (y_at, other)))
                    y_at, row, of_y = other, k, 128
                filters = p.filters_of_group
                y = self._view(
                    (p.groups, filters, k),
                    (filters * row, row, y_step if y_step is not None else 1), of_y,
                )  # fmt: skip
                x = self._view((p.groups, self.k, k), (self.k * column, column, place), of_x)
                result = self._weights()
                steps.append(self._product(y, x, result, (y_at, x_at, w), "N", "T", adds=adds))
                adds = True
        return self._with_weights(steps, 2, w, nbytes, chunk, len(bands))


def _points(n: int, step: int) -> SpaceAxis:
    """Return an axis whose windows are single elements."""
    return SpaceAxis(
        target=n, source=n, taps=1, step=1, tap_step=1, shift=0, divisor=1, t=0, s=step, f=0,
    )  # fmt: skip


def _merged_points(axes: Sequence[SpaceAxis]) -> tuple[SpaceAxis, ...]:
    """Return axes of which places with a common stride that are each read once are a single row."""
    sizes = tuple(axis.target for axis in axes)
    step = merged(sizes, tuple(axis.s for axis in axes))
    reads_each_once = all(
        (axis.source, axis.taps, axis.shift) == (axis.target, 1, 0)
        and (axis.step == 1 or axis.target == 1)
        for axis in axes
    )
    if step is None or not reads_each_once:
        return tuple(axes)
    return _points(1, 0), _points(1, 0), _points(prod(sizes), step)


def variants(
    problem: ConvProblem, target: Target, table: TuningTable, limit: int | None
) -> Iterator[Variant]:
    """Yield the products of a convolution as a variant, if its arrays allow them."""
    made = products(problem, target, table, limit)
    if made is None:
        return
    texts: list[Callable[[], Sequence[Specialization]]] = []
    seconds, launches, nbytes, known = 0.0, 0, 0, dict[_Key, tuple[float, int]]()
    for step in made.steps:
        key, prepacked = (
            (step.problem, step.prepacked) if isinstance(step, ConvProduct) else (step[0], "")
        )
        if key not in known:
            if isinstance(key, Windows):
                known[key] = windows_seconds(key, target), 1
                texts.append(partial(_text_of, key, target))
            elif isinstance(key, PackedWeights):
                known[key] = packing_seconds(key.problem, key.form, target), 1
            else:
                best = (
                    best_of(copied(key, target, table), target)
                    if isinstance(key, ElementwiseProblem)
                    else best_product(key, target, table, prepacked)
                )
                known[key] = best.estimate, best.launches
                texts.append(best.texts)
        seconds += known[key][0]
        launches += known[key][1]
        nbytes += key.bytes if isinstance(key, Windows | GemmProblem) else key.nbytes
    of = f"{made.chunk} image(s)" if made.bands == 1 else f"one of {made.bands} bands of an image"
    why = (
        f"products of matrices, with the windows of {of} in workspace"
        if made.workspace else "one product of matrices: filters of one tap"
    )  # fmt: skip
    yield Variant(
        name="im2col",
        estimate=seconds,
        launches=launches,
        why=why,
        texts=lambda: list({spec.key: spec for made in texts for spec in made()}.values()),
        bind=partial(_bind, problem=problem, limit=limit),
        details={
            "workspace": made.workspace, "moved": nbytes, "images at a time": made.chunk,
            "flop": problem.flop, "bytes": problem.bytes,
        },
    )  # fmt: skip


def _text_of(windows: Windows, target: Target) -> list[Specialization]:
    return [windows.specialization(target)]


def _bind(engine: Engine, problem: ConvProblem, limit: int | None) -> Plan:
    made = products(
        problem, engine.target, engine.table, limit, aligned=not engine.maps_host_memory
    )
    assert made is not None
    plan = made.plan(engine)
    plan.flop, plan.bytes = problem.flop, problem.bytes
    return plan
