"""A sample of ``tools/wrong_arguments.py``: wrong arguments give this library's errors."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

import portable_gpu as pg
from portable_gpu.errors import BuildError, ContextMismatchError, PortableGPUError
from portable_gpu.runtime.engine import Engine

TOOL = Path(__file__).parents[2] / "tools" / "wrong_arguments.py"


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.fixture(scope="module")
def tool() -> Any:
    spec = importlib.util.spec_from_file_location(TOOL.stem, TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[TOOL.stem] = module  # which its dataclass looks up
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore")
def test_a_sample(tool: Any, engine: Engine, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)  # a text may be the name of a file
    ended, faults = tool.draw(1, 250, sparse=False)
    assert not faults, "\n".join(faults)
    assert ended["an error"] > 125


@pytest.mark.parametrize(
    "value",
    [np.ones(4, np.float32), np.zeros(0), np.ones((4, 4), np.float32), 3, [None], object()],
    ids=lambda value: type(value).__name__,
)
def test_wait_for_is_a_list_of_events(tool: Any, value: Any, engine: Engine) -> None:
    x = np.eye(4, dtype=np.float32)
    empty = isinstance(value, np.ndarray) and not value.size
    for function, arguments in (
        (pg.sum, (x,)), (pg.fft.dctn, (x,)), (pg.linalg.cholesky, (x,)), (pg.linalg.syrk, (x,)),
        (pg.linalg.solve_triangular, (x, x)), (pg.signal.convolve, (x, x)), (pg.gemv, (x, x[0])),
        (pg.linalg.lstsq, (x, x)), (pg.linalg.logdet, (x,)),
        (pg.linalg.syr2k, (x, x)), (pg.signal.fftconvolve, (x, x)),
        (pg.linalg.ragged.cholesky, ([x],)),
    ):  # fmt: skip
        for operand in (value, tool.Raises()):
            if empty and operand is value:
                function(*arguments, wait_for=operand, engine=engine)
                continue
            with pytest.raises(PortableGPUError, match="wait_for"):
                function(*arguments, wait_for=operand, engine=engine)


@pytest.mark.parametrize("value", ["4", (0,), [], -1, 2.5, None])
def test_packed_size(value: Any) -> None:
    with pytest.raises(PortableGPUError, match=r"^n is "):
        pg.linalg.packed.packed_size(value)
    assert pg.linalg.packed.packed_size(np.int32(4)) == 10


def test_messages_name_the_argument(engine: Engine) -> None:
    """Errors of inner checks name the argument as the caller does."""
    x, y = np.eye(4, dtype=np.float32), pg.asarray(np.eye(4, dtype=np.float32), engine=engine)
    wrong = (
        (lambda: pg.fft.fft(x, axis=()), r"axis is \(\); expected an integer"),
        (lambda: pg.fft.dct(x, axis=True), "axis is True; expected an integer"),
        (lambda: pg.fft.dct(x, axis=1 << 63), "axis is 9223372036854775808; expected an integer"),
        (lambda: pg.fft.rfft(np.float32(1)), "axis -1 is out of range; x has 0 axes"),
        (lambda: pg.fft.rfftn(x, axes=()), r"axes is \(\), s is None, x has 2 axes; at least one"),
        (
            lambda: pg.fft.fft(x, n=1 << 60),
            "n is 1152921504606846976; expected an integer from 1 to 2",
        ),
        (lambda: pg.fft.fft(x[:0], axis=0), r"\(0\) along axis 0: x has shape \(0, 4\)"),
        (lambda: pg.linalg.cho_solve(3, x), r"c_and_lower has shape \(\); square matrices"),
        (lambda: pg.linalg.syrk(x.astype(int)), "a is int64; syrk takes floating dtypes"),
        (lambda: pg.dot(x, x[0, :2]), r"a has shape \(4, 4\) and b \(2,\); the inner sizes"),
        (lambda: pg.Map("f("), r"the expression of map is 'f\('"),
        (lambda: pg.explain("gemm", 4, "4", 4), "number 2 of sizes is '4'; expected an integer"),
        (lambda: pg.Engine(engine.device, device_class="vax"), "device_class is 'vax'; known are"),
        (
            lambda: pg.sum(y, axis=0, out=x[0]),
            r"out is an array of NumPy; expected a portable_gpu\.Array",
        ),
        (
            lambda: pg.sum(x, axis=0, out=[0]),
            r"out is a list; expected .* or a portable_gpu\.Array",
        ),
        (lambda: pg.plan("matmul", x, x, engine=engine)(x, 3), "b is a int; the plan is for a"),
        (
            lambda: pg.linalg.ragged.Ragged(x.ravel(), [2, 3], columns=7),
            r"columns, offsets and leading, matrix 1 \(3 x 7",
        ),
    )
    for call, message in wrong:
        with pytest.raises(PortableGPUError, match=message):
            call()  # type: ignore[no-untyped-call]


def test_messages_of_layers_name_the_argument(engine: Engine) -> None:
    nn, x, four = pg.nn, np.ones((1, 2, 4, 4), np.float32), np.ones((4, 4), np.float32)
    large, many = 1 << 63, np.ones((2, 2), object)
    places, w = np.zeros((1, 2, 2, 2), np.int64), np.ones((2, 2, 3, 3), np.float32)
    parameter = nn.Parameter(np.ones(2, np.float32), engine)
    pooled = np.ones((2, 2, 1, 1), np.float32)
    wrong: tuple[tuple[Any, str], ...] = (
        (lambda: nn.avg_pool2d(x, 2, many), "stride is"),
        (lambda: nn.max_unpool2d(x[..., :2, :2], places, 2, many), "stride is"),
        (
            lambda: nn.max_unpool2d(x[..., :2, :2], places, 2, large),
            "stride is 922",
        ),
        (lambda: nn.max_pool2d(x, 2, dilation=9), r"dilation 9: windows of 10 places"),
        (lambda: nn.max_pool2d_backward(np.float32, places, x, 2), "grad_output"),
        (lambda: nn.avg_pool2d_backward(x[..., :2, :2], (4, 4), 2), r"input has shape \(4, 4\)"),
        (lambda: nn.adaptive_avg_pool2d_backward(x, (4, 4)), r"input has shape \(4, 4\)"),
        (lambda: nn.adaptive_avg_pool2d_backward(x[..., :0], x), "grad_output has shape"),
        (lambda: nn.lp_pool2d_backward(x, x, x, 2, 2, 3), r"grad_output .*\(kernel_size, stride"),
        (lambda: nn.max_unpool2d_backward(x, places, 1), "grad_output .* kernel_size 1"),
        (
            lambda: nn.interpolate_backward(x[..., :2, :2], x, size=1),
            r"grad_output .* for input \(1, 2, 4, 4\) and its size",
        ),
        (lambda: nn.pad(x, (1, 1), value=[BadRepr()]), "value is"),
        (lambda: nn.embedding_backward(four[:2], places[0, 0, 0], 10**400), "num_weights is"),
        (
            lambda: nn.max_unpool2d_backward(x, np.zeros(x.shape, np.int64), 2),
            r"indices has shape \(1, 2, 4, 4\) and grad_output",
        ),
        (
            lambda: nn.batch_norm_backward(x, x, None, None, None, None, None, False, 0.1),
            "running_mean is None; without training",
        ),
        (lambda: nn.pixel_shuffle_backward(four, 2), "grad_output has shape"),
        (lambda: nn.pixel_unshuffle_backward(x, "2"), "downscale_factor is '2'"),
        (lambda: nn.conv2d(x, w, stride=large), "stride is 922"),
        (lambda: nn.conv2d(x, w, padding=(large,)), "padding is"),
        (lambda: nn.conv2d(x, w, dilation=7), "dilation"),
        (lambda: nn.conv2d_weight(x, w.shape, x, stride=2), r"grad_output .* stride \(2, 2\)"),
        (lambda: nn.linear_backward(four[:3], four, four), r"weight \(4, 4\)"),
        (
            lambda: nn.batch_norm_backward(x, x, None, None, None, four[0], four[0], True, 0.1),
            "save_mean has shape",
        ),
        (
            lambda: nn.batch_norm_backward(x, x, None, four[0], four[0], None, None, False, 0.1),
            "running_mean has shape",
        ),
        (lambda: nn.conv2d(np.ndarray, w), "input is"),
        (lambda: nn.conv2d_input(np.ndarray, w, x), "input_size is"),
        (lambda: nn.conv2d_weight(x, np.dtype("f4"), x), "weight_size is"),
        (lambda: nn.lp_pool2d(x, 10**400, 2), "norm_type is"),
        (lambda: nn.interpolate(x, scale_factor=10**400), "scale_factor is"),
        (lambda: nn.adaptive_avg_pool2d(x, large), "output_size is 922"),
        (
            lambda: nn.interpolate(x, scale_factor=2, recompute_scale_factor=x[:0]),
            "recompute_scale_factor is",
        ),
        (lambda: nn.max_pool2d_backward(pooled.T, np.ndarray, x[:, :1], 2), "indices is"),
        (lambda: nn.clip_grad_norm_([parameter], 1, {}), "norm_type is"),
        (lambda: nn.SGD(3), "params is 3|element of params"),
        (lambda: nn.GroupNorm(1, 10**400), "num_channels is"),
        (lambda: nn.linear(four, 2 * four, out=four), "out shares memory with input"),
        (
            lambda: nn.linear_backward(four, four, four, out=(None, four, None)),
            "out shares memory with grad_output",
        ),
        (lambda: nn.relu(four[1:], out=four[:-1]), "out shares memory with input"),
        (lambda: nn.conv2d_bias(x, out=x[0, :, 0, 0]), "out shares memory with grad_output"),
        (
            lambda: nn.batch_norm(x.astype("f2"), *np.ones((2, 2), "f2")),
            "running_mean is float16; expected float32 with",
        ),
        (lambda: nn.LayerNorm(4, elementwise_affine="no"), "elementwise_affine is 'no'"),
    )
    for call, message in wrong:
        with pytest.raises(PortableGPUError, match=message):
            call()


#: Functions whose argument ``input`` is an array for its shape alone.
BY_SHAPE = re.compile(r"nn\.(adaptive_)?(avg|max)_pool\dd_backward|nn\.interpolate_backward")


@pytest.mark.parametrize("others_on_device", [False, True])
def test_arrays_of_two_contexts_are_named(
    tool: Any, engine: Engine, others_on_device: bool
) -> None:
    """By the names of the arguments of the function that was called, and by no others."""
    context = cl.Context([engine.device])  # Intel's queues do not keep theirs
    foreign, count = cl.CommandQueue(context), 0
    for item in tool.layers():
        if inspect.isclass(item.function) or "engine" not in item.parameters:
            continue
        arrays = {n: x for n, x in item.right.items() if isinstance(x, np.ndarray) and x.ndim}
        if BY_SHAPE.match(item.name):
            arrays.pop("input")
        for name, values in arrays.items():
            arguments = {n: x.copy() if n in arrays else x for n, x in item.right.items()}
            if others_on_device:
                arguments |= {n: pg.asarray(x, engine=engine) for n, x in arrays.items()}
            arguments[name] = pg.asarray(values, queue=foreign)
            if "running_mean" in arrays and not others_on_device:  # all of them are in one place
                continue
            if len(arrays) == 1 and others_on_device:
                continue
            with pytest.raises(ContextMismatchError) as caught:
                item.function(**arguments, **({} if others_on_device else {"engine": engine}))
            named = str(caught.value).split(":")[0].split(", ")
            assert name in named, (item.name, str(caught.value))
            assert set(named) <= set(item.parameters), (item.name, str(caught.value))
            count += 1
    assert count > 50


def test_products_of_arrays_of_two_contexts(engine: Engine) -> None:
    """Each gradient of a linear layer reads two of three arrays, which go together alone."""
    context, x = cl.Context([engine.device]), np.eye(4, dtype=np.float32)
    foreign = pg.asarray(x, queue=cl.CommandQueue(context))
    with pytest.raises(ContextMismatchError, match=r"^input, weight: "):
        pg.nn.linear_backward(x, foreign, pg.asarray(x, engine=engine))


def test_what_does_not_compile_in_an_epilogue(engine: Engine) -> None:
    x = np.eye(4, dtype=np.float32)
    with pytest.raises(BuildError, match=r"the expression of epilogue 'v . no' does not compile"):
        pg.gemm(x, x, epilogue=pg.Epilogue().apply("v + no"), engine=engine)


def test_precision_of_least_squares(engine: Engine) -> None:
    x = np.eye(4, dtype=np.float32)
    with pytest.raises(PortableGPUError, match="precision"):
        pg.linalg.lstsq(x, x, precision=x, engine=engine)  # type: ignore[arg-type]
