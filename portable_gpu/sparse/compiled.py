"""Loops compiled by numba, which mypy knows by the types that they are declared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.registry import CPUDispatcher

P = ParamSpec("P")
R = TypeVar("R")


class _Loop(CPUDispatcher):
    """A compiled loop out of which a signal handler's exception comes as it is.

    numba calls Python where it makes arrays of a result, and does not see that a handler raised
    there.  Python finds a result with an exception then, and raises a SystemError.
    """

    def __call__(self, *arguments: Any) -> Any:
        try:
            return super().__call__(*arguments)
        except SystemError as error:
            found: BaseException = error
            while isinstance(found, SystemError) and found.__cause__ is not None:
                found = found.__cause__
            if found is error:
                raise
            raise found from None


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """`function` in machine code, kept on disk; threads run it at once, for it needs no lock."""
    try:
        made = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no folder to keep it in: each process compiles
        made = numba.njit(nogil=True)(function)
    if isinstance(made, CPUDispatcher):  # not where NUMBA_DISABLE_JIT is set
        made.__class__ = _Loop
    return cast("Callable[P, R]", made)
