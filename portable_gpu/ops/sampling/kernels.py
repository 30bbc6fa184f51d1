"""The choice of a kernel for a sampling problem, and the tables that it reads."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable_gpu.ops.sampling.blocks import block_weights
from portable_gpu.ops.sampling.cpu_kernels import runs, scatter
from portable_gpu.ops.sampling.gpu_kernels import blocks, tiles
from portable_gpu.ops.sampling.problem import ROUTED, SamplingProblem, axes_of
from portable_gpu.ops.sampling.rules import table_of
from portable_gpu.ops.sampling.sampling_kernel import SamplingKernel
from portable_gpu.targets import Target


def kernel_of(problem: SamplingProblem, target: Target) -> SamplingKernel:
    """Choose the form and the partition for a device."""
    axes = axes_of(problem)
    if not target.is_cpu:
        return blocks(problem, target, axes) or tiles(problem, target, axes)
    return scatter(problem, target, axes) or runs(problem, target, axes)


def tables(problem: SamplingProblem, kernel: SamplingKernel) -> dict[str, np.ndarray[Any, Any]]:
    """The tables that the kernel reads, by the names of its parameters."""
    result: dict[str, np.ndarray[Any, Any]] = {}
    precision = np.float64 if problem.elem.needs_fp64 else np.float32
    if kernel.template == "blocks":
        axes = zip(kernel.axes.ruled, kernel.context["blocks"], strict=True)
        for k, (axis, blocks_of_axis) in enumerate(axes if problem.kind == "sum" else ()):
            weights = block_weights(axis.rule, blocks_of_axis.size)
            result[f"weights{k}"] = weights.astype(precision)
        return result
    for k, axis in enumerate(kernel.axes.ruled):
        table = table_of(axis.rule, problem.kind not in ROUTED)
        padding = kernel.integers[f"size{k}"] - axis.rule.outputs
        result[f"places{k}"] = np.pad(table.places, ((0, 0), (0, padding)), constant_values=-1)
        if problem.kind == "sum":
            result[f"weights{k}"] = table.weights.astype(precision)
    return result
