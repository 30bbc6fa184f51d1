"""The tuner without a device: its jobs, its files, and what it refuses."""

from __future__ import annotations

import importlib.util
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rich.console

import portable_gpu as pg
from portable_gpu.bench.cases import cases
from portable_gpu.checking.edges import levels
from portable_gpu.cli import main
from portable_gpu.cli.tune import _table as tune_table
from portable_gpu.dtypes import element
from portable_gpu.errors import ArgumentError, TuningFileError
from portable_gpu.ops.case import Case
from portable_gpu.ops.gemm.packed.policy import PackedPolicy
from portable_gpu.ops.sizes import parse_sizes
from portable_gpu.targets import Target, detect, example_target
from portable_gpu.tuner.jobs import TUNED, TuningJob, jobs
from portable_gpu.tuner.referee import edge_checks
from portable_gpu.tuning import store as storing
from portable_gpu.tuning.store import store
from portable_gpu.tuning.table import (
    RowKey,
    TuningTable,
    device_keys,
    read_rows,
    tuned_key,
)

FLOAT = element(np.float32)
CPU = example_target("cpu")


def jobs_of(operation: str, shapes: str | None = None, target: Target = CPU) -> list[TuningJob]:
    return jobs(operation, ["float32"], shapes, target, TuningTable([]), target.is_cpu)


def row(policy: dict[str, Any], shape_class: str = "any", **changes: Any) -> dict[str, Any]:
    evidence = {
        "baseline": "1 ms by formula", "speed_up": 1.5, "spread": 0.01, "driver": "1",
        "date": "2026-11-21", "problem": "gemm 1x1x1/NN float32",
    }  # fmt: skip
    return {
        "kernel": "gemm_packed",
        "device": tuned_key(CPU),
        "element": "f32",
        "shape_class": shape_class,
        "policy": policy,
        "evidence": evidence,
    } | changes


POLICY = PackedPolicy.default(CPU, FLOAT).to_dict() | {"chunk": 128}


# -- keys


def cpu_with(vector_bytes: int = 64, **facts: Any) -> Target:
    return replace(CPU, vector_bytes=vector_bytes, facts=replace(CPU.facts, **facts))


def test_a_cpus_rows_go_by_runtime_vector_width_and_cache() -> None:
    wide = cpu_with(cache_size=32 << 20)
    assert tuned_key(wide) == (
        "class:cpu, Portable Computing Language, 64-byte vectors, 32-MiB cache"
    )
    assert tuned_key(cpu_with(cache_size=48 << 20, name="another processor")) == tuned_key(wide)
    others = (
        cpu_with(32), cpu_with(platform_name="another runtime"), cpu_with(cache_size=64 << 20),
        cpu_with(cache_size=31 << 20), cpu_with(cache_size=1 << 20), cpu_with(cache_size=0),
    )  # fmt: skip
    assert len({tuned_key(target) for target in (wide, *others)}) == 7
    assert device_keys(wide) == (wide.facts.name, tuned_key(wide), "class:cpu")


def test_a_gpus_rows_go_by_its_name_and_a_forced_class_has_its_own() -> None:
    gpu = example_target("nvidia")
    assert tuned_key(gpu) == gpu.facts.name
    forced = detect(CPU.facts, "gcn")
    assert CPU.facts.name not in device_keys(forced)
    assert tuned_key(forced) == f"{CPU.facts.name} as gcn"


def test_a_row_of_the_shape_class_goes_before_one_for_any(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    store(path, [row(POLICY), row(POLICY | {"chunk": 512}, "tall")])
    table = TuningTable([path])

    def chunk(shape_class: str) -> int:
        return table.choose("gemm_packed", PackedPolicy, CPU, FLOAT, shape_class).policy.chunk

    assert chunk("tall") == 512
    assert chunk("wide") == 128


def test_explanation_shows_a_rows_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.json"
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(path))
    store(path, [row(POLICY, "square")])
    tuned = pg.explain("gemm", 1024, 1024, 1024, target="cpu")
    assert tuned.policy["chunk"] == 128
    assert tuned.details["shape class"] == "square"
    for part in (str(path), "speed_up 1.5", "1 ms by formula"):
        assert part in str(tuned)
    assert not pg.explain("gemm", 8192, 256, 256, target="cpu").evidence


# -- jobs


