"""Local memory of the kernels of rows and of channels, on devices that have little."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from portable_gpu.ops.normalize.channels import channels_kernel
from portable_gpu.ops.normalize.commands.catalogue import contiguous
from portable_gpu.ops.normalize.kernels import kernel_of
from portable_gpu.ops.normalize.problem import RowProblem, row_problem
from portable_gpu.ops.normalize.programs import program
from portable_gpu.runtime.views import View, contiguous_strides
from portable_gpu.targets import Target, example_target
from portable_gpu.tuning.table import TuningTable

F64, TABLE = np.dtype(np.float64), TuningTable.shipped()
#: Programs, of which the second has the most accumulators.
PROGRAMS = {"norm_backward": {"row_w", "dw", "db"}, "entropy": {"smooth", "w"}, "norm": {"stats"}}


def local_bytes(text: str) -> int:
    """The bytes of local arrays of float64, as the text declares them, with those of exchanges."""
    sizes = {"double": 8}
    for body, name in re.findall(r"typedef struct[^{]*\{([^}]*)\}\s*(\w+);", text):
        fields = re.findall(r"double ([^;]*);", body)
        sizes[name] = sum(8 * len(names.split(",")) for names in fields)
    arrays = re.findall(r"__local (\w+) \w+\[(\d+)\];", text)
    arrays += re.findall(r"SUBGROUP_SCRATCH\((\w+), \w+, (\d+)\);", text)
    assert arrays
    return sum(sizes[name] * int(count) for name, count in arrays)


def small(name: str, nbytes: int) -> Target:
    return replace(example_target(name), local_mem_size=nbytes)


def of_groups(channels: int) -> RowProblem:
    """Gradients of a group normalisation with a weight of each of a group's channels."""
    flags, shape = frozenset({"w", "dw_parts", "db_parts"}), (4096, channels, 64)
    spread = {}
    for operand in program("norm_backward", flags).operands:
        spread[operand] = contiguous_strides(shape)
        if operand in ("mean", "rstd"):
            spread[operand] = (1, 0, 0)
        elif operand not in ("dy", "x", "dx"):
            spread[operand] = (0 if operand == "w" else channels, 1, 0)
    views = [View(None, 0, shape, strides, F64) for strides in spread.values()]
    return row_problem("norm_backward", flags, shape, frozenset({1, 2}), views, spread, (), 16)


@pytest.mark.parametrize("nbytes", [16384, 32768])
@pytest.mark.parametrize("target", ["gcn", "nvidia-sm80", "generic"])
def test_rows_fit(target: str, nbytes: int) -> None:
    device = small(target, nbytes)
    for name, flags in PROGRAMS.items():
        for shape, axis in (((4096, 64), 1), ((4096, 4096), 1), ((4, 1 << 20), 1), ((999, 512), 0)):
            problem = contiguous(name, shape, (axis,), F64, frozenset(flags))
            kernel = kernel_of(problem, device, TABLE)
            text = kernel.specialization(device, kernel.kernel_parts[0]).text
            assert local_bytes(text) <= nbytes


@pytest.mark.parametrize(("target", "nbytes"), [("gcn", 16384), ("nvidia-sm80", 32768)])
def test_channels_fit(target: str, nbytes: int) -> None:
    """Groups are smaller where they have too many accumulators; other kernels have the rest."""
    device, sizes = small(target, nbytes), []
    for channels in (1, 8, 100, 700, 1024, 1025):
        kernel = channels_kernel(of_groups(channels), device, TABLE)
        sizes.append(kernel.group if kernel else 0)
        if kernel:
            assert local_bytes(kernel.specialization(device).text) <= nbytes
    expected = {16384: [512, 512, 512, 256, 0, 0], 32768: [1024, 1024, 1024, 1024, 1024, 0]}
    assert sizes == expected[nbytes]
