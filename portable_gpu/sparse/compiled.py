"""Loops compiled by numba, with the types for mypy that they are declared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.registry import CPUDispatcher

P = ParamSpec("P")
R = TypeVar("R")


class _Loop(CPUDispatcher):
    """A compiled loop that raises the exception of a signal handler unchanged.

    numba calls Python to create the arrays of a result, and does not notice an exception that a
    signal handler raises there.  Python then sees a result with an exception set, and raises a
    SystemError, whose cause is the handler's exception.
    """

    def __call__(self, *arguments: Any) -> Any:
        try:
            return super().__call__(*arguments)
        except SystemError as error:
            cause: BaseException = error
            while isinstance(cause, SystemError) and cause.__cause__ is not None:
                cause = cause.__cause__
            if cause is error:
                raise
            raise cause from None


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` to machine code, cached on disk; it releases Python's lock (the GIL)."""
    try:
        made = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no writable folder for the cache
        made = numba.njit(nogil=True)(function)
    if isinstance(made, CPUDispatcher):  # not where NUMBA_DISABLE_JIT is set
        made.__class__ = _Loop
    return cast("Callable[P, R]", made)
