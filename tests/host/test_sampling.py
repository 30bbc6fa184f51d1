"""Which cases of a device test run: a quarter in each turn, and all in four turns."""

from __future__ import annotations

from collections import Counter

import pytest
from sampling import SHARES, share


@pytest.mark.parametrize("count", [1, 2, 3, 7, 30])
@pytest.mark.parametrize("begin", [0, 739_000 // 12 * 12])
def test_each_case_runs_in_one_turn_of_four(count: int, begin: int) -> None:
    cases = [f"test[{k}]" for k in range(count)]
    turns = min(count, SHARES)
    shares = [share(cases, begin + turn) for turn in range(turns)]
    assert Counter(name for each in shares for name in each) == Counter(cases)
    assert all(count // turns <= len(each) <= -(-count // turns) for each in shares)


def test_a_value_of_a_parameter_is_in_no_turn_alone() -> None:
    cases = [f"test[{a}-{b}]" for a in "xyzuvw" for b in "abcd"]
    assert all(len({name[-2] for name in share(cases, turn)}) > 1 for turn in range(30))
