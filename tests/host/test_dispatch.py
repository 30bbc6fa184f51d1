"""The benchmark of the choice of a path, on a fake clock: no device."""

from __future__ import annotations

import pytest

from portable_gpu.bench import dispatch
from portable_gpu.bench.dispatch import Distribution, Standing, contest, fastest, random_cases
from portable_gpu.bench.timing import Prepared
from portable_gpu.ops.case import Case


class Fake(Prepared):
    """Returns given seconds, the last of them for ever."""

    def __init__(self, *seconds: float) -> None:
        super().__init__([lambda: None])
        self.left, self.calls = list(seconds), 0

    def seconds(self, first: int, count: int) -> float:
        self.calls += count
        return count * (self.left.pop(0) if len(self.left) > 1 else self.left[0])


def standing(own: float, **ways: float) -> Standing:
    return Standing(Case("gemm", (2, 3, 4), trans="NN"), "chosen", own, ways)


def test_the_fastest_turn_counts() -> None:
    sides = {"a": Fake(9, 5, 3, 2, 4), "b": Fake(1)}
    assert fastest(sides, turns=3, turn=1e-3) == {"a": 2, "b": 1}


def test_turns_of_short_calls_have_many() -> None:
    side = Fake(1e-5)
    assert fastest({"a": side}, turns=3, turn=1e-3) == {"a": pytest.approx(1e-5)}
    assert side.calls == 2 + 3 * 100


def test_who_takes_long_and_much_longer_is_tried_once() -> None:
    fast, slow, short = Fake(0.1), Fake(0.5), Fake(1e-5)
    result = fastest({"own": fast, "slow": slow, "short": short}, turns=3, turn=1e-3)
    assert result["slow"] == 0.5
    assert slow.calls == 2
    assert fast.calls == 2 + 3


def test_a_rival_that_was_fast_by_chance_is_timed_again() -> None:
    chance = Fake(1, 1, 0.1, 1)
    times = contest(Fake(1), {"lucky": chance})
    assert min(times.values()) == 1


def test_a_choice_that_was_slow_by_chance_is_timed_again() -> None:
    times = contest(Fake(*[5] * 5, 1), {"a": Fake(1), "b": Fake(1.1)})
    assert standing(times.pop(dispatch.OWN), **times).ratio == 1


def test_a_rival_that_is_faster_stays_so() -> None:
    times = contest(Fake(3), {"a": Fake(1), "b": Fake(2)})
    result = standing(times.pop(dispatch.OWN), **times)
    assert (result.best, result.ratio) == ("a", 3)


def test_where_the_lucky_one_falls_back_the_next_is_looked_at() -> None:
    times = contest(Fake(4), {"lucky": Fake(1, 1, 0.1, 4), "fast": Fake(1)})
    assert times == {dispatch.OWN: 4, "lucky": 4, "fast": 1}


def test_a_choice_faster_than_all_has_the_ratio_1() -> None:
    assert standing(1.0, a=2.0).ratio == 1


def test_distribution() -> None:
    result = [standing(ratio, a=1.0) for ratio in (1.0, 1.1, 1.2, 1.3, 2.0)]
    summary = Distribution.of(result)
    assert (summary.count, summary.median, summary.worst) == (5, 1.2, 2.0)
    assert (summary.doubtful, summary.faults) == (2, 1)
    assert summary.median < summary.ninety < summary.ninety_nine < summary.worst


def test_products_are_random_and_the_same_again() -> None:
    result = random_cases("gemm", 500, "float32", 1, on_cpu=False)
    assert result == random_cases("gemm", 500, "float32", 1, on_cpu=False)
    assert result != random_cases("gemm", 500, "float32", 2, on_cpu=False)
    assert {case.trans for case in result} == {"NN", "NT", "TN", "TT"}
    assert max(case.flop for case in result) <= 2e10
    single = [case for case in result if case.batch is None]
    stacks = [case for case in result if case.batch is not None]
    assert 250 < len(single) < 350  # three of five kinds
    assert max(max(case.extents) for case in stacks) <= 300
    assert max(case.batch or 0 for case in stacks) <= 2000
    # uniform on a logarithmic scale: half of the extents below the root of the largest, but more
    # of thin products
    extents = [extent for case in single for extent in case.extents]
    assert sum(extent <= 64 for extent in extents) / len(extents) == pytest.approx(0.57, abs=0.1)


def test_json_has_every_figure() -> None:
    content = standing(3.0, a=1.0, b=2.0).to_dict()
    assert content["size"] == "2x3x4/NN"
    assert (content["chosen"], content["best"], content["ratio"]) == ("chosen", "a", 3.0)
    assert content["ways"] == {"a": 1.0, "b": 2.0}
