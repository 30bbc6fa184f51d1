"""Matrix units with no device: the retarget, formats, policies, and what is chosen where."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from choosing import least

import portable_gpu as pg
from portable_gpu.arguments import MAX_INT
from portable_gpu.dtypes import BF16, PRECISIONS, check_precision, element
from portable_gpu.errors import ArgumentError, PolicyError
from portable_gpu.ops.explanation import Question
from portable_gpu.ops.gemm import variants
from portable_gpu.ops.gemm.commands.catalogue import explain
from portable_gpu.ops.gemm.matrix import check as matrix_check
from portable_gpu.ops.gemm.matrix.estimates import estimates, fitting
from portable_gpu.ops.gemm.matrix.format import F32, F64, format_of
from portable_gpu.ops.gemm.matrix.parts import takes_sum_of_parts
from portable_gpu.ops.gemm.matrix.plan import arrange
from portable_gpu.ops.gemm.matrix.policy import (
    CLASSES_OF_READERS,
    MFMA_CLASSES,
    MMA_CLASSES,
    MfmaPolicy,
    MmaPolicy,
    WgmmaPolicy,
    classes_of,
    requires_k_along_b,
)
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.tiling import Tiling
from portable_gpu.runtime.retarget import is_marked, retarget
from portable_gpu.targets import class_names, detect, example_target
from portable_gpu.tuning.table import TuningTable

F16 = element(np.float16)
HOPPER = example_target("nvidia-sm90")
TABLE = TuningTable([])

PTX = """.version 8.8
.target sm_90, texmode_independent
.address_size 64
	//@sm_90a wgmma.fence.sync.aligned;
	mov.u32 %r1, %tid.x; // a comment
	//@sm_90a wgmma.commit_group.sync.aligned;
