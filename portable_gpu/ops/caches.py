"""What the caches of a CPU are taken to hold: OpenCL tells the size of one level only.

Recent cores of x86 and Arm have 32 to 64 KiB of L1 and 0.5 to 2 MiB of L2.
"""

from __future__ import annotations

L1_BYTES = 32 << 10
L2_BYTES = 1 << 20
#: Within a page, the hardware fetches ahead what is read in order.
PAGE_BYTES = 4 << 10
