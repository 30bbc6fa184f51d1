"""Loops compiled by numba, which mypy knows by the types that they are declared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function` in machine code, kept on disk; threads run it at once, for it needs no lock."""
    try:
        return cast("Callable[P, R]", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # there is no folder to keep it in: each process compiles
        return cast("Callable[P, R]", numba.njit(nogil=True)(function))
