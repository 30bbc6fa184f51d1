"""Detection on recorded devices, forced classes, and where each fact came from."""

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from recorded_devices import H200, INTEL_CPU, POCL, POCL_ZEN4, RDNA2, RECORDED, Expected

from portable_gpu.errors import ArgumentError, UnsupportedError
from portable_gpu.targets import (
    DEVICE_CLASSES,
    DeviceFacts,
    Target,
    class_names,
    detect,
    example_target,
)

ROOT = Path(__file__).resolve().parents[2]
_UNDERIVED = {"facts", "device_class", "device_define", "forced", "provenance", "figures"}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_device(name: str) -> None:
    facts, expected = RECORDED[name]
    target = detect(facts)
    result = Expected(**{f.name: getattr(target, f.name) for f in fields(Expected)})
    assert result == expected
    assert target.facts == facts


def test_every_class_has_a_recorded_device() -> None:
    assert {expected.device_class for _, expected in RECORDED.values()} == set(class_names())


def test_every_class_has_a_number_of_its_own_in_the_text() -> None:
    prelude = (ROOT / "cl_kernels/common/prelude.cl.mako").read_text()
    numbers = dict(re.findall(r"^#define (\w+_DEVICE) (\d+)$", prelude, re.MULTILINE))
    assert set(numbers) == {row.define for row in DEVICE_CLASSES}
    assert len(set(numbers.values())) == len(numbers)


def test_every_class_is_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/devices.md").read_text(), re.MULTILINE)
    assert set(class_names()) <= set(rows)


@pytest.mark.parametrize("name", RECORDED)
@pytest.mark.parametrize("forced", [None, "gcn", "rdna", "cpu", "generic", "nvidia-sm20"])
def test_every_fact_says_where_it_came_from(name: str, forced: str | None) -> None:
    target = detect(RECORDED[name][0], forced)
    assert set(target.provenance) == {f.name for f in fields(Target)} - _UNDERIVED
    for fact_name, fact in target.provenance.items():
        assert fact.value == getattr(target, fact_name)
        assert fact.source in ("queried", "probed", "derived", "assumed", "forced")
        assert fact.why


def test_the_queried_is_told_from_the_assumed() -> None:
    queried = detect(RDNA2)
    assumed = detect(replace(RDNA2, wavefront_width_amd=None))
    assert queried.provenance["subgroup_size"].source == "queried"
    assert assumed.provenance["subgroup_size"].source == "assumed"
    assert detect(H200).provenance["cuda_sm"].source == "queried"
    assert detect(H200, "nvidia-sm20").provenance["cuda_sm"].source == "forced"
    assert detect(INTEL_CPU, "generic").provenance["subgroup_size"].source == "probed"
    assert detect(POCL, "gcn").provenance["subgroup_size"].source == "forced"


def test_lockstep_is_not_claimed_on_an_assumption() -> None:
    assert not detect(replace(RDNA2, wavefront_width_amd=None)).lockstep
    assert not detect(replace(H200, compute_capability_nv=None)).lockstep


@pytest.mark.parametrize(
    ("forced", "exchange", "size"),
    [
        ("gcn", "wavefront_lds", 64),
        ("rdna", "wavefront_lds", 32),
        ("nvidia", "warp_volatile", 32),
        ("nvidia-sm20", "warp_volatile", 32),
        ("generic", "wavefront_lds", 32),
        ("GCN", "wavefront_lds", 64),
    ],
)
def test_forced_on_a_cpu_takes_barriers(forced: str, exchange: str, size: int) -> None:
    target = detect(POCL, forced)
    assert target.device_class == forced.lower().partition("-")[0]
    assert (target.exchange, target.subgroup_size) == (exchange, size)
    assert not target.lockstep
    assert "-DLOCKSTEP=0" in target.options


@pytest.mark.parametrize("name", class_names())
def test_events_cost_the_device_time_on_nvidia(name: str) -> None:
    target = example_target(name)
    assert target.launch_events == (name != "nvidia")
    assert target.provenance["launch_events"].why


@pytest.mark.parametrize("name", class_names())
def test_forward_progress_for_each_other_where_all_that_run_go_on(name: str) -> None:
    target = example_target(name)
    assert target.forward_progress == (name in ("nvidia", "gcn", "rdna"))
    assert target.provenance["forward_progress"].why


@pytest.mark.parametrize("name", class_names())
def test_a_shared_cache_is_known_of_data_centres_gpus(name: str) -> None:
    target = example_target(name)
    assert target.shared_cache == (50 << 20 if name == "nvidia" else 0)
    assert target.provenance["shared_cache"].why


def test_forced_nvidia_launches_without_events() -> None:
    assert not detect(POCL, "nvidia").launch_events
    assert detect(H200, "generic").launch_events


def test_forced_class_keeps_its_own_width() -> None:
    assert detect(RDNA2, "gcn").subgroup_size == 64
    assert not detect(RDNA2, "gcn").lockstep


def test_forcing_the_own_class_changes_nothing() -> None:
    for facts, expected in RECORDED.values():
        assert detect(facts, expected.device_class) == detect(facts)


