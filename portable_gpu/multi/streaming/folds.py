r"""Reductions of arrays that are larger than the memory of the device.

Each tile is folded to a partial result by a call of the library.  Partial results that fold to the
same elements are combined in float64 on the host, in pairs, by a tree of fixed shape::

    tiles     0   1   2   3   4
               \_/     \_/   |
                 \_____/      |
                        \____/
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.operators import BinaryOp
from portable_gpu.dtypes import is_float16_like
from portable_gpu.errors import DTypeError
from portable_gpu.multi.streaming.pipeline import extents_of
from portable_gpu.multi.streaming.storage import Bounds, Index, TiledOperand, Values, bounds_of
from portable_gpu.ops import reduce as library
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray

Partial = tuple[Values, ...]


class Fold:
    """A kind of reduction: how a tile is folded, and how partial results are combined.

    An instance belongs to one call.

    Attributes:
        x: The array.
        reduced: The folded axes.
        axis: The same as an argument of the library's functions.
        wider: The dtype in which a tile is summed, if that is another than the default.
    """

    #: Bytes that a call takes beside the tile, for each element of 16-bit floats.
    extra = 0

    def __init__(self, x: TiledOperand, reduced: frozenset[int]) -> None:
        self.x, self.reduced = x, reduced
        self.axis: Any = None if len(reduced) == x.ndim else tuple(sorted(reduced))
        self.wider: np.dtype[Any] | None = None
        if is_float16_like(x.dtype):
            self.wider = np.dtype(np.float32)

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        """Fold a tile, whose folded axes stay with extent 1."""
        raise NotImplementedError

    def partial(self, arrays: Partial, index: Index) -> Partial:
        """Return what a tile's results become on the host."""
        return tuple([_wide(values) for values in arrays])

    def combined(self, left: Partial, right: Partial) -> Partial:
        """Combine the partial results of two groups of tiles."""
        raise NotImplementedError

    def finished(self, whole: Partial) -> Values:
        """Return the result of all tiles."""
        return whole[0]

    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        return self.x.dtype


class _SumFold(Fold):
    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        options: dict[str, Any] = {"axis": self.axis, "keepdims": True, "engine": engine}
        return (library.sum(tile, dtype=self.wider, **options),)

    def combined(self, left: Partial, right: Partial) -> Partial:
        return (left[0] + right[0],)

    def dtype(self) -> np.dtype[Any]:
        if self.x.dtype.kind in "biu":
            return np.dtype(np.uint64 if self.x.dtype.kind == "u" else np.int64)
        return self.x.dtype


class _MeanFold(_SumFold):
    def __init__(self, x: TiledOperand, reduced: frozenset[int]) -> None:
        super().__init__(x, reduced)
        if x.dtype.kind in "biu":
            self.wider = np.dtype(np.float64)

    def finished(self, whole: Partial) -> Values:
        mean: Values = whole[0] / prod([self.x.shape[axis] for axis in self.reduced])
        return mean

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.x.dtype


class _ExtremeFold(Fold):
    def __init__(self, x: TiledOperand, reduced: frozenset[int], name: str) -> None:
        super().__init__(x, reduced)
        self._of_tile, self._of_two = {
            "min": (library.min, np.minimum),
            "max": (library.max, np.maximum),
        }[name]

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        return (self._of_tile(tile, axis=self.axis, keepdims=True, engine=engine),)

    def partial(self, arrays: Partial, index: Index) -> Partial:
        return arrays

    def combined(self, left: Partial, right: Partial) -> Partial:
        return (self._of_two(left[0], right[0]),)


class _IndexFold(Fold):
    """The index of an extreme element: the first of equals, and the first NaN before all."""

    def __init__(self, x: TiledOperand, reduced: frozenset[int], name: str) -> None:
        super().__init__(x, reduced)
        self._of_tile, self._value, self._better = {
            "argmin": (library.argmin, library.min, np.less),
            "argmax": (library.argmax, library.max, np.greater),
        }[name]

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        axis = None if self.axis is None else self.axis[0]
        options: dict[str, Any] = {"axis": axis, "keepdims": True, "engine": engine}
        return self._of_tile(tile, **options), self._value(tile, **options)

    def partial(self, arrays: Partial, index: Index) -> Partial:
        places, values = [np.asarray(each) for each in arrays]
        starts = [part.start for part in index]
        if self.axis is None:
            local = np.unravel_index(places, extents_of(index))
            each = [at + start for at, start in zip(local, starts, strict=True)]
            places = np.ravel_multi_index(each, self.x.shape) if each else places
        else:
            places = places + starts[self.axis[0]]
        return places, values

    def combined(self, left: Partial, right: Partial) -> Partial:
        (place, value), (other_place, other) = left, right
        is_nan, other_is_nan = value != value, other != other
        equal = (value == other) | (is_nan & other_is_nan)
        better = (self._better(other, value) & ~is_nan) | (other_is_nan & ~is_nan)
        takes = better | (equal & (other_place < place))
        return np.where(takes, other_place, place), np.where(takes, other, value)

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64)


class _NormFold(Fold):
    extra = 4

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        if self.wider is not None:
            tile = tile.astype(self.wider)
        return (library.nrm2(tile, axis=self.axis, keepdims=True, engine=engine),)

    def combined(self, left: Partial, right: Partial) -> Partial:
        return (np.hypot(left[0], right[0]),)

    def dtype(self) -> np.dtype[Any]:
        if self.x.dtype.kind == "c":
            return np.dtype(f"f{self.x.dtype.itemsize // 2}")
        return np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.x.dtype


