"""The public functions that a group computes, by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from portable_gpu.multi.operations import (
    convolutions,
    expressions,
    factors,
    products,
    reductions,
    transforms,
)

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup


def _sparse(name: str) -> Callable[[DeviceGroup, Mapping[str, Any]], Any]:
    """Return a function of sparse matrices, whose module is imported at its first call."""

    def compute(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
        from portable_gpu.multi.operations import sparse_factors

        return getattr(sparse_factors, name)(group, arguments)

    return compute


#: Each takes the group, and the arguments of the public function by their names.
FUNCTIONS: dict[str, Callable[[DeviceGroup, Mapping[str, Any]], Any]] = {
    **convolutions.FUNCTIONS,
    "cho_solve": factors.cho_solve,
    "cholesky": factors.cholesky,
    "elementwise": expressions.elementwise,
    "gemm": products.gemm,
    "gemv": products.gemv,
    "matmul": products.matmul,
    "reduction": reductions.reduction,
    "sparse.cholesky": _sparse("cholesky"),
    "sparse.spsolve": _sparse("spsolve"),
    "transform": transforms.transform,
}
