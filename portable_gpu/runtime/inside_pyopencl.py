"""What this library takes of pyopencl beyond its public names, and why; nothing else does.

It was last looked at in pyopencl 2026.1.  ``tests/host/test_architecture.py`` sees to it that no
other module uses such names, so a new version is checked here.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import pyopencl as cl
import pyopencl._cl


def unbuilt(context: cl.Context, device: cl.Device, content: str | bytes) -> Any:
    """The program of OpenCL text, or of a binary, not yet built: see :func:`build`."""
    if isinstance(content, str):
        return pyopencl._cl._Program(context, content)
    return pyopencl._cl._Program(context, [device], [content])


def build(program: Any, options: str) -> cl.Program:
    """Build without pyopencl's own cache, and without its warning of every log."""
    program._build(options=options.encode(), devices=None)
    return cl.Program(program)


def spare_its_cache() -> None:
    """Turn pyopencl's cache of invokers off."""
    cl._PYOPENCL_NO_CACHE = True


_making = threading.local()


def new_kernel(program: cl.Program, name: str) -> cl.Kernel:
    """A kernel object.

    pyopencl looks for its invoker on disk, under a lock that its own thread cannot take twice.  So
    a signal handler or finalizer that wants a kernel in the middle of this does without that cache.
    """
    is_nested, before = getattr(_making, "is_at_it", False), cl._PYOPENCL_NO_CACHE
    _making.is_at_it = True
    try:
        if is_nested:
            cl._PYOPENCL_NO_CACHE = True
        return cl.Kernel(program, name)
    finally:
        if is_nested:
            cl._PYOPENCL_NO_CACHE = before
        _making.is_at_it = is_nested


def scalar_setter(kernel: cl.Kernel) -> Callable[[int, Any], None]:
    """What pyopencl's own generated invokers call to set a scalar.

    ``set_arg`` tries a buffer, a sampler and so on before it takes a number, 19 us each time.
    """
    setter: Callable[[int, Any], None] = kernel._set_arg_buf  # type: ignore[attr-defined]
    return setter


def address_setter(kernel: cl.Kernel) -> Callable[[int, Any], None]:
    """What ``set_arg`` calls for shared virtual memory, once it knows.

    It tries first what it was last given, a buffer or such memory; if it is the other, 2 us go by.
    """
    setter: Callable[[int, Any], None] = kernel._set_arg_svm  # type: ignore[attr-defined]
    return setter


def find_enqueue() -> Callable[..., int] | None:
    """``clEnqueueNDRangeKernel`` of the OpenCL loader that pyopencl has loaded, if accessible.

    Its arguments are objects of ctypes, arrays or ``None``.  Declared types would have every
    argument converted in each call, which takes a third longer.
    """
    try:
        function = ctypes.CDLL(pyopencl._cl.__file__).clEnqueueNDRangeKernel
    except (AttributeError, OSError):  # Windows searches only pyopencl's own file
        return None
    function.restype = ctypes.c_int
    return function
