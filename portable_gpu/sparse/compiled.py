"""Loops that Python interprets until a process analyses more, and that are then compiled.

From an empty cache, the loops of an analysis compile in 1 to 3 s, and from the cache on disk they
load in 0.15 to 0.35 s.  Python interprets the loops of a matrix with 400 rows in 0.1 s.  A loop is
interpreted until

* any loop gets a long array: all loops are compiled from then on;
* the interpreted loops have taken :data:`PATIENCE` seconds, because most processes analyse few
  matrices.

The results are the same.  In interpreted loops, the elements of arrays are NumPy scalars, which
warn of an overflow.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from portable_gpu.sparse.loops.values import Type, key_and_words, type_of

P = ParamSpec("P")
R = TypeVar("R")

#: The most elements of an array in an interpreted loop.
LONGEST = 1 << 12
#: CPU seconds of interpreted loops in a process.
PATIENCE = 0.5
#: Seconds that a fork waits for another thread that compiles.
_FORK_WAITS = 20.0

_lock = threading.RLock()
_spent_lock = threading.RLock()
_forking = threading.local()
_inner: set[Callable[..., Any]] = set()
_spent = 0.0  # changes under the lock
_had_long_array = False  # set once, and never reset


def compiled(function: Callable[P, R], at_once: bool = False) -> Callable[P, R]:
    """Make a loop of `function`; threads may call it at the same time.

    Its time must be about linear in the lengths of its arrays.

    Its machine code does not hold Python's lock, and is kept on disk.  A call has no named
    arguments.

    Args:
        function: The loop, in the subset of Python that
            :mod:`portable_gpu.sparse.loops.translation` describes.
        at_once: Whether its first call compiles it.
    """
    codes: dict[tuple[Any, ...], Callable[..., Any]] = {}

    @wraps(function)
    def loop(*arguments: Any) -> Any:
        if not codes and not at_once and _is_little(arguments):
            begin = time.thread_time()
            try:
                return _plain(cast("Callable[..., R]", function)(*arguments))
            finally:
                _spend(time.thread_time() - begin)
        key, words = key_and_words(arguments)
        if key not in codes:
            with _lock:
                if key not in codes:
                    codes[key] = _machine_code(function, tuple(map(type_of, arguments)))
        return codes[key](words)

    return cast("Callable[P, R]", loop)


def compiled_at_once(function: Callable[P, R]) -> Callable[P, R]:
    """Like :func:`compiled`, for a loop that may take long with short arrays too.

    A call compiles this loop only; the others are interpreted as before.
    """
    return compiled(function, at_once=True)


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Let compiled loops call `function`, which is compiled with them."""
    _inner.add(function)
    return function


def _is_little(arguments: tuple[Any, ...]) -> bool:
    """Return whether to interpret a call of a loop."""
    global _had_long_array
    _had_long_array = _had_long_array or not _are_short(arguments)
    return not _had_long_array and _spent < PATIENCE


def _spend(seconds: float) -> None:
    global _spent
    with _spent_lock:  # the other lock is held while a loop is compiled
        _spent += seconds


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


def _machine_code(
    function: Callable[..., Any], types: tuple[Type, ...]
) -> Callable[[Sequence[int | float]], Any]:
    """Return a loop's machine code for arguments of some types; the caller holds the lock."""
    from portable_gpu.sparse.loops.machine_code import machine_code

    return machine_code(function, frozenset(_inner), types)


def _before_fork() -> None:
    """Wait until no other thread compiles, because the child could never compile."""
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
