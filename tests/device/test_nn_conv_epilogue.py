"""Epilogues of convolutions, by every variant, against NumPy in float64.

Values are whole numbers that every step represents, so results are exact, except those of ``fft``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from layers.convolution import Kind, forward, gradients, laid_out
from sampling import FEW, compile_fast

import portable_gpu as pg
from portable_gpu import Engine, Epilogue, nn
from portable_gpu.errors import ArgumentError, DTypeError, OverlapError, ShapeError
from portable_gpu.ops.conv.api import problem_of_call
from portable_gpu.ops.conv.problem import ConvProblem
from portable_gpu.ops.conv.shapes import Options
from portable_gpu.ops.conv.variants import variants

LAYOUTS = ("planes", "channels", "sliced")
_FORWARD = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
_TRANSPOSED = {1: nn.conv_transpose1d, 2: nn.conv_transpose2d, 3: nn.conv_transpose3d}


@pytest.fixture(scope="module")
def gpu(engine: Engine) -> Iterator[Engine]:
    """An engine with the kernels of GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield Engine(queue=engine.queue, device_class="gcn")


def whole_numbers(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return rng.integers(-2, 3, shape).astype(dtype)


def drawn_epilogue(rng: Any, shape: tuple[int, ...], dtype: Any) -> tuple[Epilogue, Any]:
    """Stages, and a function of NumPy that does the same; ``shape`` is that of the result."""
    channels = shape[1]
    lifted = (channels, *(1,) * (len(shape) - 2))
    scale, shift = (whole_numbers(rng, (channels,), dtype) for _ in range(2))
    whole = whole_numbers(rng, shape, rng.choice([dtype, np.float32]))
    whole = laid_out(whole, rng.choice(LAYOUTS))
    cut = int(rng.integers(0, len(shape)))
    part_shape = [n if rng.random() < 0.6 else 1 for n in shape[cut:]]
    part = whole_numbers(rng, tuple(part_shape), rng.choice([dtype, np.int32]))
    turns: list[tuple[Any, Any]] = [
        (lambda e: e.scale(scale), lambda v: v * scale.reshape(lifted)),
        (lambda e: e.bias(shift), lambda v: v + shift.reshape(lifted)),
        (lambda e: e.add(whole), lambda v: v + whole),
        (lambda e: e.add(part), lambda v: v + part),
        (lambda e: e.relu(), lambda v: np.maximum(v, 0)),
        (lambda e: e.apply("v > 6 ? 6 : v"), lambda v: np.minimum(v, 6)),
        (lambda e: e.apply("v - p + q", p=part, q=whole), lambda v: v - part + whole),
    ]
    chosen = [turns[i] for i in rng.permutation(len(turns))[: rng.integers(1, 5)]]

    def expected(v: Any) -> Any:
        for _, of_numpy in chosen:
            v = of_numpy(v)
        return v

    epilogue = Epilogue()
    for add_stage, _ in chosen:
        epilogue = add_stage(epilogue)
    return epilogue, expected


def check(engine: Engine, rng: Any, rank: int, *, transposed: bool) -> None:
    """Compare every variant of a drawn convolution with its definition."""
    dtype = rng.choice([np.float32, np.float32, np.float16])
    groups = int(rng.choice([1, 1, 2]))
    has_one_tap = bool(rng.integers(2)) and not transposed  # filters of one tap, or of 3
    kernel = (1,) * rank if has_one_tap else (3,) * rank
    stride, pads = (
        tuple(int(n) for n in rng.integers(low, high, rank))
        for low, high in ((1, 2 + (not has_one_tap) + transposed), (0, 1 if has_one_tap else 2))
    )
    batch, size = int(rng.integers(1, 4)), [int(n) for n in rng.integers(3, 8, rank)]
    inside, outside = (groups * int(rng.integers(1, 5)) for _ in range(2))
    layout = rng.choice(LAYOUTS)
    kind = Kind(kernel, stride, (1,) * rank, [(p, p) for p in pads])
    options = {"stride": stride, "padding": pads, "groups": groups}
    x = whole_numbers(rng, (batch, inside, *size), dtype)
    w = whole_numbers(rng, (outside, inside // groups, *kernel), dtype)
    bias = whole_numbers(rng, (outside,), dtype) if rng.random() < 0.5 else None
    if transposed:
        w = whole_numbers(rng, (inside, outside // groups, *kernel), dtype)
        sizes = zip(size, stride, pads, kernel, strict=True)
        out = [(n - 1) * s - 2 * p + k for n, s, p, k in sizes]
        base, _ = gradients(
            np.zeros((batch, outside, *out)), w.astype(float), x.astype(float), kind, groups
        )
    else:
        base = forward(x.astype(float), w.astype(float), kind, groups)
    if bias is not None:
        base = base + bias.reshape(-1, *(1,) * rank)
    epilogue, expected = drawn_epilogue(rng, base.shape, dtype)
    want = expected(base)
    call = (_TRANSPOSED if transposed else _FORWARD)[rank]
    read = tuple(a for a in (laid_out(x, layout), w, bias) if a is not None)
    described = problem_of_call(
        "transposed" if transposed else "forward", read,
        Options(rank, stride, pads, 1, groups), 0 if transposed else None, epilogue,
        precision=None, workspace_limit=None, out=None, engine=engine, queue=None,
    )  # fmt: skip
    assert described is not None
    names = [item.name for item in variants(described[1], engine.target, engine.table)]
    for name in names:
        y = call(*read[:2], bias, **options, epilogue=epilogue, algo=name, engine=engine)
        bound = 1e-4 if name == "fft" else 0
        np.testing.assert_allclose(y, want, rtol=0, atol=bound, err_msg=f"{name}, {epilogue}")


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(2 if FEW else 4))
def test_drawn(engine: Engine, seed: int, transposed: bool) -> None:
    rng = np.random.default_rng([seed, transposed])
    check(engine, rng, (2, 1, 2, 3)[seed], transposed=transposed)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_drawn_by_kernels_of_gpus(gpu: Engine, seed: int, transposed: bool) -> None:
    rng = np.random.default_rng([seed, transposed, 1])
    check(gpu, rng, (2, 3)[seed], transposed=transposed)


def problem_with(engine: Engine, epilogue: Epilogue) -> ConvProblem:
    x, w = np.zeros((2, 4, 6, 9), np.float32), np.zeros((8, 4, 3, 3), np.float32)
    described = problem_of_call(
        "forward", (x, w), Options(2, 1, 1, 1, 1), None, epilogue, precision=None,
        workspace_limit=None, out=None, engine=engine, queue=None,
    )  # fmt: skip
    assert described is not None
    return described[1]


@pytest.mark.tiny
def test_only_fft_and_cpus_make_a_pass(engine: Engine, gpu: Engine) -> None:
    """Estimates have the traffic of the arrays, and of the pass."""
    residual = np.zeros((2, 8, 6, 9), np.float32)
    epilogue = Epilogue().add(residual).relu()
    for where in (engine, gpu):
        problem = problem_with(where, epilogue)
        alone = {v.name: v for v in variants(problem.without_epilogue, where.target, where.table)}
        every = variants(problem, where.target, where.table)
        assert [item.name for item in every] == list(alone)
        for item in every:
            passes = int(item.name == "fft" or where.target.is_cpu)
            assert item.details["moved"] - alone[item.name].details["moved"] == (
                residual.nbytes * (1 + 2 * passes)
            )
            assert item.estimate > alone[item.name].estimate
            assert ("is a pass" in item.why) == bool(passes)
            assert len(item.texts()) == len(alone[item.name].texts()) + passes


@pytest.mark.parametrize("algo", ["im2col", "winograd"])
def test_one_image_at_a_time(gpu: Engine, algo: str) -> None:
    """Each step reads the part of the residual that belongs to its image."""
    rng = np.random.default_rng(1)
    residual = whole_numbers(rng, (2, 8, 6, 9), np.float32)
    epilogue = Epilogue().add(residual)
    problem = problem_with(gpu, epilogue)
    every = variants(problem, gpu.target, gpu.table, 0)
    limit = next(v.details["workspace"] for v in every if v.name == algo)
    x, w = (whole_numbers(rng, n, np.float32) for n in ((2, 4, 6, 9), (8, 4, 3, 3)))
    options = {"padding": 1, "algo": algo, "workspace_limit": limit, "engine": gpu}
    base = nn.conv2d(x, w, **options)
    np.testing.assert_array_equal(nn.conv2d(x, w, epilogue=epilogue, **options), base + residual)


def test_repeated_calls_and_plans(engine: Engine) -> None:
    """They read the arrays of the epilogue that they are given; ``find_conv2d`` takes one too."""
    rng = np.random.default_rng(0)
    x, w = (
        whole_numbers(rng, (2, 3, 5, 6), np.float32),
        whole_numbers(rng, (4, 3, 1, 1), np.float32),
    )
    base = nn.conv2d(x, w, engine=engine)
    for _ in range(3):
        residual = whole_numbers(rng, base.shape, np.float32)
        y = nn.conv2d(x, w, epilogue=Epilogue().add(residual), engine=engine)
        np.testing.assert_array_equal(y, base + residual)
    planned = pg.plan("conv2d", x, w, epilogue=Epilogue().add(residual), engine=engine)
    np.testing.assert_array_equal(planned(x, w), base + residual)
    last = Epilogue().add(residual).relu()
    assert nn.find_conv2d(x, w, epilogue=last, engine=engine)
    y = nn.conv2d(x, w, epilogue=last, algo="found", engine=engine)
    np.testing.assert_allclose(y, np.maximum(base + residual, 0), rtol=0, atol=1e-4)  # maybe fft
    of_one = Epilogue().add(residual[1]).bias(w[:, 0, 0, 0])
    unbatched = nn.conv2d(x[0], w, epilogue=of_one, engine=engine)
    np.testing.assert_array_equal(unbatched, base[0] + residual[1] + w[:, 0])


@pytest.mark.tiny
def test_wrong_epilogues(engine: Engine) -> None:
    x, w = np.ones((2, 3, 4, 5), np.float32), np.ones((6, 3, 1, 1), np.float32)
    v = np.ones(6, np.float32)

    def refused(error: type[Exception], match: str, epilogue: Any, **options: Any) -> None:
        with pytest.raises(error, match=match):
            nn.conv2d(x, w, epilogue=epilogue, engine=engine, **options)

    refused(ArgumentError, "bias per row has an array per row", Epilogue().bias(v, per="row"))
    refused(ArgumentError, "has the name col", Epilogue().apply("v + col"))
    refused(ShapeError, r"\(5,\), which does not broadcast to the channels \(6,\)",
            Epilogue().scale(v[:5]))  # fmt: skip
    refused(ShapeError, r"does not broadcast to the result \(2, 6, 4, 5\)", Epilogue().add(v))
    refused(DTypeError, "complex array", Epilogue().bias(v + 1j))
    whole = np.ones((2, 6, 4, 5), np.float32)
    refused(OverlapError, "epilogue", Epilogue().add(whole), out=whole)
    with pytest.raises(ArgumentError, match="gradient"):
        pg.explain("conv2d_input", 2, 3, 4, 5, 6, 1, 1, engine=engine, epilogue=Epilogue().relu())
    residual = np.ones((6, 40, 50), np.float32)
    explained = pg.explain(
        "conv2d", 2, 3, 40, 50, 6, 3, 3, engine=engine, padding=1, algo="fft",
        epilogue=Epilogue().add(residual),
    )  # fmt: skip
    assert "the epilogue is a pass over the result" in str(explained)
