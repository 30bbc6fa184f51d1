"""Checks of sampling functions: typical calls, and views."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from portable_gpu.checking.check import Check, Expected, gamma, rounding_errors, unit
from portable_gpu.checking.inputs import Input, View
from portable_gpu.dtypes import is_float16_like
from portable_gpu.ops.sampling.commands.cases import sampled
from portable_gpu.ops.sampling.commands.geometry import (
    TYPICAL_CALLS,
    indices_of,
    operand_shapes,
    problem_of,
)
from portable_gpu.runtime.engine import Engine


def checks(dtypes: Sequence[np.dtype[Any]]) -> Iterator[Check]:
    """The typical call of each function in float32, on views, and in each other floating dtype."""
    for name in TYPICAL_CALLS:
        for view in ("device", "stepped"):
            yield check(name, np.dtype(np.float32), view)
        for dtype in dtypes:
            if (dtype.kind == "f" or is_float16_like(dtype)) and dtype != np.float32:
                yield check(name, dtype)


def check(name: str, dtype: np.dtype[Any], view: View = "numpy") -> Check:
    """The typical call of a function on a small stack of images."""
    typical, shape = TYPICAL_CALLS[name], (2, 3, 21, 30)
    x = Input(dtype, operand_shapes(name, shape)[0], view)
    indices = [indices_of(name, shape)] if typical.kind == "routed" else []

    def run(engine: Engine) -> Any:
        arrays = (x.array(engine), *indices)
        return typical.function(*arrays, **typical.arguments(shape), engine=engine)

    def expected() -> Expected:
        problem = problem_of(name, shape, dtype)
        value, magnitude, taps = sampled(problem, x.host(), *indices)
        if problem.kind in ("copy", "max"):
            return Expected(value, None, dtype)
        bound = gamma(taps + 4, unit(dtype)) * magnitude + rounding_errors(dtype, value)
        return Expected(value, bound, dtype)

    return Check(name, f"{x}", run, expected)
