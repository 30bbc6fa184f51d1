"""Results of normalisations, losses and dropout have the order of axes of their input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import ShapeError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.views import order_of_axes

RNG = np.random.default_rng(77)
SHAPE = (2, 4, 3, 5)
TARGET = RNG.integers(0, 4, (2, 3, 5))
ONE = np.ones((), np.float32)
C = np.linspace(0.5, 2, 4, dtype=np.float32)


def channels_last(x: Any) -> Any:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)


def to_device(x: Any, engine: Engine) -> Any:
    """A device array with the order of axes of x."""
    if x.ndim == 4 and not x.flags.c_contiguous:
        return pg.asarray(x.transpose(0, 2, 3, 1), engine=engine).transpose(0, 3, 1, 2)
    return pg.asarray(x, engine=engine)


#: Of each function, the call on an array and on its gradient, and the elements by NumPy in float64.
CALLS: dict[str, tuple[Callable[..., Any], Callable[[Any, Any], Any]]] = {
    "batch_norm": (
        lambda x, g, c, one, t, **k: nn.native_batch_norm(x, c, c, None, None, True, 0, 1e-3, **k),
        lambda x, g: (
            (x - x.mean((0, 2, 3), keepdims=True))
            / (x.var((0, 2, 3), keepdims=True) + 1e-3) ** 0.5
            * C.reshape(4, 1, 1)
            + C.reshape(4, 1, 1)
        ),
    ),
    "by_running_statistics": (
        lambda x, g, c, one, t, **k: nn.batch_norm(x, c, c, c, c, eps=0, **k),
        lambda x, g: (x - C.reshape(4, 1, 1)) * C.reshape(4, 1, 1) ** 0.5 + C.reshape(4, 1, 1),
    ),
    "softmax_backward": (
        lambda x, g, c, one, t, **k: nn.softmax_backward(g, x, 1, **k),
        lambda x, g: x * (g - (g * x).sum(1, keepdims=True)),
    ),
    "nll_loss_backward": (
        lambda x, g, c, one, t, **k: nn.nll_loss_backward(one, x, t, reduction="sum", **k),
        lambda x, g: -(TARGET[:, None] == np.arange(4).reshape(4, 1, 1)).astype(float),
    ),
    "mse_loss_backward": (
        lambda x, g, c, one, t, **k: nn.mse_loss_backward(one, x, g, reduction="sum", **k),
        lambda x, g: 2 * (x - g),
    ),
    "dropout": (
        lambda x, g, c, one, t, **k: nn.dropout(x, 0.0, seed=1, **k),
        lambda x, g: x,
    ),
}


@pytest.mark.path
@pytest.mark.parametrize("name", sorted(CALLS))
def test_channels_last(engine: Engine, name: str) -> None:
    """NumPy and device arrays are given; the second call is a repeated one; C order stays as well.

    The second operand has another order than the first one in the last round.
    """
    call, oracle = CALLS[name]
    for x_order, g_order in ((channels_last, channels_last), (channels_last, np.array)):
        x, g = RNG.standard_normal((2, *SHAPE)).astype(np.float32)
        want = oracle(x.astype(np.float64), g.astype(np.float64))
        host = x_order(x), g_order(g), C, ONE, TARGET
        on_device = [to_device(part, engine) for part in host]
        for _ in range(2):
            for arrays in (host, on_device):
                result = call(*arrays, engine=engine)
                result = result[0] if isinstance(result, tuple) else result
                assert result.strides == host[0].strides
                assert np.abs(pg.asnumpy(result) - want).max() <= 1e-5
    plain = call(x, g, C, ONE, TARGET, engine=engine)
    assert (plain[0] if isinstance(plain, tuple) else plain).flags.c_contiguous


def test_of_the_caller(engine: Engine) -> None:
    """The caller's array keeps its own order; shapes that differ are refused as they are."""
    x = channels_last(RNG.standard_normal(SHAPE).astype(np.float32))
    for out in (np.empty(SHAPE, np.float32), channels_last(np.empty(SHAPE, np.float32))):
        assert nn.softmax(x, 1, out=out, engine=engine) is out
        assert np.abs(out.sum(1) - 1).max() < 1e-6
    transposed = np.zeros((2, 3, 5, 4), np.float32)  # the extents of x in the order of its memory
    with pytest.raises(ShapeError, match=r"\(2, 3, 5, 4\).*\(2, 4, 3, 5\)"):
        nn.softmax_backward(transposed, x, 1, engine=engine)
    with pytest.raises(ShapeError):
        nn.softmax(x, 1, out=transposed, engine=engine)


def test_residual(engine: Engine) -> None:
    """The sum of both branches and of their gradients has the order of axes of the input."""
    x = to_device(channels_last(RNG.standard_normal(SHAPE).astype(np.float32)), engine)
    net = nn.Residual(nn.Sequential(nn.ReLU()))
    for result in (net.forward(x), net.backward(x)):
        assert result.strides == x.strides
    assert np.array_equal(pg.asnumpy(net.forward(x)), pg.asnumpy(x) + pg.asnumpy(x).clip(0))


def test_order_of_axes() -> None:
    """An array with repeated elements has no order; axes of extent 1 have none either."""
    repeated = np.broadcast_to(np.ones(4, np.float32), (3, 4))
    one_channel = np.zeros((2, 5, 6, 1), np.float32).transpose(0, 3, 1, 2)
    assert order_of_axes(repeated) is None
    assert order_of_axes(one_channel) is None
    assert order_of_axes(np.zeros((2, 5, 6, 3), np.float32).transpose(0, 3, 1, 2)) == (0, 2, 3, 1)
    assert order_of_axes(np.zeros((3, 4), np.float32)[:, ::-1]) is None
