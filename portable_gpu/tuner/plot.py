"""The picture of a run: times by trial, and how much each field of a policy matters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from portable_gpu.tuner.progress import Progress
from portable_gpu.tuner.search import measured

#: The least number of different times from which importances are computed.
_MIN_TIMES = 8
#: The largest time that is drawn to scale; the heights at which slower and failed trials are drawn.
_MAX_SHOWN, _SLOWER_AT, _FAILED_AT = 2.0, 2.1, 2.25


def plot_searches(
    searches: Sequence[tuple[Progress, optuna.Study]], title: str, path: Path
) -> None:
    """One row of panels for each search: time against trial, and importances."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1 + 3.2 * len(searches)), layout="constrained")
    panels = figure.subplots(len(searches), 2, squeeze=False, width_ratios=(2, 1))
    for (progress, study), (left, right) in zip(searches, panels, strict=True):
        _times(left, progress, study)
        _importances(right, study)
    figure.suptitle(f"{title}: time over that of the policy by formula")
    figure.savefig(path, dpi=120)


def _times(axes: Any, progress: Progress, study: optuna.Study) -> None:
    from matplotlib.ticker import MaxNLocator

    trials = measured(study)
    failed = [
        trial.number
        for trial in study.get_trials(deepcopy=False, states=(TrialState.FAIL,))
        if "failed" in trial.user_attrs
    ]
    last = max([0, *failed, *(t.number for t in trials)])
    shown = [t for t in trials if (t.value or 0.0) <= _MAX_SHOWN]
    slower = [t.number for t in trials if (t.value or 0.0) > _MAX_SHOWN]
    axes.plot([t.number for t in shown], [t.value for t in shown], "o", markersize=3, label="trial")
    axes.plot(slower, [_SLOWER_AT] * len(slower), "^", color="C0", markersize=4, label="above 2")
    axes.plot(failed, [_FAILED_AT] * len(failed), "x", color="C3", markersize=4, label="failed")
    axes.axhline(1.0, color="0.5", linewidth=0.8, label="formula")
    in_use = f"in use: {progress.relative:.3f}"
    axes.axhline(progress.relative, color="C2", linestyle="--", label=in_use)
    steps = [t for t in trials if t.user_attrs.get("stored")]
    axes.step(
        [0, *(t.number for t in steps), last],
        [1.0, *(t.value for t in steps), min([1.0, *(t.value or 1.0 for t in steps)])],
        where="post", color="C1", label="incumbent",
    )  # fmt: skip
    axes.set_title(progress.job.name, loc="left")
    axes.set_xlabel("trial")
    axes.set_ylabel("time / the formula's")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    lowest = axes.get_ylim()[0]
    highest = _FAILED_AT if failed else _SLOWER_AT if slower else axes.get_ylim()[1]
    axes.set_ylim(top=highest + 0.05)
    last_tick = min(_MAX_SHOWN, highest)
    axes.set_yticks([tick for tick in axes.get_yticks() if lowest <= tick <= last_tick])
    axes.set_xlim(-1, last + 1)
    axes.legend(fontsize="x-small", loc="upper left", bbox_to_anchor=(1, 1))


def _importances(axes: Any, study: optuna.Study) -> None:
    axes.set_title("importance of each field", loc="left")
    if len({trial.value for trial in measured(study)}) < _MIN_TIMES:
        axes.text(0.5, 0.5, "too few trials", ha="center", va="center")
        axes.set_axis_off()
        return
    result = optuna.importance.get_param_importances(
        study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )
    names = list(result)[::-1]
    axes.barh(names, [result[name] for name in names])
    axes.set_xlabel("share of the variance of the trials' times")
