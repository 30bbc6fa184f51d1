"""Runs NVIDIA kernels where there is no such GPU: PTX, instruction by instruction, in NumPy.

:class:`~emulator.device.Emulator` stands in for an engine to the classes that launch kernels; clang
makes the PTX, as for ``portable-gpu check-isa``.  Written from NVIDIA's PTX ISA manual, and from
nothing that the kernels say of themselves.

It finds wrong results, accesses outside of a buffer or not aligned, shared memory read
before it was written (it starts as NaN), deadlocks, waiting for a later group, asynchronous copies
without a wait (they are done as late as the manual allows), operands of a matrix
instruction in flight that are overwritten or that no fence has shown to it, and, where it is asked
to, races between warps.  What it does not model: time, races in kernels with ``mbarrier``, which
thread a fence serves, ``wgmma.fence``, and what ptxas or a GPU makes of the same text.
"""
