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
    ArgumentTypeError,
    ContextMismatchError,
    DTypeError,
    NotPositiveDefiniteError,
    ShapeError,
    UnsupportedError,
)
from portable_gpu.linalg.refinement import corrections
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factor.arguments import CHECKS, check_dtype
from portable_gpu.ops.reduce.conversion import converted
from portable_gpu.progress import ProgressCallback, progress_callback
from portable_gpu.runtime.array import DEVICE_KINDS
from portable_gpu.runtime.call import Call, run_to_the_end
from portable_gpu.runtime.closing import Closing
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.events import marker
from portable_gpu.runtime.place import check_place
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.report import DTYPE, FIELDS, KernelReport, reports_of
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import View, as_array, check_output, new_array
from portable_gpu.sparse.formats import factor_dtype, is_narrower
from portable_gpu.sparse.lower import lower_on_device
from portable_gpu.sparse.memory import scheduled
from portable_gpu.sparse.numeric import SYSTEMS, Numeric
from portable_gpu.sparse.out_of_core import SpilledFactor
from portable_gpu.sparse.parts import FactorParts
from portable_gpu.sparse.progress import NOT_REPORTED, ProgressMonitor
from portable_gpu.sparse.solution import FactorState, wait
from portable_gpu.sparse.stats import Stats
from portable_gpu.sparse.symbolic import Symbolic
from portable_gpu.targets.precision import require_fp64

#: Columns of a sparse right-hand side in a block: enough for efficient products of the fronts; a
#: dense block has 512 bytes in each row.
_SPARSE_COLUMNS = 64


