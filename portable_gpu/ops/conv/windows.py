"""Copies of the windows of an image as a matrix, and sums of such windows as an image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from portable_gpu.codegen.parameters import Parameter, buffer, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element
from portable_gpu.ops.conv.axis_taps import SpaceAxis, axis_parameters
from portable_gpu.ops.conv.items import GROUP, bound_operands, index_type, launch_sizes
from portable_gpu.ops.conv.problem import ImageStrides
from portable_gpu.ops.gemm.packed.plan import Panels
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target

_MOST_SUMS = 256  # that a work-item of a CPU keeps near
_MOST_RUN = 64  # elements of a row of taps that are copied by a loop without remainder


@dataclass(frozen=True)
class ColumnStrides:
    """A matrix of windows: its strides along images, channels, taps and places."""

    batch: int
    channel: int
    tap: int
    place: int


@dataclass(frozen=True)
class Windows:
    """A copy of windows, or a sum of windows, for all channels.

    Attributes:
        elem: The element of the image.
        matrix: The element of the matrix.
        sums: Whether windows become an image; else an image becomes windows.
        batch, channels: Images, and channels of all groups.
        axes: Those of the convolution for copies, of the gradient of its input for sums.
        image: The image's strides.
        columns: The matrix of windows.
        bias: The stride of what is added to sums; ``None`` without it.
        panels: The layout of copies that products read packed, whose columns are places and whose
            steps are channels and taps; ``None`` for a matrix.
    """

    elem: Element
    matrix: Element
    sums: bool
    batch: int
    channels: int
    axes: tuple[SpaceAxis, ...]
    image: ImageStrides
    columns: ColumnStrides
    bias: int | None = None
    panels: Panels | None = None

    @property
    def places(self) -> int:
        """Places of a filter in an image."""
        return prod(axis.source if self.sums else axis.target for axis in self.axes)

    @property
    def elements(self) -> int:
        """Elements of the matrix."""
        return self.batch * self.channels * self.places * prod(axis.taps for axis in self.axes)

    @property
    def bytes(self) -> int:
        """The least traffic."""
        image = self.batch * self.channels * self.places * self.elem.itemsize
        return self.elements * self.matrix.itemsize + image

    @property
    def last(self) -> bool:
        """Whether the channels of a place are adjacent in the image and in the matrix."""
        return self.channels > 1 and self.image.channel == self.columns.channel == 1

    def zeros(self, rows: int, row: int, step: int, count: int) -> Windows | None:
        """A copy of windows outside of images, which sets a matrix to zero by the text of this one.

        Args:
            rows, row: The rows of the matrix, and their stride.
            step, count: The stride of the elements of a row, and their number.

        Returns:
            The copy on a CPU, which reads nothing; ``None`` if it would have another text.
        """
        near = self.near
        if step != 1 and (self.last or near):
            return None
        outside = SpaceAxis(
            target=1, source=0, taps=1, step=1, tap_step=1, shift=0, divisor=1, t=0, s=1, f=0
        )
        channels, places, place, tap = 1, count, step, 0
        if self.run:
            channels, tap, place = self.channels, self.channels, self.run
            places, rest = divmod(count, self.run)
            if rest:
                return None
        elif self.last:
            if count == 1:
                return None
            channels, places = count, 1
        along = replace(outside, target=places, step=near or 1, t=step, s=1 if near else 2)
        if self.run:
            along = replace(along, taps=self.axes[2].taps, s=channels)
        image = replace(self.image, outer=0, channel=int(self.last))
        columns = ColumnStrides(row, int(self.last), tap, place)
        return replace(
            self, batch=rows, channels=channels, axes=(outside, outside, along), image=image,
            columns=columns,
        )  # fmt: skip

    @property
    def near(self) -> int:
        """The step of places, 1 or 2 (1 of sums), in a row whose elements are adjacent; else 0."""
        axis, most = self.axes[2], 1 if self.sums else 2
        step, s = (axis.divisor, 1) if self.sums else (axis.step, axis.s)
        return step if not self.last and step <= most and s == self.columns.place == 1 else 0

    @property
    def run(self) -> int:
        """The elements of a row of taps, if those of all channels are adjacent and few; else 0."""
        axis = self.axes[2]
        adjacent = self.last and axis.tap_step == 1 and axis.s == self.columns.tap == self.channels
        run = axis.taps * self.channels
        return run if adjacent and axis.taps > 1 and run <= _MOST_RUN and not self.sums else 0

    def _index(self, target: Target) -> str:
        spans = self.batch * abs(self.image.outer) + self.channels * abs(self.image.channel)
        spans += sum(max(a.target, a.source) * max(abs(a.s), abs(a.t)) for a in self.axes)
        return index_type(max(spans, self.elements), target)

    def specialization(self, target: Target) -> Specialization:
        """The text and options of the kernel."""
        names = {
            "n": "batch", "channel": "channels", "at0": "t0_size", "at1": "t1_size",
            "block": "blocks",
        }  # fmt: skip
        order: tuple[str, ...] = ("n", "channel", "at0", "at1", "block")
        name, index = "image" if self.sums else "columns", self._index(target)
        if target.is_cpu:
            if self.last:
                order = ("n", "at0", "at1", "block")
            return specialize(
                f"conv/cpu_{name}", target, {name: self._parameters("long", True)}, elem=self.elem,
                matrix=self.matrix, items_each=self._items_of_one(), last=self.last,
                most=_MOST_SUMS, step=self.near, run=self.run,
                width=self.panels.width if self.panels else 0,
                order=[(name, names[name]) for name in order],
            )  # fmt: skip
        if self.channels > 1 and abs(self.image.channel) == 1:
            order = ("n", "at0", "at1", "block", "channel")
        return specialize(
            f"conv/{name}", target, {name: self._parameters(index)}, elem=self.elem,
            matrix=self.matrix, I=index,
            order=[(name, names[name]) for name in order],
        )  # fmt: skip

    def _parameters(self, index: str, restrict: bool = False) -> list[Parameter]:
        """The kernel's parameters: image or matrix first, then what it becomes."""
        image, matrix = f"{self.elem.name}_t", f"{self.matrix.name}_t"
        shared = ("batch", "channels", "columns", "blocks")
        if self.sums:
            return [
                buffer(matrix, "c", restrict=restrict), buffer(image, "bias", restrict=restrict),
                buffer(image, "t", writes=True, restrict=restrict), *scalars(index, "items"),
                *scalars("long", "c_offset", "bias_offset", "t_offset"),
                *scalars(index, "adds_bias", "bias_step", *shared, "t_batch", "t_channel"),
                *scalars(index, "c_batch", "c_channel", "c_tap"), *axis_parameters(index),
            ]  # fmt: skip
        return [
            buffer(image, "s", restrict=restrict),
            buffer(image, "c", writes=True, restrict=restrict),
            *scalars(index, "items"), *scalars("long", "s_offset", "c_offset"),
            *scalars(index, *shared, "s_batch", "s_channel"),
            *scalars(index, "c_batch", "c_channel", "c_tap", "c_place"),
            *(scalars(index, "share_steps", "share_size") if self.panels else ()),
            *axis_parameters(index),
        ]  # fmt: skip

    def _items_of_one(self) -> int:
        """Items of a work-item of a CPU: rows of one channel are short."""
        return 1 if self.last else GROUP

    def partition(self, target: Target) -> tuple[int, int, int]:
        """The columns and blocks of an item, and the number of items."""
        row = self.axes[2].target
        channels = self.channels
        columns, length = 1, row
        if target.is_cpu:
            columns = max(1, row)
            if self.last:
                length, channels = (channels if self.sums else row), 1
            if self.sums:
                columns = _MOST_SUMS if self.last else min(_MOST_SUMS, columns)
        blocks = -(-length // columns)
        return columns, blocks, (
            self.batch * channels * self.axes[0].target * self.axes[1].target * blocks
        )  # fmt: skip

    def groups(self, count: int, target: Target) -> tuple[tuple[int], tuple[int]]:
        """The work-items of a launch over ``count`` items, and those of a group."""
        return launch_sizes(count, self._items_of_one(), target)


def windows_plan(engine: Engine, windows: Windows) -> OneLaunch:
    """Return the plan of a launch over windows.

    Operands: the image and the matrix; or the matrix, the bias if there is one, the image.
    """
    w = windows
    axes, c = w.axes, w.columns
    if w.sums:  # the places of windows are those of the source
        step = c.place
        inner: list[SpaceAxis] = []
        for axis in reversed(axes):
            inner.insert(0, replace(axis, s=step))
            step *= axis.source
        axes = tuple(inner)
    columns, blocks, count = w.partition(engine.target)
    constants: dict[str, int | None] = {
        "items": count, "batch": w.batch, "channels": w.channels, "columns": columns,
        "blocks": blocks, "c_batch": c.batch, "c_channel": c.channel, "c_tap": c.tap,
    }  # fmt: skip
    for number, axis in enumerate(axes):
        constants |= axis.constants(number)
    if w.sums:
        operands, unbiased = bound_operands(("c", "bias", "t"), w.bias is not None)
        constants |= unbiased | {
            "t_batch": w.image.outer, "t_channel": w.image.channel,
            "bias_step": w.bias or 0, "adds_bias": int(w.bias is not None),
        }  # fmt: skip
    else:
        operands = ["s", "c"]
        constants |= {
            "s_batch": w.image.outer, "s_channel": w.image.channel, "c_place": c.place,
        }  # fmt: skip
    if w.panels:
        share_steps, width = w.panels.share_steps, w.panels.width
        share_size = -(-w.places // width) * share_steps * width
        constants |= {"share_steps": share_steps, "share_size": share_size}
    return OneLaunch(
        engine, w.specialization(engine.target), "image" if w.sums else "columns", constants,
        operands, *w.groups(count, engine.target), nbytes=w.bytes,
    )  # fmt: skip
