"""Blocks of outputs against the rules that they come from, as matrices."""

from __future__ import annotations

import numpy as np
import pytest

from portable_gpu.ops.sampling.blocks import block_weights, blocks_of
from portable_gpu.ops.sampling.rules import (
    AdaptiveWindow,
    AxisRule,
    PlaneRule,
    PoolingWindow,
    Resize,
    TransposedRule,
)


def dense(rule: AxisRule) -> np.ndarray:
    matrix = np.zeros((rule.outputs, rule.size))
    counts, places, weights = rule.entries()
    np.add.at(matrix, (np.repeat(np.arange(rule.outputs), counts), places), weights)
    return matrix


def rules(random: np.random.Generator) -> list[AxisRule]:
    size, kernel, stride = int(random.integers(6, 40)), *map(int, random.integers(1, 5, 2))
    dilation, before = int(random.integers(1, 3)), int(random.integers(0, 1 + kernel // 2))
    after, factor = int(random.integers(0, 2)), int(random.integers(2, 5))
    outputs = (size + before + after - (kernel - 1) * dilation - 1) // stride + 1
    mode = str(random.choice(["nearest", "linear", "cubic"]))
    return [
        PoolingWindow(size, outputs, kernel, stride, before, after, dilation, "valid"),
        Resize(size, factor * size, mode, "half_pixel", float(factor)),
        Resize(size, size + 3, mode, "align_corners", (size + 3) / size),
        AdaptiveWindow(factor * size, size, True),
    ]


@pytest.mark.parametrize("seed", range(4))
def test_a_rule_of_planes_is_the_tensor_product(seed: int) -> None:
    random = np.random.default_rng(seed)
    for one, other in zip(rules(random), rules(random)[::-1], strict=True):
        for pair in ([one, other], [TransposedRule.of(one), other], [one]):
            rule = PlaneRule.of(pair)
            expected = np.ones((1, 1))
            for each in pair:
                expected = np.kron(expected, dense(each))
            np.testing.assert_allclose(dense(rule), expected, 4e-16, 4e-16)


@pytest.mark.parametrize("seed", range(12))
def test_the_pattern_of_blocks_is_the_rule(seed: int) -> None:
    random = np.random.default_rng(seed)
    for forward in rules(random):
        for rule in (forward, TransposedRule.of(forward)):
            for size in (1, 2, 4, 8):
                expected = dense(rule)
                for routed in (False, True):
                    blocks = blocks_of(rule, size, routed)
                    if blocks is None:
                        continue
                    weights = block_weights(rule, size) if not routed else None
                    read = np.zeros_like(expected)
                    for o in range(rule.outputs):
                        for t, tap in enumerate(blocks.taps[o % size]):
                            place = o // size * blocks.step + blocks.first + tap
                            in_source = 0 <= place < rule.size
                            assert in_source or not blocks.inside[tap]
                            if weights is not None:
                                read[o, min(max(place, 0), rule.size - 1)] += weights[t, o]
                            elif in_source:
                                assert read[o, place] == 0, "a source is read twice"
                                read[o, place] = expected[o, place]
                    assert np.array_equal(read != 0, expected != 0)
                    assert np.abs(read - expected).max() <= 4 * np.finfo(float).eps


@pytest.mark.parametrize(
    ("rule", "size", "width"),
    [
        (PoolingWindow(56, 28, 3, 2, 1, 1), 4, 9),
        (TransposedRule.of(PoolingWindow(56, 28, 3, 2, 1, 1)), 4, 3),
        (Resize(32, 64, "linear", "half_pixel", 2.0), 4, 4),
        (TransposedRule.of(Resize(32, 64, "linear", "half_pixel", 2.0)), 4, 10),
    ],
)
def test_usual_layers_have_blocks(rule: AxisRule, size: int, width: int) -> None:
    blocks = blocks_of(rule, size, False)
    assert blocks is not None
    assert blocks.width == width


def test_other_rules_have_none() -> None:
    assert blocks_of(Resize(32, 47, "linear", "align_corners", 47 / 32), 4, False) is None
    assert blocks_of(PoolingWindow(7, 7, 3, 1, 1, 1), 4, False) is None, "no two blocks"
