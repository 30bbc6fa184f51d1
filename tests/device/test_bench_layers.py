"""Benchmarks of layers and convolutions: each case is right, and the command summarises them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyopencl as cl
import pytest

from portable_gpu.bench import dispatch, roofs, timing
from portable_gpu.bench.cases import LAYERS, cases, operands, oracle
from portable_gpu.bench.peers import Ours
from portable_gpu.cli import main
from portable_gpu.ops.case import Case
from portable_gpu.ops.sizes import Size, parse_sizes
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.engine import Engine

IMAGES = "2x64x6x5,2x64x6x5/backward"


def some_layers() -> list[Case]:
    """Cases of each layer, forward and backward."""
    result: list[Case] = []
    for size in ("30x40", "30x40/backward"):
        for name in (
            "softmax",
            "log_softmax",
            "layer_norm",
            "rms_norm",
            "cross_entropy",
            "mse_loss",
        ):
            result += cases(name, ["float32"], parse_sizes(size), True)
    for name in ("batch_norm", "group_norm"):
        result += cases(name, ["float32"], parse_sizes(IMAGES), True)
    attention = "3:10x8,3:10x8/backward"
    result += cases("scaled_dot_product_attention", ["float32"], parse_sizes(attention), True)
    for name in ("sgd_step", "adam_step"):
        result += cases(name, ["float32"], parse_sizes("50"), True)
    for name in ("embedding", "embedding_backward"):
        result += cases(name, ["float32"], parse_sizes("50x8"), True)
    of_activations = parse_sizes("60x7/gelu,60x7/gelu_backward,60x7/relu_backward")
    result += cases("elementwise", ["float32"], of_activations, True)
    result += cases("max_pool2d_backward", ["float32"], parse_sizes("1x2x9x8"), True)
    return result


_FORWARD = "2x6x9x8x4x3x3/s2g2b,2x6x9x8x4x3x3/bl,2x6x9x8x4x3x3/r,2x6x9x8x4x3x3/s2brl"
CONVOLUTIONS = (
    cases("conv2d", ["float32"], parse_sizes(_FORWARD), True)
    + cases("conv2d_input", ["float32"], parse_sizes("2x6x9x8x6x3x3/wl"), True)
    + cases("conv2d_weight", ["float32"], parse_sizes("2x6x9x4x3"), True)
)


@pytest.mark.parametrize("case", [*some_layers(), *CONVOLUTIONS], ids=str)
def test_our_call_is_right(case: Case, unoptimised: Engine) -> None:
    inputs = operands(case)
    before = [x.copy() for x in inputs]
    judge = oracle(case, inputs)
    result = Ours(unoptimised).prepare(case, [inputs]).result()
    assert judge(result) <= 1
    assert all(np.array_equal(x, y) for x, y in zip(inputs, before, strict=True))
    wrong = np.array(result, np.float64, order="C")
    wrong.reshape(-1)[0] += 0.05 * (1 + abs(wrong.reshape(-1)[0]))
    assert judge(wrong) > 1


def test_a_name_stands_for_the_layers_of_a_network() -> None:
    selected = cases("conv", ["float32"], parse_sizes("8:resnet50/bl"), True)
    assert len(selected) == 3 * 23
    assert selected[0].extents == (8, 3, 224, 224, 64, 7, 7)
    assert {case.trans for case in selected} == {"bl", "s2bl"}
    (size,) = parse_sizes("mobilenet_v2")
    assert size == Size((), name="mobilenet_v2")
    assert all(case.extents[0] == 1 for case in cases("conv2d", ["float32"], [size], True))


def test_layers_take_the_sizes_that_fit() -> None:
    selected = {case.operation for case in cases(LAYERS, ["float32"], parse_sizes("8x4x6x6"), True)}
    assert {"batch_norm", "max_pool2d", "softmax"} <= selected
    assert not selected & {"cross_entropy", "embedding"}


def test_the_command_summarises(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(timing, "TURN", 1e-6)
    monkeypatch.setattr(timing, "fall_silent", lambda: None)
    monkeypatch.setattr(roofs, "_COPIED", 1 << 20)
    monkeypatch.setattr(roofs, "_steps", lambda target: 256)
    report = tmp_path / "layers.json"
    arguments = ["--sizes", "30x40,50x40", "--peers", "none", "--json", str(report)]
    assert main(["bench", "softmax", *arguments]) == 0
    assert "Summary" in capsys.readouterr().out
    first, *_ = json.loads(report.read_text())["summary"]
    assert (first["operation"], first["count"], first["ratio"]) == ("softmax", 2, None)
    assert first["copy"] > 0


def test_convolutions_of_all_directions_are_contested(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(dispatch, "FIRST_TURN", 1e-5)
    monkeypatch.setattr(timing, "TURN", 1e-5)

    def drawn(operation: str, *_: object) -> list[Case]:
        return cases(operation, ["float32"], parse_sizes("2x6x9x4x3/s1d1g2l"), True)

    monkeypatch.setattr("portable_gpu.cli.dispatch.random_cases", drawn)
    report = tmp_path / "dispatch.json"
    arguments = ["bench", "dispatch", "--rows", "conv", "--shapes", "3", "--json", str(report)]
    assert main(arguments) in (0, 1)
    assert "3 of 3 cases timed" in capsys.readouterr().out
    products = json.loads(report.read_text())["dispatch"]["products"]
    names = {item["operation"] for item in products}
    assert names == {"conv2d", "conv2d_input", "conv2d_weight"}


@pytest.mark.parametrize(
    ("operation", "size", "shape"),
    [
        ("gemm", "5x9x7/NN", (5, 7)), ("fft", "3x20/1", (3, 20)),
        ("conv2d", "2x6x9x4x3/g2", (2, 4, 9)), ("conv2d_input", "2x6x9x4x3/g2", (2, 6, 9)),
        ("conv2d_weight", "2x6x9x4x3/g2", (4, 3, 3)),
    ],
)  # fmt: skip
def test_plans_of_a_contest_have_their_operands(
    operation: str, size: str, shape: tuple[int, ...], unoptimised: Engine
) -> None:
    """A contest's buffers are as long as the plan needs them, and in its order."""
    engine = unoptimised
    (case,) = cases(operation, ["float32"], parse_sizes(size), True)
    of, contest = dispatch.CONTESTED[operation], dispatch.Contest(engine, [case])
    every = of.variants(of.problem(case), engine.target, engine.table)
    contest.prepared(best_of(every, engine.target)).seconds(0, 1)
    arrays = []
    for buffer in contest._buffers[engine]:
        arrays.append(np.empty(buffer.size // 4, np.float32))
        cl.enqueue_copy(engine.queue, arrays[-1], buffer)
    *read, result = arrays
    if operation == "conv2d_input":
        read.reverse()  # the public function takes the weights first
    dtype = np.complex64 if operation == "fft" else np.float32
    shapes = zip(read, case.shapes, strict=True)
    inputs = [x.view(dtype).reshape(extents) for x, extents in shapes]
    assert oracle(case, inputs)(result.view(dtype).reshape(shape)) <= 1
