"""The first calls of ``portable_gpu.nn``: each function once, on small arrays of usual shapes.

In the tables below, ``nn`` is that module, ``f`` the function that has the name of the entry, and
``o`` the :class:`LayerOperands`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

#: The extents of images by their number of spatial axes, with 8 images of 16 channels.
_EXTENTS = {1: (784,), 2: (28, 28), 3: (8, 10, 10)}
_CHANNELS, _CLASSES = 16, 1000
_ACTIVATIONS = (
    "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "relu", "relu6", "sigmoid",
    "silu", "softplus", "tanh",
)  # fmt: skip


class LayerOperands:
    """NumPy's arrays of the calls; those of floating-point numbers are float32.

    Attributes:
        x: For each number of spatial axes, images.
        small: Likewise, images of half the extents, such as results of pooling.
        indices: Likewise, the places of the elements of ``small`` in the planes of ``x``.
        weight: Likewise, the filters of a convolution.
        rows: Rows of ``_CLASSES`` numbers.
        matrix: The weight of a linear layer that takes these rows.
        table: The vectors of an embedding, one for each class.
        targets: A class for each row.
        heads: Queries, keys or values.
        sums: A number for each query.
        states: A parameter, its gradient and the two states of an optimiser.
        row: A number for each place of a row.
        channel, mean, scale: A number for each channel.
        one: The number 1, the gradient of a loss.
    """

    def __init__(self) -> None:
        random = np.random.default_rng(0)

        def drawn(*shape: int) -> Any:
            return random.random(shape, dtype=np.float32) + np.float32(0.5)

        self.x = {n: drawn(8, _CHANNELS, *size) for n, size in _EXTENTS.items()}
        self.small, self.indices, self.weight = {}, {}, {}
        for n, size in _EXTENTS.items():
            self.small[n] = drawn(8, _CHANNELS, *(extent // 2 for extent in size))
            corners = np.arange(np.prod(size), dtype=np.int64).reshape(size)[
                (slice(0, None, 2),) * n
            ]
            self.indices[n] = np.array(np.broadcast_to(corners, self.small[n].shape))
            self.weight[n] = drawn(_CHANNELS, _CHANNELS, *(3,) * n)
        self.rows, self.matrix = drawn(64, _CLASSES), drawn(100, _CLASSES)
        self.table = drawn(_CLASSES, 64)
        self.targets = random.integers(0, _CLASSES, 64)
        self.heads, self.sums = drawn(2, 4, 64, 32), drawn(2, 4, 64)
        self.states = tuple(self.rows.copy() for _ in range(4))
        self.row = drawn(_CLASSES)
        self.channel, self.mean, self.scale = (drawn(_CHANNELS) for _ in range(3))
        self.one = np.float32(1)

    def parameter(self, nn: Any) -> Any:
        """A parameter on the device, with a gradient."""
        pg = importlib.import_module("portable_gpu")
        made = nn.Parameter(pg.asarray(self.rows))
        made.add_grad(lambda _: pg.asarray(self.rows))
        return made


LayerCall = Callable[[Any, LayerOperands], Any]


def _activations() -> dict[str, LayerCall]:
    calls: dict[str, Callable[..., Any]] = {}
    for name in _ACTIVATIONS:
        calls[name] = lambda f, o: f(o.rows)
        calls[f"{name}_backward"] = lambda f, o: f(o.rows, o.rows)
    return _of_functions(calls)


def _of_functions(calls: dict[str, Callable[..., Any]]) -> dict[str, LayerCall]:
    """Bind calls, which take a function, to the functions of their names."""

    def bound(name: str, call: Callable[..., Any]) -> LayerCall:
        return lambda nn, o: call(getattr(nn, name), o)

    return {name: bound(name, call) for name, call in calls.items()}


def _spatial(n: int) -> dict[str, LayerCall]:
    """The calls of functions with ``n`` spatial axes."""
    conv, avg, largest, norm = f"conv{n}d", f"avg_pool{n}d", f"max_pool{n}d", f"lp_pool{n}d"
    unpool, mean, top = f"max_unpool{n}d", f"adaptive_avg_pool{n}d", f"adaptive_max_pool{n}d"
    same = {"padding": 1}
    calls: dict[str, Callable[..., Any]] = {
        conv: lambda f, o: f(o.x[n], o.weight[n], o.channel, **same),
        f"{conv}_input": lambda f, o: f(o.x[n].shape, o.weight[n], o.x[n], **same),
        f"{conv}_weight": lambda f, o: f(o.x[n], o.weight[n].shape, o.x[n], **same),
        f"{conv}_bias": lambda f, o: f(o.x[n]),
        f"conv_transpose{n}d": lambda f, o: f(o.x[n], o.weight[n], o.channel, **same),
        avg: lambda f, o: f(o.x[n], 2),
        f"{avg}_backward": lambda f, o: f(o.small[n], o.x[n], 2),
        largest: lambda f, o: f(o.x[n], 2),
        f"{largest}_backward": lambda f, o: f(o.small[n], o.indices[n], o.x[n], 2),
        norm: lambda f, o: f(o.x[n], 2, 2),
        f"{norm}_backward": lambda f, o: f(o.small[n], o.x[n], o.small[n], 2, 2),
        unpool: lambda f, o: f(o.small[n], o.indices[n], 2),
        f"{unpool}_backward": lambda f, o: f(o.x[n], o.indices[n], 2),
        mean: lambda f, o: f(o.x[n], o.small[n].shape[2:]),
        f"{mean}_backward": lambda f, o: f(o.small[n], o.x[n]),
        top: lambda f, o: f(o.x[n], o.small[n].shape[2:]),
        f"{top}_backward": lambda f, o: f(o.small[n], o.indices[n], o.x[n]),
    }
    return _of_functions(calls)


def _resized(n: int, mode: str, **options: Any) -> dict[str, LayerCall]:
    """The calls of ``interpolate`` with one mode, and of its gradient."""
    label = " ".join((mode, *options))
    return {
        f"interpolate {label}": lambda nn, o: nn.interpolate(
            o.small[n], o.x[n].shape[2:], mode=mode, **options
        ),
        f"interpolate_backward {label}": lambda nn, o: nn.interpolate_backward(
            o.x[n], o.small[n], o.x[n].shape[2:], mode=mode, **options
        ),
    }


def _norm_calls() -> dict[str, LayerCall]:
    c = _CLASSES
    return {
        "batch_norm": lambda nn, o: nn.batch_norm(
            o.x[2], o.channel, o.channel, o.channel, o.channel
        ),
        "batch_norm training": lambda nn, o: nn.batch_norm(
            o.x[2], o.mean, o.channel, o.scale, o.scale, training=True
        ),
        "native_batch_norm": lambda nn, o: nn.native_batch_norm(
            o.x[2], o.scale, o.scale, o.mean, o.channel, True, 0.1, 1e-5
        ),
        "batch_norm_backward": lambda nn, o: nn.batch_norm_backward(
            o.x[2], o.x[2], o.channel, None, None, o.channel, o.channel, True, 1e-5
        ),
        "instance_norm": lambda nn, o: nn.instance_norm(o.x[2]),
        "group_norm": lambda nn, o: nn.group_norm(o.x[2], 4, o.channel, o.channel),
        "native_group_norm": lambda nn, o: nn.native_group_norm(o.x[2], 4, o.channel, o.channel),
        "group_norm_backward": lambda nn, o: nn.group_norm_backward(
            o.x[2], o.x[2], 4, o.x[1][:, :4, 0], o.x[1][:, :4, 0], o.channel, o.channel
        ),
        "layer_norm": lambda nn, o: nn.layer_norm(o.rows, c, o.row, o.row),
        "native_layer_norm": lambda nn, o: nn.native_layer_norm(o.rows, c, o.row, o.row),
        "layer_norm_backward": lambda nn, o: nn.layer_norm_backward(
            o.rows, o.rows, c, o.rows[:, :1], o.rows[:, :1], o.row, o.row
        ),
        "rms_norm": lambda nn, o: nn.rms_norm(o.rows, c, o.row),
        "native_rms_norm": lambda nn, o: nn.native_rms_norm(o.rows, c, o.row),
        "rms_norm_backward": lambda nn, o: nn.rms_norm_backward(
            o.rows, o.rows, c, o.rows[:, :1], o.row
        ),
    }


def _row_calls() -> dict[str, LayerCall]:
    return {
        "softmax": lambda nn, o: nn.softmax(o.rows),
        "softmax_backward": lambda nn, o: nn.softmax_backward(o.rows, o.rows),
        "log_softmax": lambda nn, o: nn.log_softmax(o.rows),
        "log_softmax_backward": lambda nn, o: nn.log_softmax_backward(o.rows, o.rows),
        "cross_entropy": lambda nn, o: nn.cross_entropy(o.rows, o.targets),
        "cross_entropy_backward": lambda nn, o: nn.cross_entropy_backward(o.one, o.rows, o.targets),
        "nll_loss": lambda nn, o: nn.nll_loss(o.rows, o.targets),
        "nll_loss_backward": lambda nn, o: nn.nll_loss_backward(o.one, o.rows, o.targets),
        "mse_loss": lambda nn, o: nn.mse_loss(o.rows, o.rows),
        "mse_loss_backward": lambda nn, o: nn.mse_loss_backward(o.one, o.rows, o.rows),
        "linear": lambda nn, o: nn.linear(o.rows, o.matrix, o.row[:100]),
        "linear_backward": lambda nn, o: nn.linear_backward(o.rows[:, :100], o.rows, o.matrix),
        "embedding": lambda nn, o: nn.embedding(o.targets, o.table),
        "embedding_backward": lambda nn, o: nn.embedding_backward(o.rows, o.targets, _CLASSES),
        "dropout": lambda nn, o: nn.dropout(o.rows, seed=1),
        "dropout_backward": lambda nn, o: nn.dropout_backward(o.rows, seed=1),
        "dropout1d": lambda nn, o: nn.dropout1d(o.x[1], seed=1),
        "dropout1d_backward": lambda nn, o: nn.dropout1d_backward(o.x[1], seed=1),
        "dropout2d": lambda nn, o: nn.dropout2d(o.x[2], seed=1),
        "dropout2d_backward": lambda nn, o: nn.dropout2d_backward(o.x[2], seed=1),
        "dropout3d": lambda nn, o: nn.dropout3d(o.x[3], seed=1),
        "dropout3d_backward": lambda nn, o: nn.dropout3d_backward(o.x[3], seed=1),
    }


def _other_calls() -> dict[str, LayerCall]:
    return {
        "pad": lambda nn, o: nn.pad(o.x[2], (1, 1, 1, 1)),
        "pad reflect": lambda nn, o: nn.pad(o.x[2], (1, 1, 1, 1), "reflect"),
        "pad_backward": lambda nn, o: nn.pad_backward(o.x[2], (1, 1, 1, 1)),
        "pad_backward reflect": lambda nn, o: nn.pad_backward(o.x[2], (1, 1, 1, 1), "reflect"),
        "pixel_shuffle": lambda nn, o: nn.pixel_shuffle(o.x[2], 2),
        "pixel_shuffle_backward": lambda nn, o: nn.pixel_shuffle_backward(o.x[2], 2),
        "pixel_unshuffle": lambda nn, o: nn.pixel_unshuffle(o.x[2], 2),
        "pixel_unshuffle_backward": lambda nn, o: nn.pixel_unshuffle_backward(o.x[2], 2),
        "scaled_dot_product_attention": lambda nn, o: nn.scaled_dot_product_attention(
            o.heads, o.heads, o.heads
        ),
        "scaled_dot_product_attention causal": lambda nn, o: nn.scaled_dot_product_attention(
            o.heads, o.heads, o.heads, is_causal=True
        ),
        "native_scaled_dot_product_attention": (
            lambda nn, o: nn.native_scaled_dot_product_attention(o.heads, o.heads, o.heads)
        ),
        "scaled_dot_product_attention_backward": (
            lambda nn, o: nn.scaled_dot_product_attention_backward(
                o.heads, o.heads, o.heads, o.heads, o.heads, o.sums
            )
        ),
        "adam_step": lambda nn, o: nn.adam_step(*o.states, step=1),
        "sgd_step": lambda nn, o: nn.sgd_step(*o.states[:2], lr=0.1),
        "clip_grad_norm_": lambda nn, o: nn.clip_grad_norm_(o.parameter(nn), 1.0),
        "clip_grad_value_": lambda nn, o: nn.clip_grad_value_(o.parameter(nn), 1.0),
    }


#: The calls by their names, each of which begins with the name of a function.
CALLS: dict[str, LayerCall] = {
    **{name: call for n in (2, 1, 3) for name, call in _spatial(n).items()},
    **_resized(2, "nearest"),
    **_resized(2, "bilinear"),
    **_resized(2, "bilinear", antialias=True),
    **_resized(2, "bicubic"),
    **_resized(2, "area"),
    **_resized(1, "linear"),
    **_resized(3, "trilinear"),
    **_norm_calls(),
    **_row_calls(),
    **_other_calls(),
    **_activations(),
}