def test_shapes_are_grouped_by_the_row_they_take() -> None:
    result = {job.key.shape_class: job for job in jobs_of("gemm")}
    assert set(result) == {"square", "tall", "wide", "deep", "tiny", "batched"}
    assert {job.key.kernel for job in result.values()} == {"gemm_packed"}
    (job,) = jobs_of("gemm", "300x300x300/NN,310x300x300/TT")
    assert [case.size for case in job.cases] == ["300x300x300/NN", "310x300x300/TT"]


def test_every_kernel_of_the_table_is_reached() -> None:
    kernels = {job.key.kernel for job in jobs_of("all")}
    assert kernels == {"gemm_packed", "gemv_rows", "gemv_columns", "reduce", "elementwise"}
    gpu = {job.key for job in jobs_of("all", target=example_target("nvidia"))}
    others = {"gemv_rows", "gemv_columns", "reduce", "elementwise"}
    assert {key.kernel for key in gpu} == {"gemm", *others}
    assert len({key.shape_class for key in gpu if key.kernel == "gemm"}) >= 4
    half = jobs("gemm", ["float16"], None, example_target("nvidia-sm90"), TuningTable([]), False)
    assert "gemm_wgmma" in {job.key.kernel for job in half}


def test_the_grid_holds_what_asks_for_the_row() -> None:
    for target in ("cpu", "nvidia"):
        for job in jobs_of("all", target=example_target(target)):
            assert job.grid
            operations = {case.operation for case in job.grid}
            local = {"reduce": {"sum", "argmax"}, "elementwise": {"elementwise"}}
            local |= {kernel: {"gemm"} for kernel in ("gemm", "gemm_packed")}
            assert operations <= local.get(job.key.kernel, {"gemv", "gemm"})
    (columns,) = (
        job for job in jobs_of("gemv", target=example_target("nvidia"))
        if job.key.kernel == "gemv_columns"
    )  # fmt: skip
    assert {"8x4096x4096", "4096x4096/T"} <= {
        case.size.removesuffix("/NN") for case in columns.grid
    }


def test_a_row_is_checked_in_its_own_operation_and_in_those_of_its_problems() -> None:
    (job,) = jobs_of("gemv", "90x70/N")
    flat = Case("gemm", (8, 70, 90), "float32", trans="NN")
    shared = replace(job, cases=(flat,))
    assert {c.operation for c in edge_checks(shared, job.default)} == {"gemm", "gemv"}
    assert {c.operation for c in edge_checks(job, job.default)} == {"gemv"}
    (sums,) = jobs_of("reduce", "1000")
    assert {"sum", "max", "var", "dot"} <= {c.operation for c in edge_checks(sums, sums.default)}


@pytest.mark.parametrize("target", ["cpu", "gcn", "rdna", "nvidia", "intel_gpu", "generic"])
def test_spaces_hold_the_default_and_tiles_are_known(target: str) -> None:
    device = example_target(target)
    for job in jobs_of("all", target=device):
        space = job.space(device)
        policy_fields = job.default.to_dict()
        assert all(policy_fields[name] in values for name, values in space.items())
        assert job.policy({name: policy_fields[name] for name in space}) == job.default
        assert min(job.default.edges(job.elem.itemsize)) >= 1
        job.default.check(device, job.elem)


@pytest.mark.parametrize(
    ("operation", "shapes", "message"),
    [
        ("lu", None, "no operation 'lu' to tune; there are: elementwise, gemm, gemv, reduce, all"),
        ("gemm", "big", "--shapes has 'big'; sizes are like"),
        ("gemm", "300x300", "300x300 is not a size: gemm takes m x k x n"),
        ("all", "300x300", "--shapes needs an operation"),
        ("gemv", "0x3", "every extent is 1 or more"),
    ],
)
def test_bad_requests_are_refused(operation: str, shapes: str | None, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        jobs_of(operation, shapes)


@pytest.mark.parametrize("budget", ["", "10", "5x", "0s", "m", "1.5h", "-3m"])
def test_bad_budget_is_refused(budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "gemm", "--budget", budget]) == 2
    assert "a time is like 90s, 10m or 1h30m" in capsys.readouterr().err


def test_the_table_fits_80_columns() -> None:
    job: Any = SimpleNamespace(
        name="gemm_packed_matrix c128 square", current=None,
        cases=cases("gemm", ["float32"], parse_sizes("4096x4096x4096,400x1100000x400"), False),
    )  # fmt: skip
    text = io.StringIO()
    rich.console.Console(file=text, width=80).print(tune_table([job], []))
    lines = text.getvalue().splitlines()
    assert "400x1100000x400/NN" in text.getvalue()
    assert all(len(line) <= 80 and "…" not in line for line in lines), text.getvalue()


