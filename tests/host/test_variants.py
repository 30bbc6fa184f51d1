"""Explained variants are the built ones, for random problems on every recorded device."""

from __future__ import annotations

import random
import re
import sys
from dataclasses import replace
from itertools import groupby
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyopencl as cl
import pytest
from random_problems import TABLE, drawn, problems
from recorded_devices import RECORDED
from recorder import Recorder as PlanRecorder

from portable_gpu.codegen.arguments import arguments
from portable_gpu.codegen.reductions import Request
from portable_gpu.dtypes import element
from portable_gpu.errors import DeviceMemoryError
from portable_gpu.ops.explanation import Explanation, Question
from portable_gpu.ops.gemm import variants as gemm_choice
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.matrix import check
from portable_gpu.ops.gemm.variants import fastest
from portable_gpu.ops.gemm.variants import variants as gemm_variants
from portable_gpu.ops.reduce.problem import Problem
from portable_gpu.ops.reduce.variants import make_plan
from portable_gpu.ops.variant import (
    Variant,
    best_of,
    bind_best,
    by_rule,
    chosen,
    ranked,
    sample_of_kinds,
)
from portable_gpu.targets import Target, detect
from portable_gpu.tuning.costs import DeviceCosts


class Recorder:
    """Stands in for an engine: notes the texts that plans launch, and checks their arguments."""

    maps_host_memory = False
    own_queue = context = None

    def __init__(self, target: Target) -> None:
        self.target, self.table = target, TABLE
        self.programs = SimpleNamespace(launch=self._launch)
        self.names: list[str] = []

    def _launch(
        self, spec: Any, kernel: str, *given: Any, as_bits: Any = (), bound: Any = None
    ) -> Any:
        constants, buffers, scalars, *_ = given
        arguments(spec, kernel, constants, buffers, scalars, as_bits, bound)
        if spec.name not in self.names[-1:]:  # slabs launch the same text over and over
            self.names.append(spec.name)
        return lambda *_: None

    def plan(self, key: Any, make: Any) -> Any:
        """A plan of a part; or what is asked of a device: that its units work, which they do."""
        return True if "work" in key[0] else make()

    def upload(self, values: Any) -> Any:
        """A table that a plan keeps."""
        return SimpleNamespace(size=values.nbytes)

    def allocate(self, nbytes: int) -> None:
        """Memory for a tensor map."""

    def state(self, queue: None) -> Any:
        """The place where a tensor map is made."""
        return SimpleNamespace(event=lambda _: SimpleNamespace(wait=lambda: None))


def _explanation_of(variants: Any, target: Target) -> Explanation:
    return Question("", (), np.dtype(np.float32), target, TABLE).answer(variants)


@pytest.mark.divided
@pytest.mark.parametrize("device", RECORDED)
def test_the_best_is_built(device: str) -> None:
    target = detect(RECORDED[device][0])
    for name, every in problems(target, sorted(RECORDED).index(device), each=3):
        engine: Any = Recorder(target)
        explained = _explanation_of(every, target)
        bind_best(engine, every)
        assert set(engine.names) == set(explained.kernels), name
        assert engine.names[-1] == explained.kernels[-1], name
        assert (
            next(iter(explained.estimates))
            == ranked(every, DeviceCosts.of("device", target))[0].name
        )


@pytest.mark.parametrize("where", ["works", "bind"])
@pytest.mark.parametrize("code", ["OUT_OF_HOST_MEMORY", "OUT_OF_RESOURCES", "INVALID_KERNEL_NAME"])
def test_a_lack_of_memory_is_no_refusal(where: str, code: str) -> None:
    """Otherwise a call would take a slower variant, whose plan is kept."""

    def failing(_: Any) -> Any:
        kind = cl.LogicError if code.startswith("INVALID") else cl.MemoryError
        record = cl._cl._ErrorRecord("", getattr(cl.status_code, code), "build")
        raise kind(record)

    plans = {name: Mock(side_effect=lambda _, name=name: name) for name in ("works", "bind")}
    plans[where] = failing  # type: ignore[assignment]
    engine: Any = Recorder(detect(RECORDED["H200"][0]))
    variants = [
        Variant("fast", 1e-6, 1, "", list, plans["bind"], works=plans["works"]),
        Variant("slow", 1e-3, 1, "", list, lambda _: "slow"),  # type: ignore[arg-type, return-value]
    ]
    if code == "OUT_OF_HOST_MEMORY":
        with pytest.raises(DeviceMemoryError, match="out of memory"):
            chosen(engine, variants)
        return
    with pytest.warns(UserWarning, match="fast is not used"):
        assert chosen(engine, variants)[1] == "slow"


