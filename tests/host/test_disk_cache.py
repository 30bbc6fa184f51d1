"""The disk cache trusts nothing that does not check out, and never fails a call."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from portable_gpu import folders
from portable_gpu.runtime import disk_cache
from portable_gpu.runtime.disk_cache import DiskCache

KEY = "0123abcd"
PAYLOAD = bytes(range(256)) * 40 + b"\nsecond line\n"


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    cache = DiskCache(tmp_path / "programs")
    cache.write(KEY, PAYLOAD)
    return cache


def entry(cache: DiskCache) -> Path:
    assert cache.folder is not None
    return cache.folder / KEY


def test_round_trip(cache: DiskCache) -> None:
    assert cache.read(KEY) == PAYLOAD
    assert cache.read("another") is None
    cache.write(KEY, b"")
    assert cache.read(KEY) == b""


def test_truncated_anywhere_is_absent(cache: DiskCache) -> None:
    whole = entry(cache).read_bytes()
    for length in (*range(len(whole) - len(PAYLOAD) + 3), len(whole) // 2, len(whole) - 1):
        entry(cache).write_bytes(whole[:length])
        assert cache.read(KEY) is None


def test_corrupt_anywhere_is_absent(cache: DiskCache) -> None:
    whole = entry(cache).read_bytes()
    head = len(whole) - len(PAYLOAD)
    for position in (*range(head), head + 17, len(whole) - 1):
        flipped = bytes((whole[position] ^ 0x15,))
        entry(cache).write_bytes(whole[:position] + flipped + whole[position + 1 :])
        assert cache.read(KEY) is None
    entry(cache).write_bytes(whole + b"more")
    assert cache.read(KEY) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x7fELF" + bytes(100),
        b"portable_gpu program 0\n{}\n",
        b"portable_gpu program 1\n[1]\npayload",
        b"portable_gpu program 2\n\xff\xfe\npayload",
        b"portable_gpu program 2\n" + b"[" * 100_000 + b"\npayload",
    ],
)
def test_foreign_file_is_absent_and_replaced(cache: DiskCache, content: bytes) -> None:
    entry(cache).write_bytes(content)
    assert cache.read(KEY) is None
    cache.write(KEY, PAYLOAD)
    assert cache.read(KEY) == PAYLOAD


def test_entry_of_another_key_is_absent(cache: DiskCache) -> None:
    assert cache.folder is not None
    entry(cache).rename(cache.folder / "moved")
    assert cache.read("moved") is None


def test_entry_that_is_a_folder_is_absent(cache: DiskCache) -> None:
    entry(cache).unlink()
    entry(cache).mkdir()
    assert cache.read(KEY) is None
    with pytest.warns(UserWarning, match="Is a directory"):
        cache.write(KEY, PAYLOAD)
    assert cache.folder is not None
    assert list(cache.folder.iterdir()) == [entry(cache)]


def test_folder_that_cannot_be_made_costs_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = DiskCache(tmp_path / "file" / "programs")
    with pytest.warns(UserWarning, match="compiled programs are not kept"):
        cache.write(KEY, PAYLOAD)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write(KEY, PAYLOAD)
    assert cache.read(KEY) is None


def test_folders_are_the_users_alone(tmp_path: Path) -> None:
    DiskCache(tmp_path / "cache" / "programs").write(KEY, PAYLOAD)
    for folder in ("cache", "cache/programs"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache" / "programs" / KEY).stat().st_mode & 0o777 == 0o600


def test_the_folder_of_an_older_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made under umask 002, where each user is a group: the cache is not lost."""
    monkeypatch.delenv("PORTABLE_GPU_CACHE", raising=False)
    monkeypatch.setattr(folders, "cache_folder", lambda: tmp_path / "portable_gpu")
    cache = DiskCache.default()
    assert cache.folder is not None
    cache.write(KEY, PAYLOAD)
    cache.folder.chmod(0o775)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.read(KEY) == PAYLOAD
    assert cache.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_folder_that_others_may_write_is_not_used(cache: DiskCache, mode: int) -> None:
    assert cache.folder is not None
    cache.folder.chmod(mode)
    with pytest.warns(UserWarning, match="chmod go-w"):
        assert cache.read(KEY) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.write("another", PAYLOAD)
    cache.folder.chmod(0o700)
    assert cache.read(KEY) == PAYLOAD
    assert cache.read("another") is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give away")
def test_folder_of_somebody_else_is_not_used(cache: DiskCache) -> None:
    assert cache.folder is not None
    os.chown(cache.folder, 12345, 12345)
    with pytest.warns(UserWarning, match="belongs to another user"):
        assert cache.read(KEY) is None


def test_what_was_not_read_for_longest_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "CAPACITY", 4096)
    cache = DiskCache(tmp_path)
    names = [f"{number:064x}" for number in range(6)]
    for age, name in enumerate(names[:4]):
        cache.write(name, bytes(900))
        os.utime(tmp_path / name, (1_000_000 + age, 1_000_000 + age))
    notes, old, new = tmp_path / "notes.txt", tmp_path / ".new-dead", tmp_path / ".new-alive"
    for path in (notes, old, new):
        path.write_bytes(bytes(5000))
    for path in (notes, old):
        os.utime(path, (1_000_000, 1_000_000))
    assert cache.read(names[0]) is not None  # which makes it the youngest
    for name in names[4:]:
        cache.write(name, bytes(900))
    left = {path.name for path in tmp_path.iterdir()}
    assert names[0] in left
    assert names[-1] in left
    assert names[1] not in left
    assert {notes.name, new.name} < left, "files of others and of living writers stay"
    assert old.name not in left
    assert sum(path.stat().st_size for path in tmp_path.glob("0*")) <= 4096


def test_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORTABLE_GPU_CACHE", "off")
    cache = DiskCache.default()
    cache.write(KEY, PAYLOAD)
    assert cache.read(KEY) is None
    monkeypatch.setenv("PORTABLE_GPU_CACHE", str(tmp_path))
    assert DiskCache.default().folder == tmp_path


_WRITER = """
import sys
import warnings
from pathlib import Path
from portable_gpu.runtime.disk_cache import DiskCache

cache = DiskCache(Path(sys.argv[1]))
own = sys.argv[2].encode() * int(sys.argv[3])
for _ in range(100):
    cache.write("shared", own)
    found = cache.read("shared")
    assert found is not None and len(set(found)) == 1, "torn entry"
"""


def test_several_processes_share_a_folder(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path), letter, str(size)],
            stderr=subprocess.PIPE,
            text=True,
        )
        for letter, size in (("a", 10), ("b", 100_000), ("c", 1_000))
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]