class Factor(Closing):
    """A Cholesky factor of a sparse matrix, on a device: ``L L^H = A[perm][:, perm]``.

    :func:`portable_gpu.sparse.cholesky` creates it.  It is thread-safe: a call during another
    thread's :meth:`refactorize` waits, and uses either the previous or the new factor as a whole.

    An exception of a signal handler, such as KeyboardInterrupt, may interrupt any call.  After an
    interrupted :meth:`refactorize` other calls raise until the matrix is factorised again; an
    interruption of another call changes nothing.  A signal handler that calls the factor during
    another call gets an ArgumentError if one of the two calls is :meth:`refactorize`.

    Attributes:
        symbolic: The symbolic analysis.
        dtype: The dtype of L.
        engine, queue: The engine and the queue of L and of all calls.  Methods have no
            ``wait_for``: they wait for the events of the device arrays that they take, to which
            :meth:`portable_gpu.Array.add_event` adds others.
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
        """Allocate the memory; the factor has no values yet.

        Args:
            symbolic: The symbolic analysis.
            dtype: The dtype of L.
            engine, queue: The engine, or the queue, of L.
            memory_limit: The maximum bytes of device memory for L during the factorisation.  If L
                is larger, it is computed in chunks, and all chunks except the last are written to
                the disk; calls then block until they are finished.  The bits of the results are the
                same.  A solve keeps the last chunk in addition, so it needs up to twice the limit.
                ``symbolic.memory_estimate`` gives the additional memory of update matrices, scratch
                and tables.
            spill_dir: The folder for the chunks; None for the system's folder for temporary files.
                The file is unnamed, so it disappears however the process ends.

        Raises:
            ArgumentTypeError: ``symbolic``, ``spill_dir``, ``engine`` or ``queue`` is of the wrong
                type.
            DTypeError: ``dtype`` is not supported.
            UnsupportedError: The device lacks double precision.
            DeviceMemoryError: The device has too little memory; the message has the figures, and
                nothing is allocated.  Or ``memory_limit`` is smaller than the largest supernode.
        """
        start = time.perf_counter()
        check_place(engine, queue)
        if spill_dir is not None and not isinstance(spill_dir, (str, os.PathLike)):
            raise ArgumentTypeError(
                f"spill_dir is {shown(spill_dir)}; expected the path of a folder"
            )
        state = state_for([], engine, queue)
        self.symbolic, self.dtype = of_kind(symbolic, Symbolic, "symbolic"), factor_dtype(dtype)
        self.engine, self.queue = state.engine, queue or state.engine.queue
        require_fp64(self.engine.target, self.dtype)
        limit = None if memory_limit is None else whole(memory_limit, "memory_limit")
        self._numeric = self._plans(limit)
        self._spill_dir, self._is_closed = spill_dir, False
        size = 0 if self._is_in_parts else self._numeric.device.size
        self._panels = new_array(state, self.queue, (size,), self.dtype)
        self._current: FactorState | None = None  # assigned once the state is complete
        self._lock: Any = threading.RLock()  # a signal handler may call in the middle of a call
        self._planned, self._seconds = time.perf_counter() - start, float("nan")

    def _plans(self, limit: int | None) -> Numeric:
        """Return the plans, for an L of at most ``limit`` bytes on the device."""
        elem = element(self.dtype)
        schedule = scheduled(self.symbolic.fronts, self.engine.target, elem, limit)
        return Numeric(self.engine, self.symbolic, self.dtype, *schedule)

    @property
    def _is_in_parts(self) -> bool:
        """Whether L is not in one buffer of the device."""
        return len(self._numeric.schedule.chunks) > 1

    # -- factorise

    def refactorize(
        self,
        values: Any,
        *,
        triangle: str | None = None,
        check: str = "late",
        progress: Any = None,
    ) -> Factor:
        """Factorise another matrix of the same pattern, in place.

        Args:
            values: A ``scipy.sparse`` matrix within the analysed pattern; or the stored values of a
                matrix like the analysed one, in its order: shape (stored,), a NumPy or device
                array.  Values on the device are not checked: the call enqueues, and returns.
            triangle: ``lower`` or ``upper``: only this triangle is read.  None: as in the analysis.
            check: For values on the device, when NotPositiveDefiniteError is raised: ``late``, when
                the values of a solution are copied to the host; ``now``, by this call, which waits.
            progress: True shows a bar if stderr is a terminal (by the package rich).  A function is
                called as ``progress(done, total)`` with the completed and with all operations,
                including those on the zeros of merged supernodes, from 0 up to the total.  The call
                waits then.  Operations are counted when the queue has completed a step; on a CPU
                when a front is completed.

        Returns:
            This factor.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.  Another matrix may follow.
            ShapeError, DTypeError, ArgumentError: ``values`` or ``triangle`` is not valid; L is
                unchanged.
            UnsupportedError: ``progress`` is True on a terminal, without the package rich.
            ArgumentTypeError: ``progress`` is neither True nor callable.  An exception that it
                raises propagates; the factor then has no values until it is refactorised.

        Cost: ``symbolic.flops`` multiplications and additions; four times this number if complex.

        Accuracy: That of LAPACK's ``potrf``: ``|A - L L^H| <= m eps |L| |L^H|`` by elements, where
            m is the maximum number of elements in a row of L (Higham, Accuracy and Stability, 2002,
            10.1).

        Determinism: The same bits on the same target in every run.
        """
        one_of(check, CHECKS, "check")
        on_device = isinstance(values, DEVICE_KINDS)
        start = time.perf_counter()
        is_within = self._lock._is_owned()  # whether this thread is within another call
        with self._lock, progress_callback(progress, "factorisation") as callback:
            self._check_open()
            if is_within:
                raise ArgumentError(
                    "refactorize is called in the midst of another call of this factor, by a "
                    "signal handler, a destructor or progress; call it when that has returned"
                )
            lower_of = self._values_from_device if on_device else self._values_from_host
            lower = lower_of(values, triangle)
            current = self._factorised(lower, callback)
        if not on_device or check == "now":
            current.report.check()
            self._seconds = time.perf_counter() - start
        return self

    def _factorised(self, lower: Any, callback: ProgressCallback | None) -> FactorState:
        """Factorise; wait if there is a progress callback.

        Args:
            lower: The values of the lower triangle, on the device.
            callback: The progress callback.
        """
        values = lower
        if lower.dtype != self.dtype:
            values = self._gather_lower(self._numeric.converted(lower.dtype), lower, self.dtype)
        panels, previous, self._current = self._panels, self._current, None
        if previous is not None:
            previous.close()
        del previous  # frees the memory of its last chunk
        call = Call([values, panels], None, self.queue)
        if not call.state.in_order:  # calls before this one may still read the panels
            call.wait_for = [*(call.wait_for or ()), marker(call.state.queue)]
        inputs = call.input(values, "values")
        view = call.output(panels.shape, self.dtype, panels, "factor", read=True)
        report, status = call.additional_output((1, FIELDS), DTYPE)
        parts = self._run(call, (inputs, view, report), callback)
        on_failure = partial(self._raise_if_failed, lower.dtype)
        current = FactorState(
            self._numeric, self.queue, lower, panels, parts, KernelReport(status, on_failure)
        )
        self._current = current
        if self._is_closed:  # a signal handler closed it meanwhile
            self.close()
        return current

    def _run(
        self, call: Call, views: tuple[View, View, View], callback: ProgressCallback | None
    ) -> FactorParts | None:
        """Enqueue the factorisation, or compute it in chunks; wait if there is a callback.

        Args:
            call: The call.
            views: The views of the values, the panels and the report.
            callback: The progress callback.
        """
        numeric, state = self._numeric, call.state
        arena = state.workspace(numeric.device.arena_bytes)
        if callback is None:
            return self._enqueue(
                call, views, arena, state.workspace(numeric.device.pivot_status_bytes)
            )
        host_status = None
        status: Any = None
        if self.engine.maps_host_memory:
            host_status = np.full((max(1, len(self.symbolic.fronts)), FIELDS), NOT_REPORTED, DTYPE)
            status = self.engine.in_place(host_status, host_status.nbytes, writable=True)
        else:
            status = state.workspace(numeric.device.pivot_status_bytes)
        parts: list[FactorParts | None] = []

        def work() -> None:
            flop = sum(plan.flop for plan in numeric.factorisation)
            monitor = ProgressMonitor(flop, callback, host_status)
            parts.append(self._enqueue(call, views, arena, status, monitor))
            monitor.wait()

        run_to_the_end(state, [host_status], work)
        return parts[0]

    def _enqueue(
        self,
        call: Call,
        views: tuple[View, View, View],
        arena: Any,
        status: Any,
        monitor: ProgressMonitor | None = None,
    ) -> FactorParts | None:
        """Enqueue the factorisation, with memory for the arena and for the pivot status."""
        numeric, (values, _, report) = self._numeric, views
        if self._is_in_parts:
            wait(call)
            operands = [values.buffer, report.buffer, arena, status]
            return SpilledFactor(numeric, call.state, self._spill_dir, operands, monitor)
        [plan] = numeric.factorisation
        whole = View(arena, 0, (numeric.device.arena_bytes,), (1,), np.dtype(np.uint8))
        lists = View(status, 0, (len(self.symbolic.fronts), FIELDS), (FIELDS, 1), DTYPE)
        call.run(plan if monitor is None else monitor.monitored(plan), (*views, whole, lists))
        return None

    def check(self) -> None:
        """Wait for the factorisation, and raise its error, if there is one.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
            ArgumentError: No matrix was factorised, or the factorisation was interrupted.
        """
        with self._lock:
            current = self._latest()
        current.report.check()

    def _values_from_host(self, values: Any, triangle: str | None) -> Any:
        """Copy the lower triangle of a matrix, or of stored values, to the device."""
        if self._current is not None:  # tables are worth their cost from the second matrix on
            gathered = lower_on_device(self._numeric, self.queue, values, triangle)
            if gathered is not None:
                return gathered
        lower = self.symbolic.pattern.values(values, triangle)
        self._check_kind(lower.dtype)
        return asarray(lower, queue=self.queue)

    def _values_from_device(self, stored: Any, triangle: str | None) -> Any:
        """Gather the lower triangle of stored values on the device."""
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
        return self._gather_lower(self._numeric.lower(stored.dtype, triangle), stored, stored.dtype)

    def _gather_lower(self, plan: Any, stored: Any, dtype: np.dtype[Any]) -> Any:
        """Run a plan that gathers the values of the lower triangle into a new array."""
        call = Call([stored], None, self.queue)
        view = call.input(stored, "values")
        return call.run(plan, (view, call.output((self.symbolic.pattern.nnz,), dtype)))

    def _check_kind(self, dtype: np.dtype[Any]) -> None:
        if dtype.kind == "c" and self.dtype.kind != "c":
            raise DTypeError(f"values are {dtype} and the factor is {self.dtype}; make it complex")

    def _raise_if_failed(self, dtype: np.dtype[Any], values: np.ndarray[Any, Any]) -> None:
        """Raise NotPositiveDefiniteError if a report, of values of ``dtype``, has a failure."""
        front_column, bits = (int(v) for v in values[0])
        if front_column < 0 or not self.symbolic.n:  # without fronts no kernel writes a report
            return
        wide = element(self.dtype).needs_fp64
        pivot = float(np.int64(bits).view(np.float64) if wide else np.int32(bits).view(np.float32))
        column = int(self.symbolic.front_columns[front_column])
        variable = int(self.perm[column])
        raise NotPositiveDefiniteError(
            f"the matrix is not positive definite: the pivot of variable {variable} (column "
            f"{column} of the permuted matrix) is {self._describe_pivot(pivot, dtype)}",
            (), column, pivot, variable,
        )  # fmt: skip

    def _describe_pivot(self, pivot: float, dtype: np.dtype[Any]) -> str:
        """Describe a pivot and its precision, and a higher precision if there is one."""
        description = f"{pivot:g} in {self.dtype}"
        if not is_narrower(self.dtype, dtype):
            return description
        return (
            f"{description}; the values are {dtype}, and a factor of dtype={str(dtype)!r} may exist"
        )

    # -- solve

    def solve(
        self, b: Any, system: str = "A", *, refine: str | int | None = None, out: Any = None
    ) -> Any:
        """Solve ``A X = B``, or with a part of the factorisation.

        Args:
            b: Shape (n,) or (n, k), a NumPy or device array with any strides; not modified.  Or a
                ``scipy.sparse`` array or matrix, n x k, which is processed in blocks of 64 columns.
                Integers and booleans are converted to the dtype of the result.
            system: ``A``: A X = B; ``L``: L X = B; ``Lt``: L^H X = B; ``P``: X = B[perm]; ``Pt``:
                X[perm] = B.  The last two do not round B.
            refine: Corrections ``X += A^-1 (B - A X)`` of system ``A``, with residuals in the dtype
                of the result.  Either their number, at most 64; or ``auto``: until the backward
                error of every column is 2 eps, or a step reduces it by less than a factor of ten;
                then each step waits.
            out: An array for the result, unless ``b`` is sparse.

        Returns:
            X, of ``b``'s shape and kind, in NumPy's common dtype of the factor, A's values and
            ``b``.  A result on the device is only enqueued: NotPositiveDefiniteError is raised when
            its values are copied to the host.  For a sparse ``b`` the result is a ``csc_array``
            (``csc_matrix`` for a matrix) without stored zeros; if X is full, it takes 1.5 times the
            memory of a dense array.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
            ShapeError, DTypeError, ArgumentError: ``b``, ``refine`` or ``out`` is not valid.
            ContextMismatchError: ``b`` is of another OpenCL context.

        Cost: 4 multiplications and additions for each element of L and column of B; the same for
            each correction, plus a pass over A.

        Accuracy: With refinement the backward error of each column, ``norm(b - A x) / (norm(A)
            norm(x) + norm(b))`` in infinity norms, is about eps of the values' dtype, if A's
            condition number times eps of L's dtype is below 1 (Higham, Accuracy and Stability,
            2002, 12.1).

        Determinism: The same bits on the same target in every run, for the same k.
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
        if not host and b.context != self.queue.context:
            raise ContextMismatchError("b is of another OpenCL context than the factor")
        with self._lock:  # use one factor together with its values
            current = self._latest()
            dtype = np.result_type(self.dtype, current.values.dtype, b.dtype)
            require_fp64(self.engine.target, dtype)
            if out is not None:
                check_output(out, tuple(b.shape), dtype, "out", host)
            if host:
                current.report.check()
            rhs = b
            if b.dtype.kind in "biu":
                rhs = b.astype(dtype) if host else converted(b, dtype, queue=self.queue)
            rhs = asarray(rhs, queue=self.queue) if host else rhs
            result = current.solve(rhs, dtype, system, refine)
        if host:
            solution = asnumpy(result)
            if out is None:
                return solution
            out[...] = solution
            return out
        if out is not None:
            result = elementwise("x", x=result, out=out, queue=self.queue)
        result.reports = (*reports_of(b), current.report)
        return result

    def _solve_sparse(self, b: Any, system: str, refine: str | int | None, out: Any) -> Any:
        """Solve for a sparse B, by blocks of its columns that have elements."""
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
        blocks = []
        with self._lock:  # use the same factor for all blocks
            dtype = np.result_type(self.dtype, self._latest().values.dtype, b.dtype)
            for start in range(0, len(used), _SPARSE_COLUMNS):
                part = columns[:, used[start : start + width]].toarray()
                # All blocks have the same shape, so that the same kernels solve them.
                block = np.zeros((n, width), part.dtype)
                block[:, : part.shape[1]] = part
                x = self.solve(block, system, refine=refine)
                blocks.append(scipy.sparse.csc_array(x[:, : part.shape[1]]))
        counts = np.concatenate([np.zeros(0, int), *(np.diff(x.indptr) for x in blocks)])
        indptr = np.zeros(b.shape[1] + 1, np.int64)
        indptr[used + 1] = counts  # other columns have no elements
        rows = np.concatenate([np.zeros(0, np.int32), *(x.indices for x in blocks)])
        data = np.concatenate([np.zeros(0, dtype), *(x.data for x in blocks)])
        kind = scipy.sparse.csc_matrix if scipy.sparse.isspmatrix(b) else scipy.sparse.csc_array
        return kind((data, rows, np.cumsum(indptr)), shape=b.shape)

    def __call__(self, b: Any) -> Any:
        """Return ``solve(b)``."""
        return self.solve(b)

    # -- properties of A and L

    @property
    def perm(self) -> np.ndarray[Any, Any]:
        """The permutation: row k of the permuted matrix is row ``perm[k]`` of A."""
        return self.symbolic.perm

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of A."""
        return self.symbolic.n, self.symbolic.n

    @property
    def stats(self) -> Stats:
        """The time, work and memory of this factor."""
        device, flop = self._numeric.device, self.symbolic.flops
        workspace, tables = self._memory()
        times = {**self.symbolic.times, "plan": self._planned, "factorise": self._seconds}
        return Stats(
            times=times,
            flop=flop,
            gflops=flop / self._seconds / 1e9,
            nnz=self.symbolic.nnz,
            factor_bytes=device.size * self.dtype.itemsize,
            workspace_bytes=workspace,
            table_bytes=tables,
            fronts=len(self.symbolic.fronts),
            subtrees=sum(len(chunk.subtrees) for chunk in self._numeric.schedule.chunks),
        )

    def _memory(self) -> tuple[int, int]:
        """Return the bytes of the workspace and of the tables of a factorisation."""
        return self._numeric.memory_of(self._numeric.factorisation)

    def logdet(self) -> float:
        """Compute the natural logarithm of the determinant of A.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.

        Cost: The diagonal of L is copied to the host, and its logarithms are summed in float64.
        """
        return float(2 * np.log(self._diagonal().real.astype(np.float64)).sum())

    def slogdet(self) -> tuple[float, float]:
        """Return the sign of the determinant, 1, and its logarithm: ``numpy.linalg.slogdet``."""
        return 1.0, self.logdet()

    def inv_diag(self) -> np.ndarray[Any, Any]:
        """Compute the diagonal of A's inverse: the variances, if A is a precision matrix.

        It is computed on the device, in the factor's precision, by selected inversion: only the
        elements of the inverse in the pattern of L are computed.

        Returns:
            Shape (n,), real, of the factor's precision.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
            DeviceMemoryError: The device has too little memory for the inverses of the fronts.

        Cost: About 2.5 times the multiplications and additions of the factorisation.  The inverses
            of the fronts of two levels of the tree need additional device memory: for problems in
            three dimensions 1.2 times the memory of L, and 0.7 times if L is on the disk.

        Accuracy: Relative errors of about the condition number of A times a unit of rounding.

        Determinism: The same bits on the same target in every run.
        """
        n = self.symbolic.n
        diagonal = np.empty(n, np.zeros(0, self.dtype).real.dtype)
        with self._lock:
            current = self._checked()
            inverse = current.inverse_diagonal() if n else diagonal
        diagonal[self.symbolic.front_perm] = asnumpy(inverse).real
        return diagonal

    def _diagonal(self) -> np.ndarray[Any, Any]:
        with self._lock:
            return self._checked().diagonal()

    def L(self) -> Any:  # noqa: N802  # its name everywhere
        """Return L as a ``scipy.sparse.csc_array``, in the permuted numbering.

        The zeros that merged supernodes store are removed.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
        """
        rows, pointers, positions = self._numeric.positions()
        with self._lock:
            data = self._checked().on_host()[positions]
        lower = scipy.sparse.csc_array((data, rows, pointers), shape=self.shape)
        lower.eliminate_zeros()
        columns = self.symbolic.front_columns
        if np.array_equal(columns, np.arange(len(columns))):
            return lower
        entries = lower.tocoo()
        index = columns[entries.row], columns[entries.col]
        return scipy.sparse.csc_array((entries.data, index), shape=self.shape)

    def as_linear_operator(self) -> Any:
        """Return a ``scipy.sparse.linalg.LinearOperator`` that multiplies by A's inverse.

        Its dtype is the common dtype of the factor and of A's values.

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

    # -- lifetime

    def close(self) -> None:
        """Free the device's memory and the file; enqueued work is completed."""
        self._is_closed = True
        is_within = self._lock._is_owned()
        with self._lock:
            current, self._current, self._panels = self._current, None, None
            if current is not None and not is_within:  # else the interrupted call still reads it
                current.close()

    def __reduce__(self) -> Any:
        raise UnsupportedError(
            "a Factor is on a device and cannot be pickled; pickle its symbolic and the values"
        )

    def __repr__(self) -> str:
        n, nnz = self.symbolic.n, self.symbolic.nnz
        state = "closed" if self._is_closed else str(self.dtype)
        return f"<Factor n={n} nnz(L)={nnz} {state}>"

    def _check_open(self) -> None:
        if self._is_closed:
            raise ArgumentError("the factor is closed; make another")

    def _latest(self) -> FactorState:
        """Return the latest factor; the caller holds the lock until its work is enqueued."""
        self._check_open()
        current = self._current
        if current is None:
            raise ArgumentError(
                "the factor has no values: none were given, or their factorisation was "
                "interrupted or goes on; call refactorize"
            )
        return current

    def _checked(self) -> FactorState:
        """Wait for the latest factor, raise its error if it failed, and return it."""
        current = self._latest()
        current.report.check()
        return current