def test_a_lack_of_memory_says_nothing_of_matrix_units(monkeypatch: pytest.MonkeyPatch) -> None:
    error = DeviceMemoryError("no memory")
    monkeypatch.setattr(check, "_multiplies", Mock(side_effect=error))
    with pytest.raises(DeviceMemoryError, match="no memory"):
        check._check(Mock(), Mock(), (1, 1, 1), Mock())


def test_no_variant_waits_without_forward_progress() -> None:
    """Templates that wait cannot be rendered then."""
    h200 = detect(RECORDED["H200"][0])
    stuck = replace(h200, forward_progress=False)
    left_out = set[str]()
    for problem in drawn("progress", h200, 4):
        if problem.family in ("reduce", "gemv", "elementwise"):
            continue
        variants = problem.variants(stuck)
        names = {item.name for item in variants}
        left_out |= {item.name for item in problem.variants(h200)} - names
        for item in sample_of_kinds(variants):
            assert all(spec.text for spec in item.texts())
        if not variants:
            problem.bind(PlanRecorder(stuck))
    assert left_out == {"tiles", "vectors"}
    product = contiguous(1000, 2000, 3000, np.float16)
    shared, local = (
        {item.name for item in gemm_variants(product, target, TABLE) if "shares" in item.name}
        for target in (h200, stuck)
    )
    assert shared
    assert not local


@pytest.mark.divided
@pytest.mark.parametrize(
    ("device", "some"),
    [
        (
            "H200",
            {
                *("gemm/wgmma", "gemm/tensor_map", "gemm/mma", "gemm/repack", "gemm/skinny"),
                *("factor/cholesky", "factor/solve"),
            },
        ),
        (
            "MI250",
            {
                "gemm/mfma",
                "gemm/gemm",
                "gemm/direct",
                "gemv/long_rows",
                "reduce/columns",
                "elementwise/tiles",
            },
        ),
        (
            "PoCL",
            {
                "gemm/packed",
                "gemm/packed_whole",
                "gemv/cpu_rows",
                "reduce/cpu_columns",
                "fft/cpu",
            },
        ),
    ],
)
def test_every_way_gives_its_kernels_what_they_declare(device: str, some: set[str]) -> None:
    target = detect(RECORDED[device][0])
    seen = set()
    few = "few columns", gemm_variants(contiguous(4096, 8, 4096, np.float16), target, TABLE)
    for _, every in (*problems(target, 4), few):
        engine: Any = Recorder(target)
        for item in every:
            item.bind(engine)
        seen |= set(engine.names)
    assert seen >= some


@pytest.mark.parametrize("device", ["H200", "MI250", "PoCL"])
def test_ways_have_names_of_their_own_and_estimates(device: str) -> None:
    target = detect(RECORDED[device][0])
    for name, every in problems(target, 0):
        assert len({item.name for item in every}) == len(every), name
        assert all(item.estimate >= 0 and item.launches >= 1 for item in every), name
        assert {item.kind for item in sample_of_kinds(every)} == {item.kind for item in every}, name


def variant(name: str, estimate: float, launches: int = 1) -> Variant:
    """A variant that is only ranked."""
    return Variant(name, estimate, launches, "", list, Mock())


def test_a_rule_orders_variants_whatever_they_would_take() -> None:
    """Others follow the preferred one, though they have fewer launches; a third one competes."""
    costs = DeviceCosts.of("device", detect(RECORDED["PoCL"][0]))
    preferred, other = variant("preferred", 1e-3, 2), variant("other", 1e-3, 1)
    ordered = by_rule("form", [preferred], [other], costs)
    names = [item.name for item in ranked([variant("slow", 1.0), *ordered], costs)]
    assert names == ["preferred", "other", "slow"]
    names = [item.name for item in ranked([*ordered, variant("fast", 1e-6)], costs)]
    assert names == ["fast", "preferred", "other"]


def test_the_best_of_several_preferred_variants_has_the_others_after_it() -> None:
    costs = DeviceCosts.of("device", detect(RECORDED["H200"][0]))
    first, second, other = variant("first", 3e-3), variant("second", 2e-3), variant("other", 1e-3)
    names = [item.name for item in ranked(by_rule("axis", [first, second], [other], costs), costs)]
    assert names == ["second", "other", "first"]


