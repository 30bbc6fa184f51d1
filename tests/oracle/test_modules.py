"""Modules of ``portable_gpu.nn`` against torch's: constructors, keys, outputs, all gradients."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine

torch = pytest.importorskip("torch")
from oracle.torch_twins import twin  # noqa: E402

T = torch.nn
EPS = float(np.finfo(np.float32).eps)


@pytest.fixture(autouse=True)
def default(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that modules take."""
    monkeypatch.setattr(registry, "_default", engine)
    return engine


#: Arguments of torch's modules that are left out: memory, deprecated ones, ``out`` in its place,
#: the one padding of transposed convolutions, and keys that are added to those that are given.
LEFT_OUT = {
    "device", "dtype", "inplace", "size_average", "reduce", "padding_mode",
    "sparse", "_weight", "_freeze",
    "add_bias_kv", "add_zero_attn", "min_value", "max_value", "args", "kwargs",
}  # fmt: skip
CLASSES = [name for name in nn.__all__ if inspect.isclass(getattr(nn, name)) and hasattr(T, name)]
BOTH = sorted(set(CLASSES) - {"Buffer", "Module", "Parameter"})


@pytest.mark.parametrize("name", BOTH)
def test_constructors(name: str) -> None:
    """Torch's arguments in their order, with their defaults."""

    def of(kind: Any) -> dict[str, Any]:
        every = inspect.signature(kind).parameters.values()
        return {one.name: one.default for one in every if one.name not in LEFT_OUT}

    theirs, mine = of(getattr(T, name)), of(getattr(nn, name))
    ours = [key for key in mine if key in theirs]
    assert ours == list(theirs)
    for key in ours:
        if key not in ("dim", "modules"):
            assert mine[key] == theirs[key], key


#: Names, arguments and extents; float32, few elements, so that sums have few terms.
IMAGE = (2, 6, 8, 8)
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = [
    ("Identity", (), {}, IMAGE),
    ("Flatten", (), {}, IMAGE),
    ("Unflatten", (1, (2, -1)), {}, IMAGE),
    ("Softmax", (1,), {}, IMAGE),
    ("LogSoftmax", (-1,), {}, IMAGE),
    ("ReLU6", (), {}, IMAGE),
    ("Hardtanh", (-0.5, 0.25), {}, IMAGE),
    ("Hardsigmoid", (), {}, IMAGE),
    ("ZeroPad2d", (1,), {}, IMAGE),
    ("ConstantPad2d", ((1, 0, 2, 1), 0.5), {}, IMAGE),
    ("ReflectionPad2d", (2,), {}, IMAGE),
    ("ReplicationPad2d", ((1, 2, 3, 0),), {}, IMAGE),
    ("CircularPad2d", (1,), {}, IMAGE),
    ("AvgPool2d", (2,), {"divisor_override": 3}, IMAGE),
    ("AdaptiveMaxPool2d", (3,), {}, IMAGE),
    ("LPPool2d", (2.0, 2), {}, IMAGE),
    ("PixelShuffle", (2,), {}, (2, 8, 4, 4)),
    ("PixelUnshuffle", (2,), {}, IMAGE),
    ("Upsample", (), {"scale_factor": 2, "mode": "bilinear"}, IMAGE),
    ("InstanceNorm2d", (6,), {}, IMAGE),
    ("InstanceNorm2d", (6,), {"affine": True, "track_running_stats": True, "momentum": 0.3}, IMAGE),
    ("BatchNorm2d", (6,), {}, IMAGE),
    ("BatchNorm2d", (6,), {"momentum": None}, IMAGE),
    ("InstanceNorm2d", (6,), {"track_running_stats": True, "momentum": None}, IMAGE),
    ("GroupNorm", (3, 6), {}, IMAGE),
    ("Conv2d", (6, 4, 3), {"padding": 1}, IMAGE),
    ("Conv2d", (6, 4, 3), {"padding": (1, 2), "padding_mode": "reflect", "stride": 2}, IMAGE),
    ("Conv2d", (6, 4, 3), {"padding": "same", "padding_mode": "circular", "bias": False}, IMAGE),
    ("ConvTranspose2d", (6, 4, 3), {"stride": 2, "output_padding": 1}, IMAGE),
    ("LayerNorm", (16,), {}, (4, 5, 16)),
    ("RMSNorm", (16,), {"eps": 1e-4}, (4, 5, 16)),
    ("Linear", (16, 7), {}, (4, 5, 16)),
]


def near(got: Any, exact: Any, what: str, size: float = 0) -> None:
    """Within 2000 roundings of the largest element: sums have fewer terms."""
    got, exact = pg.asnumpy(got), exact.detach().numpy()
    assert got.shape == exact.shape, what
    error = np.abs(got - exact).max(initial=0)
    assert error <= 2000 * EPS * max(size, np.abs(exact).max(initial=0)), what


