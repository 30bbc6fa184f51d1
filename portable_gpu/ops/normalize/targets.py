"""A report of targets that name no class."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from portable_gpu.codegen.axes import parameters
from portable_gpu.codegen.parameters import operand, scalars
from portable_gpu.codegen.specialization import Specialization, specialize
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import ArgumentError
from portable_gpu.ops.groups import group_size
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.plan import Step
from portable_gpu.runtime.report import ReportSpec
from portable_gpu.runtime.views import Shape, View
from portable_gpu.targets import Target

_GROUPS, _EACH = 256, 4096  # work-groups at most, and targets of each at least


def _groups(count: int) -> int:
    return max(1, min(_GROUPS, count // _EACH))


def target_report(shape: Shape, classes: int, ignore: int) -> ReportSpec:
    """The report of targets of a shape: of each work-group its first wrong one, and its value."""

    def check(values: np.ndarray[Any, Any]) -> None:
        wrong = values[values[:, 0] >= 0]
        if len(wrong):
            first, value = wrong[np.argmin(wrong[:, 0])]
            place = ", ".join(str(int(k)) for k in np.unravel_index(int(first), shape or (1,)))
            raise ArgumentError(
                f"target[{place if shape else ''}] is {value}; expected 0 to "
                f"{classes - 1} for {classes} classes, or ignore_index {ignore}"
            )

    return ReportSpec((_groups(prod(shape)), 2), np.dtype(np.int64), check)


def targets_step(
    engine: Engine, target: tuple[int, View], classes: int, ignore: int, report: int
) -> Step:
    """A step that writes the report, operand ``report``."""
    place, view = target
    key = ("first_targets", view.dtype, view.shape, view.strides, classes, ignore)
    plan = engine.plan(key, lambda: _targets_plan(engine, view, classes, ignore))
    return Step(plan, (place, report))


def specialization(target: Target, elem: Element, axes: int) -> Specialization:
    """The text and options of the kernel for targets of some axes."""
    arguments = [
        *operand(f"{elem.name}_t", "target"), *operand("long", "report", writes=True),
        *parameters("kept", axes, ["target"]),
        *scalars("long", "count", "span", "classes", "ignore"),
    ]  # fmt: skip
    kernels, size = {"normalize_targets": arguments}, group_size(target)
    return specialize("normalize/targets", target, kernels, elem=elem, kept=axes, G=size)


def _targets_plan(engine: Engine, view: View, classes: int, ignore: int) -> OneLaunch:
    """The plan that finds the first targets that name no class."""
    target, elem, count = engine.target, element(view.dtype), view.size
    groups, axes, size = _groups(count), max(1, len(view.shape)), group_size(target)
    constants = {
        "count": count, "span": -(-count // groups), "classes": classes, "ignore": ignore,
    }  # fmt: skip
    for k in range(axes):
        constants[f"kept{k}_size"] = view.shape[k] if view.shape else 1
        constants[f"target_kept{k}"] = view.strides[k] if view.shape else 1
    return OneLaunch(
        engine, specialization(target, elem, axes), "normalize_targets", constants,
        ["target", "report"], (groups * size,), (size,), nbytes=count * elem.itemsize,
    )  # fmt: skip
