"""The checks that a policy passes before it is stored: sizes around its tiles, all transposes.

Results go into memory full of NaN, between guards that must stay as they are.  What is expected
comes from NumPy in higher precision, within the bounds of ``docs/accuracy.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

from portable_gpu.checking.check import Check
from portable_gpu.dtypes import dtype_of
from portable_gpu.ops.registry import FAMILY_OF
from portable_gpu.tuner.jobs import TUNED, TuningJob
from portable_gpu.tuning.policy import TunedPolicy


def edge_checks(job: TuningJob, policy: TunedPolicy) -> Iterator[Check]:
    """The checks of a policy for the problems of a job, in each of their dtypes and families.

    Checks of the kernel's own family run before those of other families that use the row: flat
    products of gemm may use a row of gemv.
    """
    tile = policy.edges(job.elem.itemsize)
    family = next(name for name in TUNED if f"{job.key.kernel}_".startswith(f"{name}_"))
    served = [(name, c.dtype) for c in job.cases for name in (family, FAMILY_OF[c.operation])]
    for name, dtype in dict.fromkeys(served):
        yield from TUNED[name].edge_checks(tile, dtype_of(dtype), job.cases)
