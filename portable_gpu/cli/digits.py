"""Nearest-neighbour recognition of scikit-learn's handwritten digits, and a picture of some."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyopencl.array as cla

from portable_gpu.ops.gemm import Epilogue, gemm
from portable_gpu.ops.reduce import argmin
from portable_gpu.runtime.engine import Engine

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Digits:
    """Images of 8 x 8 pixels as rows, with the digit of each; split into known and unknown ones."""

    known: Array
    known_labels: Array
    unknown: Array
    unknown_labels: Array

    @classmethod
    def load(cls) -> Digits:
        """The 1797 digits of the UCI set that scikit-learn carries; a third is held out at random.

        The people who wrote them are in both parts.  Held out by people (the last third of the
        set), nearest neighbours get 0.965 right.
        """
        from sklearn.datasets import load_digits

        images, labels = load_digits(return_X_y=True)
        images = np.ascontiguousarray(images, dtype=np.float32)
        order = np.random.default_rng(0).permutation(len(images))
        unknown, known = np.split(order, [len(images) // 3])
        return cls(images[known], labels[known], images[unknown], labels[unknown])


class Recogniser:
    """The nearest known image of each unknown one, on a device.

    ``|x - y|^2 = |x|^2 - 2 x.y + |y|^2``: the first term does not change which y is nearest; the
    others are one gemm, with ``|y|^2`` as its epilogue's bias.
    """

    def __init__(self, engine: Engine, known: Array) -> None:
        """Put the known images on the device."""
        self._engine = engine
        self._known = cla.to_device(engine.queue, known)
        norms = np.einsum("ij,ij->i", known, known)
        self._epilogue = Epilogue().bias(cla.to_device(engine.queue, norms))

    def nearest(self, unknown: Array) -> Array:
        """Index of the nearest known image of each row of ``unknown``."""
        images = cla.to_device(self._engine.queue, unknown)
        distances = gemm(images, self._known, alpha=-2, trans_b="T", epilogue=self._epilogue)
        indices: Array = argmin(distances, axis=1).get()
        return indices


def nearest_by_numpy(known: Array, unknown: Array) -> Array:
    """Index of the nearest known image of each row of ``unknown``, computed with NumPy."""
    distances = np.einsum("ij,ij->i", known, known) - 2 * (unknown @ known.T)
    indices: Array = np.argmin(distances, axis=1)
    return indices


def medians(*jobs: Callable[[], Any], runs: int = 9) -> list[float]:
    """Median seconds of each job; the runs alternate, so that a busy machine hurts all alike."""
    times: list[list[float]] = [[] for _ in jobs]
    for _ in range(runs):
        for job, seconds in zip(jobs, times, strict=True):
            begin = time.perf_counter()
            job()
            seconds.append(time.perf_counter() - begin)
    return [statistics.median(seconds) for seconds in times]


def draw(digits: Digits, found: Array, path: Path, title: str, shown: int = 40) -> None:
    """Save a picture: every error first, framed in red, then right answers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wrong = found != digits.unknown_labels
    right = np.flatnonzero(~wrong)
    some = right[np.linspace(0, len(right) - 1, max(0, shown - int(wrong.sum()))).astype(int)]
    order = [*np.flatnonzero(wrong)[:shown], *some]
    across = 8
    down = -(-len(order) // across)
    figure = Figure(figsize=(1.25 * across, 1.5 * down + 0.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(title, fontsize=13)
    for place, index in enumerate(order):
        axes = figure.add_subplot(down, across, place + 1)
        axes.imshow(digits.unknown[index].reshape(8, 8), cmap="gray_r", interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        label, answer = int(digits.unknown_labels[index]), int(found[index])
        text = f"{label} read as {answer}" if wrong[index] else f"{label}"
        colour = "#c01010" if wrong[index] else "#202020"
        axes.set_title(text, color=colour, fontsize=11, weight="bold" if wrong[index] else "normal")
        for spine in axes.spines.values():
            spine.set_color("#c01010" if wrong[index] else "#a0a0a0")
            spine.set_linewidth(2.5 if wrong[index] else 0.8)
    figure.savefig(path)
