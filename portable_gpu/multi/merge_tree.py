r"""Merges of numbered parts by a binary tree whose shape depends on their number only.

Neighbours are merged in pairs, then these results in pairs; a last part without a neighbour goes to
the next level as it is.  So sums have the same bits, in whichever order and on whichever devices
the parts are computed::

    parts     0   1   2   3   4
               \_/     \_/   |
                 \_____/      |
                        \____/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class MergeTree(Generic[T]):
    """A tree that merges parts while they are added.

    The result of a merge is a new object, which replaces the two parts when the merge is complete.
    So a call that ended in an exception can be repeated.
    """

    def __init__(
        self, merge: Callable[[T, T], T], may_merge: Callable[[T, T], bool] = lambda _, __: True
    ) -> None:
        """Make a tree without parts.

        Args:
            merge: Merges two parts, of which the first has the smaller numbers.
            may_merge: Whether ``add`` merges two parts as soon as both exist; if not, ``whole``
                merges them.
        """
        self._merge, self._may_merge = merge, may_merge
        self._nodes: dict[tuple[int, int], T] = {}

    def add(self, number: int, part: T) -> None:
        """Add a part, and merge it with its neighbours as far as they exist."""
        self._insert(0, number, part, self._may_merge)

    def whole(self) -> T:
        """Return the result of all parts, whose numbers begin at 0 and have no gaps.

        Raises:
            ValueError: There is no part.
        """
        if not self._nodes:
            raise ValueError("a merge tree without parts has no result; add one part or more")
        for key in sorted(self._nodes):
            if key in self._nodes:
                self._insert(*key, self._nodes[key], lambda _, __: True)
        # A larger subtree has smaller numbers, so the last one, the smallest, is merged first.
        subtrees = [self._nodes[key] for key in sorted(self._nodes)]
        whole = subtrees[0]
        for subtree in subtrees[1:]:
            whole = self._merge(subtree, whole)
        return whole

    def _insert(self, level: int, index: int, part: T, may_merge: Callable[[T, T], bool]) -> None:
        keys = [(level, index)]
        while True:
            sibling = level, index ^ 1
            other = self._nodes.get(sibling)
            if other is None or not may_merge(part, other):
                break
            part = self._merge(other, part) if index & 1 else self._merge(part, other)
            keys.append(sibling)
            level, index = level + 1, index >> 1
        for key in keys:
            self._nodes.pop(key, None)
        self._nodes[level, index] = part


def merged(parts: Iterable[T], merge: Callable[[T, T], T]) -> T:
    """Return the result of parts that exist."""
    tree = MergeTree(merge)
    for number, part in enumerate(parts):
        tree.add(number, part)
    return tree.whole()
