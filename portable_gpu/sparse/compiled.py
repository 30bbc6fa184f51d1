"""Loops that Python interprets while a process analyses little; numba compiles them later.

From empty caches, numba needs some 20 seconds for the loops of an analysis.  It loads them from its
cache on disk in 0.9 s, of which its import and its first function take 0.75.  Python interprets the
loops of a matrix with a thousand rows in 0.1 to 0.2 s.  So a loop is interpreted until

* one loop gets a long array: all loops are compiled from then on;
* the interpreted loops have taken :data:`PATIENCE` seconds, far less than the compilation, because
  most processes analyse few matrices;
* its machine code is on disk, and they have taken :data:`PATIENCE_WITH_CODE` seconds, or numba is
  ready.

The results are the same.  In interpreted loops, the elements of arrays are NumPy scalars, which
warn of an overflow.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")

#: The most elements of an array in an interpreted loop.
LONGEST = 1 << 14
#: CPU seconds of interpreted loops in this process: without machine code on disk, and with it.
PATIENCE, PATIENCE_WITH_CODE = 4.0, 0.4
#: A module that numba imports when it compiles or loads its first function.
_FIRST_FUNCTION = "numba.np.arraymath"
#: The module of numba's cache on disk.
_CACHE = "numba.core.caching"
#: Seconds that a fork waits for another thread that imports numba.
_FORK_WAITS = 20.0

_lock = threading.RLock()
_spent_lock = threading.RLock()
_forking = threading.local()
_inner: list[Callable[..., Any]] = []
_registered: set[Callable[..., Any]] = set()
_spent = 0.0  # changes under the lock
_had_long_array = False  # set once, and never reset


def compiled(function: Callable[P, R], at_once: bool = False) -> Callable[P, R]:
    """Make a loop of `function`, whose time is about linear in its arrays; threads run it at once.

    Its machine code does not hold Python's lock, and numba keeps it on disk.

    Args:
        function: The loop.
        at_once: Whether its first call compiles it.
    """
    code: Callable[P, R] | None = None

    @wraps(function)
    def loop(*arguments: P.args, **named: P.kwargs) -> R:
        nonlocal code
        if code is None:
            if not at_once and _is_little(function, (*arguments, *named.values())):
                begin = time.thread_time()
                try:
                    return cast("R", _plain(function(*arguments, **named)))
                finally:
                    _spend(time.thread_time() - begin)
            with _lock:
                if code is None:
                    code = _machine_code(function)
        return code(*arguments, **named)

    return loop


def compiled_at_once(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`compiled`, for a loop that may take long with short arrays too.

    A call compiles this loop only; the others are interpreted as before.
    """
    return compiled(function, at_once=True)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Let compiled loops call `function`, which is compiled with them."""
    _inner.append(function)
    return function


def _is_little(function: Callable[..., Any], arguments: tuple[Any, ...]) -> bool:
    """Return whether to interpret a call of a loop."""
    global _had_long_array
    if _had_long_array or _spent >= PATIENCE:
        return False
    if not _are_short(arguments):
        _had_long_array = True
        return False
    is_loaded_soon = _spent >= PATIENCE_WITH_CODE or _FIRST_FUNCTION in sys.modules
    return not (is_loaded_soon and _is_on_disk(function))


def _spend(seconds: float) -> None:
    global _spent
    with _spent_lock:  # the other lock is held while numba is imported
        _spent += seconds


def _is_on_disk(function: Callable[..., Any]) -> bool:
    """Return whether numba's cache seems to have machine code of a loop.

    Of its folders, the one next to the package and that of NUMBA_CACHE_DIR are searched.
    """
    source = Path(function.__code__.co_filename)
    named = os.environ.get("NUMBA_CACHE_DIR")
    folder, pattern = (
        (Path(named), "*/*.nbi") if named else (source.parent / "__pycache__", "*.nbi")
    )
    return f"{source.stem}.{function.__name__}" in _names_in(folder, pattern)


@cache
def _names_in(folder: Path, pattern: str) -> frozenset[str]:
    """Return the names of the loops in a folder of numba's cache, which is searched once."""
    try:
        return frozenset(index.name.partition("-")[0] for index in folder.glob(pattern))
    except OSError:
        return frozenset()


def _are_short(arguments: Iterable[Any]) -> bool:
    """Return whether no array is longer than :data:`LONGEST`, arrays in tuples included."""
    return all(
        argument.size <= LONGEST
        if isinstance(argument, np.ndarray)
        else not isinstance(argument, tuple) or _are_short(argument)
        for argument in arguments
    )


def _plain(result: Any) -> Any:
    """Return a result with Python numbers in place of NumPy scalars, as machine code returns it."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_plain, result)) if type(result) is tuple else result


def _machine_code(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs the loop's machine code; the caller holds the lock."""
    from numba import njit
    from numba.core.caching import FunctionCache
    from numba.core.registry import CPUDispatcher
    from numba.extending import register_jitable

    for each in _inner:
        if each not in _registered:
            register_jitable(each)
            _registered.add(each)
    try:
        made = njit(cache=True, nogil=True)(function)
    except RuntimeError as error:  # there is no writable folder for the cache
        if not _is_of_cache(error):
            raise
        made = njit(nogil=True)(function)
    if not isinstance(made, CPUDispatcher):  # NUMBA_DISABLE_JIT is set
        return cast("Callable[P, R]", made)

    def run(*arguments: P.args, **named: P.kwargs) -> R:
        try:
            return made(*arguments, **named)
        except SystemError as error:
            # numba calls Python to create the arrays of a result, and does not notice an exception
            # that a signal handler raises there.  Python then sees a result with an exception set,
            # and raises a SystemError, whose cause is the handler's exception.
            cause: BaseException = error
            while isinstance(cause, SystemError) and cause.__cause__ is not None:
                cause = cause.__cause__
            if cause is error:
                raise
            raise cause from cause.__cause__

    def repair() -> None:
        """Replace an index that is truncated, or of a version whose types this one does not have.

        After an error of writing, numba has the machine code, and the next call uses it.
        """
        index: Any = FunctionCache
        index(function).flush()

    def call(*arguments: P.args, **named: P.kwargs) -> R:
        nonlocal made
        for remedy in (repair, None):
            try:
                return run(*arguments, **named)
            except Exception as error:
                if not _is_of_cache(error):
                    raise
                is_of_file = isinstance(error, OSError)
            if remedy is None:
                made = njit(nogil=True)(function)
            elif not is_of_file:
                try:
                    remedy()
                except OSError as error:
                    if not _is_of_cache(error):
                        raise
        return run(*arguments, **named)

    return call


def _is_of_cache(error: BaseException) -> bool:
    """Return whether numba's cache on disk raised an error, not a function or handler it called."""
    modules = []
    frame = error.__traceback__
    while frame is not None:
        modules.append(frame.tb_frame.f_globals.get("__name__"))
        frame = frame.tb_next
    return _CACHE in modules and modules[-1] in (_CACHE, "os", "tempfile")


def _before_fork() -> None:
    """Wait until no other thread imports numba, because the child could never import it."""
    _forking.has_lock = _lock.acquire(timeout=_FORK_WAITS)


def _after_fork() -> None:
    if _forking.has_lock:
        _lock.release()


def _after_fork_in_child() -> None:
    global _lock, _spent_lock
    _lock, _spent_lock = threading.RLock(), threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
    )
