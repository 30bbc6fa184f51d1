"""The check of PoCL's cache: one thread of a process makes it, and of what may have changed."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from portable_gpu.runtime import pocl_entries


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads that have checked all entries, which takes a while."""
    result: list[str] = []

    def check() -> None:
        time.sleep(0.05)
        result.append(threading.current_thread().name)

    monkeypatch.setattr(pocl_entries, "_state", "")
    monkeypatch.setattr(pocl_entries, "_discard_all_damaged", check)
    return result


def test_threads_wait_for_the_one_that_checks(checks: list[str]) -> None:
    seen: list[int] = []

    def build() -> None:
        pocl_entries.discard_damaged()
        seen.append(len(checks))

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1] * 8


def test_a_check_that_a_signal_ends_is_made_again(
    checks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = pocl_entries._discard_all_damaged

    def interrupted() -> None:
        pocl_entries.discard_damaged()  # by a handler that builds: it does not wait for itself
        raise KeyboardInterrupt

    monkeypatch.setattr(pocl_entries, "_discard_all_damaged", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pocl_entries.discard_damaged()
    monkeypatch.setattr(pocl_entries, "_discard_all_damaged", whole)
    pocl_entries.discard_damaged()
    assert len(checks) == 1


TICK = 0.02  # seconds; the clock of files has steps of up to 10 ms


class Cache:
    """Two entries of PoCL's cache, and those that were checked since the last look."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self._checked = root, set[str]()
        self.entries = [root / "AB" / ("C" * 37), root / "BA" / ("D" * 37)]
        self.libraries = [entry / "sum" / "64-1-1" / "sum.so" for entry in self.entries]
        for entry, library in zip(self.entries, self.libraries, strict=True):
            library.parent.mkdir(parents=True)
            (entry / "program.bc").write_bytes(b"BC\xc0\xde")
        check = pocl_entries._discard_if_damaged

        def discard(entry: str) -> None:
            self._checked.add(entry)
            check(entry)

        monkeypatch.setattr(pocl_entries, "folder", lambda: root)
        monkeypatch.setattr(pocl_entries, "_SETTLED", 0.0)
        monkeypatch.setattr(pocl_entries, "_boot", lambda: "a boot")
        monkeypatch.setattr(pocl_entries, "_discard_if_damaged", discard)

    def check(self) -> list[Path]:
        """Check as a new process does; return the entries whose files were read."""
        time.sleep(TICK)
        pocl_entries._discard_all_damaged()
        time.sleep(TICK)
        result = sorted(map(Path, self._checked))
        self._checked.clear()
        return result


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    return Cache(tmp_path / "kcache", monkeypatch)


def test_entries_without_changes_are_checked_once(cache: Cache) -> None:
    assert cache.check() == cache.entries
    (cache.entries[0] / "last_accessed").touch()  # as PoCL does at each use
    assert cache.check() == []


def test_changed_entries_are_checked_and_removed(cache: Cache) -> None:
    cache.check()
    (cache.entries[0] / "program.bc").write_bytes(bytes(4))
    os.utime(cache.entries[0] / "program.bc", (1, 1))  # as a copy or an archive has it
    assert cache.check() == cache.entries[:1]
    assert [entry.exists() for entry in cache.entries] == [False, True]
    library = cache.entries[1] / "sum" / "128-1-1" / "sum.so"
    library.parent.mkdir()
    library.write_bytes(b"\x7fELF")
    assert cache.check() == cache.entries[1:]
    assert not cache.entries[1].exists()


def test_files_of_the_hour_before_the_last_check_are_checked_again(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    assert pocl_entries._SETTLED >= 600
    monkeypatch.setattr(pocl_entries, "folder", lambda: cache.root)
    monkeypatch.setattr(pocl_entries, "_boot", lambda: "a boot")
    pocl_entries._discard_all_damaged()
    cache.libraries[0].write_bytes(b"")  # in the folder that it had
    pocl_entries._discard_all_damaged()
    assert [entry.exists() for entry in cache.entries] == [False, True]


@pytest.mark.parametrize("case", ["another boot", "no boot", "a later mark", "a mark of another"])
def test_all_entries_are_checked_where_the_mark_is_no_use(
    case: str, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.check()
    mark = cache.root / pocl_entries._MARK
    if case == "a later mark":  # the clock was set back
        os.utime(mark, (time.time() + 1000,) * 2)
    elif case == "a mark of another":
        mark.write_bytes(b"\xff\xfe")
    else:
        monkeypatch.setattr(pocl_entries, "_boot", lambda: case if case == "another boot" else "")
    assert cache.check() == cache.entries
    assert list(cache.root.glob("portable_gpu*")) == [mark]


def test_a_check_that_ends_early_leaves_no_mark(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(entry: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pocl_entries, "_discard_if_damaged", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pocl_entries._discard_all_damaged()
    assert not list(cache.root.glob("portable_gpu*"))
    assert cache.check() == cache.entries


def test_a_folder_that_is_not_there_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pocl_entries, "folder", lambda: tmp_path / "none")
    pocl_entries._discard_all_damaged()
    assert not (tmp_path / "none").exists()
