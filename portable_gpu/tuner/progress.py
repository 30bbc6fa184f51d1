"""The progress of a search."""

from __future__ import annotations

from dataclasses import dataclass, field

from portable_gpu.tuner.jobs import TuningJob
from portable_gpu.tuning.policy import TunedPolicy


@dataclass
class Progress:
    """The progress of a search.

    Attributes:
        job: What is searched.
        policy: The incumbent.
        trials: Measurements, in this run and those before it.
        failed: The number of trials that did not build, were wrong, or took too long.
        relative: The incumbent's time over the formula's.
        refused: What was wrong with policies that were faster but gave wrong results.
        remark: Why nothing was searched.
    """

    job: TuningJob
    policy: TunedPolicy
    trials: int = 0
    failed: int = 0
    relative: float = 1.0
    refused: list[str] = field(default_factory=list)
    remark: str = ""
