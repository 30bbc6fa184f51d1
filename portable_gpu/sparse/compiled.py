"""Loops that Python interprets while a process analyses little; numba compiles them later.

numba compiles the loops of an analysis for 10 to 40 seconds, and loads them from its cache on disk
in half a second.  Python interprets those of a matrix with a thousand rows in 0.1 s.  So loops are
interpreted until one of them gets a long array, or until they have taken as long as numba would
take.  From then on all loops are compiled.  The results are the same.

In interpreted loops, the elements of arrays are NumPy scalars, which warn of an overflow.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

#: The most elements of an array in an interpreted loop.
LONGEST = 1 << 14
#: Seconds of interpreted loops in this process: without machine code on disk, and with it.
PATIENCE, PATIENCE_WITH_CODE = 4.0, 0.4

_lock = threading.RLock()
_inner: list[Callable[..., Any]] = []
_registered: set[Callable[..., Any]] = set()
_spent = 0.0


def compiled(function: Callable[P, R], longest: int = LONGEST) -> Callable[P, R]:
    """Make a loop of `function`, whose time is about linear in its arrays; threads run it at once.

    Its machine code does not hold Python's lock, and numba keeps it on disk.
    """
    code: Callable[P, R] | None = None

    @wraps(function)
    def loop(*arguments: P.args, **named: P.kwargs) -> R:
        global _spent
        nonlocal code
        if code is None:
            if _is_little(function) and _are_short(arguments, longest):
                begin = time.perf_counter()
                try:
                    return cast("R", _plain(function(*arguments, **named)))
                finally:
                    _spent += time.perf_counter() - begin
            _spent = PATIENCE
            code = _machine_code(function)
        return code(*arguments, **named)

    return loop


def compiled_at_once(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`compiled`, for a loop that may take long with short arrays too."""
    return compiled(function, -1)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Let compiled loops call `function`, which is compiled with them."""
    _inner.append(function)
    return function


def _is_little(function: Callable[..., Any]) -> bool:
    """Return whether the interpreted loops have taken less time than numba would."""
    return _spent < PATIENCE_WITH_CODE or (_spent < PATIENCE and not _is_on_disk(function))


def _is_on_disk(function: Callable[..., Any]) -> bool:
    """Return whether numba's cache seems to have machine code of a loop.

    Of its folders, the one beside the package and that of NUMBA_CACHE_DIR are searched.
    """
    pattern = f"*.{function.__name__}-*.nbi"
    named = os.environ.get("NUMBA_CACHE_DIR")
    try:
        if named:
            return next(Path(named).glob(f"*/{pattern}"), None) is not None
        own = Path(function.__code__.co_filename).with_name("__pycache__")
        return next(own.glob(pattern), None) is not None
    except OSError:
        return False


def _are_short(arguments: Iterable[Any], longest: int) -> bool:
    """Return whether no array has more than `longest` elements, arrays in tuples included."""
    return all(
        argument.size <= longest
        if isinstance(argument, np.ndarray)
        else not isinstance(argument, tuple) or _are_short(argument, longest)
        for argument in arguments
    )


def _plain(result: Any) -> Any:
    """Return a result with Python numbers in place of NumPy scalars, as machine code returns it."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_plain, result)) if type(result) is tuple else result


def _machine_code(function: Callable[P, R]) -> Callable[P, R]:
    from numba import njit
    from numba.core.caching import FunctionCache
    from numba.core.registry import CPUDispatcher
    from numba.extending import register_jitable

    with _lock:
        for each in _inner:
            if each not in _registered:
                register_jitable(each)
                _registered.add(each)
    try:
        made = njit(cache=True, nogil=True)(function)
    except RuntimeError:  # there is no writable folder for the cache
        made = njit(nogil=True)(function)
    if not isinstance(made, CPUDispatcher):  # NUMBA_DISABLE_JIT is set
        return cast("Callable[P, R]", made)

    def call(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return cast("R", made(*arguments, **named))
        except SystemError as error:
            # numba calls Python to create the arrays of a result, and does not notice an exception
            # that a signal handler raises there.  Python then sees a result with an exception set,
            # and raises a SystemError, whose cause is the handler's exception.
            cause: BaseException = error
            while isinstance(cause, SystemError) and cause.__cause__ is not None:
                cause = cause.__cause__
            if cause is error:
                raise
            raise cause from None
        except (AttributeError, ImportError):
            # The index on disk is of another version, and names types that this one does not have.
            index: Any = FunctionCache
            index(function).flush()
            return cast("R", made(*arguments, **named))

    return call
