"""Sparse Cholesky factors: analysis on the host, numbers on any OpenCL device."""

from importlib.util import find_spec

from portable_gpu.errors import how_to_install

for _package in ("llvmlite", "scipy"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"portable_gpu.sparse needs the package {_package}: {how_to_install('sparse')}",
            name=_package,
        )

from portable_gpu.errors import NotPositiveDefiniteError  # noqa: E402
from portable_gpu.sparse.factor import Factor  # noqa: E402
from portable_gpu.sparse.functions import cholesky, spsolve  # noqa: E402
from portable_gpu.sparse.memory import DeviceMemory, MemoryEstimate  # noqa: E402
from portable_gpu.sparse.plot import plot_symbolic  # noqa: E402
from portable_gpu.sparse.stack import FactorStack  # noqa: E402
from portable_gpu.sparse.symbolic import Symbolic, analyze  # noqa: E402

__all__ = [
    "DeviceMemory",
    "Factor",
    "FactorStack",
    "MemoryEstimate",
    "NotPositiveDefiniteError",
    "Symbolic",
    "analyze",
    "cholesky",
    "plot_symbolic",
    "spsolve",
]
