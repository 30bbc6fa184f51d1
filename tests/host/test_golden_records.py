"""Golden records: a planted change is found, a renaming is none, and records do not depend on luck.

The stored records themselves are compared with the code by ``tools/golden_records.py check``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from canonical_text import canonical, digest
from random_problems import FAMILIES, Problem, drawn
from recorded_devices import RECORDED
from recorder import EACH, Recorder, noted, recorded, target_of
from records import Pair, Record, compared, file_name

from portable_gpu.codegen import source
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy

ROOT = Path(__file__).resolve().parents[2]

TEXT = """
#ifndef UNIT
#define UNIT 1
#endif
#define AT(i) a[i * step]
#define SIZE (64)
#define LANES
#define UNBOUND(size)
typedef struct { long n; int row; } sum_integers_t;

inline float twice(float x) { float2 v = (float2)(x, x); return v.x + v.y; }

__kernel __attribute__((reqd_work_group_size(SIZE, 1, 1)))
void sum(__global const float *restrict a, int step, const sum_integers_t integers)
{
    const long n = integers.n; (void)n;
    float total = 0, parts[4] = {0, 1}, *first = &total;  // of all
    for (int i = 0, j = 1; i < n; i += j)
        total += twice(AT(i)) * parts[i & 3];
#ifdef WIDE
    for (int i = 0; i < 4; i++) { parts[i] = min(total, *first); }
#endif
}

__kernel LANES UNBOUND(SIZE)
void copy(__global const float *restrict from, __global float *to) { to[0] = from[0]; }
"""
RENAMED = """
#ifndef STEP
#define STEP 1
#endif
#define PLACE(k) x[k * stride]
#define ITEMS (64)
#define EXCHANGES
#define ANY_SIZE(items)
typedef struct {
    long count; int line; } sizes_t;
