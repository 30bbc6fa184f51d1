"""The analysis of a sparse matrix: all that its factorisation needs but the numbers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable_gpu.arguments import flag, of_kind, whole
from portable_gpu.dtypes import element
from portable_gpu.host_memory import check_host
from portable_gpu.ops.fronts.table import FIELDS, Fronts
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse.compiled import compiled
from portable_gpu.sparse.elimination import eliminate, inverse, levels, postorder
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.matrix import Pattern, factor_dtype, pattern_of, rows_of
from portable_gpu.sparse.memory import MemoryEstimate, memory_on, scheduled, targets_of
from portable_gpu.sparse.ordering import order
from portable_gpu.sparse.schedule import by_levels
from portable_gpu.sparse.structure import structure
from portable_gpu.sparse.supernodes import relaxation, supernodes

_Bool = np.ndarray[Any, np.dtype[np.bool_]]

#: Bytes of the host's memory that an analysis takes for a row, at least: what it was seen to take
#: for rows without elements; nested dissection, which ``auto`` tries, takes more.
_ROW_BYTES, _DISSECTED_ROW_BYTES = 150, 500


@dataclass(frozen=True, eq=False, repr=False)
class Symbolic:
    """The analysis of a sparse symmetric matrix.

    It holds no values but the pattern, and serves any matrix within it.  It is never changed: its
    arrays are read-only, threads share it, and pickle keeps it.

    Attributes:
        pattern: The pattern of the matrix.
        ordering: The ordering that was taken.
        perm: The permutation: column k of the permuted matrix, and of L, is row and column
            ``perm[k]`` of the matrix.
        iperm: Its inverse.
        columns: Where each column of L was in the ordering, before its postorder: if ``order`` is
            the permutation that was given, ``perm == order[columns]``.  With ``postorder=False``
            0 .. n-1, and ``perm`` is the permutation that was given.
        parent: The elimination tree of the permuted matrix: of each column its parent, or -1.
        column_counts: How many elements each column of L has, the diagonal's among them.
        front_columns: Which column of L each column of the fronts is; fronts are in postorder, so
            these differ with ``postorder=False``.
        fronts: The supernodes, their rows, and how they are assembled.
        static_mask: Of each supernode whether its columns were contiguous in the ordering.
        level: Of each supernode its height above the leaves, from 0 on.
        fundamental: How many supernodes there were before merging.
        times: Seconds of the phases.
    """

    pattern: Pattern
    ordering: str
    perm: Int32
    iperm: Int32
    columns: Int32
    parent: Int32
    column_counts: Int64
    front_columns: Int32
    fronts: Fronts
    static_mask: _Bool
    level: Int32
    fundamental: int
    times: Mapping[str, float]

    @property
    def n(self) -> int:
        """Rows and columns."""
        return self.pattern.n

    @property
    def postorder(self) -> Int32:
        """The columns of the permuted matrix, children before parents, subtrees together."""
        return postorder(self.parent)

    @property
    def front_perm(self) -> Int32:
        """Which row and column of the matrix each column of the fronts is."""
        found: Int32 = self.perm[self.front_columns]
        return found

    @property
    def nnz(self) -> int:
        """Elements of L, without the zeros that merged supernodes store."""
        return int(self.column_counts.sum())

    @property
    def flops(self) -> float:
        """The sum of the squares of the column counts: the usual measure of a factorisation."""
        counts = self.column_counts.astype(np.float64)
        return float(counts @ counts)

    @property
    def supernodes(self) -> Int64:
        """The first column of each supernode in the order of the fronts, and n at the end."""
        return self.fronts.first

    @property
    def levels(self) -> int:
        """The height of the supernodes' tree: 1 where no supernode has a parent."""
        return int(self.level.max(initial=-1)) + 1

    @property
    def stored(self) -> int:
        """Elements of L that supernodes store, the zeros of merged ones among them."""
        c, u = self.fronts.columns, self.fronts.rows
        return int((c * (c + 1) // 2 + c * u).sum())

    def memory_estimate(
        self, dtype: Any = np.float64, devices: Any = None, memory_limit: int | None = None
    ) -> MemoryEstimate:
        """Bytes of a factorisation in `dtype`; a device may round a little up.

        Args:
            dtype: Of L.
            devices: Engines, pyopencl devices or names of devices, as :class:`portable_gpu.Engine`
                takes them, or one of these.  A factorisation runs on one device; of each of these
                ``.devices`` says what it would hold there by the way that it takes there, and
                whether that ``fits``.
            memory_limit: As :class:`Factor` takes it.

        Raises:
            DTypeError: `dtype` is none that is factorised, or `devices` are none.
            DeviceNotFoundError: No device has such a name.
            DeviceMemoryError: `memory_limit` is less than the largest supernode takes.
        """
        kind = factor_dtype(dtype)
        elem, fronts = element(kind), self.fronts
        limit = None if memory_limit is None else whole(memory_limit, "memory_limit")
        c, u = fronts.columns, fronts.rows
        tables = sum(array.nbytes for array in vars(fronts).values())
        found = [] if devices is None else targets_of(devices)
        return MemoryEstimate(
            factor=int(((c + u) * c).sum()) * kind.itemsize,
            updates=by_levels(fronts).arena * kind.itemsize if len(fronts) else 0,
            stack=_stack_peak(fronts.parent, u * (u + 1) // 2) * kind.itemsize,
            tables=tables + len(fronts) * len(FIELDS) * 8 + self.pattern.nnz * kind.itemsize,
            devices=tuple(
                memory_on(one, fronts, elem, self.pattern.nnz, *scheduled(fronts, one, elem, limit))
                for one in found
            ),
        )

    def __post_init__(self) -> None:
        for holder in (self, self.pattern, self.fronts):
            for array in vars(holder).values():
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickle forgets what is read-only

    def __repr__(self) -> str:
        return (
            f"<Symbolic n={self.n} ordering={self.ordering!r} nnz(L)={self.nnz} "
            f"flops={self.flops:.3g} supernodes={len(self.fronts)} levels={self.levels}>"
        )


def analyze(
    A: Any,
    ordering: Any = "auto",
    *,
    relax: Sequence[tuple[float, float]] | None = None,
    triangle: str | None = None,
    postorder: bool = True,
    engine: Engine | None = None,
) -> Symbolic:
    """Analyse a sparse symmetric, or Hermitian, matrix for its Cholesky factorisation.

    The analysis runs on the host.  It serves every matrix whose elements lie within the pattern of
    `A`, in any dtype and on any device.

    Args:
        A: A square ``scipy.sparse`` array or matrix of any format, n x n: one triangle, of which
            the other is the mirror image, or both.  Elements that are stored more than once are
            summed; stored zeros belong to the pattern, but for those of ``bsr`` and ``dia``, which
            fill up; rows may be empty.
        ordering: What keeps L sparse: the name of a method, or a permutation: n integers, of which
            the k-th says which row and column is eliminated k-th.
        relax: When a supernode is merged with its parent, which makes fewer and larger fronts and
            stores zeros: pairs of columns and a share; up to so many columns the two may store
            such a share of zeros.  ``()`` merges none.  None: ``((4, 1), (16, 0.8), (48, 0.1),
            (inf, 0.05))``, and chains of the tree are shortened where that is nearly free.
        triangle: ``lower`` or ``upper``: that triangle counts, the other one is ignored, whatever
            it stores, NaN included.  None: both count, and have to be mirror images, but for 1024
            units of rounding of ``sqrt(|a_ii a_jj|)``; the lower one's values are taken.
        postorder: True: L's columns are in a postorder of the elimination tree, with the columns
            of a supernode side by side, so ``perm`` is not the permutation that was given, but an
            equivalent one: its L has the same elements in another order.  False: ``perm`` is as
            `ordering` gives it, 0 .. n-1 of ``"natural"``; L, its solves and errors go by it.
            Memory, time and bits of a solution are the same.
        engine: Where factorisations are to run; ``"auto"`` takes it into account.  A GPU waits at
            each level of the tree, so that low trees are worth some flops there.

    Raises:
        ShapeError: `A` is not square.
        DTypeError: `A` is no sparse matrix, or neither float32, float64, complex64, complex128 nor
            of integers (which count as float64); `engine` is no engine.
        ArgumentError: `A` is not symmetric, beyond rounding, or its arrays are damaged; its
            diagonal is not real; an element is NaN or infinite; `triangle` is the one that stores
            nothing; `ordering`, `relax` or `triangle` is none of the above.
        HostMemoryError: `A` has more rows than the host's memory holds; nothing is allocated.

    Cost: The ordering takes most of it.  The rest is linear in n, the elements of `A` and the rows
    of the fronts: about a second for a million unknowns.

    Determinism: The same pattern gives the same analysis, on a GPU or on a CPU.
    """
    clock = _Clock()
    waits = engine is not None and not of_kind(engine, Engine, "engine").target.is_cpu
    if relax is not None:
        relaxation(relax)
    is_postordered = flag(postorder, "postorder")
    is_dissected = isinstance(ordering, str) and ordering in ("auto", "nd")
    n = rows_of(A)
    check_host(
        n * (_DISSECTED_ROW_BYTES if is_dissected else _ROW_BYTES), f"the analysis of {n:,} rows"
    )
    pattern = pattern_of(A, triangle)
    pattern.values(A)
    clock.lap("matrix")
    graph = Graph.from_pattern(pattern.pointers, pattern.columns)
    clock.lap("graph")
    perm, name = order(graph, ordering, waits)
    clock.lap("ordering")
    elimination = eliminate(graph.indptr, graph.indices, perm)
    clock.lap("elimination")
    found = supernodes(elimination, relax)
    clock.lap("supernodes")
    fronts = structure(pattern, inverse(perm[found.columns]), found.first, found.rows, found.parent)
    own = np.arange(pattern.n, dtype=np.int32)
    columns, front_columns = (found.columns, own) if is_postordered else (own, found.columns)
    above = elimination.parent[columns]
    clock.lap("structure")
    return Symbolic(
        pattern,
        name,
        perm[columns],
        inverse(perm[columns]),
        columns,
        np.where(above < 0, -1, inverse(columns)[above]).astype(np.int32),
        elimination.counts[columns],
        front_columns,
        fronts,
        found.static,
        levels(found.parent),
        found.fundamental,
        clock.times,
    )


@compiled
def _stack_peak(parent: Int32, update: Int64) -> int:
    """Elements of the update matrices that live at once, at most, front after front."""
    left = np.zeros(len(parent), np.int64)  # by the children of each
    live = peak = 0
    for s in range(len(parent)):
        live += update[s]
        peak = max(peak, live)
        live -= left[s]
        if parent[s] != -1:
            left[parent[s]] += update[s]
    return peak


class _Clock:
    """Seconds from lap to lap."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.times[name] = now - self._last
        self._last = now
