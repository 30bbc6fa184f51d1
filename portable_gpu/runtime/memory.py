"""The memory pool of a queue."""

from __future__ import annotations

import pyopencl as cl
from pyopencl.tools import DeferredAllocator, MemoryPool


def memory_pool(context: cl.Context) -> MemoryPool:
    """A pool of a context's memory, which OpenCL provides when it is first used.

    ImmediateAllocator lets go of the interpreter while the pool is half changed: of 32 runs of
    eight threads on an H200 seven crashed, of 60 with DeferredAllocator none.  What the pool warns
    of, that memory may turn out to be absent later, ``Launch`` reports.  A warning from code that
    has no module's name goes nowhere: the filters, which belong to the whole process, stay alone.
    """
    nowhere = {"__name__": None, "MemoryPool": MemoryPool, "allocator": DeferredAllocator(context)}
    pool: MemoryPool = eval("MemoryPool(allocator)", nowhere)
    return pool
