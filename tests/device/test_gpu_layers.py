"""Kernels of layers that GPUs take alone, on any device: against loops and matrices in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.ops.normalize import norms
from portable_gpu.ops.sampling import plan
from portable_gpu.ops.sampling.rules import PoolingWindow, Resize
from portable_gpu.ops.sampling.sampling_kernel import SamplingKernel
from portable_gpu.runtime.engine import Engine

Values = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def gpu() -> Engine:
    return Engine(device_class="generic")


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    selected: list[str] = []
    kernel_of = plan.kernel_of

    def recorded(*arguments: Any) -> SamplingKernel:
        kernel = kernel_of(*arguments)
        selected.append(kernel.template)
        return kernel

    monkeypatch.setattr(plan, "kernel_of", recorded)
    yield selected
    assert selected
    assert set(selected) == {"blocks"}


def matrix(rule: Any) -> Values:
    counts, places, weights = rule.entries()
    result = np.zeros((rule.outputs, rule.size))
    np.add.at(result, (np.repeat(np.arange(rule.outputs), counts), places), weights)
    return result


@pytest.mark.parametrize(("dtype", "width"), [("float32", 12), ("float16", 16)])
@pytest.mark.parametrize("is_last", [False, True])
def test_bilinear_blocks(
    gpu: Engine, templates: list[str], dtype: str, width: int, is_last: bool
) -> None:
    random = np.random.default_rng(width)
    rows, columns = (Resize(n, 2 * n, "linear", "half_pixel", 2.0) for n in (5, width))
    x = random.integers(-32, 32, (2, 3, 5, width)).astype(dtype)
    g = random.integers(-32, 32, (2, 3, 10, 2 * width)).astype(dtype)
    if is_last:
        x, g = (np.moveaxis(np.moveaxis(a, 1, -1).copy(), -1, 1) for a in (x, g))
    y = nn.interpolate(x, scale_factor=2, mode="bilinear", engine=gpu)
    dx = nn.interpolate_backward(g, x.shape, scale_factor=2, mode="bilinear", engine=gpu)
    # Sums of few integers by multiples of 1/16: exact in float32, rounded once to float16.
    expected = np.einsum("hy,wx,ncyx->nchw", matrix(rows), matrix(columns), x.astype(float))
    assert np.array_equal(y, expected.astype(dtype))
    expected = np.einsum("hy,wx,nchw->ncyx", matrix(rows), matrix(columns), g.astype(float))
    assert np.array_equal(dx, expected.astype(dtype))


@pytest.mark.parametrize("is_last", [False, True])
def test_blocks_of_largest_elements(gpu: Engine, templates: list[str], is_last: bool) -> None:
    random = np.random.default_rng(is_last)
    x = random.integers(-9, 9, (2, 3, 12, 16)).astype(np.float32)
    x[random.random(x.shape) < 0.03] = np.nan
    if is_last:
        x = np.moveaxis(np.moveaxis(x, 1, -1).copy(), -1, 1)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    largest = windows.max((4, 5))
    assert np.array_equal(nn.max_pool2d(x, 3, 2, 1, engine=gpu), largest, equal_nan=True)
    y, indices = nn.max_pool2d(x, 3, 2, 1, return_indices=True, engine=gpu)
    assert np.array_equal(y, largest, equal_nan=True)
    chosen = np.take_along_axis(x.reshape(2, 3, -1), indices.reshape(2, 3, -1), 2)
    assert np.array_equal(chosen.reshape(y.shape), y, equal_nan=True)
    g = random.integers(-9, 9, y.shape).astype(np.float32)
    expected = np.zeros((2, 3, 12 * 16), np.float32)
    places = np.indices((2, 3, indices[0, 0].size))
    np.add.at(expected, (places[0], places[1], indices.reshape(2, 3, -1)), g.reshape(2, 3, -1))
    dx = nn.max_pool2d_backward(g, indices, x.shape, 3, 2, 1, engine=gpu)
    assert np.array_equal(dx, expected.reshape(x.shape))


def test_blocks_of_means(gpu: Engine, templates: list[str]) -> None:
    x = np.random.default_rng(2).integers(-9, 9, (2, 3, 12, 16)).astype(np.float32)
    rows, columns = (PoolingWindow(n, n // 2, 3, 2, 1, 1, 1, "valid") for n in (12, 16))
    y = nn.avg_pool2d(x, 3, 2, 1, count_include_pad=False, engine=gpu)
    expected = np.einsum("hy,wx,ncyx->nchw", matrix(rows), matrix(columns), x.astype(float))
    assert np.abs(y - expected).max() <= 16 * 2.0**-24 * 9


@pytest.mark.parametrize("channels", [1, 3, 40])
@pytest.mark.parametrize("is_affine", [False, True])
def test_group_norm_by_channels(
    gpu: Engine, monkeypatch: pytest.MonkeyPatch, channels: int, is_affine: bool
) -> None:
    selected = []
    chosen = norms.channels_kernel
    monkeypatch.setattr(
        norms, "channels_kernel", lambda *a: selected.append(chosen(*a)) or selected[-1]
    )
    random = np.random.default_rng(channels)
    x, dy = random.standard_normal((2, 16, 2 * channels, 5, 4)).astype(np.float32)
    weight = random.standard_normal(2 * channels).astype(np.float32) if is_affine else None
    rows = x.astype(float).reshape(16, 2, -1)
    mean, rstd = rows.mean(2), 1 / np.sqrt(rows.var(2) + 1e-5)
    results = nn.group_norm_backward(
        dy,
        x,
        2,
        *(a.astype(np.float32) for a in (mean, rstd)),
        weight,
        is_affine or None,
        engine=gpu,
    )
    assert selected[0] is not None
    normed = ((rows - mean[..., None]) * rstd[..., None]).reshape(x.shape)
    scaled = dy * (1.0 if weight is None else weight.astype(float)[:, None, None])
    means = [a.reshape(16, 2, -1).mean(2)[..., None] for a in (scaled, scaled * normed)]
    dx = scaled.reshape(rows.shape) - means[0] - normed.reshape(rows.shape) * means[1]
    expected = (dx * rstd[..., None]).reshape(x.shape)
    # Sums of n terms in some order: n eps times the sum of magnitudes, for all of three sums.
    bound = 4 * channels * 20 * 2.0**-24 * np.abs(scaled).max() * np.abs(normed).max() * rstd.max()
    assert np.abs(results[0] - expected).max() <= bound
    if is_affine:
        for result, terms in zip(results[1:], (dy * normed, dy), strict=True):
            bound = 400 * 2.0**-24 * np.abs(terms).sum((0, 2, 3))
            assert np.all(np.abs(result - terms.sum((0, 2, 3))) <= bound)


def test_views_at_multiples_of_16_bytes(gpu: Engine) -> None:
    """Vectors of four float64 are not at multiples of their size."""
    x = pg.asarray(np.random.default_rng(1).standard_normal((1, 2, 16, 68)), engine=gpu)[..., 2:66]
    out = pg.asarray(np.zeros((1, 2, 16, 36)), engine=gpu)[..., 2:34]
    nn.avg_pool2d(x, (1, 2), out=out, engine=gpu)
    expected = pg.asnumpy(x).reshape(1, 2, 16, 32, 2).mean(axis=-1)
    np.testing.assert_allclose(pg.asnumpy(out), expected, rtol=1e-15)
