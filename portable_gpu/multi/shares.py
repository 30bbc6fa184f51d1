"""The parts of an array that devices of different speed get."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from portable_gpu.multi.member import Member
from portable_gpu.ops.gemm import gemm

#: The size of the product that is timed.
_SIZE = 768
_TURNS = 3


def measured_shares(members: Sequence[Member]) -> tuple[float, ...]:
    """Return the shares of devices: equal ones of one kind, else by their speed, one after another.

    Two devices are of one kind if they have the same name, driver and number of compute units.
    """
    kinds = {_kind(member) for member in members}
    if len(kinds) == 1:
        return (1.0 / len(members),) * len(members)
    known: dict[tuple[str, str, int], float] = {}
    for member in members:
        kind = _kind(member)
        if kind not in known:
            known[kind] = 1.0 / _seconds(member)
    rates = [known[_kind(member)] for member in members]
    return tuple(rate / sum(rates) for rate in rates)


def _kind(member: Member) -> tuple[str, str, int]:
    facts = member.engine.target.facts
    return facts.name, facts.driver_version, facts.compute_units


def _seconds(member: Member) -> float:
    """Return the least time of a product of float32."""
    a, b = (member.empty((_SIZE, _SIZE), np.float32).fill(1) for _ in range(2))
    c = member.empty((_SIZE, _SIZE), np.float32)
    times = []
    for _ in range(1 + _TURNS):
        begin = time.perf_counter()
        gemm(a, b, out=c, engine=member.engine)
        member.finish()
        times.append(time.perf_counter() - begin)
    return min(times[1:])
