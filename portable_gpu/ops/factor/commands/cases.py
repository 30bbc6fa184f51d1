"""Cases of factorisations and solves: cost, operands, variants and oracles."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import SPLIT_ERRORS, Oracle, times, worst
from portable_gpu.dtypes import PRECISIONS, dtype_of
from portable_gpu.ops.factor.api import cholesky
from portable_gpu.ops.factor.commands import catalogue
from portable_gpu.ops.factor.problem import CholeskyProblem, SolveProblem
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.gemv.commands.cases import by_transposes
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, random_extent

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


#: The precisions of the products of float32.
MANNERS = {"float32": PRECISIONS}
#: NumPy and CuPy have no triangular solve: the modules whose functions take their arrays.
_SOLVERS = {"numpy": "scipy.linalg", "cupy": "cupyx.scipy.linalg"}
_TRANSPOSES = ("N", "T", "C")


def cholesky_of(case: Case) -> CholeskyProblem:
    """The factorisation of a case."""
    (n,) = case.extents
    return catalogue.cholesky_problem(n, dtype_of(case.dtype), _batch(case))


def solve_of(case: Case) -> SolveProblem:
    """The solve of a case."""
    n, m = case.extents
    return catalogue.solve_problem(n, m, dtype_of(case.dtype), _batch(case))


def cholesky_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """The shape of A."""
    (n,) = case.extents
    return ((*_batch(case), n, n),)


def solve_shapes(case: Case) -> tuple[tuple[int, ...], ...]:
    """The shapes of A and B."""
    n, m = case.extents
    return (*_batch(case), n, n), (*_batch(case), n, m)


def cholesky_options(case: Case) -> dict[str, Any]:
    """The batch, the triangle and the precision."""
    return {"batch": _batch(case), "lower": True, "precision": case.precision}


def solve_options(case: Case) -> dict[str, Any]:
    """The batch, the precision and the transpose."""
    return {"trans": case.trans or "N", **cholesky_options(case)}


def cholesky_call(case: Case, _on_host: bool) -> PublicCall:
    """The call of a factorisation; the batch is in the shape of its arrays."""
    return PublicCall("linalg.cholesky", {"lower": True, "precision": case.precision})


def solve_call(case: Case, _on_host: bool) -> PublicCall:
    """The call of a solve; the batch is in the shapes of its arrays."""
    options = {name: value for name, value in solve_options(case).items() if name != "batch"}
    return PublicCall("linalg.solve_triangular", options)


def solve_variants(case: Case, variant: str, alone: bool) -> Iterator[Case]:
    """Yield the cases of a lower triangle, plain and transposed; conjugated too if requested."""
    known = _TRANSPOSES if variant else _TRANSPOSES[:2]
    yield from by_transposes(case, known, variant)


# -- operands


def positive_definite(case: Case, inputs: Operands) -> Operands:
    """Make Hermitian matrices of the values, and add ``3 sqrt(n)`` to the diagonal.

    The eigenvalues of the random part are below ``1.2 sqrt(n)``: no pivot is near zero.
    """
    (x,) = inputs
    n = x.shape[-1]
    a = np.add(x, x.swapaxes(-1, -2).conj(), order="C") / x.dtype.type(2)
    a[..., range(n), range(n)] += x.dtype.type(3 * sqrt(n))
    return (a,)


def well_conditioned(case: Case, inputs: Operands) -> Operands:
    """Add ``3 sqrt(n)`` to the diagonal of A, so that solutions do not grow."""
    x, b = inputs
    n = x.shape[-1]
    a = x.copy()
    a[..., range(n), range(n)] += x.dtype.type(3 * sqrt(n))
    return a, b


def warmed(a: Any, **options: Any) -> Any:
    """Factorise ``a``, or the identity in place of a NumPy array.

    ``warm_up`` passes arrays that are not positive definite.  A call on NumPy arrays raises for
    these; a call on device arrays reports it later, and ``warm_up`` does not look.
    """
    return cholesky(np.eye(len(a), dtype=a.dtype) if isinstance(a, np.ndarray) else a, **options)


# -- other libraries


def cholesky_like_numpy(
    case: Case, arrays: Sequence[Any], library: Any
) -> Callable[[], Any] | None:
    """Return the call of ``linalg.cholesky``; PyTorch's variant without a check in the call."""
    by_torch = getattr(library.linalg, "cholesky_ex", None)
    if by_torch is None:
        return partial(library.linalg.cholesky, *arrays)
    return lambda: by_torch(*arrays).L


