"""The search for one row: trials by Optuna, the incumbent, and what it takes to replace it.

The value of a trial is the time of its policy, divided by that of the policy by formula.  Both are
timed by turns with the incumbent.  A policy that is faster in a trial is compared with the formula
in more turns, and then with the incumbent.  If it is faster again, it must pass the edge checks and
be no slower on a grid of other problems.  It is then timed once more, from new programs in other
memory, before it takes the incumbent's place and is stored.

A policy that was faster in its trial, but not in the longer comparison, is measured again when the
sampler proposes it again, because noise may have decided the comparison.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import OptunaError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import SQLAlchemyError

from portable_gpu.errors import PortableGPUError
from portable_gpu.targets import Target
from portable_gpu.tuner.jobs import TuningJob
from portable_gpu.tuner.progress import Progress
from portable_gpu.tuner.referee import LEAST_GAIN, Judge, Race, TrialError, TrialTimeoutError
from portable_gpu.tuning.policy import TunedPolicy
from portable_gpu.tuning.store import store
from portable_gpu.tuning.table import VARIABLE
from portable_gpu.version import __version__

_TURNS = 8
_FINAL_TURNS = 18
#: The time limit of a trial: a factor of the time of the first race, and the least seconds.
_LIMIT_FACTOR, _LEAST_LIMIT = 5.0, 10.0
#: How often one policy is measured at most.
_MAX_MEASUREMENTS = 4
#: The search ends when the sampler has proposed this many measured policies in a row.
_MAX_REPEATED = 200

Store = Callable[[dict[str, Any]], None]


class Studies:
    """Searches on disk, one for each job; they are whole after the process is killed."""

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            PortableGPUError: The file is not a storage of searches, or cannot be written.
        """
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
        except (OSError, RuntimeError, SQLAlchemyError, OptunaError) as error:
            reason = (str(error).splitlines() or [""])[0]
            raise PortableGPUError(
                f"searches cannot be kept in {path}: {reason}; delete it, or name another table "
                f"in {VARIABLE}"
            ) from error

    def study(self, job: TuningJob, target: Target, resume: bool) -> optuna.Study:
        """Return the study of a job: the stored one, or a new one.

        The stored study is one of the same driver, version, values of fields and problems.
        """
        facts = (job.space(target), job.default, [str(case) for case in job.cases])
        digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:12]
        key, driver = job.key, target.facts.driver_version
        name = f"{job.name} {key.device} {target.facts.name} {driver} {__version__} {digest}"
        if not resume:
            with suppress(KeyError):
                optuna.delete_study(study_name=name, storage=self._storage)
        return optuna.create_study(
            study_name=name, storage=self._storage, load_if_exists=True,
            sampler=optuna.samplers.TPESampler(seed=0 if not resume else None),
        )  # fmt: skip


