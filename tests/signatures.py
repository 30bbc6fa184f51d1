"""What kernels take, read from their texts."""

from __future__ import annotations

import re

from portable_gpu.codegen.signature import SCALARS, parameters
from portable_gpu.codegen.specialization import Specialization

_KERNEL = re.compile(r"__kernel[^;{]*?\bvoid\s+(\w+)\s*\(")


def assert_passable(spec: Specialization) -> None:
    """Each kernel of the text declares only what a host can pass, and nothing twice."""
    kernels = _KERNEL.findall(spec.text)
    assert kernels, spec.name
    for kernel in kernels:
        result = parameters(spec.text, kernel)
        assert {p.scalar for p in result} <= {None, *SCALARS.values()}
        assert len({p.name for p in result}) == len(result)
