"""Errors in forked children: OpenCL's threads and device connections exist only in the parent.

A kernel that a child enqueues would wait for ever for threads that the child does not have.  So
once this library has asked OpenCL for devices, its calls raise in processes forked afterwards.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from typing import Any

from portable_gpu.errors import ForkError

_is_in_use = False
_is_forked = False
_retiring: dict[type, type] = {}
_alive: weakref.WeakSet[Any] = weakref.WeakSet()
_closing: list[type] = []


def check() -> None:
    """Note that OpenCL is in use.

    Raises:
        ForkError: It was in use when this process was forked.
    """
    global _is_in_use
    refuse()
    _is_in_use = True


def refuse() -> None:
    """Raise ForkError in a process that was forked from one that had used OpenCL."""
    if _is_forked:
        raise _error()


def retire_in_children(owner: Any) -> None:
    """Make every use of an object raise :class:`ForkError` in processes forked from now on."""
    _alive.add(owner)


def close_class(kind: type) -> None:
    """Make every use of a class's objects raise :class:`ForkError` in processes forked later."""
    _closing.append(kind)


def _error() -> ForkError:
    return ForkError(
        "this process was forked after its parent had used OpenCL, which does not work in both; "
        "start processes by the method 'spawn' (multiprocessing.get_context('spawn'), joblib's "
        "loky), or fork before the first call"
    )


def _raise(*_: Any) -> Any:
    raise _error()


def _retired(kind: type) -> type:
    """A subclass of ``kind`` whose attributes all raise."""
    if kind not in _retiring:
        _retiring[kind] = type(kind.__name__, (kind,), {"__getattribute__": _raise})
    return _retiring[kind]


def _after_fork() -> None:
    global _is_forked
    if not _is_in_use:
        return
    _is_forked = True
    for kind in _closing:
        kind.__getattribute__ = _raise  # type: ignore[method-assign]
    for owner in list(_alive):
        # OpenCL's destructors may wait for threads too: keep a reference that is never dropped.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner.__dict__))
        owner.__class__ = _retired(type(owner))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
