"""Convolutions by transforms, a product and a copy: for devices whose passes do only transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.linalg.views import joined, parts
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.fft.api import transform
from portable_gpu.ops.fft.convolve import Kept
from portable_gpu.ops.fft.tables import fast_length

#: Parts of the product of complex numbers, of which the second one may be conjugated.
_RE, _IM = "ar * br - s * ai * bi", "s * ar * bi + ai * br"


def composed(a: Any, b: Any, kept: Kept, correlated: bool, place: dict[str, Any]) -> Any:
    """See :func:`portable_gpu.ops.fft.convolve.convolved`; ``a`` and ``b`` have one precision."""
    of_real = a.dtype.kind != "c" and b.dtype.kind != "c"
    lengths = tuple(fast_length(a.shape[k] + b.shape[k] - 1) for k in kept.axes)
    where = {key: place[key] for key in ("engine", "queue")}
    turned = correlated and b.dtype.kind == "c"
    if correlated:
        b = b[(slice(None, None, -1),) * b.ndim]
    kind: Any = "r2c" if of_real else "c2c"
    first = transform(kind, a, lengths, kept.axes, None, **place)
    second = transform(
        kind, b, lengths, kept.axes, "forward" if turned else None, inverse=turned, **place
    )
    product = _product(first, second, -1.0 if turned else 1.0, where)
    kind = "c2r" if of_real else "c2c"
    full = transform(kind, product, lengths, kept.axes, None, inverse=True, **where)
    wanted = full[tuple(slice(at, at + n) for at, n in zip(kept.first, kept.shape, strict=True))]
    if isinstance(wanted, cla.Array):
        return _copied(wanted, where)
    return np.ascontiguousarray(wanted)


def _product(a: Any, b: Any, sign: float, where: dict[str, Any]) -> Any:
    """The product of complex arrays that broadcast."""
    if isinstance(a, np.ndarray):
        return a * (b if sign > 0 else b.conj())
    x, y = parts(a), parts(b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    found = cla.empty(a.queue, (*shape, 2), x.dtype)
    for k, expression in enumerate((_RE, _IM)):
        elementwise(
            expression, ar=x[..., 0], ai=x[..., 1], br=y[..., 0], bi=y[..., 1], s=sign,
            out=found[..., k], **where,
        )  # fmt: skip
    return joined(found)


def _copied(x: Any, where: dict[str, Any]) -> Any:
    if x.dtype.kind != "c":
        return elementwise("x", x=x, **where)
    return joined(elementwise("x", x=parts(x), **where))
