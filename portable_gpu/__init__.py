"""portable_gpu: linear algebra, reductions and expressions of arrays on any OpenCL device."""

import importlib
from typing import TYPE_CHECKING, Any

import portable_gpu.ops.arrays  # they are the operators of Array
import portable_gpu.ops.warm_up  # noqa: F401  # it is Engine.warm_up
from portable_gpu import fft as fft
from portable_gpu import linalg as linalg
from portable_gpu import signal as signal
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.codegen.operators import BinaryOp, Map
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.explain import explain
from portable_gpu.ops.gemm import gemm, matmul
from portable_gpu.ops.gemv import gemv
from portable_gpu.ops.plan import plan
from portable_gpu.ops.planned import PlannedCall
from portable_gpu.ops.reduce import (
    all,
    any,
    argmax,
    argmin,
    asum,
    count_nonzero,
    dot,
    max,
    mean,
    min,
    nrm2,
    prod,
    reduce,
    std,
    sum,
    var,
    vdot,
)
from portable_gpu.runtime.array import Array
from portable_gpu.runtime.devices import devices
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import default_engine
from portable_gpu.runtime.transfer import asarray, asnumpy
from portable_gpu.version import __version__

if TYPE_CHECKING:
    from portable_gpu import sparse as sparse

__all__ = [
    "Array",
    "BinaryOp",
    "Engine",
    "Epilogue",
    "Map",
    "PlannedCall",
    "__version__",
    "all",
    "any",
    "argmax",
    "argmin",
    "asarray",
    "asnumpy",
    "asum",
    "count_nonzero",
    "default_engine",
    "devices",
    "dot",
    "elementwise",
    "explain",
    "gemm",
    "gemv",
    "matmul",
    "max",
    "mean",
    "min",
    "nrm2",
    "plan",
    "prod",
    "reduce",
    "std",
    "sum",
    "var",
    "vdot",
]


def __getattr__(name: str) -> Any:
    """``portable_gpu.sparse``, at its first use: what it needs is imported for those who use it."""
    if name == "sparse":
        return importlib.import_module("portable_gpu.sparse")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