class _MomentFold(Fold):
    """The variance, from counts, means and squares of deviations (Chan, Golub and LeVeque, 1983).

    Means are those of the deviations from a pivot, the first element that is folded, because in
    float32 the differences of tiles' means would else have the rounding of a large mean.
    """

    def __init__(self, x: TiledOperand, reduced: frozenset[int], ddof: float, root: bool) -> None:
        super().__init__(x, reduced)
        if x.dtype.kind == "c":
            raise DTypeError(f"x is {x.dtype}; the variance of real dtypes would do")
        self._ddof, self._root = ddof, root
        double = x.dtype.kind in "biu" or x.dtype == np.float64
        self.wider = np.dtype("f8" if double else "f4")
        self._pivots: dict[Bounds, Values] = {}
        self._on_device: dict[tuple[int, Bounds], Any] = {}

    def _pivot(self, engine: Engine, index: Index) -> Any:
        """Return the first elements that are folded with those of a tile."""
        first = tuple(
            [slice(0, 1) if axis in self.reduced else part for axis, part in enumerate(index)]
        )
        place = bounds_of(first)
        pivot = self._pivots.get(place)
        if pivot is None:
            pivot = self.x.read(first).astype(self.wider)
            pivot = self._pivots.setdefault(place, np.where(np.isfinite(pivot), pivot, 0))
        if engine.maps_host_memory:
            return pivot
        key = id(engine), place
        if key not in self._on_device:
            self._on_device[key] = asarray(pivot, engine=engine)
        return self._on_device[key]

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        options = {"axis": self.axis, "dtype": self.wider, "keepdims": True, "engine": engine}
        pivot = self._pivot(engine, index)
        deviations = library.reduce(tile, _ADD, "x - pivot", pivot=pivot, **options)
        return deviations, library.var(tile, **options)

    def partial(self, arrays: Partial, index: Index) -> Partial:
        extents = extents_of(index)
        count = np.asarray(float(prod([extents[axis] for axis in self.reduced])))
        deviations, variances = [_wide(values) for values in arrays]
        return count, deviations / count, variances * count

    def combined(self, left: Partial, right: Partial) -> Partial:
        (count, mean, squares), (other_count, other_mean, other_squares) = left, right
        both, difference = count + other_count, other_mean - mean
        return (
            both,
            mean + difference * (other_count / both),
            squares + other_squares + difference * difference * (count * other_count / both),
        )

    def finished(self, whole: Partial) -> Values:
        variance: Values = whole[2] / max(0.0, float(whole[0]) - self._ddof)
        return np.asarray(np.sqrt(variance)) if self._root else variance

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.x.dtype


_ADD = BinaryOp("add", "0", "a + b")


def _wide(values: Any) -> Values:
    """Return partial results in the dtype in which they are combined."""
    array = np.asarray(values)
    if array.dtype.kind in "iu":
        return array
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def fold_of(name: str, x: TiledOperand, reduced: frozenset[int], ddof: float) -> Fold:
    """Return a reduction.

    Args:
        name: That of the library's function.
        x: The array.
        reduced: The folded axes.
        ddof: Of ``var`` and ``std``.

    Raises:
        DTypeError: The dtype of ``x`` is not supported.
    """
    if name in ("min", "max"):
        return _ExtremeFold(x, reduced, name)
    if name in ("argmin", "argmax"):
        return _IndexFold(x, reduced, name)
    if name in ("var", "std"):
        return _MomentFold(x, reduced, ddof, name == "std")
    kinds: dict[str, type[Fold]] = {"sum": _SumFold, "mean": _MeanFold, "nrm2": _NormFold}
    return kinds[name](x, reduced)


class _Tree:
    """Combines partial results in pairs, by their numbers, in whichever order they come."""

    def __init__(self, combine: Callable[[Partial, Partial], Partial]) -> None:
        self._combine = combine
        self._nodes: dict[tuple[int, int], Partial] = {}

    def add(self, number: int, partial: Partial) -> None:
        level = 0
        while (sibling := self._nodes.pop((level, number ^ 1), None)) is not None:
            pair = (sibling, partial) if number & 1 else (partial, sibling)
            partial, number, level = self._combine(*pair), number >> 1, level + 1
        self._nodes[level, number] = partial

    def whole(self) -> Partial:
        """Return the result of all; the largest groups are the first ones."""
        groups = [self._nodes[key] for key in sorted(self._nodes)]
        whole = groups[0]
        for group in groups[1:]:
            whole = self._combine(group, whole)
        return whole


@dataclass(frozen=True)
class PartOfResult:
    """The number of a tile among those that fold to the same elements, and these elements."""

    number: int
    index: Index
    region: Index


class Partials:
    """The partial results of all tiles; the sink of a :class:`Job`."""

    def __init__(self, fold: Fold) -> None:
        self._fold, self._lock = fold, threading.Lock()
        self._trees: dict[Bounds, tuple[Index, _Tree]] = {}

    def in_place(self, place: Any, dtype: np.dtype[Any]) -> None:
        """Return nothing: calls return new arrays."""

    def write(self, place: PartOfResult, tile: Partial) -> None:
        """Combine the results of a tile with others."""
        with self._lock, np.errstate(all="ignore"):
            partial = self._fold.partial(tile, place.index)
            region = place.region
            _, tree = self._trees.setdefault(
                bounds_of(region), (region, _Tree(self._fold.combined))
            )
            tree.add(place.number, partial)

    def result(self) -> Values:
        """Return the result, whose folded axes have extent 1."""
        shape, reduced = self._fold.x.shape, self._fold.reduced
        extents = [1 if axis in reduced else n for axis, n in enumerate(shape)]
        result = np.empty(extents, self._fold.dtype())
        with np.errstate(all="ignore"):
            for region, tree in self._trees.values():
                result[region] = self._fold.finished(tree.whole())
        return result