def test_explanations_tell_estimates_from_rules() -> None:
    target = detect(RECORDED["PoCL"][0])
    every = gemm_variants(contiguous(300, 300, 300, np.float32), target, TABLE)
    explained = _explanation_of(every, target)
    estimates = list(explained.estimates.values())
    assert estimates[0] is not None
    assert None in estimates
    (line,) = [line for line in str(explained).splitlines() if line.startswith("  variants")]
    assert re.search(r"variants packed.* estimate [\d.e+]+ us; \S.* rule", line)


@pytest.mark.parametrize("device", ["H200", "MI250", "PoCL"])
def test_each_decision_by_a_rule_has_one_estimate(device: str) -> None:
    """All variants of a decision follow each other, and the first of them was listed first."""
    target = detect(RECORDED[device][0])
    costs = DeviceCosts.of("device", target)
    for name, every in problems(target, 7):
        order = [item.decision for item in ranked(every, costs) if item.decision]
        runs = [decision for decision, _ in groupby(order)]
        assert len(runs) == len(set(order)), name


@pytest.mark.parametrize("device", RECORDED)
def test_a_call_lists_no_more_products_than_needed(device: str) -> None:
    """The best of the variants that a call makes is the best of all."""
    target = detect(RECORDED[device][0])
    costs = DeviceCosts.of("device", target)
    draw = random.Random(device)
    for _ in range(12):
        m, k, n = (round(2 ** draw.uniform(0, 12.5)) for _ in range(3))
        asked = contiguous(m, k, n, np.dtype(draw.choice(("float32", "float16", "float64"))))
        if asked.compute.needs_fp64 and not target.fp64:
            continue
        best = ranked(fastest(asked, target, TABLE), costs)[0]
        assert best.name == ranked(gemm_variants(asked, target, TABLE), costs)[0].name, asked


def test_estimates_that_a_rule_sets_back_bound_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preferred variant of a decision is slower than the other, and than another group."""
    target = detect(RECORDED["H200"][0])
    costs = DeviceCosts.of("device", target)
    decision = by_rule("copies", [variant("preferred", 3e-3)], [variant("other", 1e-3)], costs)
    groups = [
        gemm_choice._Group(0.0, lambda: decision),
        gemm_choice._Group(1.5e-3, lambda: [variant("tiles", 2e-3)]),
    ]
    monkeypatch.setattr(gemm_choice, "_groups", lambda *_: groups)
    asked = contiguous(64, 64, 64, np.float32)
    assert ranked(fastest(asked, target, TABLE), costs)[0].name == "tiles"


def test_few_calls_of_python_lead_to_a_product() -> None:
    """The host's cost of a first call of one product before a text is rendered."""
    target = detect(RECORDED["H200"][0])
    fastest(contiguous(64, 64, 64, np.float16), target, TABLE)
    asked, calls = contiguous(1000, 3000, 2000, np.float16), 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        best_of(fastest(asked, target, TABLE), target)
    finally:
        sys.setprofile(None)
    assert calls <= 2000


@pytest.mark.parametrize("reduced", [0, 1], ids=["columns", "rows"])
@pytest.mark.parametrize("device", ["H200", "PoCL"])
def test_a_sum_needs_seven_modules_for_a_text(device: str, reduced: int) -> None:
    """On each class, from the public function to the first text, with ``api`` and ``call``."""
    request, n = Request("sum", element("float32"), element("float32"), element("float32")), 4096
    problem = Problem(request, (n, n), ((n, 1),), frozenset([reduced]), (1,), 64)
    modules, has_text = {"api", "call"}, False

    def note(frame: Any, event: str, _: Any) -> None:
        nonlocal has_text
        has_text |= frame.f_code.co_name == "specialize"
        folder, _, module = frame.f_globals.get("__name__", "").rpartition(".")
        if folder == "portable_gpu.ops.reduce" and event == "call" and not has_text:
            modules.add(module)

    engine: Any = Recorder(detect(RECORDED[device][0]))
    sys.setprofile(note)
    try:
        make_plan(engine, problem)
    finally:
        sys.setprofile(None)
    assert has_text
    assert {"variants", "kernels"} < modules
    assert len(modules) <= 7, modules


def test_launches_count() -> None:
    """A tiny product of 16-bit floats whose rows no copy engine takes is one launch."""
    h200 = detect(RECORDED["H200"][0])
    every = gemm_variants(contiguous(90, 28, 2, np.float16, (), "T", "T"), h200, TABLE)
    assert _explanation_of(every, h200).path == "direct"
    large = gemm_variants(contiguous(900, 280, 2000, np.float16, (), "T", "T"), h200, TABLE)
    assert _explanation_of(large, h200).path.startswith("wgmma")
