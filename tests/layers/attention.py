"""Attention by NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np


def reference(
    q: Any, k: Any, v: Any, mask: Any = None, causal: bool = False, factors: Any = 1.0
) -> Any:
    """``factors`` multiply the probabilities, as dropout does."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    if k.ndim == 4:
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        mask = np.tril(np.ones(s.shape[-2:], bool))
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    top = s.max(axis=-1, keepdims=True)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = p.sum(axis=-1, keepdims=True)
    return (p * factors) @ v / np.where(total == 0, 1, total)
