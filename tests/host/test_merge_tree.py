"""The shape of trees of merges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from portable_gpu.multi.merge_tree import MergeTree, merged


def by_levels(parts: list[str]) -> str:
    """Merge neighbours level by level."""
    while len(parts) > 1:
        pairs = [f"({left} {right})" for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(parts) // 2 * 2 :]
    return parts[0]


def test_no_parts_have_no_result() -> None:
    with pytest.raises(ValueError, match="one part or more"):
        MergeTree[str](pair).whole()


def pair(left: str, right: str) -> str:
    return f"({left} {right})"


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 8, 13, 24])
def test_the_shape_follows_from_the_number_of_parts(count: int) -> None:
    """Whichever the order is, which merges are deferred, and which of them fail once."""
    expected = by_levels([str(number) for number in range(count)])
    assert merged(map(str, range(count)), pair) == expected
    random = np.random.default_rng(count)

    def failing(left: str, right: str) -> str:
        if random.random() < 0.3:
            raise MemoryError
        return pair(left, right)

    def again(call: Any, *arguments: Any) -> Any:
        while True:
            try:
                return call(*arguments)
            except MemoryError:
                pass

    for _ in range(20):
        tree = MergeTree[str](failing, lambda *_: random.random() < 0.5)
        for number in random.permutation(count):
            again(tree.add, int(number), str(number))
        assert again(tree.whole) == expected