class Search:
    """The search for one job's policy."""

    def __init__(
        self, job: TuningJob, target: Target, judge: Judge, study: optuna.Study, store: Store
    ) -> None:
        """Prepare.

        Args:
            job: What to find.
            target: The device.
            judge: Times and verifies policies.
            study: The storage of trials.
            store: A function that stores a verified row.
        """
        self.progress = Progress(job, job.current)
        self._job, self._target, self._judge = job, target, judge
        self._study, self._store = study, store
        self._space: dict[str, optuna.distributions.BaseDistribution] = {
            name: optuna.distributions.CategoricalDistribution(values)
            for name, values in job.space(target).items()
        }
        self._seen: dict[TunedPolicy, float | None] = {}
        self._measurements: Counter[TunedPolicy] = Counter()

    def run(
        self, until: float, deadline: float, watch: Callable[[Progress], None] = lambda _: None
    ) -> Progress:
        """Search until the time is used up or all policies are tried.

        Args:
            until: The time after which no trial starts, by ``time.monotonic()``.
            deadline: The time at which a running trial is stopped.
            watch: A function that is called after every step.
        """
        job, progress = self._job, self.progress
        self._recall()
        begin = time.monotonic()
        try:
            first = self._race(job.current, job.default, _TURNS, deadline)
        except TrialError as error:
            progress.remark = f"left out: {error}"
            return progress
        limit = max(_LEAST_LIMIT, _LIMIT_FACTOR * (time.monotonic() - begin))
        if job.current != job.default:
            progress.relative = first.relative
        watch(progress)
        repeated = 0
        while time.monotonic() < until and repeated < _MAX_REPEATED:
            trial = self._study.ask(self._space)
            measured = self._try(trial, min(time.monotonic() + limit, deadline), deadline)
            repeated = 0 if measured else repeated + 1
            watch(progress)
        return progress

    def _recall(self) -> None:
        """Read the trials of earlier runs; a new study begins near the policy by formula."""
        trials = self._study.get_trials(deepcopy=False)
        repeated = []
        for trial in trials:
            if trial.state == TrialState.RUNNING:  # its process was killed
                self._study.tell(trial.number, state=TrialState.FAIL)
                repeated.append(trial)
            elif trial.state == TrialState.FAIL and "failed" not in trial.user_attrs:
                repeated.append(trial)
            elif trial.state in (TrialState.COMPLETE, TrialState.FAIL):
                policy = self._job.policy(trial.params)
                self._seen[policy] = trial.value
        self.progress.trials = len(self._seen)
        self.progress.failed = sum(value is None for value in self._seen.values())
        for trial in repeated:
            if trial.params and self._job.policy(trial.params) not in self._seen:
                self._study.enqueue_trial(trial.params)
        self._seen.setdefault(self._job.default, 1.0)
        if not trials:
            for params in _around(self._job, self._target):
                self._study.enqueue_trial(params)

    def _try(self, trial: optuna.Trial, end: float, deadline: float) -> bool:
        """Run a trial, and return whether its policy was measured."""
        policy = self._job.policy(trial.params)
        state, value, measured = TrialState.FAIL, None, False
        try:
            if not all(policy.limits(self._target, self._job.elem).values()):
                state = TrialState.PRUNED
            elif policy in self._seen and not self._is_measured_again(policy):
                value = self._seen[policy]
                state = TrialState.PRUNED if value is None else TrialState.COMPLETE
            else:
                measured = True
                value = self._judged(policy, end, deadline)
                trial.set_user_attr("stored", self.progress.policy == policy)
                state = TrialState.COMPLETE
                self._note(policy, value)
        except TrialError as error:
            out_of_time = isinstance(error, TrialTimeoutError) and time.monotonic() >= deadline
            if not out_of_time:  # else the next run takes it up again
                trial.set_user_attr("failed", str(error))
                self._note(policy, None)
        finally:
            self._study.tell(trial, value, state)
        return measured

    def _is_measured_again(self, policy: TunedPolicy) -> bool:
        """Return whether a policy that did not win was faster than the incumbent in its trial."""
        value = self._seen[policy]
        faster = value is not None and value < (1 - LEAST_GAIN) * self.progress.relative
        return faster and self._measurements[policy] < _MAX_MEASUREMENTS

    def _note(self, policy: TunedPolicy, value: float | None) -> None:
        self._seen[policy] = value
        self._measurements[policy] += 1
        self.progress.trials += 1
        self.progress.failed += value is None

    def _judged(self, policy: TunedPolicy, end: float, deadline: float) -> float:
        """The value of a policy; a winner is made the incumbent."""
        incumbent, progress = self.progress.policy, self.progress
        race = self._race(policy, incumbent, _TURNS, end)
        value = race.relative * progress.relative
        if race.relative > 1 - LEAST_GAIN:
            return value
        default = self._job.default
        final = self._race(policy, default, _FINAL_TURNS, deadline)
        value = final.relative
        if not final.won:
            return value
        if incumbent != default:
            duel = self._race(policy, incumbent, _FINAL_TURNS, deadline)
            if not duel.won:
                return value
        wrong = self._judge.verify(self._job, policy, max(0.0, deadline - time.monotonic()))
        if wrong:
            progress.refused.append(f"{policy}: {wrong}")
            raise TrialError(f"faster and wrong: {wrong}")
        self._compare_on_grid(policy, incumbent, deadline)
        repeated = self._race(policy, default, _FINAL_TURNS, deadline)
        if repeated.won:
            self._store(self._row(policy, repeated))
            progress.policy, progress.relative = policy, repeated.relative
        return repeated.relative

    def _compare_on_grid(
        self, policy: TunedPolicy, incumbent: TunedPolicy, deadline: float
    ) -> None:
        """Compare a winner with the incumbent on the grid of other problems.

        Raises:
            TrialError: It is slower on one of the problems.
        """
        grid = self._job.grid
        if not grid:
            return
        left = max(0.0, deadline - time.monotonic())
        on_grid = replace(self._job, cases=grid)
        loss = self._judge.race(on_grid, policy, incumbent, _FINAL_TURNS, left).loss
        if loss is not None:
            raise TrialError(f"faster on its problems, and slower on {grid[loss]}")

    def _race(self, policy: TunedPolicy, other: TunedPolicy, turns: int, end: float) -> Race:
        left = max(0.0, end - time.monotonic())
        return self._judge.race(self._job, policy, other, turns, left)

    def _row(self, policy: TunedPolicy, race: Race) -> dict[str, Any]:
        """The table's row, with its evidence."""
        job, facts = self._job, self._target.facts
        return {
            "kernel": job.key.kernel,
            "device": job.key.device,
            "element": job.key.element,
            "shape_class": job.key.shape_class,
            "policy": policy.to_dict(),
            "evidence": {
                "baseline": f"{', '.join(f'{s:.3g}' for s in race.other_seconds)} s by formula",
                "speed_up": round(1 / race.relative, 3),
                "spread": round(race.spread, 3),
                "measured_on": f"{facts.name}, {facts.platform_name}",
                "driver": facts.driver_version,
                "date": datetime.now(timezone.utc).date().isoformat(),
                "problem": ", ".join(str(case) for case in job.cases),
                "library": __version__,
            },
        }


