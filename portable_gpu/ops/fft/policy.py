"""How transforms use a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L2_BYTES
from portable_gpu.ops.fft.passes import Reach
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

#: The largest prime with a butterfly, and with one in a cyclic convolution: in single precision a
#: butterfly of 37 takes some 170 registers, in double one of 23 does.  H200, complex128, us, as a
#: convolution in brackets: 85496 lines of 92 78 (157), 40000 of 34 17 (31), 4000 of 391 19 (49),
#: 284 columns of 23 2.8 (3.9), 20000 lines of 17 4.8 (6.9), of 19 5.4 (7.3), of 23 6.6 (7.6).  But
#: 20000 lines of 47 by 46 = 2 x 23 take 29 (by a chirp 23).
_SINGLE, _DOUBLE = (37, 37), (23, 13)
#: The shortest line that a GPU makes in two passes where there are few.  H200, us, in one and in
#: two: 18 of 128 complex64 2.2 and 2.9, 7 of 128 complex128 2.3 and 3.2, 7 columns of 1875
#: complex64 4.5 and 4.7; but 30 columns of 1000 4.3 and 4.1, one of 9801 8.8 and 5.4.
_CUT = 1000


@dataclass(frozen=True)
class CpuFftPolicy(Policy):
    """Transforms side by side in the lanes of vectors; see ``cl_kernels/fft/cpu``.

    Attributes:
        vector: Lanes.
        most: The longest transform of one pass.
    """

    vector: Annotated[int, Range(2, 8)]
    most: Annotated[int, Range(16, 65536)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> CpuFftPolicy:
        """As many lanes as a register has, and scratch of half of the second cache."""
        itemsize = elem.itemsize // elem.components
        vector = min(8, max(2, target.vector_bytes // itemsize))
        return cls(vector, L2_BYTES // 2 // (2 * vector * itemsize))

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """See :meth:`Policy.search_space`."""
        return {"vector": (2, 4, 8), "most": (1024, 2048, 4096, 8192)}

    @property
    def reach(self) -> Reach:
        """How far a pass goes: strips are as wide whatever the length."""
        return Reach(self.most, self.vector, self.most, 4 * self.vector)

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        return {"vector is 2, 4 or 8": self.vector in (2, 4, 8)}

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.vector, self.vector, self.vector


@dataclass(frozen=True)
class GroupFftPolicy(Policy):
    """Transforms in the registers of work-groups; see ``cl_kernels/fft/group``.

    Attributes:
        item: Numbers that a work-item holds, at most.
        group: Work-items of a group, where a transform has no more; some lines need half or twice.
        beside: Lanes that a group takes where they lie side by side.
        most: The longest transform of one pass.
        prime: The largest prime that has a butterfly.
        cyclic: The largest prime that has one in a cyclic convolution.
    """

    item: Annotated[int, Range(13, 32)]
    group: Annotated[int, Range(16, 1024)]
    beside: Annotated[int, Range(1, 16)]
    most: Annotated[int, Range(16, 65536)]
    prime: Annotated[int, Range(13, 37)] = 13
    cyclic: Annotated[int, Range(13, 37)] = 13

    @classmethod
    def default(cls, target: Target, elem: Element) -> GroupFftPolicy:
        """What local memory holds at once, and the registers of the largest group."""
        # Of complex128 a work-item of 16 numbers would be the only wavefront of a SIMD of GCN.
        item = 16 if elem.itemsize < 16 or target.resident_registers > 128 else 13
        local = min(target.static_local_mem, target.local_mem_per_unit) // elem.itemsize
        most = floor_power_of_two(min(local, item * target.max_work_group_size))
        # H200: 512 x 512 x 512 complex64 in 1655 us, by runs of 64 bytes 1818; 256 x 256 x 256
        # complex128 in 414 us, by groups of 128 work-items 452.
        group = min(128 if elem.itemsize < 16 else 256, target.max_work_group_size)
        primes = _SINGLE if elem.itemsize < 16 else _DOUBLE
        primes = primes if target.registers > 200 else (13, 13)
        return cls(item, group, min(16, 128 // elem.itemsize), most, *primes)

    @classmethod
    def search_space(cls, target: Target, elem: Element) -> Mapping[str, tuple[Any, ...]]:
        """See :meth:`Policy.search_space`."""
        return {
            "item": (16, 32),
            "group": (64, 128, 256),
            "beside": (2, 4, 8, 16),
            "most": (2048, 4096, 8192, 16384),
        }

    @property
    def reach(self) -> Reach:
        """How far a pass goes: a group holds the wanted lanes, or one line."""
        broad = max(16, self.most // self.beside)
        return Reach(
            self.most,
            self.beside,
            broad,
            _CUT,
            chirps=True,
            prime=self.prime,
            cyclic=self.cyclic,
            by_batch=True,
        )

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        nbytes = self.most * elem.itemsize
        return {
            f"{self.most} numbers are in {target.max_work_group_size} work-items": (
                self.most <= self.item * target.max_work_group_size
            ),
            f"{nbytes} bytes are in local memory": nbytes <= target.static_local_mem,
        }

    def edges(self, itemsize: int) -> tuple[int, int, int]:
        """See :meth:`Policy.edges`."""
        return self.beside, self.beside, self.beside
