"""Files that commands write: whole or not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from portable_gpu.cli.files import check_writable, replacing, write_json
from portable_gpu.errors import ArgumentError, PortableGPUError


def test_a_file_takes_its_place_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    with replacing(path) as file:
        file.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_after_an_exception_all_is_as_it_was(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")

    def interrupted() -> None:
        with replacing(path) as file:
            file.write_text("half")
            raise error

    with pytest.raises(error):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_json(link, [1])
    assert link.is_symlink()
    assert json.loads(target.read_text()) == [1]
    write_json(Path(os.devnull), [1])
    assert not Path(os.devnull).is_file()


def test_an_error_of_the_system_is_one_of_the_library(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "report.json"
    with pytest.raises(PortableGPUError, match="cannot be written: No such file"):
        write_json(path, [1])


def test_paths_that_cannot_be_written(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.json")
    check_writable(Path(os.devnull))
    assert not list(tmp_path.iterdir())
    with pytest.raises(ArgumentError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(ArgumentError, match="there is no folder"):
        check_writable(tmp_path / "gone" / "new.json")
    if Path("/proc/self").is_dir():
        with pytest.raises(ArgumentError, match="cannot be written"):
            check_writable(Path("/proc/self/new.json"))
