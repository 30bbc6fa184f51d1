"""Sparse Cholesky factors on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

from portable_gpu.arguments import one_of
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError, NotPositiveDefiniteError, ShapeError
from portable_gpu.ops.factor.arguments import check_dtype, require_fp64
from portable_gpu.ops.gemm.problem import Operand
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import state_for
from portable_gpu.runtime.report import DTYPE, FIELDS, Report, reports_of
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.runtime.views import as_array, new_array
from portable_gpu.sparse.numeric import SYSTEMS, Numeric


class Factor:
    """A Cholesky factor ``P A P^T = L L^H`` of a sparse matrix, kept on the device.

    Attributes:
        symbolic: The analysis that it was made by.
        dtype: Of L's elements.
        engine, queue: Where it lies; its calls run there.
    """

    def __init__(
        self,
        symbolic: Any,
        dtype: np.dtype[Any],
        engine: Engine | None,
        queue: cl.CommandQueue | None,
    ) -> None:
        state = state_for([], engine, queue)
        self.symbolic, self.dtype = symbolic, np.dtype(dtype)
        self.engine, self.queue = state.engine, queue or state.engine.queue
        require_fp64(self.engine, self.dtype)
        self._numeric = Numeric(self.engine, symbolic.fronts, symbolic.perm, self.dtype)
        self._factor = new_array(state, self.queue, (self._numeric.device.size,), self.dtype)
        self._report: Report | None = None

    @property
    def perm(self) -> Any:
        """The permutation: column k of the permuted matrix is column ``perm[k]`` of A."""
        return self.symbolic.perm

    def refactorize(self, values: Any) -> Factor:
        """Factorise a matrix within the same pattern.

        Args:
            values: A ``scipy.sparse`` array or matrix; NumPy's array of the values that the matrix
                analysed stores, in their order; or the values of ``symbolic.pattern``, the lower
                triangle by rows, on the device: these are not looked at.
        """
        device = isinstance(values, cla.Array)
        array = values if device else self.symbolic.pattern.values(values).astype(self.dtype)
        self._report = None
        given = asarray(array, queue=self.queue)
        call = Call([given, self._factor], None, self.queue)
        inputs = call.input(given, "values")
        view = call.output(self._factor.shape, self.dtype, self._factor, "factor", read=True)
        report, told = call.beside((1, FIELDS), DTYPE)
        if len(self.symbolic.fronts):
            call.run(self._numeric.factorise(), (inputs, view, report))
            self._report = Report(told, self._complain)
        if not device:
            self.check()
        return self

    def check(self) -> None:
        """Wait for the factorisation, and raise what it found.

        Raises:
            NotPositiveDefiniteError: The matrix has no factor.
        """
        if self._report is None:
            if len(self.symbolic.fronts):
                raise ArgumentError("the factor has no values; call refactorize")
            return
        self._report.check()

    def solve(self, b: Any, system: str = "A") -> Any:
        """Solve ``A X = B``, or with a part of the factorisation.

        Args:
            b: Shape (n,) or (n, k), of NumPy or of the device.
            system: ``A``; ``L``: L X = B; ``Lt``: L^H X = B; ``P``: X = P B; ``Pt``: X = P^T B.
        """
        one_of(system, SYSTEMS, "system")
        array = as_array(b, "b")
        n = self.symbolic.n
        if array.ndim not in (1, 2) or array.shape[0] != n:
            raise ShapeError(f"b has shape {tuple(array.shape)}; ({n},) or ({n}, k) is needed")
        host = isinstance(array, np.ndarray)
        if host:
            array = asarray(np.ascontiguousarray(array, self.dtype), queue=self.queue)
        check_dtype(array.dtype, "b")
        if array.dtype != self.dtype:
            raise DTypeError(f"b is {array.dtype} and the factor {self.dtype}")
        call = Call([array, self._factor], None, self.queue)
        view = call.input(array, "b")
        factor = call.input(self._factor, "factor")
        out = call.output(tuple(array.shape), self.dtype)
        count = 1 if array.ndim == 1 else array.shape[1]
        plan = None
        if n and count:
            elem = element(self.dtype)
            lies = [Operand(elem, one.strides[0], one.strides[-1]) for one in (view, out)]
            plan = self._numeric.solve(system, count, *lies)
        result = call.run(plan, (factor, view, out))
        reports = () if self._report is None else (self._report,)
        result.reports = (*reports_of(array), *reports)
        return asnumpy(result) if host else result

    def _complain(self, values: np.ndarray[Any, Any]) -> None:
        column, bits = (int(v) for v in values[0])
        if column < 0:
            return
        wide = element(self.dtype).needs_fp64
        pivot = float(np.int64(bits).view(np.float64) if wide else np.int32(bits).view(np.float32))
        variable = int(self.perm[column])
        raise NotPositiveDefiniteError(
            f"the matrix is not positive definite: the pivot of variable {variable}, eliminated as "
            f"column {column}, is {pivot:g}",
            (), column, pivot, variable,
        )  # fmt: skip
