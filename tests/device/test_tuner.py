"""The tuner on this machine's device: wrong kernels are refused, and no result is lost.

Races are scripted where a test is about what follows from them: no test depends on a time.
"""

from __future__ import annotations

import json
import os
import runpy
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pyopencl as cl
import pytest
from optuna.trial import TrialState
from sampling import compile_fast

import portable_gpu as pg
from portable_gpu.bench import timing
from portable_gpu.bench.statistics import Statistic
from portable_gpu.checking.edges import Guarded
from portable_gpu.cli import main
from portable_gpu.ops.gemv import variants
from portable_gpu.ops.gemv.plan import gemv_plan, kernel_scalars
from portable_gpu.runtime.engine import Engine
from portable_gpu.tuner import search as searching
from portable_gpu.tuner.jobs import TuningJob, jobs
from portable_gpu.tuner.progress import Progress
from portable_gpu.tuner.referee import Race, Referee, TrialError, TrialTimeoutError, edge_checks
from portable_gpu.tuner.search import Search, Studies, Tuner
from portable_gpu.tuner.worker import Worker
from portable_gpu.tuning.policy import Policy
from portable_gpu.tuning.store import store
from portable_gpu.tuning.table import TuningTable, read_rows

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _quick(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "TURN", 1e-6)
    monkeypatch.setattr(timing, "fall_silent", lambda: None)
    compile_fast(monkeypatch, engine)


@pytest.fixture
def job(engine: Engine) -> TuningJob:
    """Rows of gemv: they have a kernel on every class of device, which builds quickly."""
    return jobs("gemv", ["float32"], "96x64/N", engine.target, TuningTable([]), True)[0]


def other(job: TuningJob, number: int = 1) -> Policy:
    """Another policy that fits."""
    grains = job.default.search_space(ENGINE.target, job.elem)["grain"]
    tried = [grain for grain in grains if grain != job.default.to_dict()["grain"]]
    return job.policy({"grain": tried[number - 1]})


ENGINE: Engine


@pytest.fixture(autouse=True)
def _engine(engine: Engine) -> None:
    global ENGINE
    ENGINE = engine


def race(ratio: float, spread: float = 0.0) -> Race:
    item = Statistic(ratio, ratio * (1 - spread), ratio * (1 + spread), 9)
    return Race((ratio,), (1.0,), (item,))


