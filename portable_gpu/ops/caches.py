"""The assumed sizes of a CPU's caches.

OpenCL reports the size of one level only.  Recent cores of x86 and Arm have 32 to 64 KiB of L1 and
0.5 to 2 MiB of L2.
"""

from __future__ import annotations

L1_BYTES = 32 << 10
L2_BYTES = 1 << 20
LINE_BYTES = 64
#: What one core finds of a last cache of 16 to 32 MiB that others use too.
LAST_BYTES = 8 << 20
#: The hardware prefetches sequential reads within a page of this size.
PAGE_BYTES = 4 << 10