def test_without_optuna_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portable_gpu.cli.tune.find_spec", lambda name: None)
    assert main(["tune", "gemm"]) == 1
    assert "pip install '.[tune]'" in capsys.readouterr().err


def test_pairs_of_edges_all_occur() -> None:
    rows = list(levels(5))
    assert len(rows) == 25
    for i in range(5):
        for j in range(i):
            assert len({(item[i], item[j]) for item in rows}) == 25


def test_operations_have_default_shapes_of_both_kinds() -> None:
    for operation in TUNED:
        assert jobs_of(operation)
        assert jobs_of(operation, target=example_target("gcn"))


# -- files


def test_rows_of_one_key_are_replaced_and_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "t.json"
    store(path, [row(POLICY), row(POLICY, "tall")])
    store(path, [row(POLICY | {"chunk": 512})])
    chunks = {RowKey.of(item).shape_class: item["policy"]["chunk"] for item in read_rows(path)}
    assert chunks == {"any": 512, "tall": 128}
    assert [p.name for p in path.parent.iterdir()] == ["t.json"]


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.json"
    store(path, [row(POLICY)])
    before = path.read_bytes()

    def cut_short(content: Any, file: Any, **_: Any) -> None:
        file.write('{"format"')
        raise KeyboardInterrupt

    monkeypatch.setattr(storing.json, "dump", cut_short)
    with pytest.raises(KeyboardInterrupt):
        store(path, [row(POLICY, "tall")])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


@pytest.mark.parametrize("text", ["{", '{"format": 2, "rows": []}', "[]", '{"format": 1}'])
def test_an_unreadable_file_is_kept_aside(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.warns(UserWarning, match=r"t\.json ignored and kept as .*t\.json\.bad") as caught:
        store(path, [row(POLICY)])
    assert len(caught) == 1
    assert (tmp_path / "t.json.bad").read_text() == text
    assert len(read_rows(path)) == 1


def merge_tool() -> Any:
    path = Path(__file__).parents[2] / "tools" / "merge_tuning.py"
    spec = importlib.util.spec_from_file_location("merge_tuning", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_maintainers_merge(tmp_path: Path) -> None:
    source, folder = tmp_path / "user.json", tmp_path / "data"
    store(source, [row(POLICY), row(POLICY, device="NVIDIA H200")])
    (folder / "nvidia_h200.json").parent.mkdir()
    store(folder / "nvidia_h200.json", [row(POLICY, "tall", device="NVIDIA H200")])
    assert len(merge_tool().merge(source, folder)) == 2
    assert len(read_rows(folder / "nvidia_h200.json")) == 2
    assert all(path.suffix == ".json" for path in folder.iterdir())


def test_a_merged_row_of_a_cpu_serves_others_of_its_kind(tmp_path: Path) -> None:
    measured = cpu_with(cache_size=32 << 20)
    source, folder = tmp_path / "user.json", tmp_path / "data"
    store(source, [row(POLICY, device=tuned_key(measured))])
    (written,) = merge_tool().merge(source, folder)
    table = TuningTable([written])

    def chunk(target: Target) -> int:
        return table.choose("gemm_packed", PackedPolicy, target, FLOAT, "square").policy.chunk

    assert chunk(cpu_with(name="another processor", cache_size=36 << 20)) == POLICY["chunk"]
    formula = PackedPolicy.default(measured, FLOAT).chunk
    assert formula != POLICY["chunk"]
    assert chunk(cpu_with(32, cache_size=32 << 20)) == formula  # AVX2
    assert chunk(cpu_with(cache_size=256 << 20)) == formula


def test_rows_without_evidence_are_not_merged(tmp_path: Path) -> None:
    source, folder = tmp_path / "user.json", tmp_path / "data"
    store(source, [row(POLICY), row(POLICY, "tall", evidence={"speed_up": 2})])
    with pytest.raises(ValueError, match=r"tall .* has no baseline, date, driver"):
        merge_tool().merge(source, folder)
    assert not folder.exists()
    source.write_text(json.dumps({"format": 9, "rows": []}))
    with pytest.raises(TuningFileError, match="format 9"):
        merge_tool().merge(source, folder)