class Scripted:
    """A judge whose races follow a script; it verifies by a referee, or by a script too."""

    def __init__(
        self,
        script: Callable[[Policy, Policy], Race],
        verify: Callable[[TuningJob, Policy], str] = lambda job, policy: "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._script, self._verify, self._now = script, verify, now
        self.raced: list[Policy] = []
        self.ends: list[float] = []

    def race(self, job: TuningJob, policy: Policy, other: Policy, turns: int, limit: float) -> Race:
        self.raced.append(policy)
        self.ends.append(self._now() + limit)
        return self._script(policy, other)

    def verify(self, job: TuningJob, policy: Policy, limit: float) -> str:
        self.ends.append(self._now() + limit)
        return self._verify(job, policy)


def faster(*policies: Policy) -> Callable[[Policy, Policy], Race]:
    """The first of these policies beat the later ones, and all beat the rest."""

    def script(policy: Policy, other: Policy) -> Race:
        def seconds(one: Policy) -> float:
            return 0.5 + 0.1 * policies.index(one) if one in policies else 1.0

        return race(seconds(policy) / seconds(other))

    return script


def search(
    tmp_path: Path | None, job: TuningJob, judge: Any, trials: int = 12, resume: bool = False
) -> tuple[Progress, optuna.Study, list[dict[str, Any]]]:
    """A search that ends after some trials; kept in a folder, or in memory, which is faster."""
    rows: list[dict[str, Any]] = []
    if tmp_path is None:
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    else:
        study = Studies(tmp_path / "t.sqlite3").study(job, ENGINE.target, resume)
    item = Search(job, ENGINE.target, judge, study, rows.append)
    clock = time.monotonic() + 1e6

    def stop_after(progress: Progress) -> None:
        if progress.trials >= trials:
            raise StopIteration

    with suppress(StopIteration):
        item.run(clock, clock, stop_after)
    return item.progress, study, rows


# -- a winner is right


def plant(monkeypatch: pytest.MonkeyPatch, wrong: Policy, wrongly: Callable[[Any], None]) -> None:
    """Let the kernel of one policy compute wrongly."""

    def planned(engine: Engine, problem: Any, kernel: Any) -> Any:
        plan = gemv_plan(engine, problem, kernel)
        if kernel.row.policy == wrong:
            wrongly(plan)
        return plan

    monkeypatch.setattr(variants, "gemv_plan", planned)


def drops_a_term_of_odd_sums(plan: Any) -> None:
    """A policy is right for the problem that is timed, and wrong at a tile's edge."""
    (n,) = plan._convert.args
    plan._convert = partial(kernel_scalars, n - n % 2)


def leaves_the_result_alone(plan: Any) -> None:
    """A kernel that does nothing is the fastest of all."""
    plan.enqueue = lambda state, *_: cl.enqueue_marker(state.queue)


def scales_a_little(plan: Any) -> None:
    right = plan.enqueue

    def enqueue(
        state: Any, buffers: Any, offsets: Any, scalars: tuple[float, float], wait_for: Any = None
    ) -> cl.Event:
        return right(state, buffers, offsets, (1.001 * scalars[0], scalars[1]), wait_for)

    plan.enqueue = enqueue


def test_a_faster_and_right_policy_is_stored(tmp_path: Path, job: TuningJob) -> None:
    referee, winner = Referee(), other(job)
    judge = Scripted(faster(winner), referee.verify)
    progress, _, rows = search(tmp_path, job, judge)
    assert progress.policy == winner
    assert progress.relative == 0.5
    (row,) = rows
    assert row["policy"] == winner.to_dict()
    assert row["evidence"]["speed_up"] == 2
    assert row["evidence"]["driver"] == ENGINE.target.facts.driver_version
    assert "gemv 96x64/N float32" in row["evidence"]["problem"]
    store(tmp_path / "t.json", rows)
    table = TuningTable([tmp_path / "t.json"])
    choice = table.choose("gemv_rows", type(winner), ENGINE.target, job.elem)
    assert choice.policy == winner
    explained = pg.explain("gemv", 96, 64, engine=Engine(queue=ENGINE.queue, table=table))
    assert "speed_up 2" in str(explained)


def test_what_a_search_stores_can_be_merged_and_is_found_on_others_of_its_kind(
    tmp_path: Path, job: TuningJob, engine: Engine
) -> None:
    winner = other(job)
    _, _, rows = search(tmp_path, job, Scripted(faster(winner)))
    store(tmp_path / "rows.json", rows)
    merge = runpy.run_path(str(ROOT / "tools" / "merge_tuning.py"))["merge"]
    table = TuningTable(merge(tmp_path / "rows.json", tmp_path / "data"))
    target = engine.target

    def policy_for(name: str) -> Policy:
        there = replace(target, facts=replace(target.facts, name=name))
        kernel, shapes = job.key.kernel, job.key.shape_class
        return table.choose(kernel, type(winner), there, job.elem, shapes, job.default).policy

    assert policy_for(target.facts.name) == winner
    assert policy_for("another device") == (winner if target.is_cpu else job.default)


@pytest.mark.parametrize("wrongly", [drops_a_term_of_odd_sums, leaves_the_result_alone])
def test_a_fast_and_wrong_kernel_is_never_stored(
    tmp_path: Path,
    job: TuningJob,
    monkeypatch: pytest.MonkeyPatch,
    wrongly: Callable[[Any], None],
) -> None:
    wrong, second = other(job, 1), other(job, 2)
    plant(monkeypatch, wrong, wrongly)
    judge = Scripted(faster(wrong, second), Referee().verify)
    progress, study, rows = search(tmp_path, job, judge)
    assert wrong in judge.raced
    assert [row["policy"] for row in rows] == [second.to_dict()]
    (refused,) = progress.refused
    assert str(wrong) in refused
    assert "gemv of float32" in refused
    failed = study.get_trials(states=(TrialState.FAIL,))
    assert [job.policy(trial.params) for trial in failed] == [wrong]
    repeated = Scripted(faster(wrong, second), Referee().verify)
    stored = replace(job, current=second)
    assert search(tmp_path, stored, repeated, trials=14, resume=True)[2] == []
    assert wrong not in repeated.raced


def test_a_wrong_result_is_not_timed(job: TuningJob, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = other(job)
    plant(monkeypatch, wrong, scales_a_little)
    referee = Referee()
    with pytest.raises(TrialError, match="times its bound off"):
        referee.race(job, wrong, job.default, 2)
    assert referee.race(job, job.default, job.default, 2).relative > 0


def test_edge_checks_pass_for_what_is_right(unoptimised: Engine) -> None:
    every = {
        job.key.kernel: job
        for operation, shapes in (("gemm", "40x40x40/NN,3:8x8x8"), ("gemv", "90x70"))
        for job in jobs(operation, ["float32"], shapes, unoptimised.target, TuningTable([]), True)
    }
    for job in every.values():
        results = [check(unoptimised) for check in edge_checks(job, job.default)]
        assert not [result for result in results if not result.passed]
        assert len(results) >= 25


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("on_device", [False, True])
def test_guards_see_a_write_beside_the_result(engine: Engine, place: int, on_device: bool) -> None:
    result = Guarded(engine, (3, 5), np.dtype(np.float32), on_device)
    assert np.isnan(result.checked()).all()
    if on_device:
        memory = result._memory.get()
        memory[place] = 0
        result._memory.set(memory)
    else:
        result._memory[place] = 0
    with pytest.raises(AssertionError, match="outside the result"):
        result.checked()


# -- a winner wins


@pytest.mark.parametrize(
    ("one", "won"),
    [
        (race(0.9), True),
        (race(0.9, spread=0.2), False),
        (race(0.995), False),
        (race(1.1), False),
        (Race((0.5, 1.1), (1, 1), (*race(0.5).ratios, *race(1.1).ratios)), False),
        (Race((0.8, 1.01), (1, 1), (*race(0.8).ratios, *race(1.01).ratios)), True),
        (Race((1.0,), (1.0,), race(0.8).ratios), False),
    ],
)
def test_a_win_exceeds_the_spread_and_costs_no_other_problem(one: Race, won: bool) -> None:
    assert one.won == won


def test_within_the_spread_nothing_is_stored(job: TuningJob) -> None:
    judge = Scripted(lambda policy, other: race(0.9, spread=0.3))
    progress, _, rows = search(None, job, judge)
    assert not rows
    assert progress.policy == job.default


def test_what_noise_may_have_decided_is_measured_again(job: TuningJob) -> None:
    winner = other(job)
    measured = 0

    def script(policy: Policy, other: Policy) -> Race:
        nonlocal measured
        measured += policy == winner
        noisy = policy == winner and measured < 4
        return race(0.6, spread=0.6) if noisy else faster(winner)(policy, other)

    progress, _, rows = search(None, job, Scripted(script), trials=100)
    assert progress.policy == winner
    assert [row["policy"] for row in rows] == [winner.to_dict()]


def test_a_win_that_does_not_last_is_not_stored(job: TuningJob) -> None:
    lucky, checked = other(job), []

    def script(policy: Policy, other: Policy) -> Race:
        return race(0.5 if policy == lucky and not checked else 1.0)

    judge = Scripted(script, lambda job, policy: checked.append(policy) or "")
    progress, _, rows = search(None, job, judge)
    assert checked == [lucky]
    assert not rows
    assert progress.policy == job.default


def test_a_win_that_costs_another_shape_is_not_stored(job: TuningJob) -> None:
    narrow, broad = other(job, 1), other(job, 2)

    class Wide(Scripted):
        def race(
            self, job: TuningJob, policy: Policy, other: Policy, turns: int, limit: float
        ) -> Race:
            result = super().race(job, policy, other, turns, limit)
            if job.cases == job.grid:
                lost = race(1.1 if policy == narrow else 1.0).ratios
                return replace(result, ratios=(race(0.5).ratios * (len(job.grid) - 1)) + lost)
            return result

    assert job.grid
    assert not set(job.grid) & set(job.cases)
    progress, study, rows = search(None, job, Wide(faster(narrow, broad)))
    assert progress.policy == broad
    assert [row["policy"] for row in rows] == [broad.to_dict()]
    failures = [t.user_attrs["failed"] for t in study.trials if "failed" in t.user_attrs]
    assert failures == [f"faster on its problems, and slower on {job.grid[-1]}"]


def test_a_policy_in_use_must_be_beaten_too(job: TuningJob) -> None:
    better, known = other(job, 1), other(job, 2)
    used = replace(job, current=known)
    assert not search(None, used, Scripted(faster(known, better)))[2]
    assert search(None, used, Scripted(faster(better, known)))[0].policy == better


# -- what goes wrong


def test_policies_beyond_the_limits_are_not_built(engine: Engine) -> None:
    whole = jobs("gemm", ["float32"], "300x300x300/NN", engine.target, TuningTable([]), True)[0]
    judge = Scripted(lambda policy, other: race(1.0))
    _, study, _ = search(None, whole, judge, trials=40)
    for policy in judge.raced:
        policy.check(engine.target, whole.elem)
    messages = study.get_trials(states=(TrialState.COMPLETE,))
    assert len(messages) >= 38


def test_failures_are_noted_and_the_search_goes_on(job: TuningJob) -> None:
    winner, broken, slow = other(job, 1), other(job, 2), job.policy({"rows": 1})

    def script(policy: Policy, other: Policy) -> Race:
        if policy == broken:
            raise TrialError("BuildError: the compiler gave up")
        if policy == slow:
            raise TrialTimeoutError("no answer within 10 s")
        return faster(winner)(policy, other)

    progress, study, rows = search(None, job, Scripted(script))
    assert [row["policy"] for row in rows] == [winner.to_dict()]
    assert progress.failed == 2
    failed = study.get_trials(states=(TrialState.FAIL,))
    assert {trial.user_attrs["failed"] for trial in failed} == {
        "BuildError: the compiler gave up",
        "no answer within 10 s",
    }


def test_a_default_that_fails_is_left_out(job: TuningJob) -> None:
    def script(policy: Policy, other: Policy) -> Race:
        raise TrialError("BuildError: no")

    progress, _, rows = search(None, job, Scripted(script))
    assert "BuildError: no" in progress.remark
    assert not rows


def test_no_question_outlasts_the_budget(
    tmp_path: Path, job: TuningJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def lasts(policy: Policy, other: Policy) -> Race:
        nonlocal now
        now += 0.5
        return faster(winner)(policy, other)

    winner = other(job)
    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: now))
    judge = Scripted(lasts, now=lambda: now)
    studies = Studies(tmp_path / "t.sqlite3")
    tuner = Tuner(ENGINE.target, judge, studies, tmp_path / "t.json", resume=False)
    second = replace(job, key=replace(job.key, shape_class="again"))
    tuner.run([job, second, replace(job, cases=job.cases * 2)], 20)
    assert len(tuner.done) == 3
    assert max(judge.ends) <= 20
    assert now <= 20.5
    assert len(read_rows(tmp_path / "t.json")) == 2
    now, asked = 20.0, len(judge.raced)
    tuner.run([job], 20)
    assert len(judge.raced) == asked


@pytest.mark.divided("processes of the tuner")
def test_the_worker_ends_what_takes_too_long_and_starts_again(job: TuningJob) -> None:
    job = replace(job, cases=job.cases[:1])
    with Worker() as worker:
        with pytest.raises(TrialTimeoutError, match="no answer within 0 s"):
            worker.race(job, job.default, job.default, 2, 0.0)
        assert worker.verify(job, job.default, 300) == ""
        assert worker._process is not None
        worker._process.kill()
        with pytest.raises(TrialError, match="the process that ran it ended"):
            worker.race(job, job.default, job.default, 2, 120)
        wrong = replace(job.default, vector=3)
        with pytest.raises(TrialError, match="sizes are powers of two"):
            worker.race(job, wrong, job.default, 2, 120)


def test_an_interrupt_keeps_trials_and_rows(tmp_path: Path, job: TuningJob) -> None:
    winner = other(job)

    def script(policy: Policy, other: Policy) -> Race:
        if other == winner:
            raise KeyboardInterrupt
        return faster(winner)(policy, other)

    judge = Scripted(script)
    studies = Studies(tmp_path / "t.sqlite3")
    tuner = Tuner(ENGINE.target, judge, studies, tmp_path / "t.json", resume=False)
    with pytest.raises(KeyboardInterrupt):
        tuner.run([job], time.monotonic() + 1e6)
    assert [row["policy"] for row in read_rows(tmp_path / "t.json")] == [winner.to_dict()]
    lost = judge.raced[-1]
    repeated = Scripted(faster(winner))
    search(tmp_path, replace(job, current=winner), repeated, trials=40, resume=True)
    assert lost in repeated.raced  # what was cut short is tried again
    finished = set(judge.raced[:-1]) - {job.default, winner}
    assert not finished & set(repeated.raced)  # and what was finished is not


# -- the command


def arguments(*more: str) -> list[str]:
    return ["tune", "gemv", "--shapes", "96x64/N", *more]


def states(path: Path) -> list[str]:
    if not path.exists():
        return []
    try:
        with sqlite3.connect(path) as database:
            return [state for (state,) in database.execute("SELECT state FROM trials")]
    except sqlite3.Error:
        return []


@pytest.mark.divided("processes of the tuner")
def test_a_killed_search_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = tmp_path / "t.sqlite3"
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(tmp_path / "t.json"))
    text = f"from portable_gpu.cli import main; main({arguments('--budget', '5m')!r})"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    process = subprocess.Popen([sys.executable, "-c", text], env=environment)
    try:
        for _ in range(1200):
            if states(trials).count("COMPLETE") >= 2 or process.poll() is not None:
                break
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    before = states(trials)
    assert before.count("COMPLETE") >= 2
    assert main(arguments("--budget", "3s", "--resume", "--plot", str(tmp_path / "p.png"))) == 0
    after = states(trials)
    assert len(after) >= len(before)
    assert "RUNNING" not in after
    with sqlite3.connect(trials) as database:
        assert database.execute("SELECT count(*) FROM studies").fetchone() == (1,)
    assert "gemv_rows f32" in capsys.readouterr().out
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_requests_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for request, message in (
        (["tune", "lu"], "no operation 'lu' to tune"),
        (["tune", "gemm", "--shapes", "big"], "--shapes has 'big'"),
        (["tune", "gemm", "--dtype", "int32"], "floating-point types are timed"),
    ):
        assert main(request) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_a_file_that_holds_no_searches_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(tmp_path / "t.json"))
    (tmp_path / "t.sqlite3").write_bytes(b"not a database" * 100)
    assert main(arguments("--resume")) == 1
    error = capsys.readouterr().err
    assert f"searches cannot be kept in {tmp_path / 't.sqlite3'}" in error
    assert error.count("\n") == 1


def test_a_corrupt_table_costs_one_warning_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: TuningJob
) -> None:
    path = tmp_path / "t.json"
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(path))
    row = {"kernel": "gemv_rows", "device": job.key.device, "element": "f32"}
    row |= {"shape_class": "any", "policy": job.default.to_dict() | {"vector": 3}}
    a = np.arange(96 * 64, dtype=np.float32).reshape(96, 64)
    for text in ("{", json.dumps({"format": 99, "rows": []})):
        path.write_text(text)
        with pytest.warns(UserWarning, match=r"t\.json ignored") as caught:
            engine = Engine(queue=ENGINE.queue)
        assert len(caught) == 1
        assert np.array_equal(pg.gemv(a, a[0], engine=engine), a @ a[0])
    path.write_text(json.dumps({"format": 1, "rows": [row]}))
    engine = Engine(queue=ENGINE.queue)
    with pytest.warns(UserWarning, match=r"t\.json: row for gemv_rows ignored") as caught:
        assert np.allclose(pg.gemv(a, a[0], engine=engine), a @ a[0], rtol=1e-5)
    assert len(caught) == 1
