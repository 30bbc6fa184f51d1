"""Assembly as basic blocks, and its innermost loops.

A loop is a set of blocks that can all reach each other.  Without its entries, the loops inside it
remain (Steensgaard, "Sequentializing program dependence graphs for irreducible programs", 1993).
This needs no dominators, and it handles loops with two entries.  A loop that computes nothing,
which is a wait for a barrier, counts as part of the loop around it.

The inner loop is the innermost loop with the most arithmetic.  Each level of nesting counts as
eight rounds, as compilers assume if they know no counts (Wu and Larus, "Static branch frequency and
program profile analysis", MICRO 27, 1994).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from portable_gpu.isa.mix import Instruction, Mix

_ROUNDS = 8


@dataclass(frozen=True)
class Block:
    """Instructions that run one after the other.

    Attributes:
        label: Its name, unique in the kernel.
        instructions: Its instructions in order.
        targets: Labels of the blocks that may follow, including the next one in the text.
    """

    label: str
    instructions: tuple[Instruction, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """An innermost loop: its first block in the text, depth (1: not nested) and instructions."""

    label: str
    depth: int
    mix: Mix


def inner_loop(blocks: Iterable[Block]) -> Loop | None:
    """The innermost loop with the most arithmetic; ``None`` in straight-line code."""
    return max(
        innermost_loops(blocks),
        key=lambda loop: loop.mix.arithmetic_weight * _ROUNDS**loop.depth,
        default=None,
    )


def innermost_loops(blocks: Iterable[Block]) -> list[Loop]:
    """The loops that contain no loop other than waits, in the order of the text."""
    live = _live({block.label: block for block in blocks})
    result = list(_innermost(live, set(live), 0))
    order = {label: index for index, label in enumerate(live)}
    return sorted(result, key=lambda loop: order[loop.label])


def _live(blocks: Mapping[str, Block]) -> Mapping[str, Block]:
    """The blocks reachable from the first one; others would count as entries of loops."""
    first = next(iter(blocks), None)
    if first is None:
        return {}
    reachable = _reachable(blocks, set(blocks), first) | {first}
    return {label: block for label, block in blocks.items() if label in reachable}


def _innermost(blocks: Mapping[str, Block], among: set[str], depth: int) -> Iterator[Loop]:
    for members in _cycles(blocks, among):
        mix = Mix.of(i for label in blocks if label in members for i in blocks[label].instructions)
        if not mix.arithmetic_weight and not mix.memory:
            continue
        inside = list(_innermost(blocks, members - _entries(blocks, members), depth + 1))
        if inside:
            yield from inside
        else:
            yield Loop(next(label for label in blocks if label in members), depth + 1, mix)


def _entries(blocks: Mapping[str, Block], members: set[str]) -> set[str]:
    """Blocks that are reached from outside; if there are none, the first one."""
    entered = {
        target
        for label, block in blocks.items()
        if label not in members
        for target in block.targets
        if target in members
    }
    return entered or {next(label for label in blocks if label in members)}


def _cycles(blocks: Mapping[str, Block], among: set[str]) -> Iterator[set[str]]:
    """The largest sets of blocks that all reach each other, and themselves."""
    limits = {label: _reachable(blocks, among, label) for label in blocks if label in among}
    seen: set[str] = set()
    for label, reached in limits.items():
        if label in reached and label not in seen:
            members = {other for other in reached if label in limits[other]}
            seen |= members
            yield members


def _reachable(blocks: Mapping[str, Block], among: set[str], start: str) -> set[str]:
    """The blocks that follow ``start`` after one step or more."""
    result: set[str] = set()
    waiting = [start]
    while waiting:
        new = {t for t in blocks[waiting.pop()].targets if t in among} - result
        result |= new
        waiting += new
    return result
