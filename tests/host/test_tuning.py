"""The tuning table: lookup order, and what a bad file costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest

import portable_gpu
from portable_gpu.dtypes import Element, element
from portable_gpu.errors import PolicyError, TuningFileError
from portable_gpu.targets import Target, example_target
from portable_gpu.tuning.policy import Policy, Range
from portable_gpu.tuning.store import store
from portable_gpu.tuning.table import TuningTable, read_rows

TARGET = example_target("gcn")
FLOAT = element(np.float32)


@dataclass(frozen=True)
class TilePolicy(Policy):
    """A small policy with one limit."""

    tile: Annotated[int, Range(0, 1 << 20)]
    unroll: Annotated[int, Range(0, 64)] = 1

    @classmethod
    def default(cls, target: Target, elem: Element) -> TilePolicy:
        return cls(target.subgroup_size)

    def limits(self, target: Target, elem: Element) -> Mapping[str, bool]:
        return {
            "the tile fits local memory": self.tile * elem.itemsize <= target.local_mem_size,
            "unroll is positive": self.unroll > 0,
        }


def row(tile: int, device: str = "class:gcn", **changes: Any) -> dict[str, Any]:
    return {
        "kernel": "tile",
        "device": device,
        "element": "f32",
        "shape_class": "any",
        "policy": {"tile": tile, "unroll": 2},
        "evidence": {"speed_up": 1.2},
    } | changes


def table_file(path: Path, *rows: Any, version: int = 1) -> Path:
    path.write_text(json.dumps({"format": version, "rows": rows}))
    return path


def choose(table: TuningTable, target: Target = TARGET, shape_class: str = "any") -> int:
    return table.choose("tile", TilePolicy, target, FLOAT, shape_class).policy.tile


def test_without_rows_the_formula_decides() -> None:
    choice = TuningTable([]).choose("tile", TilePolicy, TARGET, FLOAT)
    assert choice.policy == TilePolicy(64)
    assert choice.origin == "TilePolicy.default"


def test_device_row_before_class_row(tmp_path: Path) -> None:
    path = table_file(tmp_path / "t.json", row(16), row(128, TARGET.facts.name))
    choice = TuningTable([path]).choose("tile", TilePolicy, TARGET, FLOAT)
    assert choice.policy == TilePolicy(128, 2)
    assert choice.evidence == {"speed_up": 1.2}
    assert TARGET.facts.name in choice.origin
    assert str(path) in choice.origin


def test_first_file_before_later_ones(tmp_path: Path) -> None:
    user_file = table_file(tmp_path / "own.json", row(16))
    shipped = table_file(tmp_path / "shipped.json", row(32), row(48, shape_class="narrow"))
    table = TuningTable([user_file, shipped])
    assert choose(table) == 16
    assert choose(table, shape_class="narrow") == 48


def test_rows_of_other_kernels_elements_and_classes_do_not_count(tmp_path: Path) -> None:
    rows = [row(16, kernel="other"), row(16, element="f64"), row(16, "class:rdna")]
    assert choose(TuningTable([table_file(tmp_path / "t.json", *rows)])) == 64


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "7",
        '{"rows": []}',
        '{"format": 2, "rows": []}',
        '{"format": 1}',
        '{"format": 1, "rows": [{}]}',
        '{"format": 1, "rows": ["row"]}',
        '{"format": 1, "rows": 3}',
        json.dumps({"format": 1, "rows": [row(16, kernel=3)]}),
        json.dumps({"format": 1, "rows": [row(16, policy=[])]}),
        json.dumps({"format": 1, "rows": [row(16, evidence="fast")]}),
        "\xff\xfe",
    ],
)
def test_bad_file_is_ignored_with_one_warning(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    good = table_file(tmp_path / "good.json", row(16))
    with pytest.warns(UserWarning, match=r"bad\.json ignored") as caught:
        table = TuningTable([path, good])
    assert len(caught) == 1
    assert choose(table) == 16


def test_missing_file_is_ignored_with_one_warning(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="ignored") as caught:
        TuningTable([tmp_path / "absent.json"])
    assert len(caught) == 1


@pytest.mark.parametrize(
    "policy",
    [
        {"tile": 1 << 20, "unroll": 1},
        {"tile": 16, "unroll": 0},
        {"unroll": 1},
        {"tile": 16, "unroll": 1, "extra": 1},
        {"tile": "16", "unroll": 1},
        {"tile": None, "unroll": 1},
        {"tile": 16, "unroll": True},
    ],
)
def test_row_that_does_not_fit_gives_way_to_the_next(tmp_path: Path, policy: Any) -> None:
    rows = [row(0, TARGET.facts.name, policy=policy), row(16)]
    table = TuningTable([table_file(tmp_path / "t.json", *rows)])
    with pytest.warns(UserWarning, match="row for tile ignored") as caught:
        assert choose(table) == 16
    assert len(caught) == 1


def test_users_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(table_file(tmp_path / "t.json", row(16))))
    assert choose(TuningTable.load()) == 16
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(tmp_path / "absent.json"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TuningTable.load()


def test_policy_error_names_every_broken_limit() -> None:
    with pytest.raises(PolicyError, match=r"the tile fits local memory; unroll is positive"):
        TilePolicy(1 << 20, 0).check(TARGET, FLOAT)


def test_policy_round_trip() -> None:
    policy = TilePolicy(32, 2)
    assert TilePolicy.from_dict(policy.to_dict()) == policy
    assert TilePolicy.from_dict({"tile": 32}) == TilePolicy(32)  # from before there was unroll
    with pytest.raises(PolicyError, match="fields missing or unknown: tile, width"):
        TilePolicy.from_dict({"width": 3, "unroll": 1})


_STORER = """
import sys
import time
from pathlib import Path
from portable_gpu.tuning.store import store