"""


def problem(
    m: int, n: int, k: int, elem: Any, trans: str = "NN", precision: str = "ieee"
) -> GemmProblem:
    def operand(rows: int, cols: int, across: bool) -> Operand:
        return Operand(elem, *((1, rows) if across else (cols, 1)), (), False, 16)

    compute = F64 if elem == F64 else F32
    a, b = operand(m, k, trans[0] == "T"), operand(k, n, trans[1] == "T")
    return GemmProblem(m, n, k, (), a, b, operand(m, n, False), compute, precision=precision)


def test_retarget_uncovers_and_names_the_target() -> None:
    assert is_marked(PTX)
    text = retarget(PTX)
    assert not is_marked(text)
    assert ".target sm_90a, texmode_independent" in text
    assert "\twgmma.fence.sync.aligned;" in text
    assert "// a comment" in text
    assert text.count("\n") == PTX.count("\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PTX.replace("//@sm_90a ", ""), "found none"),
        (PTX.replace("@sm_90a wgmma.f", "@sm_100a wgmma.f"), "found sm_100a, sm_90a"),
        (PTX.replace(".target", ".targets"), "one .target line is expected; found 0"),
    ],
)
def test_retarget_refuses_what_it_does_not_know(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        retarget(text)


def test_targets_say_what_matrix_units_they_have() -> None:
    units = {name: example_target(name).matrix_units for name in class_names()}
    assert {name: value for name, value in units.items() if value} == {
        "nvidia": "wgmma", "gcn": "mfma",
    }  # fmt: skip
    for facts, there in (
        ("gfx908:sramecc+:xnack-", True), ("gfx90a", True), ("gfx942:sramecc+", True),
        ("gfx906:sramecc+:xnack-", False), ("gfx900", False), ("gfx950", False),
        ("Tahiti", False),
    ):  # fmt: skip
        target = detect(replace(example_target("gcn").facts, name=facts))
        assert bool(target.matrix_units) == bool(target.matrix_instructions) == there
    assert "f64_16x16x4f64" not in example_target("gcn-gfx908").matrix_instructions
    sms = {sm: example_target(f"nvidia-sm{sm}").matrix_units for sm in (70, 75, 80, 89, 90, 100)}
    assert sms == {70: "", 75: "", 80: "mma", 89: "mma", 90: "wgmma", 100: "mma"}
    assert HOPPER.static_local_mem > HOPPER.local_mem_size


def test_formats() -> None:
    kinds = {p: format_of(problem(64, 64, 64, F32, precision=p), HOPPER) for p in PRECISIONS}
    assert kinds["ieee"] is None
    assert [(p, f.kind, f.parts, f.work) for p, f in kinds.items() if f] == [
        ("tf32", "tf32", 1, 1),
        ("tf32x3", "tf32", 2, 3),
        ("bf16x3", "bf16", 2, 3),
        ("bf16x6", "bf16", 3, 6),
    ]
    for elem, kind in ((F16, "f16"), (BF16, "bf16"), (F64, "f64")):
        for precision in PRECISIONS:  # is of float32 only
            form = format_of(problem(64, 64, 64, elem, precision=precision), HOPPER)
            assert form is not None
            assert (form.kind, form.parts) == (kind, 1)
    mixed = replace(problem(64, 64, 64, F16), b=problem(64, 64, 64, BF16).b)
    assert format_of(mixed, HOPPER) is None
    for elem in (element(np.int32), element(np.complex64)):
        assert format_of(replace(problem(8, 8, 8, elem), compute=elem), HOPPER) is None


@pytest.mark.parametrize("precision", [p for p in PRECISIONS if p != "ieee"])
def test_products_use_pieces_that_have_arrived(precision: str) -> None:
    form = format_of(problem(64, 64, 64, F32, precision=precision), HOPPER)
    assert form is not None
    for arrived, pairs in enumerate(form.products):
        assert all(max(pair) <= arrived for pair in pairs)
    pairs = [pair for pairs in form.products for pair in pairs]
    assert len(set(pairs)) == len(pairs)
    assert (0, 0) in pairs


def test_unknown_precision() -> None:
    with pytest.raises(ArgumentError, match="precision is 'fp8'; known are ieee, tf32"):
        check_precision("fp8")


def test_operands_that_are_copied_as_stored() -> None:
    form = format_of(problem(64, 64, 64, F16), HOPPER)
    assert form is not None
    along, across = Operand(F16, 64, 1, (), False, 16), Operand(F16, 1, 64, (), False, 16)
    assert form.copied_across(along, "a", 64, 64) is False
    assert form.copied_across(across, "a", 64, 64) is True
    assert form.copied_across(across, "b", 64, 64) is False
    assert form.copied_across(along, "a", 64, 60) is None  # a copy would pass the end of a row
    assert form.copied_across(across, "a", 60, 64) is None
    assert form.copied_across(replace(along, aligned_bytes=8), "a", 64, 64) is None
    assert form.copied_across(replace(along, col=2), "a", 64, 64) is None
    tf32 = format_of(problem(64, 64, 64, F32, precision="tf32"), HOPPER)
    assert tf32 is not None
    assert tf32.copied_across(Operand(F32, 1, 64, (), False, 16), "a", 64, 64) is True
    assert tf32.copied_across(Operand(F32, 1, 64, (), False, 16), "a", 62, 64) is None
    assert tf32.copied_across(Operand(F32, 64, 1, (), False, 16), "b", 64, 64) is None
    pieces = format_of(problem(64, 64, 64, F32, precision="tf32x3"), HOPPER)
    assert pieces is not None
    assert pieces.copied_across(Operand(F32, 1, 64, (), False, 16), "a", 64, 64) is None


@pytest.mark.parametrize("elem", [F16, BF16, F32, F64], ids=lambda e: e.name)
def test_default_policies_fit(elem: Any) -> None:
    for parts in (1, 2, 3):
        for name in classes_of("wgmma", parts):
            policy = WgmmaPolicy.for_shape_class(name, parts)
            policy.check(HOPPER, elem)
            policy.check_pieces(parts)
    for name in MMA_CLASSES:
        MmaPolicy.for_shape_class(name).check(HOPPER, F64)
    for name in ("gcn-gfx908", "gcn-gfx90a", "gcn-gfx942"):
        MfmaPolicy.default(example_target(name), elem).check(example_target(name), elem)
        for shape_class in MFMA_CLASSES:
            MfmaPolicy.for_shape_class(shape_class).check(example_target(name), F32)


def test_policies_that_do_not_fit() -> None:
    policy = WgmmaPolicy.default(HOPPER, F16)
    for changed, message in (
        (replace(policy, tile_n=100), "tile_n is a multiple of the lines of a pass"),
        (replace(policy, stages=2), "stages is 2, not from 3 to 64"),
        (replace(policy, stages=9), "local memory"),
        (replace(policy, flush=1), "leave 24 of 168"),
    ):
        with pytest.raises(PolicyError, match=message):
            changed.check(HOPPER, F16)
    with pytest.raises(PolicyError, match="fed by warpgroups"):
        policy.check(example_target("nvidia-sm80"), F16)
    with pytest.raises(PolicyError, match="blocks is even; passes of 32 lines"):
        MmaPolicy(1, 8, 1, 1, 4).check(HOPPER, F64)
    cdna = example_target("gcn-gfx90a")
    for mfma, message in (
        (MfmaPolicy(2, 2, 48, 64, 1), "multiples of 32"),
        (MfmaPolicy(2, 2, 64, 64, 1), r"the sums \(128 registers\) are at most 96"),
        (MfmaPolicy(2, 4, 32, 64, 2), "local memory"),
        (MfmaPolicy(1, 8, 32, 32, 1), "passes of 64 rows"),
        (MfmaPolicy(2, 2, 32, 32, 3), "buffers is 3, not from 1 to 2"),
    ):
        with pytest.raises(PolicyError, match=message):
            mfma.check(cdna, F64)
    with pytest.raises(PolicyError, match="fed by wavefronts"):
        MfmaPolicy.default(cdna, F32).check(HOPPER, F32)


def kernels(name: str) -> dict[str, str]:
    """The main loop of each element on a target; no entry where there is none."""
    target = example_target(name)
    forms = {e.name: format_of(problem(64, 64, 64, e), target) for e in (F16, BF16, F32, F64)}
    return {name: form.kernel for name, form in forms.items() if form}


def test_main_loops_of_targets() -> None:
    assert kernels("nvidia-sm90") == {"f16": "wgmma", "bf16": "wgmma", "f64": "mma"}
    assert kernels("nvidia-sm80") == {"f64": "mma"}
    assert kernels("gcn-gfx908") == dict.fromkeys(("f16", "bf16", "f32"), "mfma")
    assert kernels("gcn-gfx942") == dict.fromkeys(("f16", "bf16", "f32", "f64"), "mfma")
    assert kernels("rdna") == kernels("generic") == {}
    for name in ("nvidia-sm80", "nvidia-sm86", "gcn-gfx90a"):  # only what fits is chosen
        target = example_target(name)
        choice = least(estimates(problem(2048, 2048, 2048, F64), target, TABLE))
        assert choice.policy is not None
        choice.policy.check(target, F64)


def test_instructions_of_generations() -> None:
    names = {}
    for generation in ("gfx908", "gfx90a", "gfx942"):
        form = format_of(problem(64, 64, 64, BF16), example_target(f"gcn-{generation}"))
        assert form is not None
        assert form.instruction is not None
        names[generation] = form.instruction.name
    assert names["gfx908"] == "f32_32x32x4bf16"
    assert names["gfx90a"] == names["gfx942"] == "f32_32x32x8bf16_1k"


def test_float32_itself_serves_every_precision() -> None:
    target = example_target("gcn-gfx908")
    for precision in PRECISIONS:
        form = format_of(problem(64, 64, 64, F32, precision=precision), target)
        assert form is not None
        assert (form.kernel, form.kind, form.parts) == ("mfma", "f32", 1)


def test_wavefronts_read_operands_as_they_lie() -> None:
    target, policy = example_target("gcn-gfx942"), MfmaPolicy.for_shape_class("small")
    for elem in (F16, BF16, F32, F64):
        for trans in ("NN", "NT", "TN", "TT"):
            assert not arrange(
                problem(4096, 4096, 64, elem, trans), Tiling("", policy), target
            ).repacks
    odd = arrange(problem(65, 64, 61, F32), Tiling("", policy), target)
    assert set(odd.repacks) == {"a"}
    assert odd.repacks["a"].elem == F32


def test_choices() -> None:
    large = least(estimates(problem(8192, 8192, 8192, F16), HOPPER, TABLE))
    assert (large.path, large.splits, large.shape_class) == ("wgmma", 1, "large")
    small = least(estimates(problem(1024, 1024, 1024, F16), HOPPER, TABLE))
    assert isinstance(small.policy, WgmmaPolicy)
    assert small.policy.tile_m * small.policy.tile_n < 128 * 256
    deep = least(estimates(problem(64, 64, 100000, F16), HOPPER, TABLE))
    assert deep.splits > 1  # parts, which a second launch adds
    assert not list(estimates(problem(64, 64, 64, F32), HOPPER, TABLE))
    assert not list(estimates(problem(64, 64, 64, F16), example_target("rdna"), TABLE))


def test_ranges_of_k_of_parts_have_32_bits() -> None:
    assert takes_sum_of_parts(problem(64, 64, MAX_INT, F16))
    assert not takes_sum_of_parts(problem(64, 64, MAX_INT + 1, F16))


def test_work_items_copy_where_the_copy_engine_cannot() -> None:
    asked = problem(2048, 2048, 2048, F16)
    for target, bulk in ((HOPPER, True), (replace(HOPPER, tensor_maps=False), False)):
        choice = least(estimates(asked, target, TABLE))
        assert isinstance(choice.policy, WgmmaPolicy)
        assert choice.policy.bulk == bulk
        assert choice.origin.endswith(", copied by work-items") != bulk


def test_double_precision_turns_operands_to_where_they_lie_well() -> None:
    transposed = {}
    for trans in ("NN", "NT", "TN", "TT"):
        choice = least(estimates(problem(512, 512, 512, F64, trans), HOPPER, TABLE))
        transposed[trans] = choice.transposed
    assert transposed == {"NN": True, "NT": False, "TN": False, "TT": False}


def test_tf32_turns_operands_to_where_a_goes_through_registers() -> None:
    result = {}
    for trans in ("NN", "NT", "TN", "TT"):
        asked = problem(2048, 2048, 2048, F32, trans, "tf32")
        form, choice = format_of(asked, HOPPER), least(estimates(asked, HOPPER, TABLE))
        assert form is not None
        assert isinstance(choice.policy, WgmmaPolicy)
        computed = asked.transpose() if choice.transposed else asked
        registers = form.through_registers(computed)
        assert choice.policy.has_registers_for_a or not registers
        repacks = arrange(computed, choice, HOPPER).repacks
        result[trans] = choice.transposed, registers, set(repacks)
    assert result == {
        "NN": (True, True, set()),
        "NT": (False, False, set()),
        "TN": (False, True, {"b"}),
        "TT": (False, True, set()),
    }
    for precision in ("tf32x3", "bf16x3"):
        choice = least(estimates(problem(512, 512, 512, F32, "NN", precision), HOPPER, TABLE))
        assert not choice.transposed


def test_widths_that_leave_no_registers_for_a() -> None:
    names = {}
    for trans in ("NN", "NT"):
        asked = problem(64, 64, 64, F32, trans, "tf32")
        form = format_of(asked, HOPPER)
        assert form is not None
        names[trans] = {name for name, _ in fitting(asked, form, HOPPER, TABLE)}
    odd = {
        name
        for name in classes_of("wgmma", 1)
        if requires_k_along_b(WgmmaPolicy.for_shape_class(name))
    }  # untimed
    assert names["NT"] == set(classes_of("wgmma", 1)) - odd - set(CLASSES_OF_READERS)
    assert names["NT"] - names["NN"] == {"broad"}


def test_arrangement_repacks_what_it_must() -> None:
    policy = WgmmaPolicy.for_shape_class("small")
    assert not arrange(problem(64, 64, 64, F16, "TN"), Tiling("", policy), HOPPER).repacks
    with pytest.raises(PolicyError, match="pieces take a multiple of 3, 6"):
        arrange(
            problem(64, 64, 64, F32, "NT", "bf16x6"),
            Tiling("", replace(policy, stages=4)),
            HOPPER,
        )
    odd = arrange(problem(65, 63, 61, F16), Tiling("", policy), HOPPER)
    assert set(odd.repacks) == {"a", "b"}
    assert odd.problem.a.row % 8 == 0
    assert odd.starts["b"] == odd.repacks["a"].elements
    tf32 = arrange(problem(64, 64, 64, F32, "NN", "tf32"), Tiling("", policy), HOPPER)
    assert set(tf32.repacks) == {"b"}
    split = arrange(
        problem(64, 64, 61, F32, "NN", "bf16x6"),
        Tiling("", WgmmaPolicy.for_shape_class("small", 3)),
        HOPPER,
    )
    assert (split.repacks["a"].parts, split.problem.a.row) == (3, 3 * 64)


@pytest.mark.parametrize("triangle", ["lower", "upper"])
def test_tiles_of_a_triangle_are_counted(triangle: str) -> None:
    """By every class, whole and with k cut of the last tiles: those that have elements of it."""
    p = replace(problem(2816, 2816, 5120, F16, "NT"), triangle=triangle)
    result = [choice for _, choice in estimates(p, HOPPER, TABLE)]
    every = set(classes_of("wgmma", 1)) - set(CLASSES_OF_READERS)
    assert {choice.shape_class for choice in result} == every
    assert any(choice.unsplit for choice in result)
    for choice in result:
        assert isinstance(choice.policy, WgmmaPolicy)
        computed = p.transpose() if choice.transposed else p
        tiles = computed.tiles(choice.policy.tile_m, choice.policy.tile_n)
        assert choice.why.startswith(f"{choice.shares or tiles} groups on 132 ")
        assert choice.unsplit < tiles


def test_boxes_have_no_more_lines_than_their_operand() -> None:
    choice = Tiling("", WgmmaPolicy.for_shape_class("small"))
    few = arrange(problem(22, 400, 64, F16, "NT"), choice, HOPPER)
    assert [(item.box_lines, item.box_bytes) for item in few.maps] == [
        (22, 22 * 128),
        (128, 1 << 14),
    ]
    across = arrange(problem(24, 64, 40, F16, "TN"), choice, HOPPER)
    assert [item.box_lines for item in across.maps] == [64, 64]


@pytest.mark.parametrize(("buffers", "order"), [(1, "S+BR+BS+B"), (2, "S+BR+XS+B")])
def test_barriers_stand_between_stores_and_reads(buffers: int, order: str) -> None:
    """Emulated instructions have barriers of their own, so no run on a CPU would miss one."""
    policy = MfmaPolicy(2, 2, 64, 64, buffers)
    text = arrange(
        problem(512, 512, 512, F32), Tiling("", policy), example_target("gcn-gfx90a")
    ).spec.text
    names = {
        "S": r"\w_local\[[^;]*\] =\s",
        "R": r"= \w_local\[",
        "B": r"barrier\(",
        "X": r"buffer \^= 1",
    }
    result = "".join(
        next(name for name, pattern in names.items() if re.match(pattern, match[0]))
        for match in re.finditer("|".join(names.values()), text)
    )
    assert re.fullmatch(order, result), result


def test_explain_tells_the_path_and_the_precision() -> None:
    square = Question("gemm", (4096, 4096, 4096), np.dtype(np.float32), HOPPER, TABLE)
    said = explain(square, precision="bf16x6")
    passes = ("gemm/tensor_map",) * 2 + ("gemm/repack",) * 2
    assert (said.path, said.kernels) == ("wgmma", (*passes, "gemm/wgmma"))
    said = explain(Question("gemm", (64, 100000, 64), np.dtype(np.float16), HOPPER, TABLE))
    assert (said.path, said.kernels) == (
        "wgmma, split-k",
        ("gemm/tensor_map", "gemm/tensor_map", "gemm/wgmma", "reduce/columns"),
    )
    assert explain(square).path == "tiled"


@pytest.mark.parametrize(
    ("target", "sizes", "dtype", "message"),
    [
        ("cpu", (400, 400, 400), "float32", "has no matrix units"),
        ("nvidia-sm90", (400, 400, 400), "float64", "it is for products of float32"),
        ("nvidia-sm90", (4, 4, 4), "float32", "this product is not for matrix units"),
        ("gcn-gfx90a", (400, 400, 400), "float32", "compute float32 in no other way"),
        ("nvidia-sm90", (400, 400, 400), "float32", ""),
    ],
)
def test_explain_tells_of_a_precision_that_does_nothing(
    target: str, sizes: tuple[int, int, int], dtype: str, message: str
) -> None:
    said = pg.explain("gemm", *sizes, dtype=dtype, target=target, precision="tf32").why
    plain = pg.explain("gemm", *sizes, dtype=dtype, target=target).why
    assert "changes nothing" not in plain
    assert ("; precision tf32 changes nothing here, for " in said) == bool(message)
    assert message in said


class FakeEngine:
    """Just enough of an engine for the choice of a path."""

    def __init__(self) -> None:
        self.target, self.table, self.known = HOPPER, TABLE, {}

    def plan(self, key: Any, make: Any) -> Any:
        if key not in self.known:
            self.known[key] = make()
        return self.known[key]


@pytest.mark.parametrize("right", [True, False])
def test_path_falls_back_where_units_do_not_work(
    monkeypatch: pytest.MonkeyPatch, right: bool
) -> None:
    tried = []
    monkeypatch.setattr(matrix_check, "_multiplies", lambda *args: tried.append(args) or right)
    monkeypatch.setattr(variants.matrix, "MatrixPlan", lambda *_, **__: "matrix units")
    monkeypatch.setattr(variants, "TiledPlan", lambda *_, **__: "tiles")
    engine: Any = FakeEngine()
    selected = []
    for _ in range(2):
        if right:
            selected.append(variants.make_plan(engine, problem(256, 256, 256, F16)))
        elif not tried:
            with pytest.warns(UserWarning, match="are not used: a test product is wrong"):
                selected.append(variants.make_plan(engine, problem(256, 256, 256, F16)))
        else:
            selected.append(variants.make_plan(engine, problem(256, 256, 256, F16)))
    assert selected == ["matrix units" if right else "tiles"] * 2
    # Both ways round, and subnormal numbers; or bulk copies, and copies by work-items: once.
    assert len(tried) == (3 if right else 2)


def test_tf32_is_tried_out_both_from_local_memory_and_from_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[Any] = []
    monkeypatch.setattr(matrix_check, "_multiplies", lambda *args: tried.append(args[4]) or True)
    engine: Any = FakeEngine()
    for precision in ("tf32x3", "tf32", "tf32"):
        assert matrix_check.works(engine, problem(64, 64, 64, F32, precision=precision))
    assert tried == ["NN", "TT", "NN", "TT", "NT"]
