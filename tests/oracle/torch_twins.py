"""Results of torch in float64, and the bounds of the errors of the library's results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from reference import assert_within, unit_roundoff

import portable_gpu as pg

#: An array as it is, and with its channels adjacent in memory.
LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    np.ascontiguousarray,
    lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1),
)


def twin(x: Any, gradient: bool = False) -> Any:
    """A tensor of the same values: floats in float64, integers and booleans as they are."""
    x = np.array(pg.asnumpy(x))
    return torch.tensor(x.astype(np.float64) if x.dtype.kind == "f" else x, requires_grad=gradient)


def back(function: Callable[..., Any], grad: Any, *inputs: Any) -> tuple[Any, list[Any]]:
    """The result of a function of torch, and its gradients by all inputs, for a gradient of it."""
    tensors = [twin(x, True) for x in inputs]
    y = function(*tensors)
    if callable(grad):
        grad = grad(tuple(y.shape))
    y.backward(twin(grad))
    zeros = [t.grad if t.grad is not None else torch.zeros_like(t) for t in tensors]
    return y.detach().numpy(), [t.numpy() for t in zeros]


def near(got: Any, exact: Any, size: Any, terms: float) -> None:
    """``|got - exact| <= terms eps size``, and one rounding of the result."""
    got = np.asarray(pg.asnumpy(got))
    assert_within(got, exact, terms * 2 * unit_roundoff(got.dtype) * np.asarray(size))


def matrix(function: Callable[[Any], Any], space: Sequence[int]) -> Any:
    """The matrix of a linear function of planes: the images of all unit vectors, transposed."""
    count = int(np.prod(space))
    images = function(torch.eye(count, dtype=torch.float64).reshape(count, 1, *space))
    return images.reshape(count, -1).numpy().T


def on_planes(matrix_: Any, x: Any, space: Sequence[int]) -> Any:
    """The product of a matrix with each plane of an array of (N, C, ...)."""
    return (x.reshape(*x.shape[:2], -1).astype(np.float64) @ matrix_.T).reshape(
        *x.shape[:2], *space
    )
