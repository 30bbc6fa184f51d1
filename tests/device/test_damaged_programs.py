"""With any files in the cache folder, a call gives the right result, in bounded time."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.runtime.disk_cache import LARGEST, DiskCache
from portable_gpu.runtime.engine import Engine

X = np.arange(1000, dtype=np.float32)
ONES = np.ones((3, 1000), np.float32)
Damage = Callable[[Path, Path], None]


def cut(share: float) -> Damage:
    return lambda path, _: os.truncate(path, int(path.stat().st_size * share))


def flip(share: float) -> Damage:
    def damage(path: Path, _: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(share * (len(content) - 1))] ^= 0x15
        path.write_bytes(content)

    return damage


def hold(content: bytes) -> Damage:
    return lambda path, _: void(path.write_bytes(content))


def forge(payload: Callable[[bytes], bytes]) -> Damage:
    """A payload of another making under the header of the older format, with a right hash."""

    def damage(path: Path, _: Path) -> None:
        made = payload(path.read_bytes().partition(b"\n")[2].partition(b"\n")[2])
        digest = hashlib.sha256(made).hexdigest()
        header = f'{{"key": "{path.name}", "sha256": "{digest}"}}\n'.encode()
        path.write_bytes(b"portable_gpu program 1\n" + header + made)

    return damage


def instead(make: Callable[[Path, Path], object]) -> Damage:
    def damage(path: Path, other: Path) -> None:
        path.unlink()
        make(path, other)

    return damage


def mode(bits: int) -> Damage:
    return lambda path, _: path.chmod(bits)


def given_away(path: Path, _: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, 12345)


def swap(path: Path, other: Path) -> None:
    aside = path.with_name("aside")
    path.rename(aside)
    other.rename(path)
    aside.rename(other)


def other_under_this_key(path: Path, other: Path) -> None:
    """Another program, stored as if it were this one: only its kernels' names tell."""
    cache = DiskCache(path.parent)
    payload = cache.read(other.name)
    assert payload is not None
    cache.write(path.name, payload)


def void(_: object) -> None:
    return None


DAMAGES: dict[str, Damage] = {
    **{f"cut to {share:.4f}": cut(share) for share in (0, 0.0001, 0.0007, 0.001, 0.01, 0.1, 0.3,
                                                       0.5, 0.75, 0.9, 0.99, 0.99999)},
    **{f"a bit off at {share:.4f}": flip(share) for share in (0, 0.0001, 0.0005, 0.001, 0.01, 0.1,
                                                              0.5, 0.75, 0.9, 0.99, 1)},
    "empty": hold(b""),
    "another file": hold(b"\x7fELF" + bytes(5000)),
    "another magic": hold(b"portable_gpu program 9\n{}\n"),
    "no digest": hold(b"portable_gpu program 2\n"),
    "no newline": hold(b"portable_gpu program 2\n" + b"0" * 5000),
    "deep JSON": hold(b"portable_gpu program 1\n" + b"[" * 100_000),
    "half, old header": forge(lambda payload: payload[: len(payload) // 2]),
    "nothing, old header": forge(lambda _: b""),
    "zeros, old header": forge(lambda payload: bytes(len(payload))),
    "swapped": swap,
    "another program under this key": other_under_this_key,
    "gone": instead(lambda path, _: None),
    "a pipe": instead(lambda path, _: os.mkfifo(path)),
    "a folder": instead(lambda path, _: path.mkdir()),
    "a link to itself": instead(lambda path, _: path.symlink_to(path)),
    "a link to nothing": instead(lambda path, _: path.symlink_to("nothing")),
    "a link to an endless device": instead(lambda path, _: path.symlink_to("/dev/zero")),
    "a link to another entry": instead(lambda path, other: path.symlink_to(other)),
    "6 GiB": lambda path, _: os.truncate(path, 6 << 30),
    "just too large": lambda path, _: os.truncate(path, LARGEST + 1),
    "unreadable": mode(0),
    "written by the group": mode(0o660),
    "written by all": mode(0o666),
    "somebody else's": given_away,
}  # fmt: skip


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> dict[Path, bytes]:
    """The programs of a sum and a product, as they were kept."""
    folder = tmp_path_factory.mktemp("programs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PORTABLE_GPU_CACHE", str(folder))
        new_engine = Engine(engine.device, caller=False)
        pg.sum(X, engine=new_engine)
        pg.gemv(ONES, X, engine=new_engine)
    result = {path: path.read_bytes() for path in sorted(folder.iterdir())}
    assert len(result) == 2
    return result


@pytest.mark.skipif(os.name != "posix", reason="pipes, links and modes of Unix")
@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_entries(
    name: str, intact: dict[Path, bytes], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = intact
    for path, content in intact.items():
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        path.unlink(missing_ok=True)
        path.touch(0o600)
        path.write_bytes(content)
    DAMAGES[name](first, second)
    monkeypatch.setenv("PORTABLE_GPU_CACHE", str(first.parent))
    new_engine = Engine(engine.device, caller=False)
    begin = time.monotonic()
    assert pg.sum(X, engine=new_engine) == X.sum()
    assert (pg.gemv(ONES, X, engine=new_engine) == X.sum()).all()
    assert time.monotonic() - begin < 30


def test_there_are_forty() -> None:
    assert len(DAMAGES) >= 40


#: Prints how many processes were killed.  They are forks, which import nothing, made before OpenCL
#: is used.
_KILLED = """
import os, signal, time
import numpy as np
import portable_gpu as pg

def started():
    child = os.fork()
    if child:
        return child
    for dtype in ("float32", "int16"):
        x = np.ones(1000, dtype)
        assert (pg.sum(x), pg.max(x)) == (1000, 1)
    os._exit(0)

killed = 0
for turn in range(3):
    pair = [started(), started()]
    time.sleep(0.15 + 0.5 * turn)
    for child in pair:
        os.kill(child, signal.SIGKILL)
    killed += sum(os.WIFSIGNALED(os.waitpid(child, 0)[1]) for child in pair)
assert os.waitpid(started(), 0)[1] == 0
print(killed)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_killed_while_they_build(tmp_path: Path) -> None:
    """Six share a folder and are killed at moments spread over their builds."""
    environment = os.environ | {
        "PORTABLE_GPU_CACHE": str(tmp_path / "programs"),
        "POCL_CACHE_DIR": str(tmp_path / "pocl"),
        "PYTHONPATH": os.pathsep.join([str(Path(pg.__file__).parents[1]), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, "-c", _KILLED], env=environment, text=True, timeout=180,
        capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout), "they were to be killed while they build"
    folder = tmp_path / "programs"
    programs = [path for path in folder.iterdir() if not path.name.startswith(".new-")]
    cache = DiskCache(folder)
    assert programs
    assert all(cache.read(path.name) is not None for path in programs)
