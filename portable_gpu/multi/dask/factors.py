"""The QR factors of tall Dask matrices."""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any

import dask.array as da
import numpy as np

from portable_gpu.dtypes import requested_precision
from portable_gpu.errors import DTypeError, NotPositiveDefiniteError, ShapeError
from portable_gpu.multi.dask.device import device
from portable_gpu.multi.dask.graph import Graph, Key, add_tree, array_of, new_name
from portable_gpu.multi.dask.product_tasks import add, gram_of_block
from portable_gpu.multi.dask.products import tall
from portable_gpu.ops.factor import cholesky, solve_triangular
from portable_gpu.ops.gemm import gemm

Block = np.ndarray[Any, Any]
#: If the first factor's ``Q^H Q`` differs from I by more than this, in the 2-norm, the second pass
#: need not make Q orthogonal: Yamamoto et al., lemma 3.1.
_FARTHEST = 5 / 64


def qr(x: da.Array, *, precision: str | None = None) -> tuple[da.Array, da.Array]:
    """Factor a tall matrix, ``x = Q R``, by two Cholesky factors of Gram matrices (CholeskyQR2).

    Args:
        x: A Dask array of shape (m, n), m >= n, of float32, float64, complex64 or complex128, whose
            columns are in one chunk: it is cut into rows.
        precision: The precision of products of float32; see :func:`portable_gpu.gemm`.

    Returns:
        Q, of shape (m, n) and cut as ``x``, with ``Q^H Q = I``; and the upper triangle R, of shape
        (n, n), in one chunk, with a positive diagonal.  So the factors are unique.

    Raises:
        ArgumentError: Columns are in several chunks.
        ShapeError: ``x`` has more columns than rows.
        DTypeError: ``x`` has another dtype.
        ArgumentTypeError: As :func:`~portable_gpu.multi.dask.matmul`.
        NotPositiveDefiniteError: When computed: columns depend on each other, or the condition
            number of ``x`` is above about ``1 / (8 sqrt(m n u))``, which ``Q^H Q`` shows after the
            first pass.  For float32 that is in the hundreds, so convert to float64, or take
            :func:`dask.array.linalg.qr`.

    Cost: ``6 m n^2`` flop, two tasks for each chunk; Q and two matrices of n x n for each chunk
        travel.  Gram matrices are products, so this is several times as fast as Householder's
        factors, which read the columns one after the other.
    Memory: Dask holds ``x``, Q and the Q of the first pass at the same time.
    Accuracy: ``|Q^H Q - I| <= 6 (m n u + n (n + 1) u)`` and ``|x - Q R| <= 5 n^2 sqrt(n) u |x|``,
        in the 2-norm, as for Householder's factors up to the constants.
    Order: as :func:`~portable_gpu.multi.dask.matmul`; sums by a fixed tree.
    Source: Yamamoto, Nakatsukasa, Yanagisawa & Fukaya, ETNA 44, 2015.
    """
    rows = tall(x)
    if x.shape[0] < x.shape[1]:
        raise ShapeError(f"x has shape {x.shape}; expected at least as many rows as columns")
    if x.dtype.itemsize < 4:
        raise DTypeError(f"x is {x.dtype}; expected float32, float64 or a complex dtype")
    precision = requested_precision(precision)
    name = new_name("qr", x, precision)
    graph: Graph = {}
    blocks = range(len(rows.chunks[0]))
    grams: list[Key] = [(f"{name}-gram", i) for i in blocks]
    second_grams: list[Key] = [(f"{name}-gram2", i) for i in blocks]
    first, second = (f"{name}-r1", 0), (f"{name}-r2", 0)
    for i in blocks:
        graph[grams[i]] = (partial(gram_of_block, precision=precision), (x.name, i, 0))
        graph[f"{name}-first", i] = (partial(_first_pass, precision), (x.name, i, 0), first)
        graph[second_grams[i]] = (itemgetter(1), (f"{name}-first", i))
    add_tree(graph, first, grams, add, _factor_of_sum)
    add_tree(graph, second, second_grams, add, _second_factor_of_sum)
    for i in blocks:
        graph[f"{name}-q", i, 0] = (partial(_second_pass, precision), (f"{name}-first", i), second)
    graph[f"{name}-r", 0, 0] = (partial(_product_of_factors, precision), first, second)
    n = (x.shape[1],)
    # One layer has all tasks: Q and R need the same ones.
    return (
        array_of(f"{name}-q", graph, [x], (x.chunks[0], n), x.dtype),
        array_of(f"{name}-r", graph, [x], (n, n), x.dtype),
    )


# -- the tasks


def _factor(gram: Block) -> Block:
    """Return the upper Cholesky factor of a Gram matrix."""
    try:
        with device() as worker:
            return np.asarray(cholesky(gram, lower=False, engine=worker.engine))
    except NotPositiveDefiniteError as error:
        raise NotPositiveDefiniteError(
            f"the Gram matrix of x is not positive definite at column {error.column}: columns "
            "depend on each other, or their condition is too large for two passes of Cholesky "
            "factors; use float64 or dask.array.linalg.qr",
            (), error.column, error.pivot,
        ) from None  # fmt: skip


def _factor_of_sum(grams: list[Block]) -> Block:
    return _factor(add(grams))


def _second_factor_of_sum(grams: list[Block]) -> Block:
    gram = add(grams)
    distance = float(np.linalg.norm(gram - np.eye(len(gram)), 2)) if len(gram) else 0.0
    if not distance <= _FARTHEST:
        raise NotPositiveDefiniteError(
            f"after one pass Q^H Q differs from I by {distance:.2g}, more than {_FARTHEST:.2g}: "
            "the condition of x is too large for two passes of Cholesky factors; use float64 or "
            "dask.array.linalg.qr",
            (), 0, distance,
        )  # fmt: skip
    return _factor(gram)


def _first_pass(precision: str | None, block: Block, factor: Block) -> tuple[Block, Block]:
    """Return the rows of the first Q, and their Gram matrix."""
    q = _times_inverse(precision, block, factor)
    return q, gram_of_block(q, precision)


def _second_pass(precision: str | None, first: tuple[Block, Block], factor: Block) -> Block:
    return _times_inverse(precision, first[0], factor)


def _times_inverse(precision: str | None, block: Block, factor: Block) -> Block:
    with device() as worker:
        return np.asarray(
            solve_triangular(factor, block, side="right", precision=precision, engine=worker.engine)
        )


def _product_of_factors(precision: str | None, first: Block, second: Block) -> Block:
    with device() as worker:
        product = gemm(second, first, precision=precision, engine=worker.engine)
    return np.triu(product)
