"""Reductions of arrays that are larger than the memory of the device.

Each tile is reduced to a partial result by a call of the library.  Partial results of the same
elements of the result are merged on the host, floats in double precision, by a tree of fixed shape
(:mod:`portable_gpu.multi.merge_tree`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from portable_gpu.dtypes import is_float16_like
from portable_gpu.errors import DTypeError
from portable_gpu.multi import moments
from portable_gpu.multi.merge_tree import MergeTree
from portable_gpu.multi.merging import in_double, merged_extremes, merged_moments, merged_norms
from portable_gpu.multi.streaming.job import extents_of
from portable_gpu.multi.streaming.storage import Bounds, Index, TiledOperand, Values, bounds_of
from portable_gpu.ops import reduce as library
from portable_gpu.runtime.engine import Engine

Partial = tuple[Values, ...]
#: NumPy gets the value at one index in about the time in which a device reads this many elements.
_ELEMENTS_READ = 32


class TileReduction:
    """A kind of reduction: how a tile is reduced, and how partial results are merged.

    An instance belongs to one call.

    Attributes:
        x: The array.
        reduced: The reduced axes.
        axis: `reduced` as an ``axis=`` argument: None for all axes, else a sorted tuple.
        computed: The dtype in which a tile is reduced; None for the library's default.
    """

    #: Bytes that a call takes in addition to the tile, for each element of 16-bit floats.
    extra = 0

    def __init__(self, x: TiledOperand, reduced: frozenset[int]) -> None:
        self.x, self.reduced = x, reduced
        self.axis: Any = None if len(reduced) == x.ndim else tuple(sorted(reduced))
        self.computed: np.dtype[Any] | None = None
        if is_float16_like(x.dtype):
            self.computed = np.dtype(np.float32)

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        """Reduce a tile on the device; reduced axes stay with extent 1."""
        raise NotImplementedError

    def partial(self, arrays: Partial, index: Index) -> Partial:
        """Convert the results of a tile to a partial result."""
        return tuple([in_double(values) for values in arrays])

    def merged(self, left: Partial, right: Partial) -> Partial:
        """Merge the partial results of two groups of tiles."""
        raise NotImplementedError

    def finished(self, whole: Partial) -> Values:
        """Return the result of all tiles."""
        return whole[0]

    def result_dtype(self) -> np.dtype[Any]:
        """Return the dtype of the result."""
        return self.x.dtype


class _TileSum(TileReduction):
    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        options: dict[str, Any] = {"axis": self.axis, "keepdims": True, "engine": engine}
        return (library.sum(tile, dtype=self.computed, **options),)

    def merged(self, left: Partial, right: Partial) -> Partial:
        return (left[0] + right[0],)

    def result_dtype(self) -> np.dtype[Any]:
        if self.x.dtype.kind in "biu":
            return np.dtype(np.uint64 if self.x.dtype.kind == "u" else np.int64)
        return self.x.dtype


class _TileMean(_TileSum):
    def __init__(self, x: TiledOperand, reduced: frozenset[int]) -> None:
        super().__init__(x, reduced)
        if x.dtype.kind in "biu":
            self.computed = np.dtype(np.float64)

    def finished(self, whole: Partial) -> Values:
        mean: Values = whole[0] / prod([self.x.shape[axis] for axis in self.reduced])
        return mean

    def result_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.x.dtype


class _TileExtreme(TileReduction):
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

    def merged(self, left: Partial, right: Partial) -> Partial:
        return (self._of_two(left[0], right[0]),)


class _TileIndex(TileReduction):
    """The index of an extreme element: ties give the lowest index, and NaN is extreme."""

    def __init__(self, x: TiledOperand, reduced: frozenset[int], name: str) -> None:
        super().__init__(x, reduced)
        self._of_tile, self._value, self._is_better = {
            "argmin": (library.argmin, library.min, np.less),
            "argmax": (library.argmax, library.max, np.greater),
        }[name]

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        axis = None if self.axis is None else self.axis[0]
        options: dict[str, Any] = {"axis": axis, "keepdims": True, "engine": engine}
        places = self._of_tile(tile, **options)
        if isinstance(tile, np.ndarray) and places.size <= tile.size // _ELEMENTS_READ:
            if axis is None:
                return places, tile[np.unravel_index(places, tile.shape)]
            return places, np.take_along_axis(tile, places, axis)
        return places, self._value(tile, **options)

    def partial(self, arrays: Partial, index: Index) -> Partial:
        places, values = [np.asarray(array) for array in arrays]
        starts = [part.start for part in index]
        if self.axis is not None:  # one axis
            return places + starts[self.axis[0]], values
        local = np.unravel_index(places, extents_of(index))
        coordinates = [at + start for at, start in zip(local, starts, strict=True)]
        if coordinates:
            places = np.ravel_multi_index(coordinates, self.x.shape)
        return places, values

    def merged(self, left: Partial, right: Partial) -> Partial:
        return merged_extremes(self._is_better, left, right)

    def result_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.int64)


class _TileNorm(TileReduction):
    extra = 4

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        if self.computed is not None:
            tile = tile.astype(self.computed)
        return (library.nrm2(tile, axis=self.axis, keepdims=True, engine=engine),)

    def merged(self, left: Partial, right: Partial) -> Partial:
        return (merged_norms(left[0], right[0]),)

    def result_dtype(self) -> np.dtype[Any]:
        if self.x.dtype.kind == "c":
            return np.dtype(f"f{self.x.dtype.itemsize // 2}")
        return np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.x.dtype


class _TileMoment(TileReduction):
    """The variance, from the moments of tiles."""

    def __init__(self, x: TiledOperand, reduced: frozenset[int], ddof: float, root: bool) -> None:
        super().__init__(x, reduced)
        if x.dtype.kind == "c":
            raise DTypeError(f"x is {x.dtype}; var and std need a real dtype")
        self._ddof, self._root = ddof, root
        double = x.dtype.kind in "biu" or x.dtype == np.float64
        self._dtype = np.dtype("f8" if double else "f4")

    def of_tile(self, engine: Engine, tile: Any, index: Index) -> tuple[Any, ...]:
        return moments.on_device(tile, self.reduced, self._dtype, engine)

    def partial(self, arrays: Partial, index: Index) -> Partial:
        extents = extents_of(index)
        return moments.from_device(prod([extents[axis] for axis in self.reduced]), *arrays)

    def merged(self, left: Partial, right: Partial) -> Partial:
        return merged_moments(left, right)

    def finished(self, whole: Partial) -> Values:
        variance: Values = whole[3] / max(0.0, float(whole[0]) - self._ddof)
        return np.asarray(np.sqrt(variance)) if self._root else variance

    def result_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64) if self.x.dtype.kind in "biu" else self.x.dtype


def reduction_of(name: str, x: TiledOperand, reduced: frozenset[int], ddof: float) -> TileReduction:
    """Return a reduction.

    Args:
        name: The reduction's name, for example ``"sum"``.
        x: The array.
        reduced: The reduced axes.
        ddof: Subtracted from the count by ``var`` and ``std``; others ignore it.

    Raises:
        DTypeError: The dtype of ``x`` is not supported.
    """
    if name in ("min", "max"):
        return _TileExtreme(x, reduced, name)
    if name in ("argmin", "argmax"):
        return _TileIndex(x, reduced, name)
    if name in ("var", "std"):
        return _TileMoment(x, reduced, ddof, name == "std")
    kinds: dict[str, type[TileReduction]] = {"sum": _TileSum, "mean": _TileMean, "nrm2": _TileNorm}
    return kinds[name](x, reduced)


@dataclass(frozen=True)
class PartOfResult:
    """The place of a tile's partial result.

    Attributes:
        number: The number of the tile among those of the same elements of the result.
        index: The tile.
        region: These elements of the result.
    """

    number: int
    index: Index
    region: Index


class Partials:
    """The partial results of all tiles: the sink of a :class:`~.job.Job`."""

    def __init__(self, reduction: TileReduction) -> None:
        self._reduction, self._lock = reduction, threading.Lock()
        self._trees: dict[Bounds, tuple[Index, MergeTree[Partial]]] = {}

    def in_place(self, place: Any, dtype: np.dtype[Any]) -> None:
        """Return None: a tile's results have no place in the result, so calls return new arrays."""

    def write(self, place: PartOfResult, tile: Partial) -> None:
        """Merge the results of a tile with others."""
        with np.errstate(all="ignore"):
            partial = self._reduction.partial(tile, place.index)
            with self._lock:
                _, tree = self._trees.setdefault(
                    bounds_of(place.region), (place.region, MergeTree(self._reduction.merged))
                )
                tree.add(place.number, partial)

    def result(self) -> Values:
        """Return the result; reduced axes have extent 1."""
        reduction, shape = self._reduction, self._reduction.x.shape
        extents = [1 if axis in reduction.reduced else n for axis, n in enumerate(shape)]
        result = np.empty(extents, reduction.result_dtype())
        with np.errstate(all="ignore"):
            for region, tree in self._trees.values():
                result[region] = reduction.finished(tree.whole())
        return result
