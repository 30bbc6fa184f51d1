"""portable_gpu: linear algebra, reductions and expressions of arrays on any OpenCL device."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import portable_gpu.ops.arrays  # noqa: F401  # they are the operators of Array
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
    from portable_gpu import multi as multi
    from portable_gpu import nn as nn
    from portable_gpu import sparse as sparse
    from portable_gpu.runtime.engine import WarmUp

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


def _warm_up(*arguments: Any) -> WarmUp:
    """:func:`portable_gpu.ops.warm_up.warm_up`, which is imported with all families' records."""
    from portable_gpu.ops.warm_up import warm_up

    return warm_up(*arguments)


Engine._warm_up = _warm_up


def __getattr__(name: str) -> Any:
    """``portable_gpu.multi``, ``nn`` and ``sparse``, which are imported at their first use."""
    if name in ("multi", "nn", "sparse"):
        return importlib.import_module(f"portable_gpu.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