own = {"device": sys.argv[2], "element": "f32", "shape_class": "any", "policy": {"tile": 16}}
path = Path(sys.argv[1])
path.with_name(sys.argv[2]).touch()  # all begin together
while len(list(path.parent.iterdir())) < 3:
    time.sleep(1e-4)
for number in range(40):
    store(Path(sys.argv[1]), [{"kernel": f"kernel {number}", **own}])
"""


def test_processes_that_store_at_once_lose_no_row(tmp_path: Path) -> None:
    path = tmp_path / "tuning" / "t.json"
    path.parent.mkdir()
    names = ("first", "second", "third")
    storers = [
        subprocess.Popen(
            [sys.executable, "-c", _STORER, str(path), name], stderr=subprocess.PIPE, text=True
        )
        for name in names
    ]
    for storer in storers:
        _, errors = storer.communicate(timeout=60)
        assert storer.returncode == 0, errors
    result = {(row["device"], row["kernel"]) for row in read_rows(path)}
    assert len(result) == 40 * len(names)


# -- files of others


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = table_file(tmp_path / "t.json", row(16))
    path.chmod(0o600)
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(path))
    return path


@pytest.mark.skipif(os.name != "posix", reason="modes of Unix")
@pytest.mark.parametrize("mode", [0o660, 0o602])
def test_a_file_that_others_may_write_is_ignored(own: Path, mode: int) -> None:
    own.chmod(mode)
    with pytest.warns(UserWarning, match="chmod go-w"):
        assert choose(TuningTable.load()) == 64


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give away")
def test_a_file_of_somebody_else_is_ignored(own: Path) -> None:
    os.chown(own, 12345, 12345)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert choose(TuningTable.load()) == 64


@pytest.mark.skipif(os.name != "posix", reason="pipes of Unix")
def test_what_is_no_file_of_sane_size_is_ignored_at_once(own: Path) -> None:
    own.unlink()
    os.mkfifo(own)
    with pytest.warns(UserWarning, match="not a regular file"):
        assert choose(TuningTable.load()) == 64
    own.unlink()
    own.touch(0o600)
    os.truncate(own, 6 << 30)
    with pytest.warns(UserWarning, match="bytes, more than"):
        assert choose(TuningTable.load()) == 64


def test_a_link_to_an_own_file_counts(own: Path) -> None:
    own.rename(own.with_name("kept elsewhere.json"))
    own.symlink_to("kept elsewhere.json")
    assert choose(TuningTable.load()) == 16


_WITHOUT_HOME = """
import os, sys, warnings
import portable_gpu.tuning.table as table

if os.geteuid() == 0:
    os.setgid(54321)
    os.setuid(54321)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    table.TuningTable.load()
print(table.user_file(), len(caught), *(one.message for one in caught))
"""


def without_home(**changes: str) -> str:
    folders = Path(portable_gpu.__file__).resolve().parents
    if os.geteuid() == 0 and not all(folder.stat().st_mode & 0o005 == 0o005 for folder in folders):
        pytest.skip(f"another user may not look into {folders[0]}")
    names = ("HOME", "XDG_CONFIG_HOME", "PORTABLE_GPU_TUNING")
    environment = {k: v for k, v in os.environ.items() if k not in names} | changes
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_HOME],
        env=environment, check=True, capture_output=True, text=True, timeout=60,
    ).stdout  # fmt: skip


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can be anybody")
def test_a_user_without_a_home_has_no_file() -> None:
    assert without_home() == "None 0\n"


@pytest.mark.skipif(os.name != "posix", reason="modes of Unix")
def test_a_folder_that_cannot_be_read_costs_one_warning(tmp_path: Path) -> None:
    closed = tmp_path / "config"
    closed.mkdir(mode=0)
    result = without_home(XDG_CONFIG_HOME=str(closed))
    assert " 1 " in result
    assert "Permission denied" in result


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders of a user's are closed to others")
def test_a_table_that_may_not_be_read_is_not_moved_aside(tmp_path: Path) -> None:
    table = tmp_path / "tuning.json"
    row = {"device": "*", "element": "f32", "shape_class": "*", "policy": {}, "evidence": {}}
    store(table, [{"kernel": f"kernel {n}", **row} for n in range(5)])
    table.chmod(0o664)
    with pytest.raises(TuningFileError, match="chmod go-w"):
        store(table, [{"kernel": "another", **row}])
    table.chmod(0o600)
    assert len(read_rows(table)) == 5
    assert [file.name for file in tmp_path.iterdir()] == ["tuning.json"]
