"""The parameters of kernels."""

from __future__ import annotations

import re

from portable_gpu.codegen.parameters import SCALARS
from portable_gpu.codegen.specialization import Specialization

_KERNEL = re.compile(r"__kernel[^;{]*?\bvoid\s+(\w+)\s*\(([^()]*)\)")


def assert_passable(spec: Specialization) -> None:
    """Each kernel of the text declares only what a host can pass, and nothing twice."""
    kernels = {head[1]: head[2].split(",") for head in _KERNEL.finditer(spec.text)}
    assert kernels, spec.name
    for kernel, declared in kernels.items():
        result = spec.parameters(kernel)
        assert {p.scalar for p in result} <= {None, *SCALARS.values()}
        assert len({p.name for p in result}) == len(result)
        separate = [p.name for p in result if not p.field]
        last = ["integers"] * (len(separate) < len(result))
        assert [re.findall(r"\w+", one)[-1] for one in declared] == separate + last
