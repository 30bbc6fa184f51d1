"""portable_gpu: reductions, gemv and gemm on any OpenCL device, from one specialised code base."""

from portable_gpu.codegen.operators import BinaryOp, Map
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
from portable_gpu.runtime.devices import devices
from portable_gpu.runtime.engine import Engine, default_engine
from portable_gpu.version import __version__

__all__ = [
    "BinaryOp",
    "Engine",
    "Map",
    "__version__",
    "all",
    "any",
    "argmax",
    "argmin",
    "asum",
    "count_nonzero",
    "default_engine",
    "devices",
    "dot",
    "max",
    "mean",
    "min",
    "nrm2",
    "prod",
    "reduce",
    "std",
    "sum",
    "var",
    "vdot",
]
