r"""Sparse Cholesky factors on a group: devices have parts of the elimination tree.

:mod:`portable_gpu.sparse.partition` cuts the tree into subtrees and the fronts above them::

                     t          level 2: device 0
                  /     \
               s           u    level 1: device 0 factorises s, device 1 factorises u
             /   \       /   \
            a     b     c     d    level 0: device 0 has a and b, device 1 has c and d

A part's update matrices are moved to the device of the part above it.  The first factorisation
allocates the memory of panels, updates and arenas, because a driver may wait for all kernels where
memory is freed.  The second one records the kernels of the parts, which are thousands of short
ones.
A solve moves the parts' contributions up the tree, and then solutions down.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from portable_gpu.linalg.refinement import corrections
from portable_gpu.multi import failures
from portable_gpu.multi.array import GroupArray
from portable_gpu.multi.member import DEVICE_ERRORS
from portable_gpu.multi.operations.operands import operand, refuse
from portable_gpu.multi.operations.sparse_parts import GroupPanels, no_inverse
from portable_gpu.multi.operations.sparse_plans import PartPlans
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.views import View
from portable_gpu.sparse import Factor, Symbolic, analyze
from portable_gpu.sparse.functions import dtype_for, factor_of_system
from portable_gpu.sparse.numeric import Numeric
from portable_gpu.sparse.parts import FactorParts
from portable_gpu.sparse.solution import wait

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup


class GroupFactor(Factor):
    """A Cholesky factor of a sparse matrix, on the devices of a group.

    :func:`portable_gpu.sparse.cholesky` with ``engine=`` a group creates it.  It is used as a
    :class:`portable_gpu.sparse.Factor`, whose arrays on a device are on the first one of the group.
    Calls wait until they are finished.

    Attributes:
        group: The group.
    """

    def __init__(self, group: DeviceGroup, symbolic: Symbolic, dtype: Any) -> None:
        """Assign parts of the fronts to the devices; the factor has no values yet.

        Args:
            group: The group.
            symbolic, dtype: As for :class:`portable_gpu.sparse.Factor`.

        Raises:
            DTypeError, UnsupportedError, DeviceMemoryError: As in
                :class:`portable_gpu.sparse.Factor`.
        """
        self.group, self._first = group, failures.working(group)[0]
        with self._named_errors():
            super().__init__(symbolic, dtype, self._first.engine)

    def refactorize(
        self,
        values: Any,
        *,
        triangle: str | None = None,
        check: str = "late",
        progress: Any = None,
    ) -> Factor:
        """See :meth:`portable_gpu.sparse.Factor.refactorize`; there is no progress bar."""
        refuse({"progress": progress}, "progress")
        refactorize = super().refactorize

        def attempt() -> Factor:
            with self._named_errors():
                return refactorize(values, triangle=triangle, check=check)

        return failures.run_with_retry(self.group, attempt)

    def solve(
        self, b: Any, system: str = "A", *, refine: str | int | None = None, out: Any = None
    ) -> Any:
        """See :meth:`portable_gpu.sparse.Factor.solve`.

        ``b`` may be an array of the group; then ``out`` is not taken, and the result is replicated.
        """
        is_of_group = isinstance(b, GroupArray)
        if is_of_group:
            refuse({"out": out}, "out")
            self.group.check_own(b, "b")
            b = b.asnumpy()
        solve = super().solve

        def solved() -> Any:
            with self._named_errors():
                return solve(b, system, refine=refine, out=out)

        # A solve that has written a part of ``out`` may have overwritten ``b``.
        x = solved() if out is not None else failures.run_with_retry(self.group, solved)
        return self.group.broadcast(x) if is_of_group else x

    def inv_diag(self) -> np.ndarray[Any, Any]:
        """Raise UnsupportedError."""
        raise no_inverse()

    def close(self) -> None:
        """See :meth:`portable_gpu.sparse.Factor.close`."""
        super().close()
        self._parts.close()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the first device in errors that name no device."""
        try:
            yield
        except DEVICE_ERRORS as error:
            if re.match(r"(block \d+ of \d+ on )?device \d+ ", str(error)):
                raise
            raise self._first.named(error) from error

    @property
    def _is_in_parts(self) -> bool:
        return True

    def _plans(self, limit: int | None) -> Numeric:
        self._parts = PartPlans(self.group, self.symbolic, self.dtype, self._first)
        return self._parts.on(self._first)

    def _run(self, call: Call, views: tuple[View, View, View], callback: Any) -> FactorParts:
        wait(call)
        self.queue.finish()  # kernels that compute the values, which other devices receive
        return GroupPanels(self._parts, *views)

    def _memory(self) -> tuple[int, int]:
        bytes_of = self._parts.bytes_of
        workspaces, tables = zip(*(bytes_of(member) for member in self.group.members), strict=True)
        return sum(workspaces), sum(tables)


def cholesky(group: DeviceGroup, arguments: Mapping[str, Any]) -> GroupFactor:
    """Factorise a sparse matrix; arguments: see :func:`portable_gpu.sparse.cholesky`."""
    refuse(arguments, "memory_limit", "spill_dir", "progress")
    matrix, triangle, symbolic = (arguments[name] for name in ("A", "triangle", "symbolic"))
    if symbolic is None:
        symbolic = analyze(
            matrix, arguments["ordering"], relax=arguments["relax"], triangle=triangle,
            engine=group.engines[0],
        )  # fmt: skip
    factor = GroupFactor(group, symbolic, dtype_for(matrix, symbolic, arguments["dtype"]))
    factor.refactorize(matrix, triangle=triangle)
    return factor


def spsolve(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Solve with a sparse matrix; arguments: see :func:`portable_gpu.sparse.spsolve`.

    Returns:
        A replicated :class:`GroupArray` if ``b`` is an array of the group, else an array of NumPy
        or a sparse one.
    """
    refine = corrections(arguments["refine"])
    b = arguments["b"]
    if not scipy.sparse.issparse(b):
        b = operand(group, b, "b")
    factor = factor_of_system(
        arguments["A"], b, arguments["ordering"], arguments["triangle"], arguments["dtype"],
        refine, group.engines[0], engine=group,
    )  # fmt: skip
    with factor:
        return factor.solve(b, refine=refine, out=arguments["out"])
