"""All uses of private names of pyopencl, with their reasons.

They were last checked with pyopencl 2026.1.  ``tests/host/test_architecture.py`` checks that no
other module uses such names, so only this module depends on pyopencl's version.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import pyopencl as cl
import pyopencl._cl


def unbuilt(context: cl.Context, device: cl.Device, content: str | bytes) -> Any:
    """Return the program of an OpenCL text or a binary before it is built: see :func:`build`."""
    if isinstance(content, str):
        return pyopencl._cl._Program(context, content)
    return pyopencl._cl._Program(context, [device], [content])


def build(program: Any, options: str) -> cl.Program:
    """Build without pyopencl's cache, and without its warnings of compiler logs."""
    program._build(options=options.encode(), devices=None)
    return cl.Program(program)


def spare_its_cache() -> None:
    """Turn pyopencl's cache of invokers off."""
    cl._PYOPENCL_NO_CACHE = True


_making = threading.local()


def _no_invoker(*_: Any, **__: Any) -> Any:
    raise NotImplementedError("a kernel of portable_gpu is launched by enqueue_nd_range_kernel")


@cache
def _generate_no_invokers_of_ours() -> None:
    """Wrap pyopencl's function, whose module opens the cache on disk when it is imported."""
    import pyopencl.invoker as module

    generate: Callable[..., tuple[Any, Any]] = module.generate_enqueue_and_set_args

    def unless_ours(name: str, *arguments: Any, **options: Any) -> tuple[Any, Any]:
        if getattr(_making, "name", None) == name:
            return _no_invoker, _no_invoker
        return generate(name, *arguments, **options)

    module.generate_enqueue_and_set_args = unless_ours  # type: ignore[assignment]


def new_kernel(program: cl.Program, name: str) -> cl.Kernel:
    """Make a kernel object, which cannot be called and has no ``set_args``.

    pyopencl generates Python functions for these, or reads them from its cache on disk, which takes
    0.4 ms a kernel, under a lock that one thread cannot take twice.
    """
    _generate_no_invokers_of_ours()
    before = getattr(_making, "name", None)
    _making.name = name
    try:
        return cl.Kernel(program, name)
    finally:
        _making.name = before


def scalar_setter(kernel: cl.Kernel) -> Callable[[int, Any], None]:
    """Return the function by which pyopencl's generated invokers set a scalar.

    ``set_arg`` tries a buffer, a sampler and so on before a number, which takes 19 us.
    """
    setter: Callable[[int, Any], None] = kernel._set_arg_buf  # type: ignore[attr-defined]
    return setter


def address_setter(kernel: cl.Kernel) -> Callable[[int, Any], None]:
    """Return the function by which ``set_arg`` sets shared virtual memory.

    ``set_arg`` first tries the kind of its last argument, buffer or such memory, and takes 2 us
    more for the other kind.
    """
    setter: Callable[[int, Any], None] = kernel._set_arg_svm  # type: ignore[attr-defined]
    return setter


def run_on_device(queue: cl.CommandQueue, function: Callable[[], object]) -> None:
    """Run a function of Python as a command of a CPU's queue, and wait for its end.

    pyopencl has no function for native kernels.  Where OpenCL refuses the command, or its loader
    cannot be accessed, the function is not called.
    """
    command = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: function())
    try:
        enqueue = ctypes.CDLL(pyopencl._cl.__file__).clEnqueueNativeKernel
    except (AttributeError, OSError):
        return
    pointer, nothing = ctypes.c_void_p(queue.int_ptr), ctypes.c_size_t(0)
    try:
        enqueue(pointer, command, None, nothing, 0, None, None, 0, None, None)
    finally:
        queue.finish()


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
