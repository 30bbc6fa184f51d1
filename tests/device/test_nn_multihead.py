"""The module of attention with several heads, against NumPy in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layers.attention import reference

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import ArgumentError, DTypeError, PortableGPUError, ShapeError
from portable_gpu.runtime import registry
from portable_gpu.runtime.engine import Engine

E, HEADS, N, ROWS = 12, 3, 2, 7


@pytest.fixture(autouse=True)
def default(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that modules take."""
    monkeypatch.setattr(registry, "_default", engine)
    return engine


def heads(x: Any) -> Any:
    return x.reshape(N, ROWS, HEADS, E // HEADS).swapaxes(1, 2)


def output(state: Any, x: Any, seen: Any = None, factors: Any = 1.0) -> Any:
    """The output, for an array (N, L, E)."""
    every = x @ state["in_proj_weight"].T + state["in_proj_bias"]
    parts = [heads(every[..., k * E : k * E + E]) for k in range(3)]
    context = reference(*parts, seen, factors=factors).swapaxes(1, 2).reshape(N, ROWS, E)
    return context @ state["out_proj.weight"].T + state["out_proj.bias"]


@pytest.mark.path
def test_outputs_and_gradients(tmp_path: Any) -> None:
    """With masks and dropout; gradients against central differences; a saved state."""
    nn.manual_seed(4)
    rng = np.random.default_rng(2)
    module = nn.MultiheadAttention(E, HEADS, dropout=0.4, batch_first=True, seed=6)
    x, g = rng.standard_normal((2, N, ROWS, E)).astype(np.float32)
    padded = np.zeros((N, ROWS), bool)
    padded[1, -3:] = True
    later = np.triu(np.ones((ROWS, ROWS), bool), 1)
    seen = ~later & ~padded[:, None, None]
    state = {key: value.astype(np.float64) for key, value in module.state_dict().items()}
    assert not state["in_proj_bias"].any()
    options = {"key_padding_mask": padded, "is_causal": True}
    module.eval()
    got, weights = module(x, **options)
    np.testing.assert_allclose(pg.asnumpy(got), output(state, x, seen), rtol=1e-4, atol=1e-5)
    assert weights.shape == (N, ROWS, ROWS)
    np.testing.assert_allclose(pg.asnumpy(weights).sum(axis=-1), 1, rtol=1e-5)
    module.train()
    got, weights = module(x, average_attn_weights=False, **options)
    plain, _ = module.eval()(x, average_attn_weights=False, **options)
    assert not np.array_equal(pg.asnumpy(got), pg.asnumpy(plain))
    ones = np.ones((N, HEADS, ROWS, ROWS), np.float32)
    factors = nn.dropout(ones, 0.4, seed=6)  # of the first call
    dropped = pg.asnumpy(weights)
    assert not dropped[factors == 0].any()
    exact = output(state, x, seen, factors)
    np.testing.assert_allclose(pg.asnumpy(got), exact, rtol=1e-4, atol=1e-5)

    module.train()
    module.calls = 0
    module(x, need_weights=False, **options)
    dx = pg.asnumpy(module.backward(pg.asarray(g)))
    actual = {"x": dx, **{n: pg.asnumpy(p.grad) for n, p in module.named_parameters()}}
    values = {"x": x.astype(np.float64), **state}
    for name, grad in actual.items():
        direction, ends = rng.standard_normal(grad.shape), []
        for sign in (1, -1):
            moved = {**values, name: values[name] + sign * 1e-5 * direction}
            ends.append((g * output(moved, moved["x"], seen, factors)).sum())
        want, size = (ends[0] - ends[1]) / 2e-5, np.abs(grad * direction).sum()
        assert abs((grad * direction).sum() - want) <= 1e-4 * (1 + size), name
    module.save(tmp_path / "state.npz")
    other = nn.MultiheadAttention(E, HEADS, batch_first=True)
    other.load(tmp_path / "state.npz")
    repeated, _ = other.eval()(x, **options)
    assert np.array_equal(pg.asnumpy(repeated), pg.asnumpy(plain))
    with pytest.raises(ArgumentError, match="backward is called before forward"):
        other.__class__(E, HEADS).backward(pg.asarray(g))


def test_queries_that_see_no_key() -> None:
    module = nn.MultiheadAttention(E, HEADS, bias=False, batch_first=True)
    x = np.ones((N, ROWS, E), np.float32)
    none = np.full((ROWS, ROWS), -np.inf, np.float32)
    got, weights = module(x, attn_mask=none)
    assert not pg.asnumpy(got).any()
    assert not pg.asnumpy(weights).any()


def test_wrong_arguments() -> None:
    x = np.ones((N, ROWS, E), np.float32)
    module = nn.MultiheadAttention(E, HEADS, batch_first=True)
    calls: list[tuple[type[PortableGPUError], str, Any]] = [
        (ArgumentError, "embed_dim is 12 and num_heads 5", lambda: nn.MultiheadAttention(E, 5)),
        (ArgumentError, "dropout is 2", lambda: nn.MultiheadAttention(E, 3, 2)),
        (ShapeError, "query has shape", lambda: module(x[..., :5])),
        (ShapeError, "key has shape", lambda: module(x, x[0])),
        (ShapeError, "as many values as keys", lambda: module(x, x, x[:, 1:])),
        (ShapeError, "attn_mask has shape", lambda: module(x, attn_mask=np.ones((2, 2), bool))),
        (
            DTypeError,
            "key_padding_mask is int64",
            lambda: module(x, None, None, key_padding_mask=np.ones((N, ROWS), int)),
        ),
    ]  # fmt: skip
    for error, words, call in calls:
        with pytest.raises(error, match=words):
            call()