class Tuner:
    """Searches for several jobs within one budget.

    Attributes:
        done: The searches that have started, with their studies.
    """

    def __init__(
        self, target: Target, judge: Judge, studies: Studies, table: Path, resume: bool
    ) -> None:
        """Prepare.

        Args:
            target: The device.
            judge: Times and verifies policies.
            studies: The storage of trials.
            table: The file for verified rows.
            resume: Whether to continue earlier searches.
        """
        self.done: list[tuple[Progress, optuna.Study]] = []
        self._target, self._judge, self._studies = target, judge, studies
        self._table, self._resume = table, resume

    def run(
        self,
        jobs: Sequence[TuningJob],
        deadline: float,
        watch: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Give each job an equal share of what time is left, and stop at the deadline."""
        for left, job in zip(range(len(jobs), 0, -1), jobs, strict=True):
            now = time.monotonic()
            if now >= deadline:
                return
            study = self._studies.study(job, self._target, self._resume)
            search = Search(
                job, self._target, self._judge, study, lambda row: store(self._table, [row])
            )
            self.done.append((search.progress, study))
            search.run(now + (deadline - now) / left, deadline, watch)


def _around(job: TuningJob, target: Target) -> Iterator[dict[str, Any]]:
    """The default with one field changed, in random order; what breaks a limit is left out."""
    space = job.space(target)
    default = job.default.to_dict()
    start = {name: default[name] for name in space}
    changed = [start | {name: value} for name, values in space.items() for value in values]
    random.Random(0).shuffle(changed)
    for params in changed:
        policy = job.policy(params)
        if params != start and all(policy.limits(target, job.elem).values()):
            yield params


def measured(study: optuna.Study) -> list[FrozenTrial]:
    """The trials that have a value, in order."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
