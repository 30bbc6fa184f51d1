"""Every field of every policy has bounds, and nothing outside them reaches a kernel."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from portable_gpu.dtypes import element
from portable_gpu.errors import PolicyError
from portable_gpu.ops.registry import FAMILIES
from portable_gpu.targets import Target, example_target
from portable_gpu.tuning.policy import Policy, TunedPolicy, _hints, _rules
from portable_gpu.tuning.table import TuningTable, device_keys

assert FAMILIES  # whose policies are imported
FLOAT = element(np.float32)
#: A target on which each policy has a default.
TARGETS = {
    "AttentionPolicy": ("nvidia-sm80",),
    "GradientPolicy": ("nvidia-sm80",),
    "WarpgroupPolicy": ("nvidia-sm90",),
    "WarpgroupGradientPolicy": ("nvidia-sm90",),
    "ReducePolicy": ("cpu", "nvidia-sm90"),
    "ElementwisePolicy": ("cpu", "gcn"),
    "RowPolicy": ("cpu", "gcn"),
    "RowsPolicy": ("cpu", "gcn", "nvidia-sm90"),
    "ColumnPolicy": ("cpu", "rdna"),
    "PackedPolicy": ("cpu",),
    "GemmPolicy": ("generic", "nvidia-sm70"),
    "CholeskyPolicy": ("generic", "nvidia-sm90"),
    "CpuPolicy": ("cpu",),
    "CpuFftPolicy": ("cpu",),
    "GroupFftPolicy": ("generic", "nvidia-sm90", "gcn"),
    "SolvePolicy": ("generic", "gcn"),
    "SkinnyPolicy": ("nvidia-sm90",),
    "WgmmaPolicy": ("nvidia-sm90",),
    "MmaPolicy": ("nvidia-sm80",),
    "MfmaPolicy": ("gcn-gfx90a",),
}
VALUES: tuple[Any, ...] = (
    0, -1, 1, 3, 7, 1 << 12, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 63, -(1 << 31),
    True, 4.0, "4", None, [4],
)  # fmt: skip


def policies() -> list[type[Policy]]:
    every = [*Policy.__subclasses__(), *TunedPolicy.__subclasses__()]
    result = [cls for cls in every if cls.__module__.startswith("portable_gpu.ops")]
    return sorted(result, key=lambda cls: cls.__name__)


def changed() -> Iterator[tuple[Target, Policy, str, Any]]:
    """Each policy with one field changed."""
    for cls in policies():
        for name in TARGETS[cls.__name__]:
            target = example_target(name)
            default = cls.default(target, FLOAT)
            for field in fields(cls):
                for value in VALUES:
                    yield target, default, field.name, value


CHANGED = list(changed())


def test_every_policy_is_here() -> None:
    assert {cls.__name__ for cls in policies()} == set(TARGETS)
    assert len(CHANGED) >= 300


@pytest.mark.parametrize("cls", policies(), ids=lambda cls: cls.__name__)
def test_every_field_has_bounds_that_hold_what_is_searched(cls: type[Policy]) -> None:
    rules = _rules(cls)
    assert set(rules) == {field.name for field in fields(cls)}
    for name in TARGETS[cls.__name__]:
        target = example_target(name)
        cls.default(target, FLOAT).check(target, FLOAT)
        searched = cls.search_space(target, FLOAT) if issubclass(cls, TunedPolicy) else {}
        for field, values in searched.items():
            assert all(rules[field][1](value) for value in values), (field, values)


def test_every_tuned_policy_says_where_its_tiles_end() -> None:
    for cls in filter(lambda cls: issubclass(cls, TunedPolicy), policies()):
        for name in TARGETS[cls.__name__]:
            policy = cls.default(example_target(name), FLOAT)
            edges = policy.edges(FLOAT.itemsize)
            assert len(edges) == 3
            assert min(edges) >= 1, policy


def test_a_field_without_bounds_is_a_fault_of_the_class() -> None:
    @dataclass(frozen=True)
    class Loose(Policy):
        size: int

    with pytest.raises(TypeError, match="Annotated"):
        _rules(Loose)


def test_values_outside_are_refused_by_name() -> None:
    passed = 0
    for target, default, name, value in CHANGED:
        policy = replace(default, **{name: value})
        _, holds = _rules(type(default))[name]
        if holds(value):
            try:
                policy.check(target, FLOAT)  # which may raise nothing else
                passed += 1
            except PolicyError:
                pass
        else:
            with pytest.raises(PolicyError, match=f"{name} is "):
                policy.check(target, FLOAT)
    assert passed > 50


def test_bounds_are_small() -> None:
    """None lets a kernel be written out for hours; counts of bytes and groups do not."""
    for cls in policies():
        for name, hint in _hints(cls).items():
            for bounds in getattr(hint, "__metadata__", ()):
                limit = 1 << 30 if name in ("grain", "work_per_group") else 1 << 18
                assert bounds.maximum <= limit


def test_rows_outside_cost_a_warning_and_are_ignored(tmp_path: Path) -> None:
    kernels = {
        "ReducePolicy": "reduce", "RowPolicy": "gemv_rows", "ColumnPolicy": "gemv_columns",
        "PackedPolicy": "gemm_packed",
    }  # fmt: skip
    count = 0
    for target, default, name, value in CHANGED:
        cls = type(default)
        if cls.__name__ not in kernels or not target.is_cpu or _rules(cls)[name][1](value):
            continue
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"format": 1, "rows": [{
            "kernel": kernels[cls.__name__], "device": device_keys(target)[0], "element": "f32",
            "shape_class": "any", "policy": default.to_dict() | {name: value},
        }]}))  # fmt: skip
        path.chmod(0o600)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = TuningTable([path]).choose(kernels[cls.__name__], cls, target, FLOAT)
        assert result.policy == default
        assert len(caught) == 1
        assert "ignored" in str(caught[0].message)
        count += 1
    assert count > 150
