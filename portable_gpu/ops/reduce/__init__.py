"""Reductions: whole arrays in one launch, and over any axes."""

from portable_gpu.ops.reduce.catalogue import CATALOGUE, EXPLAINERS
from portable_gpu.ops.reduce.functions import (
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

__all__ = [
    "CATALOGUE",
    "EXPLAINERS",
    "all",
    "any",
    "argmax",
    "argmin",
    "asum",
    "count_nonzero",
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
