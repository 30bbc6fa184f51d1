"""Starts of work-groups along rows whose pitch is a multiple of all memory channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from choosing import gemv_kernel

from portable_gpu.dtypes import element
from portable_gpu.ops.gemm import GemmPolicy, Tiling
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.tiled.plan import specialization_of
from portable_gpu.ops.gemv.problem import GemvProblem
from portable_gpu.ops.stagger import Stagger, stagger
from portable_gpu.targets import class_names, example_target
from portable_gpu.tuning.table import TuningTable

GCN = example_target("gcn")
FLOAT = element(np.float32)
POLICY = GemmPolicy(32, 32, 8, 4, 4, 4, 4, vector=4)
KIB = 1024


@pytest.mark.parametrize(
    ("pitch", "moved", "steps", "expected"),
    [
        (4 * KIB, 32, 512, Stagger(16, 8)),
        (64 * KIB, 256, 512, Stagger(16, 1)),
        (4 * KIB, 1 * KIB, 4, Stagger(4, 1)),
        (4 * KIB, 32, 40, Stagger(5, 8)),  # a short row: no start beyond its end
        (4 * KIB, 32, 15, None),  # one start is none
        (4 * KIB, 4 * KIB, 64, None),  # a step meets all channels
        (4 * KIB + 128, 32, 512, None),
        (2 * KIB, 32, 512, None),
        (0, 32, 512, None),
        (-8 * KIB, 32, 512, Stagger(16, 8)),
    ],
)
def test_rule(pitch: int, moved: int, steps: int, expected: Stagger | None) -> None:
    assert stagger(GCN, pitch, moved, steps) == expected


@pytest.mark.parametrize("name", class_names())
def test_only_where_channels_are_known(name: str) -> None:
    result = stagger(example_target(name), 1 << 16, 32, 512)
    assert (result is not None) == (name in ("gcn", "rdna"))


@pytest.mark.parametrize(
    ("trans", "k", "by"),
    [
        ("NN", 2048, "first_row / 32"),
        ("NT", 2048, "first_row / 32 + first_col / 32"),
        ("TT", 2048, "first_col / 32"),
        ("TN", 2048, ""),  # panels are across: neighbours in C read neighbours in memory
        ("NN", 2052, ""),
    ],
)
def test_products(trans: str, k: int, by: str) -> None:
    def operand(rows: int, cols: int, across: bool) -> Operand:
        return Operand(FLOAT, *((1, rows) if across else (cols, 1)), (), False, 16)

    a, b = operand(64, k, trans[0] == "T"), operand(k, 64, trans[1] == "T")
    problem = GemmProblem(64, 64, k, (), a, b, operand(64, 64, False), FLOAT)
    spec = specialization_of(problem, Tiling("tiled", POLICY), GCN)
    assert ("start" in spec.text) == bool(by)
    assert f"(int)({by}) % 16 * 8 % k_steps;" in spec.text or not by
    plain = specialization_of(problem, Tiling("tiled", POLICY), example_target("nvidia"))
    assert "start" not in plain.text


@pytest.mark.parametrize(("pitch", "expected"), [(1024, Stagger(3, 1)), (1000, None)])
def test_gemv_by_rows(pitch: int, expected: Stagger | None) -> None:
    problem = GemvProblem(FLOAT, 1 << 16, 1000, pitch, 1, 1, 1)
    kernel = gemv_kernel(problem, GCN, TuningTable.shipped())
    assert kernel.template == "dot_rows"
    assert kernel.context["stagger"] == expected
    across = gemv_kernel(replace(problem, a_sum=2), GCN, TuningTable.shipped())
    assert across.context["stagger"] is None