def test_vectors_are_as_wide_as_pocl_compiles_for() -> None:
    assert detect(POCL).vector_bytes == detect(INTEL_CPU).vector_bytes == 64
    narrow = detect(POCL_ZEN4)
    assert narrow.vector_bytes == 32
    assert "znver3" in narrow.provenance["vector_bytes"].why
    for cpu in ("znver4", "skylake-avx512", "graniterapids-d", "x86-64-v4"):
        version = POCL.version.replace("rocketlake", cpu)
        assert detect(replace(POCL, version=version)).vector_bytes == 64


@pytest.mark.parametrize("size", [8, 16, 32, 64])
def test_subgroup_functions_on_a_cpu(size: int) -> None:
    target = detect(replace(INTEL_CPU, sub_group_size_probed=size), "intel_gpu")
    assert (target.exchange, target.subgroup_size) == ("khr_subgroup", size)
    assert target.requires_subgroup_size
    assert "-cl-std=CL3.0" in target.options


@pytest.mark.parametrize(
    ("facts", "forced"),
    [
        (POCL, "nvidia-sm90"),
        (POCL, "nvidia-sm35"),
        (RDNA2, "nvidia-sm70"),
        (H200, "nvidia-sm35"),  # shfl without .sync does not assemble for SM 90
        (POCL, "intel_gpu"),
    ],
)
def test_class_whose_instructions_are_missing(facts: DeviceFacts, forced: str) -> None:
    with pytest.raises(UnsupportedError, match=forced):
        detect(facts, forced)


def test_older_path_on_a_newer_device_of_the_class() -> None:
    older = detect(H200, "nvidia-sm80")
    assert (older.exchange, older.cuda_sm, older.forced) == ("warp_shuffle", 80, True)
    assert older.provenance["cuda_sm"].source == "forced"
    assert older.facts == H200
    assert not detect(H200, "nvidia-sm90").forced
    assert detect(H200, "nvidia-sm20").exchange == "warp_volatile"


@pytest.mark.parametrize("name", ["", "cuda", "gcn-sm20", "nvidia-sm", "nvidia-sm9000", "sm20"])
def test_unknown_class_lists_the_known(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"known are .*gcn.*nvidia-smNN") as caught:
        detect(POCL, name)
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("name", class_names())
def test_example_is_of_its_class(name: str) -> None:
    target = example_target(name)
    assert target.device_class == name
    assert detect(target.facts) == target


def test_example_of_a_generation() -> None:
    assert example_target("nvidia-sm20").exchange == "warp_volatile"
    assert example_target("nvidia-sm120").cuda_sm == 120


def test_rows_are_distinct_and_the_last_takes_the_rest() -> None:
    assert len({row.name for row in DEVICE_CLASSES}) == len(DEVICE_CLASSES)
    assert len({row.define for row in DEVICE_CLASSES}) == len(DEVICE_CLASSES)
    assert DEVICE_CLASSES[-1].matches(DeviceFacts())


@pytest.mark.parametrize("name", class_names())
def test_options_name_the_facts_once_each(name: str) -> None:
    options = example_target(name).options
    names = [re.split("=", option)[0] for option in options]
    assert len(set(names)) == len(names)
    assert {"-DDEVICE", "-DCUDA_SM", "-DWAVEFRONT_SIZE", "-cl-std"} <= set(names)


def test_target_is_a_key() -> None:
    assert len({detect(POCL), detect(POCL), detect(POCL, "gcn")}) == 2


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (replace(example_target("gcn").facts, name="gfx906"), 128),
        (replace(example_target("gcn").facts, name="Ellesmere"), 128),
        (replace(example_target("gcn").facts, name="gfx942"), 256),
        (RDNA2, 256),
        (H200, 255),
    ],
)
def test_registers_that_leave_room_for_a_second_sub_group(
    facts: DeviceFacts, expected: int
) -> None:
    assert detect(facts).resident_registers == expected


@pytest.mark.parametrize(
    ("name", "there"),
    [
        ("gfx803", False), ("gfx900", False), ("gfx906", True), ("gfx908:xnack-", True),
        ("gfx90a", False), ("gfx942", True), ("Vega 20", False),
    ],
)  # fmt: skip
def test_products_of_pairs(name: str, there: bool) -> None:
    assert detect(replace(example_target("gcn").facts, name=name)).dot2 == there
    assert not detect(POCL, "gcn").dot2
    assert detect(RDNA2).dot2
    emulated = detect(POCL, "gcn-gfx906")
    assert emulated.dot2
    assert emulated.forced
    assert emulated.provenance["dot2"].source == "forced"


def test_the_example_of_another_generation_is_not_the_measured_device() -> None:
    assert example_target("nvidia-sm90").facts.name == example_target("nvidia").facts.name
    assert example_target("nvidia-sm60").facts.name == "NVIDIA Corporation sm_60"


@pytest.mark.parametrize("name", RECORDED)
def test_volatile_words_are_trusted_on_x86_alone(name: str) -> None:
    target = detect(RECORDED[name][0])
    x86 = "x86_64" in target.facts.version or target.facts.platform_name == "Intel(R) OpenCL"
    assert target.volatile_is_shared == (target.is_cpu and x86)