/* others */
inline float doubled(float value)
{
    float2 v = (float2)(value, value);
    return v.x + v.y;
}
__kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1)))
void add(__global const float *restrict x, int stride, const sizes_t sizes)
{
    const long m = sizes.count; (void)m;
    float whole = 0, pieces[4] = {0, 1},
          *place = &whole;
    for (int i = 0, j = 1; i < m; i += j) whole += doubled(PLACE(i)) * pieces[i & 3];
#ifdef WIDE
    for (int q = 0; q < 4; q++) { pieces[q] = min(whole, *place); }
#endif
}
__kernel EXCHANGES ANY_SIZE(ITEMS)
void move(__global const float *restrict source, __global float *result) { result[0] = source[0]; }
"""


def test_a_renaming_is_no_change() -> None:
    assert canonical(RENAMED) == canonical(TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("min(total", "max(total"), ("v.x + v.y", "v.x + v.x"), ("i & 3", "i & 1"), ("64", "32"),
        ("a[i * step]", "a[step]"), ("*first)", "total)"), ("float total", "double total"),
        ("ifdef", "ifndef"), ("WIDE", "LONG"), ("i += j", "i += i"), ("(x, x)", "(x, step)"),
        ("SIZE (64)", "SIZE(i) (64)"), ("integers.n", "integers.row"), ("long n;", "int n;"),
        ("int i = 0, j = 1", "int step = 0, i = 0, j = 1"), ("restrict", ""),
    ],
)  # fmt: skip
def test_what_is_computed_is_a_change(old: str, new: str) -> None:
    changed = TEXT.replace(old, new, 1)
    assert changed != TEXT
    assert digest(changed) != digest(TEXT)


def test_names_that_options_define_stay() -> None:
    text = "#define LOCKSTEP 1\nint f() { return LOCKSTEP; }"
    assert "n0" in canonical(text)
    assert "define LOCKSTEP := 1" in canonical(text, {"LOCKSTEP"})


PROBLEM = Problem(
    "gemm",
    {"dtype": "float32", "m": 1024, "n": 1024, "k": 512, "batch": [], "trans": "NN",
     "precision": "ieee", "reads": False},
)  # fmt: skip
SOLVE = Problem(
    "ragged",
    {"dtype": "float32", "what": "solve", "sizes": [3, 30], "columns": 4, "lower": True,
     "trans": False, "unit": True},
)  # fmt: skip


def _noted(problem: Problem, device: str = "MI250") -> Pair:
    return noted(Recorder(target_of(device)), problem)


def test_a_changed_constant_of_a_policy_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _noted(PROBLEM, "GTX 1080 Ti")
    assert before.policy["tile_m"] > 0
    fit = GemmPolicy._fit.__func__

    def smaller(cls, target, elem, group, *others, **named):
        return fit(cls, target, elem, group // 2, *others, **named)

    monkeypatch.setattr(GemmPolicy, "_fit", classmethod(smaller))
    changes = before.changes(_noted(PROBLEM, "GTX 1080 Ti"))
    assert {"configuration", "launches", "text"} <= set(changes)


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [("wave", "shared_sums", []), ("acc_t sums = ", "acc_t sums = -", ["text"])],
)
def test_a_template_is_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str, changes: list[str]
) -> None:
    problem = Problem("gemv", {"dtype": "float32", "m": 3, "n": 20000, "strides": [20000, 1]})
    before = _noted(problem)
    assert before.texts[0][0] == "gemv/long_rows"
    folder = tmp_path / "cl_kernels"
    shutil.copytree(source.kernel_folder(), folder)
    template = folder / "gemv" / "long_rows.cl.mako"
    text = template.read_text(encoding="utf-8")
    assert old in text
    template.write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(source, "kernel_folder", lambda: folder)
    monkeypatch.setattr(source, "_templates", source._Templates())
    assert before.changes(_noted(problem)) == changes


def test_what_stays_of_a_launch_is_in_the_record() -> None:
    before = _noted(SOLVE)
    other = Problem("ragged", SOLVE.data | {"sizes": [4, 30]})
    after = _noted(other)
    assert (before.launches, before.texts) == (after.launches, after.texts)
    assert before.changes(after) == ["launches"]  # the table of sizes


def test_differences_are_told_apart() -> None:
    pair = Pair("tiled", ["0.0 64/64"], "1", [["gemm/gemm", "a"], ["gemm/mirror", "b"]])
    other = Pair("tiled", ["0.0 64/64"], "1", [["gemm/gemm", "c"], ["gemm/mirror", "b"]])
    old, new = Record("d", "", {"p 1": pair, "q 2": pair}), Record("d", "", {"p 1": other})
    text, gone = compared(old, new)
    assert text.kinds == ("text",)
    assert list(text.texts) == [("gemm/gemm", "a", "c")]
    assert (gone.kinds, gone.problem) == (("gone",), "q 2")
    assert not compared(old, old)


def test_a_plan_that_is_there_counts_as_made_again() -> None:
    recorder = Recorder(target_of("H200"))
    problem = next(item for item in drawn("H200", recorder.target, 1) if item.family == "packed")
    assert noted(recorder, problem) == noted(recorder, problem)


def test_a_record_is_read_as_it_was_written_and_no_seed_of_hashes_changes_it() -> None:
    record = recorded("Mali-G52", 1)
    assert {item.split()[0] for item in record.pairs} == set(FAMILIES)
    assert all(pair.texts and pair.launches for pair in record.pairs.values())
    assert Record.read(record.written()) == record
    code = "from recorder import recorded; print(recorded('Mali-G52', 1).written(), end='')"
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests"), *sys.path])
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == record.written()


@pytest.mark.parametrize("device", RECORDED)
def test_the_stored_records_are_of_the_problems(device: str) -> None:
    path = ROOT / "tests" / "golden" / file_name(device)
    record = Record.read(path.read_text(encoding="utf-8"))
    assert record.device == device
    assert list(record.pairs) == [str(item) for item in drawn(device, target_of(device), EACH)], (
        "run: python tools/golden_records.py update"
    )
