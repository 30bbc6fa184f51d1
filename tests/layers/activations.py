"""Formulas of activations in long double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LD = np.longdouble


def _logistic(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, LD(1)) / (1 + small)


def _erfc(x: Any) -> Any:
    """By a series, or far from 0 by a continued fraction (Abramowitz & Stegun 7.1.6, 7.1.14)."""
    z = np.abs(x)
    term, total = z.copy(), z.copy()
    near = np.minimum(z, 4)
    term = near.copy()
    total = near.copy()
    for n in range(1, 120):
        term = term * 2 * near * near / (2 * n + 1)
        total = total + term
    root = np.sqrt(LD("3.14159265358979323846264338327950288"))
    by_series = 1 - 2 / root * np.exp(-near * near) * total
    far = np.maximum(z, 2)
    fraction = far.copy()
    for n in range(120, 0, -1):
        fraction = far + LD(n) / 2 / fraction
    by_fraction = np.exp(-far * far) / root / fraction
    result = np.where(z < 2.5, by_series, by_fraction)
    return np.where(x < 0, 2 - result, result)


R2 = np.sqrt(LD(2))

TAU = 2 * LD("3.14159265358979323846264338327950288")


def _u2(x: Any) -> Any:
    return 2 * np.sqrt(4 / TAU) * (x + LD("0.044715") * x**3)


def _d_u2(x: Any) -> Any:
    return 2 * np.sqrt(4 / TAU) * (1 + 3 * LD("0.044715") * x**2)


def _tanh_form(x: Any) -> tuple[Any, Any]:
    s = _logistic(_u2(x))
    return s, x * s * _logistic(-_u2(x)) * _d_u2(x)


def _normal(x: Any) -> tuple[Any, Any]:
    return _erfc(-x / R2) / 2, x * np.exp(-x * x / 2) / np.sqrt(TAU)


def _silu(x: Any) -> tuple[Any, Any]:
    return _logistic(x), x * _logistic(x) * _logistic(-x)


Formula = Callable[..., tuple[Any, ...]]

#: Name, options, whether the gradient takes the result; terms of the function, terms of its
#: derivative, and how often the error of a rounded argument counts.
CASES: list[tuple[str, dict[str, Any], bool, Formula, Formula, Callable[[Any], Any]]] = [
    ("relu", {}, True, lambda x: (np.maximum(x, 0),), lambda x: (LD(1) * (x > 0),), np.zeros_like),
    (
        "leaky_relu", {"negative_slope": 0.125}, False, lambda x: (np.where(x > 0, x, x / 8),),
        lambda x: (np.where(x > 0, LD(1), LD(0.125)),), np.zeros_like,
    ),
    (
        "elu", {"alpha": 1.5}, False,
        lambda x: (np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0))),),
        lambda x: (np.where(x > 0, LD(1), 1.5 * np.exp(np.minimum(x, 0))),), np.zeros_like,
    ),
    (
        "sigmoid", {}, True, lambda x: (_logistic(x),), lambda x: (_logistic(x) * _logistic(-x),),
        np.zeros_like,
    ),
    ("tanh", {}, True, lambda x: (np.tanh(x),), lambda x: (1 - np.tanh(x) ** 2,), np.zeros_like),
    ("gelu", {}, False, lambda x: (x * _normal(x)[0],), _normal, np.square),
    (
        "gelu", {"approximate": "tanh"}, False, lambda x: (x * _tanh_form(x)[0],), _tanh_form,
        lambda x: np.abs(_u2(x)),
    ),
    ("silu", {}, False, lambda x: (x * _logistic(x),), _silu, np.zeros_like),
    (
        "hardswish", {}, False, lambda x: (x * np.clip(x + 3, 0, 6) / 6,),
        lambda x: (np.where(x >= 3, LD(1), (2 * x + 3) / 6 * (x > -3)),),
        np.zeros_like,
    ),
    (
        "softplus", {"beta": 1.5, "threshold": 60}, False,
        lambda x: (np.maximum(x, 0) + np.log1p(np.exp(-np.abs(1.5 * x))) / LD(1.5),),
        lambda x: (_logistic(1.5 * x),), lambda x: np.abs(1.5 * x),
    ),
    (
        "hardtanh", {"min_val": -2.5, "max_val": 0.5}, False, lambda x: (np.clip(x, -2.5, 0.5),),
        lambda x: (LD(1) * ((x > -2.5) & (x < 0.5)),), np.zeros_like,
    ),
    (
        "relu6", {}, True, lambda x: (np.clip(x, 0, 6),), lambda x: (LD(1) * ((x > 0) & (x < 6)),),
        np.zeros_like,
    ),
    (
        "hardsigmoid", {}, False, lambda x: (np.clip((x + 3) / 6, 0, 1),),
        lambda x: ((np.abs(x) < 3) / LD(6),), np.zeros_like,
    ),
]  # fmt: skip
