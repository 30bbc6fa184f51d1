"""The memory pool of a queue."""

from __future__ import annotations

import pyopencl as cl
from pyopencl.tools import DeferredAllocator, MemoryPool


def memory_pool(context: cl.Context) -> MemoryPool:
    """A pool of a context's memory, which OpenCL allocates at its first use.

    ImmediateAllocator releases the interpreter lock while the pool is being changed, and programs
    of several threads crashed; with DeferredAllocator none did.  The pool warns that memory may
    turn out to be missing later; ``Launch`` reports that case.  The warning is suppressed by code
    without a module name, because the warning filters belong to the whole process.
    """
    nowhere = {"__name__": None, "MemoryPool": MemoryPool, "allocator": DeferredAllocator(context)}
    pool: MemoryPool = eval("MemoryPool(allocator)", nowhere)
    return pool
