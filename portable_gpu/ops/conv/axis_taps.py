"""Axes of a convolution, and the taps along an axis that read for several adjacent results.

Along each axis the result at ``q`` reads, for tap ``r``, the element at
``(q * step + r * tap_step + shift) / divisor`` of the source if that is a whole number.  A
convolution has the divisor 1, the gradient of its input the step 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import TypeVar

from portable_gpu.codegen.parameters import Parameter, scalars
from portable_gpu.ops.conv.problem import ConvProblem, ImageStrides, Triple
from portable_gpu.powers_of_two import floor_power_of_two

T = TypeVar("T")
#: A row of more taps, or whose results need more elements, is a loop: it would take the registers.
_MOST_TAPS, _MOST_LOADS = 11, 48


@dataclass(frozen=True)
class SpaceAxis:
    """One axis of space.

    Attributes:
        target, source, taps: Extents of the result, of the source and of the filter.
        step, tap_step, shift, divisor: See the module.
        t, s, f: Strides of the result, the source and the filter.
    """

    target: int
    source: int
    taps: int
    step: int
    tap_step: int
    shift: int
    divisor: int
    t: int
    s: int
    f: int

    def constants(self, c: int) -> dict[str, int]:
        """The arguments of a kernel's axis ``c``."""
        return dict(zip(_names(c), astuple(self), strict=True))


def _names(c: int) -> tuple[str, ...]:
    """The parameters of axis ``c``, in the order of the fields of :class:`SpaceAxis`."""
    return (
        f"t{c}_size", f"s{c}_size", f"taps{c}", f"step{c}", f"tap_step{c}", f"shift{c}",
        f"divisor{c}", f"t_axis{c}", f"s_axis{c}", f"f_axis{c}",
    )  # fmt: skip


def axis_parameters(ctype: str) -> list[Parameter]:
    """Declare the integers of the three axes."""
    return scalars(ctype, *(name for c in range(3) for name in _names(c)))


@dataclass(frozen=True)
class AxisTaps:
    """The taps along an axis, and the elements that they read for V adjacent results.

    Attributes:
        taps: The number of taps.
        step, divisor, shift: The results from q on, a multiple of V, read elements of the source
            from ``q * step / divisor + shift`` on.
        reads: For each tap and result the number of the element that is read, or ``None``.
        loads: The numbers of all elements that are read, sorted; the first is 0.
    """

    taps: int
    step: int
    divisor: int
    shift: int
    reads: tuple[tuple[int | None, ...], ...]
    loads: tuple[int, ...]


def axes_of(problem: ConvProblem, backward: bool) -> list[SpaceAxis]:
    """Return the axes of a convolution, or those of the gradient of its input (``backward``)."""
    p = problem
    x: tuple[ImageStrides, Triple] = p.x, p.x_size
    y: tuple[ImageStrides, Triple] = p.y, p.y_size
    (target, t_size), (source, s_size) = (x, y) if backward else (y, x)
    return [
        SpaceAxis(
            target=t_size[c],
            source=s_size[c],
            taps=p.w_size[c],
            step=1 if backward else p.stride[c],
            tap_step=-p.dilation[c] if backward else p.dilation[c],
            shift=p.before[c] if backward else -p.before[c],
            divisor=p.stride[c] if backward else 1,
            t=target.space[c],
            s=source.space[c],
            f=p.w.space[c],
        )
        for c in range(3)
    ]


def axis_taps_of(axis: SpaceAxis, V: int) -> AxisTaps | None:
    """Return the taps along an axis for V results; ``None`` where a loop is better."""
    if axis.taps > _MOST_TAPS or V % axis.divisor or not axis.taps:
        return None
    whole, rest = divmod(axis.shift, axis.divisor)
    places = []  # for each tap, the element that each result reads
    for tap in range(axis.taps):
        dividends = [v * axis.step + tap * axis.tap_step + rest for v in range(V)]
        places.append([None if n % axis.divisor else n // axis.divisor for n in dividends])
    read = sorted({place for row in places for place in row if place is not None})
    if len(read) > _MOST_LOADS or not read:
        return None
    first = read[0]
    return AxisTaps(
        taps=axis.taps,
        step=axis.step,
        divisor=axis.divisor,
        shift=whole + first,
        reads=tuple(
            tuple(None if place is None else place - first for place in row) for row in places
        ),
        loads=tuple(place - first for place in read),
    )


@dataclass(frozen=True)
class RowReads:
    """How a CPU reads adjacent elements of a row for V results and a tap.

    Attributes:
        step: Each result takes every element (1), or every second one (2).
        count: The elements that are read.
    """

    step: int
    count: int


def row_reads(row_taps: AxisTaps | None, V: int, axis: SpaceAxis, most: int) -> RowReads | None:
    """Return how V results of a row read adjacent elements; ``None`` where they do not.

    Args:
        row_taps: The taps along the axis.
        V: Results at a time.
        axis: The axis along which they are neighbours.
        most: The most elements of a vector.
    """
    if row_taps is None or V == 1 or axis.s != 1:
        return None
    if axis.divisor == 1 and axis.step * V <= most and axis.step <= 2:
        return RowReads(axis.step, axis.step * V)
    return RowReads(1, V // 2) if axis.divisor == 2 and axis.step == 1 and V >= 4 else None


def neighbours(axis: SpaceAxis, most: int) -> int:
    """Return the results of a row that a CPU computes at a time."""
    most //= axis.step if axis.step == 2 else 1
    return max(1, min(most, floor_power_of_two(max(1, axis.target))))


def last_axis(axes: Sequence[T], last: int) -> list[T]:
    """Return the axes with one of them at the end."""
    return [axis for c, axis in enumerate(axes) if c != last] + [axes[last]]


def nearest_results(axes: Sequence[SpaceAxis]) -> tuple[int, int]:
    """Return the axis along which results are nearest to each other in memory, and their step."""
    steps = [abs(axis.t) if axis.target > 1 else 1 << 62 for axis in axes]
    along = min(range(3), key=lambda c: (steps[c], -c))
    return along, steps[along]
