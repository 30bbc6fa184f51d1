"""The symbolic analysis of a sparse matrix."""

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
from portable_gpu.sparse.formats import factor_dtype, rows_of
from portable_gpu.sparse.graph import Graph, Int32, Int64
from portable_gpu.sparse.matrix import Pattern, pattern_of
from portable_gpu.sparse.memory import MemoryEstimate, memory_on, scheduled, targets_of
from portable_gpu.sparse.ordering import order
from portable_gpu.sparse.schedule import by_levels
from portable_gpu.sparse.structure import structure
from portable_gpu.sparse.supernodes import relaxation, supernodes

_Bool = np.ndarray[Any, np.dtype[np.bool_]]

#: Bytes of the host's memory that an analysis takes for each row, at least: measured with rows
#: without elements.  Nested dissection, which ``auto`` tries, takes more.
_ROW_BYTES, _ND_ROW_BYTES = 150, 500


@dataclass(frozen=True, eq=False, repr=False)
class Symbolic:
    """The analysis of a sparse symmetric matrix.

    It depends only on the pattern, and is valid for any matrix with elements within the pattern.
    It is immutable: its arrays are read-only, threads may share it, and it can be pickled.

    Attributes:
        pattern: The pattern of the matrix.
        ordering: The name of the ordering.
        perm: The permutation: column k of the permuted matrix, and of L, is row and column
            ``perm[k]`` of the matrix.
        iperm: The inverse permutation.
        columns: The permutation of the columns by the postorder.  If ``p`` is the permutation of
            the ordering, which was given or computed, then ``perm == p[columns]``.  With
            ``postorder=False`` it is 0 .. n-1, and ``perm == p``.
        parent: The elimination tree of the permuted matrix: the parent of each column, or -1.
        column_counts: The number of elements in each column of L, with the diagonal.
        front_columns: The column of L for each column of the fronts; fronts are in postorder, so
            the two differ with ``postorder=False``.
        fronts: The supernodes, their rows, and the indices for their assembly.
        static_mask: For each supernode, whether its columns were already contiguous before the
            postorder.
        level: The height of each supernode above the leaves; leaves have 0.
        fundamental: The number of supernodes before merging.
        times: Seconds of each phase.
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
        """The number of rows, and of columns."""
        return self.pattern.n

    @property
    def postorder(self) -> Int32:
        """A postorder of the columns of the permuted matrix."""
        return postorder(self.parent)

    @property
    def front_perm(self) -> Int32:
        """The row and column of the matrix for each column of the fronts."""
        perm: Int32 = self.perm[self.front_columns]
        return perm

    @property
    def nnz(self) -> int:
        """The number of elements of L, without the zeros that merged supernodes store."""
        return int(self.column_counts.sum())

    @property
    def flops(self) -> float:
        """The sum of the squares of the column counts: the usual measure of a factorisation."""
        counts = self.column_counts.astype(np.float64)
        return float(counts @ counts)

    @property
    def supernodes(self) -> Int64:
        """The first column of each supernode in the order of the fronts, followed by n."""
        return self.fronts.first

    @property
    def levels(self) -> int:
        """The number of levels of the supernodal tree: 1 if no supernode has a parent."""
        return int(self.level.max(initial=-1)) + 1

    @property
    def stored(self) -> int:
        """The number of stored elements of L, with the zeros of merged supernodes."""
        c, u = self.fronts.columns, self.fronts.rows
        return int((c * (c + 1) // 2 + c * u).sum())

    def memory_estimate(
        self, dtype: Any = np.float64, devices: Any = None, memory_limit: int | None = None
    ) -> MemoryEstimate:
        """Estimate the memory of a factorisation in `dtype`; a device may round up slightly.

        Args:
            dtype: The dtype of L.
            devices: An engine, a pyopencl device or the name of a device, as for
                :class:`portable_gpu.Engine`; or a list of them.  A factorisation runs on one
                device.  The result's ``.devices`` gives the memory for each of them, and whether it
                ``fits``.
            memory_limit: As for :class:`Factor`.

        Raises:
            DTypeError: `dtype` is not supported.
            ArgumentTypeError: `devices` has something else.
            DeviceNotFoundError: There is no device of a given name.
            DeviceMemoryError: `memory_limit` is smaller than the largest supernode.
        """
        kind = factor_dtype(dtype)
        elem, fronts = element(kind), self.fronts
        limit = None if memory_limit is None else whole(memory_limit, "memory_limit")
        c, u = fronts.columns, fronts.rows
        tables = sum(array.nbytes for array in vars(fronts).values())
        targets = [] if devices is None else targets_of(devices)
        return MemoryEstimate(
            factor=int(((c + u) * c).sum()) * kind.itemsize,
            updates=by_levels(fronts).arena * kind.itemsize if len(fronts) else 0,
            stack=_stack_peak(fronts.parent, u * (u + 1) // 2) * kind.itemsize,
            tables=tables + len(fronts) * len(FIELDS) * 8 + self.pattern.nnz * kind.itemsize,
            devices=tuple(
                memory_on(
                    target, fronts, elem, self.pattern.nnz, *scheduled(fronts, target, elem, limit)
                )
                for target in targets
            ),
        )

    def __post_init__(self) -> None:
        for holder in (self, self.pattern, self.fronts):
            for array in vars(holder).values():
                if isinstance(array, np.ndarray):
                    array.flags.writeable = False

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickle does not keep the read-only flags

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
    """Analyse a sparse symmetric or Hermitian matrix for its Cholesky factorisation.

    The analysis runs on the host.  It is valid for every matrix whose elements are within the
    pattern of `A`, in any dtype and on any device.

    Args:
        A: A square ``scipy.sparse`` array or matrix of any format, n x n.  It stores one triangle,
            and the other is its mirror image; or it stores both.  Duplicate elements are summed.
            Stored zeros belong to the pattern, except the padding of ``bsr`` and ``dia``.  Rows
            may be empty.
        ordering: The fill-reducing ordering: ``"amd"``, ``"nd"``, ``"rcm"``, ``"mmd"``, ``"md"``,
            ``"metis"`` (by the package pymetis) or ``"natural"``; ``"auto"``: the one of ``"amd"``,
            ``"rcm"`` and, for n above 4000, ``"nd"`` with the fewest flop; or a permutation of n
            integers, the k-th of which is the row and column to eliminate k-th.
        relax: The thresholds for merging a supernode with its parent, which makes fewer and larger
            fronts, but stores zeros: pairs (columns, share).  A merged supernode of up to
            ``columns`` columns may store ``share`` zeros.  ``()`` disables merging.  None:
            ``((4, 1), (16, 0.8), (48, 0.1), (inf, 0.05))``; in addition, supernodes that follow
            one another in the tree without branches are merged if this adds little work.
        triangle: ``lower`` or ``upper``: only this triangle is read; elements of the other one are
            ignored, NaN included.  None: both triangles are read.  They must be mirror images up to
            1024 units of rounding of ``sqrt(|a_ii a_jj|)``; the values of the lower one are used.
        postorder: True: the columns of L are in a postorder of the elimination tree, with the
            columns of a supernode contiguous.  Then ``perm`` is not the given permutation, but an
            equivalent one: its L has the same elements in another order.  False: ``perm`` is the
            permutation of `ordering` (0 .. n-1 for ``"natural"``), and L, solves and errors refer
            to it.  Memory, time and bits of a solution are the same.
        engine: The engine of the factorisations, which ``"auto"`` considers.  A GPU synchronises at
            each level of the tree, so trees with fewer levels are preferred there.

    Raises:
        ShapeError: `A` is not square.
        DTypeError: `A` is not a sparse matrix, or its dtype is not float32, float64, complex64,
            complex128 or an integer (which is converted to float64); `engine` is not an engine.
        ArgumentError: `A` is not symmetric, beyond rounding, or its arrays are damaged; its
            diagonal is not real; an element is NaN or infinite; `triangle` is not stored;
            `ordering`, `relax` or `triangle` is another value.
        HostMemoryError: The host's memory is too small for the rows of `A`; nothing is allocated.

    Cost: The ordering takes most of the time.  The rest is linear in n, the elements of `A` and the
    rows of the fronts: about a second for a million unknowns.

    Determinism: The same pattern and kind of device give the same analysis.
    """
    clock = _Stopwatch()
    synchronises_levels = engine is not None and not of_kind(engine, Engine, "engine").target.is_cpu
    if relax is not None:
        relaxation(relax)
    is_postordered = flag(postorder, "postorder")
    is_dissected = isinstance(ordering, str) and ordering in ("auto", "nd")
    n = rows_of(A)
    check_host(n * (_ND_ROW_BYTES if is_dissected else _ROW_BYTES), f"the analysis of {n:,} rows")
    pattern = pattern_of(A, triangle)
    pattern.values(A)
    clock.lap("matrix")
    graph = Graph.from_pattern(pattern.pointers, pattern.columns)
    clock.lap("graph")
    perm, name = order(graph, ordering, synchronises_levels)
    clock.lap("ordering")
    elimination = eliminate(graph.indptr, graph.indices, perm)
    clock.lap("elimination")
    nodes = supernodes(elimination, relax)
    clock.lap("supernodes")
    fronts = structure(pattern, inverse(perm[nodes.columns]), nodes.first, nodes.rows, nodes.parent)
    identity = np.arange(pattern.n, dtype=np.int32)
    columns, front_columns = (
        (nodes.columns, identity) if is_postordered else (identity, nodes.columns)
    )
    parent = elimination.parent[columns]
    clock.lap("structure")
    return Symbolic(
        pattern=pattern, ordering=name, perm=perm[columns], iperm=inverse(perm[columns]),
        columns=columns, parent=np.where(parent < 0, -1, inverse(columns)[parent]).astype(np.int32),
        column_counts=elimination.counts[columns], front_columns=front_columns, fronts=fronts,
        static_mask=nodes.static, level=levels(nodes.parent), fundamental=nodes.fundamental,
        times=clock.times,
    )  # fmt: skip


@compiled
def _stack_peak(parent: Int32, update: Int64) -> int:
    """Compute the peak size of live update matrices, if fronts are processed in postorder."""
    of_children = np.zeros(len(parent), np.int64)  # update elements of each front's children
    live = peak = 0
    for s in range(len(parent)):
        live += update[s]
        peak = max(peak, live)
        live -= of_children[s]
        if parent[s] != -1:
            of_children[parent[s]] += update[s]
    return peak


class _Stopwatch:
    """A stopwatch of the phases."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.times[name] = now - self._last
        self._last = now
