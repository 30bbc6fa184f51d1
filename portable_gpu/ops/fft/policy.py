"""The policies of the kernels of transforms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from portable_gpu.dtypes import Element
from portable_gpu.ops.caches import L2_BYTES
from portable_gpu.ops.fft.passes import PassLimits
from portable_gpu.powers_of_two import floor_power_of_two
from portable_gpu.targets import Target
from portable_gpu.tuning.policy import Policy, Range

#: The largest prime with a butterfly, and with one in a cyclic convolution, by precision: in single
#: precision a butterfly of 37 takes about 170 registers, in double precision one of 23.  Measured:
#: docs/experiments/fft.md, "Constants".
_SINGLE, _DOUBLE = (37, 37), (23, 13)
#: The shortest line that a GPU transforms in two passes if lines are few.
_MIN_SPLIT_LENGTH = 1000


@dataclass(frozen=True)
class CpuFftPolicy(Policy):
    """Each lane of a vector has a transform; see ``cl_kernels/fft/cpu``.

    Attributes:
        vector: Lanes of a vector, 2 to 8.
        max_length: The longest transform of one pass.
    """

    vector: Annotated[int, Range(2, 8)]
    max_length: Annotated[int, Range(16, 65536)]

    @classmethod
    def default(cls, target: Target, elem: Element) -> CpuFftPolicy:
        """Lanes that fill a register, and scratch memory of half of the second cache."""
        itemsize = elem.itemsize // elem.components
        vector = min(8, max(2, target.vector_bytes // itemsize))
        return cls(vector, L2_BYTES // 2 // (2 * vector * itemsize))

    @property
    def pass_limits(self) -> PassLimits:
        """The limits of one pass; the number of lanes does not depend on the length."""
        return PassLimits(self.max_length, self.vector, self.max_length, 4 * self.vector)

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        return {"vector is 2, 4 or 8": self.vector in (2, 4, 8)}


@dataclass(frozen=True)
class GroupFftPolicy(Policy):
    """The registers of a work-group hold transforms; see ``cl_kernels/fft/group``.

    Attributes:
        item_numbers: The maximum number of complex numbers in a work-item's registers.
        group_size: Work-items of a group.  A long transform takes more, and for some lengths half
            or twice as many are better.
        adjacent: Transforms of a group if the elements of several transforms are adjacent in
            memory, so that accesses are coalesced.
        max_length: The longest transform of one pass.
        prime: The largest prime that has a butterfly.
        cyclic: The largest prime that has a butterfly in a cyclic convolution.
    """

    item_numbers: Annotated[int, Range(13, 32)]
    group_size: Annotated[int, Range(16, 1024)]
    adjacent: Annotated[int, Range(1, 16)]
    max_length: Annotated[int, Range(16, 65536)]
    prime: Annotated[int, Range(13, 37)] = 13
    cyclic: Annotated[int, Range(13, 37)] = 13

    @classmethod
    def default(cls, target: Target, elem: Element) -> GroupFftPolicy:
        """The longest transform that local memory and the registers of the largest group hold."""
        # With 16 numbers of complex128 a work-item, a SIMD of GCN would hold a single wavefront.
        item = 16 if elem.itemsize < 16 or target.resident_registers > 128 else 13
        local_numbers = min(target.static_local_mem, target.local_mem_per_unit) // elem.itemsize
        max_length = floor_power_of_two(min(local_numbers, item * target.max_work_group_size))
        group = min(128 if elem.itemsize < 16 else 256, target.max_work_group_size)
        primes = _SINGLE if elem.itemsize < 16 else _DOUBLE
        primes = primes if target.registers > 200 else (13, 13)
        return cls(item, group, min(16, 128 // elem.itemsize), max_length, *primes)

    @property
    def pass_limits(self) -> PassLimits:
        """The limits of one pass: a group holds adjacent transforms, or a single one."""
        return PassLimits(
            self.max_length,
            self.adjacent,
            max(16, self.max_length // self.adjacent),
            _MIN_SPLIT_LENGTH,
            chirps=True,
            max_prime=self.prime,
            max_cyclic_prime=self.cyclic,
            twiddles_by_batch=True,
        )

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        """See :meth:`Policy.limits`."""
        nbytes = self.max_length * elem.itemsize
        return {
            f"{self.max_length} numbers are in {target.max_work_group_size} work-items": (
                self.max_length <= self.item_numbers * target.max_work_group_size
            ),
            f"{nbytes} bytes are in local memory": nbytes <= target.static_local_mem,
        }
