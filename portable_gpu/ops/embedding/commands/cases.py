"""Cases of embeddings: sizes are a number of indices and of columns."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import rounding_errors, unit
from portable_gpu.checking.operands import Operands
from portable_gpu.checking.oracle import Oracle, within
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.embedding.commands.catalogue import ROWS
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, random_extent
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case


def is_backward(case: Case) -> bool:
    """Whether it is the gradient of the weight."""
    return case.operation.endswith("backward")


def shapes(case: Case) -> tuple[Shape, ...]:
    """Numbers of which indices are made, and the weight or the gradient."""
    count, columns = case.extents
    return (count,), case.extents if is_backward(case) else (ROWS, columns)


def nbytes(case: Case) -> int:
    """Rows read and written once; for the gradient all rows of the weight are written."""
    count, columns = case.extents
    rows = count + (ROWS if is_backward(case) else count)
    return rows * columns * element(dtype_of(case.dtype)).itemsize + 8 * count


def operands(case: Case, inputs: Operands) -> Operands:
    """Indices and the weight; or the gradient and indices."""
    drawn, array = inputs
    indices = (np.abs(drawn.astype(np.float64)) * ROWS).astype(np.int64) % ROWS
    return (array, indices) if is_backward(case) else (indices, array)


def call(case: Case, on_host: bool) -> PublicCall:
    """Our function."""
    options = {"num_weights": ROWS} if is_backward(case) else {}
    return PublicCall(f"nn.{case.operation}", options)


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the same call of PyTorch."""
    if not hasattr(library, "nn"):
        return None
    if is_backward(case):
        return partial(library.ops.aten.embedding_dense_backward, *arrays, ROWS, -1, False)
    return partial(library.nn.functional.embedding, *arrays)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Rows as they are, or their sums in float64."""
    if not is_backward(case):
        indices, weight = inputs
        chosen = weight[indices]
        return lambda result: 0.0 if np.array_equal(result, chosen) else np.inf
    grad, indices = inputs
    order = np.argsort(indices, kind="stable")
    wide, ordered = grad[order].astype(np.float64), indices[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    terms = int(np.diff(starts, append=len(ordered)).max(initial=1))
    sums, sizes = (np.zeros((ROWS, grad.shape[1])) for _ in range(2))
    sums[ordered[starts]] = np.add.reduceat(wide, starts)
    sizes[ordered[starts]] = np.add.reduceat(np.abs(wide), starts)
    dtype = dtype_of(case.dtype)
    return within(sums, terms * unit(dtype) * sizes + rounding_errors(dtype, sums))


def rows(rng: random.Random, on_cpu: bool) -> Size:
    """Any number of indices and of columns."""
    max_elements = 1 << (21 if on_cpu else 26)
    while True:
        extents = random_extent(rng, 1 << 17), random_extent(rng, 4096)
        if extents[0] * extents[1] <= max_elements and ROWS * extents[1] <= 4 * max_elements:
            return Size(extents)


RANDOM = (RandomSizes("rows", ("float32", "float16"), rows),)
