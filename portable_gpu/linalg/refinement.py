"""Iterative refinement: corrections of a solution by its residual."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from portable_gpu.arguments import shown
from portable_gpu.codegen.operators import BinaryOp
from portable_gpu.errors import ArgumentError, ArgumentTypeError
from portable_gpu.linalg.place import Place
from portable_gpu.linalg.views import columns, joined, parts, spread, vectors
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.factor.arguments import solution_shape
from portable_gpu.ops.reduce import asum, reduce
from portable_gpu.ops.reduce.conversion import converted

#: The maximum of corrections.  Each reduces the error tenfold, unless the matrix is too badly
#: conditioned for its factor, so the last digit of float64 is right after 16.
_MAX_CORRECTIONS = 64
#: The factor by which each correction has to reduce the backward error.
_MIN_REDUCTION = 10
#: The larger number, or NaN if one is NaN.
_LARGEST = BinaryOp("largest", identity="0", combine="a > b || a != a ? a : b")
#: NumPy computes with arrays of at most this many bytes as fast as a kernel does.
_COMPUTED_BY_NUMPY = 1 << 18


class Formula(NamedTuple):
    """A function of the elements of arrays that broadcast.

    Attributes:
        expression: The function for kernels.
        by_numpy: The same function for NumPy's small arrays, so that first calls compile less.
    """

    expression: str
    by_numpy: Callable[..., Any]


# In these: x is the solution (or its residual), d the correction, y the corrected solution, r the
# residual, e and f the backward errors after and before the correction; a and b are norms.
_CORRECTED = Formula("x + d", lambda x, d: x + d)
_BETTER = Formula("e < f ? y : x", lambda e, f, y, x: np.where(e < f, y, x))
_SMALLER = Formula("e < f ? e : f", lambda e, f: np.where(e < f, e, f))
_BACKWARD_ERROR = Formula(
    "r == 0 ? r : r / (a * x + b)",
    lambda r, a, x, b: np.where(r == 0, r, r / (a * x + b)),
)


class System(Protocol):
    """A matrix whose solutions are refined.

    Attributes:
        dtype: The dtype in which residuals are computed.
        sums: The sum of the absolute values of each row: shape (..., n, 1).
        tolerance: The backward error at which ``auto`` stops.
    """

    dtype: np.dtype[Any]
    sums: Any
    tolerance: float

    def spread(self, b: Any) -> Any:
        """B, broadcast to the shape of the solution."""

    def residual(self, b: Any, x: Any) -> Any:
        """``B - A X``, a new array."""


class DenseSystem:
    """A stack of matrices; see :class:`System`."""

    def __init__(self, a: Any, place: Place) -> None:
        self._a, self._place, self.dtype = a, place, a.dtype
        self.sums = asum(a, axis=-1, keepdims=True, **place.options)
        self.tolerance = float(a.shape[-1] ** 0.5 * np.finfo(a.dtype).eps)

    def spread(self, b: Any) -> Any:
        """See :meth:`System.spread`."""
        return spread(b, solution_shape(self._a.shape, b.shape))

    def residual(self, b: Any, x: Any) -> Any:
        """See :meth:`System.residual`."""
        r = converted(b, b.dtype, **self._place.options)
        self._place.product(self._a, x, c=r, alpha=-1, beta=1)
        return r


def refined(
    a: Any, b: Any, solve: Callable[[Any], Any], refine: str | int, place: Place
) -> tuple[Any, bool]:
    """Solve ``A X = B`` by an inaccurate solver and corrections.

    Args:
        a, b: Matrices of one dtype, in which residuals are computed.
        solve: Returns an approximation of ``A^-1 R`` for a residual R, or for B.
        refine: The number of corrections, or ``auto``.
        place: Where to run.

    Returns:
        X, and whether its backward error is at most ``sqrt(n) eps``.  Only ``auto`` checks that,
        and waits for each check; else this is True.
    """
    if not b.size or not a.size:
        return solve(b), True
    return refined_by(DenseSystem(a, place), b, solve, refine, place)


def refined_by(
    system: System, b: Any, solve: Callable[[Any], Any], refine: str | int, place: Place
) -> tuple[Any, bool]:
    """Solve like :func:`refined`, for any matrix; ``b`` is not empty and has the system's dtype."""
    if b.ndim == 1:
        x, is_good = refined_by(system, columns(b), solve, refine, place)
        return vectors(x), is_good
    return _Refinement(system, b, solve, place).run(refine)