def solve_like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the call of ``linalg.solve_triangular``; SciPy's for single NumPy matrices."""
    a, b = arrays
    by_torch = getattr(library.linalg, "solve_triangular", None)
    if by_torch is not None:
        flipped = {"N": a, "T": a.mT, "C": a.mH}[case.trans]
        return partial(by_torch, flipped, b, upper=case.trans != "N")
    solver = _SOLVERS.get(library.__name__, "")
    if case.batch is not None or not solver or find_spec(solver.partition(".")[0]) is None:
        return None
    function = import_module(solver).solve_triangular
    return partial(function, a, b, trans=case.trans, lower=True, check_finite=False)


# -- oracles


def cholesky_oracle(case: Case, inputs: Operands) -> Oracle:
    """Compare ``A r`` with ``L (L^H r)`` for random vectors r, which detects every wrong element.

    An element of ``A - L L^H`` is at most ``gamma(n + 3) |L| |L^H|``, and that at most
    ``gamma(n + 3) sqrt(a_ii a_jj)`` (Higham, 2002, theorem 10.3 and problem 10.3).  If roundings
    are a random walk, ``sqrt(n + 3)`` replaces ``n + 3`` (Higham and Mary, 2019).  The products of
    the elements of a row with those of r are a random walk, too.
    """
    (a,) = inputs
    n = a.shape[-1]
    r = np.random.default_rng(2).standard_normal(n)
    size = np.sqrt(np.abs(np.diagonal(a, axis1=-2, axis2=-1)).astype(np.float64))
    bound = _allowed(case, n) * size * np.linalg.norm(size * r, axis=-1)[..., None]
    expected = times(a, r)

    def error(result: Array) -> float:
        if result.shape != a.shape:
            return np.inf
        return worst(times(result, times(_adjoint(result), r)), expected, bound)

    return error


def solve_oracle(case: Case, inputs: Operands) -> Oracle:
    """Compare ``B r`` with ``op(A) (X r)`` for a random vector r.

    An element of ``B - op(A) X`` is at most ``gamma(n + 2) |op(A)| |X|`` (Higham, 2002, theorem
    8.5); roundings and elements of a row are random walks as in :func:`cholesky_oracle`.
    """
    a, b = inputs
    n, m = b.shape[-2:]
    triangle = np.tril(a)
    if case.trans in ("T", "C"):
        triangle = triangle.swapaxes(-1, -2) if case.trans == "T" else _adjoint(triangle)
    r = np.random.default_rng(2).standard_normal(m)
    expected = times(b, r)

    def error(result: Array) -> float:
        if result.shape != b.shape:
            return np.inf
        rows = np.sqrt(times(np.abs(result) ** 2, r**2))
        bound = _allowed(case, n) * times(np.abs(triangle), rows)
        return worst(times(triangle, times(result, r)), expected, bound)

    return error


def _allowed(case: Case, n: int) -> float:
    """The bound relative to ``|L| |L^H|``: eight times the roundings, with those of the oracle."""
    rounded = 8 * sqrt(n + 3) * (unit(dtype_of(case.dtype)) + 4 * unit(np.dtype(np.float64)))
    return rounded + 16 * SPLIT_ERRORS[case.precision]


def _adjoint(x: Array) -> Array:
    flipped = x.swapaxes(-1, -2)
    return flipped.conj() if x.dtype.kind == "c" else flipped


def _batch(case: Case) -> tuple[int, ...]:
    return () if case.batch is None else (case.batch,)


#: The maximum of rows of a matrix, and of elements of a batch, on a CPU (``True``) and on a GPU.
_MAX_ROWS = {True: 1024, False: 8192}
_MAX_ELEMENTS = {True: 1 << 20, False: 1 << 25}
#: The maximum of rows of a matrix of a batch, and of matrices.
_MAX_ROWS_OF_BATCH, _MAX_MATRICES = 256, 10_000


def matrix(rng: random.Random, on_cpu: bool) -> Size:
    """A single matrix."""
    return Size((random_extent(rng, _MAX_ROWS[on_cpu]),))


def batch(rng: random.Random, on_cpu: bool) -> Size:
    """Many small matrices."""
    while True:
        n, count = random_extent(rng, _MAX_ROWS_OF_BATCH, 2), random_extent(rng, _MAX_MATRICES, 2)
        if count * n * n <= _MAX_ELEMENTS[on_cpu]:
            return Size((n,), count)


def systems(rng: random.Random, on_cpu: bool) -> Size:
    """A triangle, as it is or transposed, with one column or many."""
    limit = _MAX_ROWS[on_cpu]
    return Size((random_extent(rng, limit), random_extent(rng, limit)), variant=rng.choice("NT"))


CHOLESKY = (
    RandomSizes("matrix", ("float32", "float64"), matrix),
    RandomSizes("batch", ("float32", "float64", "complex64"), batch),
)
SOLVE = (RandomSizes("matrix", ("float32", "float64"), systems),)
