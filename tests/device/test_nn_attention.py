"""Attention against NumPy in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from layers.attention import reference

import portable_gpu as pg
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from portable_gpu.ops.attention import check, functions, tiles
from portable_gpu.ops.attention.gradient import GradientPolicy, Side
from portable_gpu.ops.attention.plan import AttentionProblem, attention_by_rows, gradient_by_rows
from portable_gpu.ops.attention.policy import AttentionPolicy
from portable_gpu.ops.attention.variants import backward_variants
from portable_gpu.ops.random.commands.family import kept_elements
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Steps
from portable_gpu.targets import example_target
from portable_gpu.tuning.table import TuningTable

RNG = np.random.default_rng(3)


def close(got: Any, want: Any, terms: int) -> None:
    got = pg.asnumpy(got)
    eps = np.finfo(np.float64 if got.dtype == np.float64 else np.float32).eps
    rounded = np.finfo(got.dtype).eps * np.abs(want) if got.dtype == np.float16 else 0
    assert got.shape == want.shape
    assert (np.abs(got.astype(np.float64) - want) <= 20 * terms * eps + rounded + 1e-7).all()


@pytest.mark.path
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_attention(engine: Engine, dtype: type) -> None:
    """Masks, shared heads, strides: heads before or after rows; extents that are not multiples."""

    def drawn(*shape: int) -> Any:
        return RNG.standard_normal(shape).astype(dtype)

    few = dtype is not np.float32
    for b, h, shared, n, m, e, w in ((2, 4, 2, 37, 70, 20, 20), (1, 2, 1, 9, 1, 16, 24))[: 2 - few]:
        q = drawn(b, n, h, e).swapaxes(1, 2)
        k, v = drawn(b, m, h // shared, e).swapaxes(1, 2), drawn(b, h // shared, m, w)
        on = {"enable_gqa": True, "engine": engine}
        call = pg.nn.scaled_dot_product_attention
        close(call(q, k, v, **on), reference(q, k, v), m + 20)
        seen = RNG.random((b, 1, n, m)) < 0.7
        seen[0, 0, 3] = False
        close(call(q, k, v, seen, **on), reference(q, k, v, seen), m + 20)
        if few:
            continue
        added = drawn(n, m)
        close(call(q, k, v, added, **on), reference(q, k, v, added), m + 20)
        close(call(q, k, v, is_causal=True, **on), reference(q, k, v, causal=True), m + 20)
        out = np.zeros((b, h, n, w), dtype)
        assert call(q, k, v, out=out, **on) is out
        np.testing.assert_array_equal(out, call(q, k, v, **on))
        arrays = [cla.to_device(engine.queue, np.ascontiguousarray(x)) for x in (q, k, v)]
        np.testing.assert_array_equal(call(*arrays, enable_gqa=True).get(), out)
    empty = pg.nn.scaled_dot_product_attention(q[..., :0, :], k, v, **on)
    assert empty.shape == (b, h, 0, w)


@pytest.mark.path
def test_gradients(engine: Engine) -> None:
    """Against central differences of the reference, along random directions, and by both masks."""
    b, h, shared, n, m, e, w = 2, 4, 2, 19, 21, 20, 12
    q, k, v = (
        RNG.standard_normal(s)
        for s in ((b, h, n, e), (b, h // shared, m, e), (b, h // shared, m, w))
    )
    grad = RNG.standard_normal((b, h, n, w))
    seen = RNG.random((n, m)) < 0.7
    seen[3] = False
    call, back = (
        pg.nn.native_scaled_dot_product_attention,
        pg.nn.scaled_dot_product_attention_backward,
    )
    for mask, causal in (
        (None, False),
        (None, True),
        (seen, False),
        (RNG.standard_normal((n, m)), False),
    ):
        options = {"is_causal": causal, "enable_gqa": True, "engine": engine}
        y, sums = call(q, k, v, mask, **options)
        actual = back(grad, q, k, v, y, sums, mask, **options)
        for at in range(3):
            direction, step = RNG.standard_normal(actual[at].shape), 1e-5
            ends = []
            for sign in (1, -1):
                moved = [
                    x + (sign * step * direction if at == j else 0) for j, x in enumerate((q, k, v))
                ]
                ends.append((grad * reference(*moved, mask, causal)).sum())
            want = (ends[0] - ends[1]) / (2 * step)
            assert abs((actual[at] * direction).sum() - want) <= 1e-6 * (1 + abs(want))
        single = [x.astype(np.float32) for x in (grad, q, k, v, y, sums)]
        mask = mask.astype(np.float32) if mask is not None and mask.dtype != bool else mask
        for got, want in zip(back(*single, mask, **options), actual, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.path
def test_many_blocks(engine: Engine) -> None:
    """More rows than a CPU's work-item has, and more than its blocks of the other side."""
    b, h, shared, e, w = 2, 4, 2, 20, 12
    for n, m, causal in ((70, 83, True), (83, 70, True), (101, 130, False)):
        q, k, v, grad = (
            RNG.standard_normal((b, heads, rows, extent)).astype(np.float32)
            for heads, rows, extent in (
                (h, n, e), (h // shared, m, e), (h // shared, m, w), (h, n, w)
            )
        )  # fmt: skip
        options = {"is_causal": causal, "enable_gqa": True, "engine": engine}
        y, sums = pg.nn.native_scaled_dot_product_attention(q, k, v, **options)
        close(y, reference(q, k, v, causal=causal), m + 20)
        actual = pg.nn.scaled_dot_product_attention_backward(grad, q, k, v, y, sums, **options)
        q, k, v, grad = (x.astype(np.float64) for x in (q, k, v, grad))
        near, far = np.repeat(k, shared, 1), np.repeat(v, shared, 1)
        scores = q @ near.swapaxes(2, 3) / np.sqrt(e)
        if causal:
            scores[..., np.triu_indices(n, 1, m)[0], np.triu_indices(n, 1, m)[1]] = -np.inf
        p = np.exp(scores - scores.max(3, keepdims=True))
        p /= p.sum(3, keepdims=True)
        slope = p * (grad @ far.swapaxes(2, 3) - (grad * (p @ far)).sum(3, keepdims=True))
        expected = (
            slope @ near / np.sqrt(e),
            (slope.swapaxes(2, 3) @ q / np.sqrt(e)).reshape(b, -1, shared, m, e).sum(2),
            (p.swapaxes(2, 3) @ grad).reshape(b, -1, shared, m, w).sum(2),
        )
        for got, want in zip(actual, expected, strict=True):
            close(got, want, n + m + 20)


@pytest.mark.parametrize("mask", ["causal", "bool", "added"])
def test_register_tiles(engine: Engine, monkeypatch: pytest.MonkeyPatch, mask: str) -> None:
    """Tiles of 16 rows, which compile soon, against work-items with rows, in double precision."""
    monkeypatch.setattr(tiles, "_TILES", ((32, 64), (16, 64)))
    monkeypatch.setattr(tiles, "_GRADIENT_TILES", {"q": ((16, 16),), "k": ((16, 16),)})
    b, h, shared, n, m, e, w, drops = 2, 4, 2, 37, 150, 20, 70, 0.3 if mask == "bool" else 0.0
    q, k, v, grad = (
        RNG.standard_normal(s).astype(np.float32)
        for s in ((b, n, h, e), (b, h // shared, m, e), (b, h // shared, m, w), (b, h, n, w))
    )
    q = q.swapaxes(1, 2)
    masks = {"bool": RNG.random((n, m)) < 0.7, "added": RNG.standard_normal((h, n, m))}
    masks["bool"][3] = False
    masks["added"][:, 3] = np.finfo(np.float32).min  # which leaves a mean of all values
    options: dict[str, Any] = {
        "is_causal": mask == "causal", "enable_gqa": True, "dropout_p": drops, "seed": 5,
    }  # fmt: skip
    call = pg.nn.native_scaled_dot_product_attention
    back = pg.nn.scaled_dot_product_attention_backward
    exact = [x.astype(np.float64) for x in (grad, q, k, v)]
    y, sums = call(*exact[1:], masks.get(mask), engine=engine, **options)
    gradients = back(*exact, y, sums, masks.get(mask), engine=engine, **options)

    def of_side(engine: Engine, problem: AttentionProblem, side: Side) -> Any:
        return tiles.gradient_by_tiles(engine, problem, side)

    monkeypatch.setattr(functions, "bind_best", tiles.attention_by_tiles)
    monkeypatch.setattr(functions, "variants", lambda problem, *_: problem)
    monkeypatch.setattr(functions, "_of_side", of_side)
    fresh = pg.Engine(engine.device)  # without plans
    attn_mask = masks["added"].astype(np.float32) if mask == "added" else masks.get(mask)
    single = call(q, k, v, attn_mask, engine=fresh, **options)
    close(single[0], y, m + 20)
    seen = np.isfinite(sums)
    np.testing.assert_array_equal(np.isfinite(single[1]), seen)
    close(single[1][seen], sums[seen], m + 20)
    single = y.astype(np.float32), sums.astype(np.float32)
    for got, want in zip(
        back(grad, q, k, v, *single, attn_mask, engine=fresh, **options), gradients, strict=True
    ):
        close(got, want, 2 * (n + m) + 20)


def spread(grad: Any, q: Any, k: Any, v: Any, seen: Any) -> list[Any]:
    """Which results are NaN by the definition: y, and the gradients by q, k and v.

    A probability of 0 multiplies what it hides, and so does minus infinity what is added to.
    """
    with np.errstate(invalid="ignore"):
        scores = q @ k.swapaxes(2, 3) + np.where(seen, 0, -np.inf)
        p = np.exp(scores - scores.max(3, keepdims=True))
        p /= p.sum(3, keepdims=True)
        y = p @ v
        e = p * (grad @ v.swapaxes(2, 3) - (grad * y).sum(3, keepdims=True))
        results = y, e @ k, e.swapaxes(2, 3) @ q, p.swapaxes(2, 3) @ grad
    return [np.isnan(x) for x in results]


@pytest.mark.parametrize("way", ["chosen", "tiles"])
def test_nan_in_one_array(engine: Engine, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Results are NaN where they are by the definition; with hidden pairs not in more places."""
    if way == "tiles":
        monkeypatch.setattr(tiles, "_TILES", ((16, 64),))
        monkeypatch.setattr(tiles, "_GRADIENT_TILES", {"q": ((16, 16),), "k": ((16, 16),)})
        monkeypatch.setattr(functions, "bind_best", tiles.attention_by_tiles)
        monkeypatch.setattr(functions, "variants", lambda problem, *_: problem)
        monkeypatch.setattr(functions, "_of_side", tiles.gradient_by_tiles)
    fresh, n, m = pg.Engine(engine.device), 21, 37
    shapes = ((1, 2, n, 8), (1, 2, n, 8), (1, 2, m, 8), (1, 2, m, 8))  # grad, q, k, v
    for hides, at, value in (
        (False, 0, np.nan), (False, 1, np.nan), (False, 2, np.nan), (False, 3, np.nan),
        (False, 1, np.inf), (True, 0, np.nan), (True, 1, np.nan), (True, 2, np.nan),
    ):  # fmt: skip
        arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
        arrays[at][0, 1, 7, 3] = value
        grad, q, k, v = arrays
        on: dict[str, Any] = {"is_causal": hides, "engine": fresh}
        y, sums = pg.nn.native_scaled_dot_product_attention(q, k, v, **on)
        got = y, *pg.nn.scaled_dot_product_attention_backward(grad, q, k, v, y, sums, **on)
        seen = np.tril(np.ones((n, m), bool)) if hides else True
        for result, expected in zip(got, spread(*arrays, seen), strict=True):
            is_nan = np.isnan(result)
            assert (is_nan <= expected).all()
            assert hides or (is_nan == expected).all()
        if hides and at == 1:  # the gradients by the keys that the query sees
            assert np.isnan(got[2][0, 1, :8]).all()
            assert np.isnan(got[3][0, 1, :8]).all()


def test_long_rows(engine: Engine) -> None:
    """Blocks of a CPU are smaller where rows are long; still longer ones are refused."""
    if not engine.target.is_cpu:
        return  # the rows of a GPU's work-item fit into its registers
    back = pg.nn.scaled_dot_product_attention_backward
    for dtype, extent in ((np.float32, 5000), (np.float16, 20_000), (np.float32, 200_000)):
        x = (RNG.standard_normal((1, 1, 3, extent)) / 9).astype(dtype)
        y, sums = pg.nn.native_scaled_dot_product_attention(x, x, x, engine=engine)
        close(y, reference(x, x, x), 60)
        q = x.astype(np.float64)[0, 0]
        p = np.exp(q @ q.T / extent**0.5 - sums[0, 0][:, None])
        e = p * (q @ q.T - (q * (p @ q)).sum(1, keepdims=True)) / extent**0.5
        actual = back(x, x, x, x, y, sums, engine=engine)
        for got, want in zip(actual, (e @ q, e.T @ q, p.T @ q), strict=True):
            np.testing.assert_allclose(got[0, 0], want, rtol=2e-3, atol=2e-3)
    x = np.ones((1, 1, 3, 1_000_000), np.float32)
    with pytest.raises(UnsupportedError, match="rows of 1000000 elements"):
        pg.nn.scaled_dot_product_attention(x, x, x, engine=engine)
    with pytest.raises(UnsupportedError, match="rows of 1000000 elements"):
        back(x, x, x, x, x, x[..., 0], engine=engine)


@pytest.mark.path
def test_dropout(engine: Engine) -> None:
    """The mask is that of ``dropout`` for the array of probabilities, in C order."""
    b, h, shared, n, m, e, rate = 2, 4, 2, 9, 11, 12, 0.3
    q, k, v, grad = (
        RNG.standard_normal(s).astype(np.float32)
        for s in ((b, h, n, e), *((b, h // shared, m, e),) * 2, (b, h, n, e))
    )
    mask = RNG.standard_normal((n, m)).astype(np.float32)
    place: dict[str, Any] = {"dropout_p": rate, "seed": 5, "enable_gqa": True, "engine": engine}
    factors = kept_elements(b * h * n * m, rate, 5).reshape(b, h, n, m) / (1 - rate)
    y, sums = pg.nn.native_scaled_dot_product_attention(q, k, v, mask, **place)
    close(y, reference(q, k, v, mask, factors=factors), 2 * m + 20)
    plain = pg.nn.native_scaled_dot_product_attention(q, k, v, mask, enable_gqa=True, engine=engine)
    close(sums, plain[1].astype(np.float64), m + 20)  # which dropout leaves as they are
    other = pg.nn.scaled_dot_product_attention(q, k, v, mask, offset=1, **place)
    assert not np.array_equal(other, y)
    actual = pg.nn.scaled_dot_product_attention_backward(grad, q, k, v, y, sums, mask, **place)
    for at in range(3):
        direction, ends = RNG.standard_normal(actual[at].shape), []
        for sign in (1, -1):
            moved = [
                x + (sign * 1e-5 * direction if at == j else 0) for j, x in enumerate((q, k, v))
            ]
            ends.append((grad * reference(*moved, mask, factors=factors)).sum())
        want = (ends[0] - ends[1]) / 2e-5
        size = np.abs(actual[at] * direction).sum()
        assert abs((actual[at] * direction).sum() - want) <= 1e-4 * (1 + size)
    none = pg.nn.scaled_dot_product_attention(q, k, v, mask, **{**place, "dropout_p": 1.0})
    assert not none.any()


def test_kernels_of_matrix_units_are_compared_with_numpy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison by which a device's first use of one decides, on kernels right and wrong."""
    half, extent = element(np.float16), 20
    strides = ((0, 0, extent, 1),) * 4 + ((0, 0, 1, 0),)
    problem = AttentionProblem(
        half, element(np.float32), None, 2, 3, 1, 99, 99, extent, extent, strides, False, 1.0
    )
    policy = AttentionPolicy(2, 1, 32)
    for factor, is_right in ((1.0, True), (1.05, False)):

        def bind(engine: Engine, small: AttentionProblem, _: Any, factor: float = factor) -> Any:
            return attention_by_rows(engine, replace(small, scale=factor * small.scale))

        monkeypatch.setattr(check, "attention_on_matrix_units", bind)
        assert check._is_right(engine, problem, policy) == is_right


@pytest.mark.parametrize("side", ["q", "k"])
def test_kernels_of_gradients_are_compared_with_numpy(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, side: Side
) -> None:
    """As above, for each side of the gradients."""
    half, single = element(np.float16), element(np.float32)
    problem = AttentionProblem(half, single, None, 2, 3, 1, 99, 99, 16, 24, (), True, 1.0)
    for factor, is_right in ((1.0, True), (1.05, False)):

        def bind(engine: Engine, small: AttentionProblem, *_: Any, factor: float = factor) -> Any:
            return gradient_by_rows(engine, replace(small, scale=factor * small.scale), side)

        monkeypatch.setattr(check, "gradient_on_matrix_units", bind)
        policy = GradientPolicy(1, 1, 16)
        assert check._gradient_is_right(engine, problem, side, policy) == is_right


@pytest.mark.parametrize("extent", [16, 12])
def test_gradients_of_halves_are_for_matrix_units(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, extent: int
) -> None:
    """Both sides of a call, on a GPU that has them; not of rows that are no whole chunks."""
    asked: dict[Side, AttentionProblem] = {}

    def none(_: Engine, problem: AttentionProblem, side: Side) -> Steps:
        asked[side] = problem
        return Steps([])

    monkeypatch.setattr(functions, "_of_side", none)
    monkeypatch.setattr(engine, "plan", lambda key, make: make())
    q, k = (np.ones((2, 3, n, extent), np.float16) for n in (5, 7))
    y, sums = q.copy(), np.ones(q.shape[:3], np.float32)
    pg.nn.scaled_dot_product_attention_backward(y, q, k, k, y, sums, engine=engine)
    target, table = example_target("nvidia-sm80"), TuningTable.shipped()
    expected = ["rows", "tiles", *["mma"] * (extent == 16)]
    for side, problem in asked.items():
        ways = backward_variants(replace(problem, aligned=True), side, target, table)
        assert [way.name for way in ways] == expected
        assert best_of(ways, target).name == ("mma" if extent == 16 else "rows")
    assert list(asked) == ["q", "k"]


def test_wrong_arguments(engine: Engine) -> None:
    q = np.ones((2, 5, 8), np.float32)
    call = pg.nn.scaled_dot_product_attention
    mask = np.ones((5, 5), bool)
    for run, error, words in (
        (lambda: call(q, q, q, dropout_p=0.5, engine=engine), ArgumentError, "and seed None"),
        (
            lambda: call(q, q, q, dropout_p=1.5, seed=1, engine=engine),
            ArgumentError,
            "dropout_p is",
        ),
        (lambda: call(q, q, q, dropout_p=0.5, seed=-1, engine=engine), ArgumentError, "seed is -1"),
        (lambda: call(q, q[:1], q[:1], engine=engine), ShapeError, "key has shape"),
        (lambda: call(q, q.astype(float), q, engine=engine), DTypeError, "key is float64"),
        (lambda: call(q, q, q, mask, is_causal=True), ArgumentError, "is_causal is True"),
        (lambda: call(q, q, q, mask[:3], engine=engine), ShapeError, "attn_mask has shape"),
        (lambda: call(q, q, q, np.ones((5, 5), int)), DTypeError, "attn_mask is int64"),
    ):
        with pytest.raises(error, match=words):
            run()
