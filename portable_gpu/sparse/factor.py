"""Sparse Cholesky factors on a device."""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl
import scipy.sparse

from portable_gpu.arguments import of_kind, one_of, shown, whole
from portable_gpu.dtypes import element
from portable_gpu.errors import (
    ArgumentError,
    DTypeError,
    NotPositiveDefiniteError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.linalg.refinement import corrections
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factor.arguments import CHECKS, check_dtype, require_fp64
from portable_gpu.ops.reduce.run import converted
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.call import Call, run_to_the_end
from portable_gpu.runtime.closing import Closing
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.events import marker
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.report import DTYPE, FIELDS, Report, reports_of
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import View, as_array, check_output, new_array
from portable_gpu.sparse.lower import lower_on_device
from portable_gpu.sparse.matrix import factor_dtype, is_narrower
from portable_gpu.sparse.numeric import SYSTEMS, Numeric
from portable_gpu.sparse.out_of_core import SpilledFactor
from portable_gpu.sparse.progress import UNTOLD, Tell, Watch, told_to
from portable_gpu.sparse.solution import Held, wait
from portable_gpu.sparse.stats import Stats
from portable_gpu.sparse.symbolic import Symbolic

#: Columns of a sparse right-hand side that are solved with at a time: enough for the products of
#: fronts, and a dense block of 512 bytes for each row.
_SPARSE_COLUMNS = 64


class Factor(Closing):
    """A Cholesky factor of a sparse matrix, on a device: ``L L^H = A[perm][:, perm]``.

    :func:`portable_gpu.sparse.cholesky` makes it.  Threads may call at once; what comes while
    one of them factorises anew waits, and works with the one factor or with the other as a whole.

    An exception of a signal handler, such as KeyboardInterrupt, may leave any call.  A factor whose
    :meth:`refactorize` was left refuses other calls until it is factorised again; what else is left
    changes nothing.  A handler that calls the factor in the midst of another call gets an
    ArgumentError where the one or the other is :meth:`refactorize`.

    Attributes:
        symbolic: The analysis that it was made by.
        dtype: Of L.
        engine, queue: Where L lies and all calls run.
    """

    def __init__(
        self,
        symbolic: Symbolic,
        dtype: Any = np.float64,
        engine: Engine | None = None,
        queue: cl.CommandQueue | None = None,
        *,
        memory_limit: int | None = None,
        spill_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        """Take the memory; there are no values yet.

        Args:
            symbolic: The analysis.
            dtype: Of L.
            engine, queue: Where L is to lie.
            memory_limit: Bytes of the device's memory that L may take while it is made.  If it is
                larger, it is made part by part, and all parts but the last are written to the disk;
                calls then wait for what they do.  The bits are the same.  A solve holds the last
                part as well, at most twice as much.  ``symbolic.memory_estimate`` says what update
                matrices, scratch and tables take besides.
            spill_dir: The folder for that, else the system's for temporary files.  The file has no
                name there, so nothing is left of it when the process ends, however it does.

        Raises:
            DTypeError: ``symbolic`` is no analysis, ``spill_dir`` no path, ``engine`` or ``queue``
                none; ``dtype`` is not factorised.
            UnsupportedError: The device lacks double precision.
            DeviceMemoryError: The device has no room, with the figures and before anything is
                allocated; or ``memory_limit`` is less than the largest supernode takes.
        """
        start = time.perf_counter()
        check_place(engine, queue)
        if spill_dir is not None and not isinstance(spill_dir, (str, os.PathLike)):
            raise DTypeError(f"spill_dir is {shown(spill_dir)}; the path of a folder would do")
        state = state_for([], engine, queue)
        self.symbolic, self.dtype = of_kind(symbolic, Symbolic, "symbolic"), factor_dtype(dtype)
        self.engine, self.queue = state.engine, queue or state.engine.queue
        require_fp64(self.engine, self.dtype)
        limit = None if memory_limit is None else whole(memory_limit, "memory_limit")
        self._numeric = Numeric(self.engine, symbolic, self.dtype, limit)
        self._spill_dir = spill_dir
        self._is_cut, self._is_closed = len(self._numeric.schedule.chunks) > 1, False
        size = 0 if self._is_cut else self._numeric.device.size
        self._panels = new_array(state, self.queue, (size,), self.dtype)
        self._held: Held | None = None  # one assignment of the whole, when all of it is there
        self._lock: Any = threading.RLock()  # a signal handler may call in the middle of a call
        self._planned, self._seconds = time.perf_counter() - start, float("nan")

    # -- factorise

    def refactorize(
        self,
        values: Any,
        *,
        triangle: str | None = None,
        check: str = "late",
        progress: Any = None,
    ) -> Factor:
        """Factorise another matrix of the same pattern, in place of the one before.

        Args:
            values: A ``scipy.sparse`` matrix within the pattern analysed; or the values that the
                matrix analysed stores, in its order: shape (stored,), of NumPy or on the device.
                Values on the device are not looked at: the call enqueues, and returns.
            triangle: ``lower`` or ``upper``: that triangle counts, the other one is ignored.  None:
                as in the analysis.
            check: Of values on the device: ``late``, a matrix without a factor is told where
                somebody looks at a solution's values; ``now``, the call waits.
            progress: True shows a bar, where stderr is a terminal (by the package rich); a function
                is called as ``progress(done, total)`` with the operations that are done and all of
                them, those with merged supernodes' zeros among them, from 0 up to the end.  The
                call waits then.  What counts is what the queue has finished, step by step; on a CPU
                front by front.

        Returns:
            This factor.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.  Another may follow.
            ShapeError, DTypeError, ArgumentError: ``values`` or ``triangle`` do not fit; L is as it
                was.
            UnsupportedError: ``progress`` is True on a terminal, without the package rich.
            DTypeError: ``progress`` is neither True nor callable.  What it raises itself comes out
                of the call as it is; the factor then has no values until it is refactorised.

        Cost: ``symbolic.flops`` multiplications and additions; four times as much if complex.

        Accuracy: That of LAPACK's ``potrf``: ``|A - L L^H| <= m eps |L| |L^H|`` by elements, where
            m is the most elements of a row of L (Higham, Accuracy and Stability, 2002, 10.1).

        Determinism: The same bits on the same target, run after run.
        """
        one_of(check, CHECKS, "check")
        on_device = isinstance(values, DEVICE_KINDS)
        start = time.perf_counter()
        is_within = self._lock._is_owned()  # whether this thread is in the midst of a call
        with self._lock, told_to(progress) as tell:
            self._check_open()
            if is_within:
                raise ArgumentError(
                    "refactorize is called in the midst of another call of this factor, by a "
                    "signal handler, a destructor or progress; call it when that has returned"
                )
            take = self._taken if on_device else self._brought
            given = take(values, triangle)
            held = self._factorised(given, tell)
        if not on_device or check == "now":
            held.report.check()
            self._seconds = time.perf_counter() - start
        return self

    def _factorised(self, given: Any, tell: Tell | None) -> Held:
        """Factorise; with somebody to tell, wait.

        Args:
            given: The lower triangle's values, on the device.
            tell: Whom to tell of the progress.
        """
        values = given
        if given.dtype != self.dtype:
            values = self._filled(self._numeric.converted(given.dtype), given, self.dtype)
        panels, before, self._held = self._panels, self._held, None
        if before is not None:
            before.close()
        del before  # and memory of the last part
        call = Call([values, panels], None, self.queue)
        if not call.state.in_order:  # calls before this one may still read the panels
            call.wait_for = [*(call.wait_for or ()), marker(call.state.queue)]
        inputs = call.input(values, "values")
        view = call.output(panels.shape, self.dtype, panels, "factor", read=True)
        report, found = call.beside((1, FIELDS), DTYPE)
        spilled = self._run(call, (inputs, view, report), tell)
        tell_fault = partial(self._complain, given.dtype)
        held = Held(self._numeric, self.queue, given, panels, spilled, Report(found, tell_fault))
        self._held = held
        if self._is_closed:  # a signal handler closed it meanwhile
            self.close()
        return held

    def _run(
        self, call: Call, views: tuple[View, View, View], tell: Tell | None
    ) -> SpilledFactor | None:
        """Enqueue the factorisation, or do it part by part; with somebody to tell, wait.

        Args:
            call: The call.
            views: Of the values, the panels and the report.
            tell: Whom to tell of the progress.
        """
        numeric, state = self._numeric, call.state
        arena = state.workspace(numeric.device.arena_bytes)
        if tell is None:
            return self._enqueue(call, views, arena, state.workspace(numeric.device.told_bytes))
        seen = None
        told: Any = None
        if self.engine.maps_host_memory:
            seen = np.full((max(1, len(self.symbolic.fronts)), FIELDS), UNTOLD, DTYPE)
            told = self.engine.in_place(seen, seen.nbytes, writable=True)
        else:
            told = state.workspace(numeric.device.told_bytes)
        made: list[SpilledFactor | None] = []

        def work() -> None:
            flop = sum(plan.flop for plan in numeric.factorisation)
            watch = Watch(flop, tell, seen)
            made.append(self._enqueue(call, views, arena, told, watch))
            watch.wait()

        run_to_the_end(state, [seen], work)
        return made[0]

    def _enqueue(
        self,
        call: Call,
        views: tuple[View, View, View],
        arena: Any,
        told: Any,
        watch: Watch | None = None,
    ) -> SpilledFactor | None:
        """Enqueue it, with memory for the arena and for what fronts report."""
        numeric, (values, _, report) = self._numeric, views
        if self._is_cut:
            wait(call)
            operands = [values.buffer, report.buffer, arena, told]
            return SpilledFactor(numeric, call.state, self._spill_dir, operands, watch)
        [plan] = numeric.factorisation
        whole = View(arena, 0, (numeric.device.arena_bytes,), (1,), np.dtype(np.uint8))
        lists = View(told, 0, (len(self.symbolic.fronts), FIELDS), (FIELDS, 1), DTYPE)
        call.run(plan if watch is None else watch.over(plan), (*views, whole, lists))
        return None

    def check(self) -> None:
        """Wait for the factorisation, and raise what it found.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
            ArgumentError: Nothing was factorised, or that was interrupted.
        """
        with self._lock:
            held = self._latest()
        held.report.check()

    def _brought(self, values: Any, triangle: str | None) -> Any:
        """The lower triangle's values of a matrix, or of stored values, on the device."""
        if self._held is not None:  # tables pay from the second factorisation on
            found = lower_on_device(self._numeric, self.queue, values, triangle)
            if found is not None:
                return found
        lower = self.symbolic.pattern.values(values, triangle)
        self._check_kind(lower.dtype)
        return asarray(lower, queue=self.queue)

    def _taken(self, stored: Any, triangle: str | None) -> Any:
        """The same of stored values on the device."""
        pattern = self.symbolic.pattern
        if tuple(stored.shape) != (pattern.stored,):
            raise ShapeError(
                f"values have shape {tuple(stored.shape)}; the matrix analysed stores "
                f"{pattern.stored}"
            )
        check_dtype(stored.dtype, "values")
        self._check_kind(stored.dtype)
        if pattern.order is not None:
            raise UnsupportedError(
                "values on the device: the matrix analysed stores elements more than once; "
                "call its sum_duplicates() before analyze"
            )
        if stored.size > 1 and stored.strides != (stored.dtype.itemsize,):
            raise ArgumentError(f"values have strides {stored.strides}; copy them to a dense array")
        return self._filled(self._numeric.lower(stored.dtype, triangle), stored, stored.dtype)

    def _filled(self, plan: Any, given: Any, dtype: np.dtype[Any]) -> Any:
        """An array of the lower triangle's values, which a plan fills."""
        call = Call([given], None, self.queue)
        view = call.input(given, "values")
        return call.run(plan, (view, call.output((self.symbolic.pattern.nnz,), dtype)))

    def _check_kind(self, dtype: np.dtype[Any]) -> None:
        if dtype.kind == "c" and self.dtype.kind != "c":
            raise DTypeError(f"values are {dtype} and the factor is {self.dtype}; make it complex")

    def _complain(self, given: np.dtype[Any], values: np.ndarray[Any, Any]) -> None:
        """Raise what a report of a matrix of ``given`` values says."""
        front_column, bits = (int(v) for v in values[0])
        if front_column < 0 or not self.symbolic.n:  # without fronts no kernel writes a report
            return
        wide = element(self.dtype).needs_fp64
        pivot = float(np.int64(bits).view(np.float64) if wide else np.int32(bits).view(np.float32))
        column = int(self.symbolic.front_columns[front_column])
        variable = int(self.perm[column])
        raise NotPositiveDefiniteError(
            f"the matrix is not positive definite: the pivot of variable {variable} (column "
            f"{column} of the permuted matrix) is {self._precisely(pivot, given)}",
            (), column, pivot, variable,
        )  # fmt: skip

    def _precisely(self, pivot: float, given: np.dtype[Any]) -> str:
        """A pivot, the precision in which it was found, and a better one if there is any."""
        found = f"{pivot:g} in {self.dtype}"
        if not is_narrower(self.dtype, given):
            return found
        return f"{found}; the values are {given}, and a factor of dtype={str(given)!r} may exist"

    # -- solve

    def solve(
        self, b: Any, system: str = "A", *, refine: str | int | None = None, out: Any = None
    ) -> Any:
        """Solve ``A X = B``, or with a part of the factorisation.

        Args:
            b: Shape (n,) or (n, k), of NumPy or on the device, with any strides; not modified.
                Or a ``scipy.sparse`` array or matrix, n x k, of which 64 columns are solved with at
                a time.  Integers and booleans are converted to the dtype of the result.
            system: ``A``; ``L``: L X = B; ``Lt``: L^H X = B; ``P``: X = B[perm]; ``Pt``:
                X[perm] = B, both without any rounding of B.
            refine: Corrections ``X += A^-1 (B - A X)`` of system ``A``, with residuals in the
                dtype of the result: their number, at most 64, or ``auto``: until the backward
                error of every column is 2 eps, or falls less than tenfold; each step then waits.
            out: An array for the result, not of a sparse ``b``.

        Returns:
            X, of ``b``'s shape and kind, in NumPy's common dtype of the factor, A's values and
            ``b``.  On the device it is enqueued only: a matrix without a factor raises where its
            values are looked at.  Of a sparse ``b`` a ``csc_array`` (``csc_matrix`` of a matrix)
            without stored zeros; where X is full it takes 1.5 times the memory of a dense one.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
            ShapeError, DTypeError, ArgumentError: ``b``, ``refine`` or ``out`` does not fit.

        Cost: 4 multiplications and additions for each element of L and column of B; a correction as
            much, and a pass over A.

        Accuracy: Refined, the backward error ``|B - A X| / (|A| |X| + |B|)`` (largest elements, and
            row sums of A) is about eps of the values' dtype, if A's condition number times eps of
            L's is below 1 (Higham, Accuracy and Stability, 2002, 12.1).

        Determinism: The same bits on the same target, run after run, for the same k.
        """
        one_of(system, SYSTEMS, "system")
        refine = corrections(refine)
        if refine is not None and system != "A":
            raise ArgumentError(f"refine is {refine!r}, and system {system!r}; A alone is refined")
        if scipy.sparse.issparse(b):
            return self._solve_sparse(b, system, refine, out)
        b = as_array(b, "b")
        if b.dtype.kind not in "biu":
            check_dtype(b.dtype, "b")
        if b.ndim not in (1, 2) or b.shape[0] != self.symbolic.n:
            n = self.symbolic.n
            raise ShapeError(f"b has shape {tuple(b.shape)}; ({n},) or ({n}, k) is needed")
        host = isinstance(b, np.ndarray)
        with self._lock:  # of one factor, with its values
            held = self._latest()
            dtype = np.result_type(self.dtype, held.values.dtype, b.dtype)
            require_fp64(self.engine, dtype)
            if out is not None:
                check_output(out, tuple(b.shape), dtype, "out", host)
            if host:
                held.report.check()
            given = b
            if b.dtype.kind in "biu":
                given = b.astype(dtype) if host else converted(b, dtype, queue=self.queue)
            given = asarray(given, queue=self.queue) if host else given
            result = held.solve(given, dtype, system, refine)
        if host:
            found = asnumpy(result)
            if out is None:
                return found
            out[...] = found
            return out
        if out is not None:
            result = elementwise("x", x=result, out=out, queue=self.queue)
        result.reports = (*reports_of(b), held.report)
        return result

    def _solve_sparse(self, b: Any, system: str, refine: str | int | None, out: Any) -> Any:
        """The solution of a sparse B, of whose columns those with elements are solved with."""
        n = self.symbolic.n
        if b.ndim != 2 or b.shape[0] != n:
            raise ShapeError(f"b has shape {tuple(b.shape)}; a sparse one is ({n}, k)")
        if out is not None:
            raise ArgumentError("out is an array, and b is sparse, whose solution is sparse, too")
        if b.dtype.kind not in "biu":
            check_dtype(b.dtype, "b")
        columns = scipy.sparse.csc_array(b)
        used = np.flatnonzero(np.diff(columns.indptr))
        width = min(len(used), _SPARSE_COLUMNS)
        found = []
        with self._lock:  # all of it by one factor
            dtype = np.result_type(self.dtype, self._latest().values.dtype, b.dtype)
            for start in range(0, len(used), _SPARSE_COLUMNS):
                part = columns[:, used[start : start + width]].toarray()
                given = np.zeros((n, width), part.dtype)  # of one shape, whose kernels are one
                given[:, : part.shape[1]] = part
                x = self.solve(given, system, refine=refine)
                found.append(scipy.sparse.csc_array(x[:, : part.shape[1]]))
        counts = np.zeros(b.shape[1] + 1, np.int64)
        counts[used + 1] = np.concatenate([np.zeros(0, int), *(np.diff(x.indptr) for x in found)])
        rows = np.concatenate([np.zeros(0, np.int32), *(x.indices for x in found)])
        data = np.concatenate([np.zeros(0, dtype), *(x.data for x in found)])
        kind = scipy.sparse.csc_matrix if scipy.sparse.isspmatrix(b) else scipy.sparse.csc_array
        return kind((data, rows, np.cumsum(counts)), shape=b.shape)

    def __call__(self, b: Any) -> Any:
        """``solve(b)``."""
        return self.solve(b)

    # -- what is known of L

    @property
    def perm(self) -> np.ndarray[Any, Any]:
        """The permutation: row k of the permuted matrix is row ``perm[k]`` of A."""
        return self.symbolic.perm

    @property
    def shape(self) -> tuple[int, int]:
        """That of A."""
        return self.symbolic.n, self.symbolic.n

    @property
    def stats(self) -> Stats:
        """What it took."""
        device, flop = self._numeric.device, self.symbolic.flops
        times = {**self.symbolic.times, "plan": self._planned, "factorise": self._seconds}
        return Stats(
            times=times,
            flop=flop,
            gflops=flop / self._seconds / 1e9,
            nnz=self.symbolic.nnz,
            factor_bytes=device.size * self.dtype.itemsize,
            workspace_bytes=self._numeric.workspace_bytes,
            table_bytes=self._numeric.table_bytes,
            fronts=len(self.symbolic.fronts),
            subtrees=sum(len(chunk.subtrees) for chunk in self._numeric.schedule.chunks),
        )

    def logdet(self) -> float:
        """The natural logarithm of the determinant of A.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.

        Cost: The diagonal of L is brought to the host, and its logarithms summed in float64.
        """
        return float(2 * np.log(self._diagonal().real.astype(np.float64)).sum())

    def slogdet(self) -> tuple[float, float]:
        """The sign of the determinant, which is 1, and its logarithm, as :func:`numpy.linalg`."""
        return 1.0, self.logdet()

    def inv_diag(self) -> np.ndarray[Any, Any]:
        """The diagonal of A's inverse: the variances of variables whose precision A is.

        It is computed on the device, in the factor's precision, from the elements of L and those
        of the inverse that have the same places.

        Returns:
            Shape (n,), real, of the factor's precision.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
            DeviceMemoryError: There is no room for the inverses of the fronts.

        Cost: About 2.5 times the multiplications and additions of the factorisation; the inverses
            of the fronts of two levels of the tree lie on the device besides: where the problem has
            three dimensions 1.2 times the memory of L, 0.7 times where L is on the disk.

        Accuracy: Relative errors of about the condition of A times a unit of rounding.

        Determinism: The same bits on the same target, run after run.
        """
        n = self.symbolic.n
        diagonal = np.empty(n, np.zeros(0, self.dtype).real.dtype)
        with self._lock:
            held = self._checked()
            found = held.inverse_diagonal() if n else diagonal
        diagonal[self.symbolic.front_perm] = asnumpy(found).real
        return diagonal

    def _diagonal(self) -> np.ndarray[Any, Any]:
        with self._lock:
            return self._checked().diagonal()

    def L(self) -> Any:  # noqa: N802  # its name everywhere
        """L as a ``scipy.sparse.csc_array``, in the permuted numbering.

        Zeros that merged supernodes store are left out.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
        """
        rows, pointers, places = self._numeric.positions()
        with self._lock:
            data = self._checked().on_host()[places]
        found = scipy.sparse.csc_array((data, rows, pointers), shape=self.shape)
        found.eliminate_zeros()
        place = self.symbolic.front_columns
        if np.array_equal(place, np.arange(len(place))):
            return found
        entries = found.tocoo()
        index = place[entries.row], place[entries.col]
        return scipy.sparse.csc_array((entries.data, index), shape=self.shape)

    def as_linear_operator(self) -> Any:
        """A ``scipy.sparse.linalg.LinearOperator`` that multiplies by A's inverse.

        Its dtype is the common one of the factor and of A's values.

        Raises:
            ArgumentError: The factor has no values.
        """
        from scipy.sparse.linalg import LinearOperator

        with self._lock:
            dtype = np.result_type(self.dtype, self._latest().values.dtype)
        return LinearOperator(
            self.shape, matvec=self.solve, matmat=self.solve, rmatvec=self.solve,
            rmatmat=self.solve, dtype=dtype,
        )  # fmt: skip

    # -- life

    def close(self) -> None:
        """Let go of the device's memory, and of a file; what was enqueued ends as it should."""
        self._is_closed = True
        is_within = self._lock._is_owned()
        with self._lock:
            held, self._held, self._panels = self._held, None, None
            if held is not None and not is_within:  # else the call that goes on reads it
                held.close()

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a Factor lies on a device and cannot be pickled; pickle its symbolic and the values"
        )

    def __repr__(self) -> str:
        n, nnz = self.symbolic.n, self.symbolic.nnz
        state = "closed" if self._is_closed else str(self.dtype)
        return f"<Factor n={n} nnz(L)={nnz} {state}>"

    def _check_open(self) -> None:
        if self._is_closed:
            raise ArgumentError("the factor is closed; make another")

    def _latest(self) -> Held:
        """The latest factor; the caller holds the lock until its work is enqueued."""
        self._check_open()
        held = self._held
        if held is None:
            raise ArgumentError(
                "the factor has no values: none were given, or their factorisation was "
                "interrupted or goes on; call refactorize"
            )
        return held

    def _checked(self) -> Held:
        """The latest factor, once its report says that the matrix has one."""
        held = self._latest()
        held.report.check()
        return held
