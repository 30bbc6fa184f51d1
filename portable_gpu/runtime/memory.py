"""The memory pool of a queue."""

from __future__ import annotations

import pyopencl as cl
from pyopencl.tools import DeferredAllocator, MemoryPool


def memory_pool(context: cl.Context, on_host: bool) -> MemoryPool:
    """A pool of a context's memory, which OpenCL allocates at its first use.

    Args:
        context: The context.
        on_host: Whether the memory is the host's, and is allocated at once.

    ImmediateAllocator releases the interpreter lock while the pool is being changed, and programs
    of several threads crashed; with DeferredAllocator none did.  The pool warns that memory may
    turn out to be missing later; ``Launch`` reports that case.  The warning is suppressed by code
    without a module name, because the warning filters belong to the whole process.
    """
    flags = cl.mem_flags.READ_WRITE
    allocator = DeferredAllocator(
        context, flags | cl.mem_flags.ALLOC_HOST_PTR if on_host else flags
    )
    nowhere = {"__name__": None, "MemoryPool": MemoryPool, "allocator": allocator}
    pool: MemoryPool = eval("MemoryPool(allocator)", nowhere)
    return pool
