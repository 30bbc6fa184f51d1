"""Functions of float32 that a CPU's kernels define themselves, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import portable_gpu as pg
from portable_gpu.runtime.engine import Engine

#: The reference, ends of intervals of arguments, and the largest error in ulp: of
#: cl_kernels/common/cpu_functions.cl.mako, and of OpenCL's built-in function.
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[tuple[float, float], ...], int, int]] = {
    "exp": (np.exp, ((-104, 89), (-1, 1)), 2, 3),
    "expm1": (np.expm1, ((-20, 89), (-1, 1), (-1e-3, 1e-3)), 3, 3),
    "tanh": (np.tanh, ((-12, 12), (-1, 1), (-1e-4, 1e-4)), 4, 5),
    "log1p": (np.log1p, ((-1, 10), (-1e-3, 1e-3), (0, 1e30)), 2, 3),
    "erfc": (special.erfc, ((-5, 10), (-1, 1)), 6, 16),
}
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, -1, -2, 88.8, -87.5, -104.5, 3e38, -3e38],
    np.float32,
)


@pytest.mark.path
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_and_special_values(engine: Engine, name: str) -> None:
    reference, intervals, own, built_in = FUNCTIONS[name]
    rng = np.random.default_rng(len(name))
    drawn = [rng.uniform(low, high, 40_000) for low, high in intervals]
    x = np.concatenate([*drawn, SPECIAL]).astype(np.float32)
    if name == "erfc" and not engine.target.is_cpu:
        x = x[(x < 7.9) | (x > 8) | np.isnan(x)]  # the built-in one of Mesa 22.3 is off by 63 ulp

    def computed(values: Any) -> Any:
        return pg.elementwise(f"{name}(x)", x=values, engine=engine)

    y = computed(x)
    with np.errstate(all="ignore"):
        expected = reference(x.astype(np.float64))
        rounded = expected.astype(np.float32)
        ulp = np.spacing(np.minimum(np.abs(rounded), np.float32(3e38))).astype(np.float64)
        limit = own if engine.target.is_cpu else built_in
        near = np.abs(y - expected) <= limit * np.maximum(ulp, 2.0**-149)
    if not engine.target.is_cpu:  # subnormal numbers may be 0 there
        near |= (np.abs(expected) < 2.0**-126) & (np.abs(y) < 2.0**-125)
    assert (near | (y == rounded) | (np.isnan(y) & np.isnan(rounded))).all(), x[~near]
    zero = x == 0
    np.testing.assert_array_equal(np.signbit(y[zero]), np.signbit(rounded[zero]))
    if engine.target.is_cpu:  # elements of vectors and single ones
        for first, last in ((0, 5), (3, 70), (len(x) - 37, len(x))):
            part = computed(x[first:last].copy())
            np.testing.assert_array_equal(part.view(np.int32), y[first:last].view(np.int32))


@pytest.mark.path
def test_text_that_is_only_c_calls_the_built_in_functions(engine: Engine) -> None:
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    y = pg.elementwise("exp((float2)(x, -x)).y + fabs(x)", x=x, engine=engine)
    np.testing.assert_allclose(y, np.exp(-x) + np.abs(x), rtol=1e-6)