def corrections(refine: Any) -> str | int | None:
    """``refine``, if it is ``auto``, a number of corrections, or ``None``.

    Raises:
        ArgumentError: It is something else.
    """
    is_count = isinstance(refine, (int, np.integer)) and not isinstance(refine, bool)
    if refine is None or (isinstance(refine, str) and refine == "auto"):
        return refine
    if is_count and 0 <= refine <= _MAX_CORRECTIONS:
        return int(refine)
    error = ArgumentError if is_count or isinstance(refine, str) else ArgumentTypeError
    raise error(
        f"refine is {shown(refine)}; it may be None, 'auto' or a number of corrections, at most "
        f"{_MAX_CORRECTIONS}"
    )


class _Refinement:
    """The corrections of one system.

    Complex numbers are handled as pairs of real numbers, by one more axis of the arrays.  An error
    of a column has extent 1 along the axis of rows, and along that of pairs.
    """

    def __init__(self, system: System, b: Any, solve: Callable[[Any], Any], place: Place) -> None:
        self.system, self.solve, self.place = system, solve, place
        self.b = system.spread(b)
        # parts() adds a last axis, of 2 for complex numbers and of 1 for reals.
        self.norm_of_a = parts(self._largest(system.sums, (-2,)))
        self.norm_of_b = self._largest(parts(self.b), (-3, -1))

    def run(self, refine: str | int) -> tuple[Any, bool]:
        """Return the solution, and whether its backward error is within the tolerance."""
        waits = refine == "auto"
        tolerance, before = self.system.tolerance, np.inf
        x = self.solve(self.b)
        r, error = self.judged(x)
        for _ in range(_MAX_CORRECTIONS) if waits else range(int(refine)):
            if waits:
                worst = float(self._largest(error, None))
                if worst <= tolerance:
                    return x, True
                if not worst * _MIN_REDUCTION <= before:
                    return x, False
                before = worst
            x, r, error = self.corrected(x, r, error)
        return x, not waits

    def judged(self, x: Any) -> tuple[Any, Any]:
        """Return the residual of a solution, and the backward error of each column."""
        r = self.system.residual(self.b, x)
        norm_of_r, norm_of_x = (self._largest(parts(array), (-3, -1)) for array in (r, x))
        return r, self._computed(
            _BACKWARD_ERROR, r=norm_of_r, a=self.norm_of_a, x=norm_of_x, b=self.norm_of_b
        )

    def corrected(self, x: Any, r: Any, error: Any) -> tuple[Any, Any, Any]:
        """Correct the columns whose error decreases; return solution, residual and errors."""
        y = self._of_parts(_CORRECTED, {}, x=x, d=self.solve(r))
        s, new = self.judged(y)
        errors = {"e": new, "f": error}
        x = self._of_parts(_BETTER, errors, x=x, y=y)
        r = self._of_parts(_BETTER, errors, x=r, y=s)
        return x, r, self._computed(_SMALLER, **errors)

    def _of_parts(self, formula: Formula, errors: dict[str, Any], **arrays: Any) -> Any:
        """Compute a formula of the real and of the imaginary parts of arrays, and of errors."""
        views = {name: parts(array) for name, array in arrays.items()}
        return joined(self._computed(formula, **views, **errors))

    def _computed(self, formula: Formula, **operands: Any) -> Any:
        """Compute a formula by NumPy if all operands are small, else by a kernel."""
        if all(_is_small(operand) for operand in operands.values()):
            with np.errstate(all="ignore"):
                return formula.by_numpy(**operands)
        return elementwise(formula.expression, **operands, **self.place.options)

    def _largest(self, x: Any, axes: tuple[int, ...] | None) -> Any:
        """Return the largest magnitude along some axes, or of all elements."""
        keep = axes is not None
        if _is_small(x):
            return np.abs(x).max(axis=axes, keepdims=keep)
        return reduce(x, _LARGEST, map="fabs(x)", axis=axes, keepdims=keep, **self.place.options)


def _is_small(x: Any) -> bool:
    """Whether it is an array of NumPy for which a kernel is not worth its compilation."""
    return isinstance(x, np.ndarray) and x.nbytes <= _COMPUTED_BY_NUMPY
