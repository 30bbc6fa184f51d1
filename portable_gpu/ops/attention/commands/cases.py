"""Cases of attention.

A size is ``rows x extent``: the number of queries, which is that of the keys, and the elements of
each.  The batch of a size is the number of heads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from math import prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from portable_gpu.checking.check import rounding, unit
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.checking.oracle import Oracle, worst
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.family import BACKWARD, RandomSizes
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, random_extent
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

#: The number of heads, with the last one added, that are checked by products in float64.
_CHECKED = 2


def _is_gradient(case: Case) -> bool:
    return case.trans == BACKWARD


def _shape(case: Case) -> Shape:
    """Return the shape of the queries: one batch, the heads, the rows and the extent."""
    return (1, case.batch or 1, *case.extents)


def shapes(case: Case) -> tuple[Shape, ...]:
    """Return the shapes of the operands: queries, keys and values.

    A case of the gradient has the gradient of the result before these.
    """
    return (_shape(case),) * (4 if _is_gradient(case) else 3)


def flop(case: Case) -> int:
    """Return the operations of the two products of a head, or of the five of its gradient."""
    rows, extent = case.extents
    return (5 if _is_gradient(case) else 2) * 2 * (case.batch or 1) * rows * rows * extent


def nbytes(case: Case) -> int:
    """Return the bytes of all arrays, each of which is moved once."""
    arrays = 8 if _is_gradient(case) else 4
    return arrays * prod(_shape(case)) * element(dtype_of(case.dtype)).itemsize


def _probabilities(query: Array, key: Array) -> tuple[Array, Array]:
    """Return the probabilities of the keys, and the logarithms of the sums of exponentials."""
    scores = query @ key.swapaxes(-1, -2) / sqrt(query.shape[-1])
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.exp(scores - largest)
    total = powers.sum(axis=-1, keepdims=True)
    return powers / total, (largest + np.log(total))[..., 0]


def operands(case: Case, inputs: Operands) -> Operands:
    """Return the arrays; for a gradient also the result and the logarithms of the sums."""
    if not _is_gradient(case):
        return inputs
    wide = np.dtype(np.float64) if inputs[0].dtype == np.float64 else np.dtype(np.float32)
    _, query, key, value = (item.astype(wide) for item in inputs)
    output, sums = np.empty_like(value), np.empty(value.shape[:3], wide)
    for head in range(value.shape[1]):
        probabilities, sums[0, head] = _probabilities(query[0, head], key[0, head])
        output[0, head] = probabilities @ value[0, head]
    return (*inputs, output.astype(inputs[0].dtype), sums)


def call(case: Case, on_host: bool) -> PublicCall:
    """Return the call of this library's function."""
    return PublicCall(f"nn.{case.operation}{'_backward' if _is_gradient(case) else ''}")


def like_numpy(case: Case, arrays: Sequence[Any], library: Any) -> Callable[[], Any] | None:
    """Return the same call of PyTorch."""
    if not hasattr(library, "nn"):
        return None
    function = library.nn.functional.scaled_dot_product_attention
    if not _is_gradient(case):
        return partial(function, *arrays)
    inputs = [item.detach().requires_grad_() for item in arrays[1:4]]
    return partial(library.autograd.grad, function(*inputs), inputs, arrays[0], retain_graph=True)


def oracle(case: Case, inputs: Operands) -> Oracle:
    """Return the function that compares some heads of a result with float64's.

    Of a gradient, that of the queries is compared.
    """
    shape, dtype = _shape(case), dtype_of(case.dtype)
    heads = sorted({*range(min(_CHECKED, shape[1])), shape[1] - 1})
    few = [item[0, heads].astype(np.float64) for item in inputs]
    rows = case.extents[0]
    if _is_gradient(case):
        grad, query, key, value = few[:4]
        probabilities, _ = _probabilities(query, key)
        by_probability = grad @ value.swapaxes(-1, -2)  # the gradient of the probabilities
        largest = np.abs(by_probability).max()
        by_probability -= (by_probability * probabilities).sum(axis=-1, keepdims=True)
        expected = (probabilities * by_probability) @ key / sqrt(shape[-1])
        scale = 4 * largest * np.abs(key).max() / sqrt(shape[-1])
    else:
        query, key, value = few
        expected = _probabilities(query, key)[0] @ value
        scale = np.abs(value).max()
    bound = (sqrt(rows) * 8 + 64 + 4 * shape[-1]) * unit(dtype) * scale
    # A result of 16 bits, on matrix units, has probabilities and operands that were rounded so.
    bound = bound + 8 * rounding(dtype) * (np.abs(expected) + scale / sqrt(rows))
    return lambda result: (
        worst(result[0, heads], expected, np.broadcast_to(bound, expected.shape))
        if result.shape == shape
        else np.inf
    )


def heads(rng: random.Random, on_cpu: bool) -> Size:
    """Draw a size: heads of any number of rows, forward or backward."""
    max_products = 1 << (26 if on_cpu else 33)
    while True:
        rows, extent = random_extent(rng, 4096), rng.choice((32, 64, 80, 128))
        batch = random_extent(rng, 128)
        if batch * rows * rows * extent <= max_products:
            return Size((rows, extent), batch, rng.choice(("", BACKWARD)))


RANDOM = (RandomSizes("heads", ("float32", "float16"), heads),)