def same_state(ours: Any, theirs: Any, rng: Any) -> None:
    """Give both the same random parameters; their keys and shapes are the same."""
    state = {
        name: rng.uniform(0.5, 1.5, tuple(value.shape)).astype(np.float32)
        for name, value in theirs.state_dict().items()
        if value.dtype.is_floating_point
    }
    whole = {**{k: v.numpy() for k, v in theirs.state_dict().items()}, **state}
    ours.load_state_dict(whole)
    theirs.load_state_dict({name: torch.tensor(value) for name, value in whole.items()})


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}{len(c[2]) or ''}")
def test_modules(case: Any) -> None:
    name, arguments, options, shape = case
    rng = np.random.default_rng(len(name))
    ours, theirs = getattr(nn, name)(*arguments, **options), getattr(T, name)(*arguments, **options)
    theirs = theirs.double()
    same_state(ours, theirs, rng)
    for training in (True, False):
        ours.train(training)
        theirs.train(training)
        ours.zero_grad()
        theirs.zero_grad()
        x = rng.standard_normal(shape).astype(np.float32)
        x = np.abs(x) + np.float32(0.1) if name == "LPPool2d" else x
        image = twin(x, True)
        y = theirs(image)
        g = rng.standard_normal(tuple(y.shape)).astype(np.float32)
        y.backward(twin(g))
        near(ours(x), y, "output")
        near(ours.backward(pg.asarray(g)), image.grad, "gradient", float(np.abs(g).max()))
        parameters = dict(ours.named_parameters())
        for key, parameter in theirs.named_parameters():
            near(parameters.pop(key).grad, parameter.grad, key, float(np.abs(g).sum()) / 20)
        assert not parameters
        state = ours.state_dict()
        for key, value in theirs.state_dict().items():
            near(state[key], value.double(), key)


def test_unpooling() -> None:
    """The indices of pooling; a plane that windows do not fill."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((2, 3, 7, 6)).astype(np.float32)
    values, places = nn.MaxPool2d(2, return_indices=True)(x)
    exact, indices = T.MaxPool2d(2, return_indices=True)(twin(x))
    assert np.array_equal(pg.asnumpy(places), indices.numpy())
    ours, tensor = nn.MaxUnpool2d(2), exact.clone().requires_grad_(True)
    y = T.MaxUnpool2d(2)(tensor, indices, output_size=x.shape)
    g = rng.standard_normal(x.shape).astype(np.float32)
    y.backward(twin(g))
    near(ours(values, places, x.shape), y, "output")
    near(ours.backward(pg.asarray(g)), tensor.grad, "gradient")


def test_losses() -> None:
    """With weights as a buffer, as torch's."""
    rng = np.random.default_rng(3)
    x, target = rng.standard_normal((7, 5)).astype(np.float32), rng.integers(0, 5, 7)
    w = rng.uniform(0.5, 2, 5).astype(np.float32)
    for name, first, aims in (
        ("CrossEntropyLoss", {"weight": w, "label_smoothing": 0.1}, target),
        ("NLLLoss", {"weight": w}, target),
        ("MSELoss", {}, x[::-1].copy()),
    ):
        for reduction in ("mean", "sum", "none"):
            tensors = {k: twin(v) if k == "weight" else v for k, v in first.items()}
            exact = getattr(T, name)(**tensors, reduction=reduction)
            ours = getattr(nn, name)(**first, reduction=reduction)
            image = twin(x, True)
            loss = exact(image, twin(aims))
            loss.sum().backward()
            near(ours(x, aims), loss, name)
            near(ours.backward(), image.grad, name)
            assert ours.state_dict().keys() == exact.state_dict().keys()


@pytest.mark.parametrize("kind", ["self", "cross", "extents"])
def test_multihead_attention(kind: str) -> None:
    """One array and three, masks of both kinds, both orders of axes, and no batch."""
    rng = np.random.default_rng(9)
    e, h, n, queries, keys = 16, 4, 2, 5, 5 if kind == "self" else 7
    widths = {"kdim": 8, "vdim": 24} if kind == "extents" else {}
    kdim, vdim = widths.get("kdim", e), widths.get("vdim", e)
    later = np.triu(np.ones((queries, keys), bool), 1)
    padded = np.zeros((n, keys), bool)
    padded[0, -2:] = True
    added = rng.standard_normal((n * h, queries, keys)).astype(np.float32)
    low = np.where(padded, np.float32(-2), np.float32(0))
    for first, options in (
        (False, {"need_weights": False}),
        (True, {"attn_mask": later, "is_causal": kind == "self"}),
        (False, {"key_padding_mask": padded, "average_attn_weights": False}),
        (True, {"attn_mask": later, "key_padding_mask": padded, "need_weights": False}),
        (True, {"attn_mask": added, "key_padding_mask": low}),
    ):
        ours = nn.MultiheadAttention(e, h, batch_first=first, **widths)
        theirs = T.MultiheadAttention(e, h, batch_first=first, **widths).double()
        same_state(ours, theirs, rng)
        shapes = [(n, rows, w) if first else (rows, n, w)
                  for rows, w in ((queries, e), (keys, kdim), (keys, vdim))]  # fmt: skip
        arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
        if kind == "self":
            arrays = arrays[:1]
        tensors = [twin(x, True) for x in arrays]
        every = tensors * 3 if kind == "self" else tensors
        passed = {k: twin(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        y, weights = theirs(*every, **passed)
        g = rng.standard_normal(tuple(y.shape)).astype(np.float32)
        y.backward(twin(g))
        got, found = ours(*arrays, **options)
        near(got, y, "output")
        assert (found is None) == (weights is None)
        if found is not None:
            near(found, weights, "weights")
        grads = ours.backward(pg.asarray(g))
        size = float(np.abs(g).sum())
        for tensor, other in zip(grads if kind != "self" else [grads], tensors, strict=True):
            near(tensor, other.grad, "gradient", size)
        parameters = dict(ours.named_parameters())
        for key, parameter in theirs.named_parameters():
            near(parameters.pop(key).grad, parameter.grad, key, size)
        assert not parameters
    if kind == "extents":
        return
    inputs = [x[:, 0] if x.shape[1] == n else x[0] for x in arrays]
    y, weights = theirs(*[twin(x) for x in (inputs * 3)[:3]])
    got, found = ours(*inputs)
    near(got, y, "without a batch")
    near(found, weights, "its weights")
