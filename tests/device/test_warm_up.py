"""Compiling ahead, and the lines that say that a call is compiling."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from terminal import on_terminal

import portable_gpu as pg
from portable_gpu.errors import ArgumentError, DTypeError
from portable_gpu.runtime import notice
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.pocl import drivers
from portable_gpu.runtime.program import ProgramCache


def test_calls_find_their_programs(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORTABLE_GPU_CACHE", str(tmp_path))
    first = Engine(engine.device, caller=False)
    done = first.warm_up("sum", sizes=[300, 200])
    assert done.programs == len(first.programs) >= 1
    assert done.seconds > 0
    assert first.warm_up("sum", sizes=[300, 200]).programs == 0

    def no_build(*_: object) -> None:
        raise AssertionError("it was to be on disk")

    monkeypatch.setattr(ProgramCache, "_build", no_build)
    later = Engine(engine.device, caller=False)
    x = np.ones((300, 200), np.float32)
    assert pg.sum(x, engine=later) == 60000
    assert (pg.sum(x, axis=0, engine=later) == 300).all()
    later.warm_up("sum", sizes=[300, 200])
    assert len(later.programs) == done.programs


def test_products_and_pairs(engine: Engine) -> None:
    engine.warm_up("gemm", sizes=[40, 50, 60])
    engine.warm_up("gemv", sizes=[40, 50], dtypes=[np.float32])
    engine.warm_up("dot", sizes=[500])


def test_what_it_refuses(engine: Engine) -> None:
    with pytest.raises(ArgumentError, match=r"no operation 'summ'; there are: .*all, any"):
        engine.warm_up("summ")
    with pytest.raises(ArgumentError, match="gemm takes 3 sizes"):
        engine.warm_up("gemm", sizes=[3, 4])
    with pytest.raises(ArgumentError, match="name one"):
        engine.warm_up("sum", "max", sizes=[3])
    with pytest.raises(ArgumentError, match="each above 0"):
        engine.warm_up("sum", sizes=[0])
    with pytest.raises(DTypeError, match="float33"):
        engine.warm_up("sum", dtypes=["float33"])


@pytest.mark.divided("processes of warm_up")
def test_command(tmp_path: Path) -> None:
    pytest.importorskip("typer")
    command = "import sys; from portable_gpu.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", command, "warm-up", "sum", "300"],
        env=os.environ | {"PORTABLE_GPU_CACHE": str(tmp_path)},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "programs in" in done.stdout
    assert f"kept in {tmp_path}" in " ".join(done.stdout.split())
    assert any(tmp_path.iterdir())


_SLOW = f"""
import importlib.util, logging, threading, time

# The module alone: an import of the package takes a second.
spec = importlib.util.spec_from_file_location("notice", {notice.__file__!r})
notice = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notice)

assert notice.PATIENCE == 1
notice.PATIENCE = 0.3
for seconds in (0, 0, 0.5, 0, 1):
    with notice.compiling("a device", True):
        time.sleep(seconds)
    time.sleep(0.2)  # which does not count
assert threading.active_count() == 1
"""
_LINE = "portable_gpu is compiling for a device: program {}, {} s so far; {}"
_KEPT = "programs are kept for the next time"


def piped(script: str, **environment: str) -> str:
    """Run ``script`` and return its stderr, which is not a terminal."""
    done = subprocess.run(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, timeout=60,
        env=os.environ | environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr


_WITHOUT_CACHE = """
import contextlib, glob, os, threading, time
import numpy as np, pyopencl as cl
import portable_gpu as pg
from portable_gpu.runtime import program

def compiled():
    return len(glob.glob(os.environ["POCL_CACHE_DIR"] + "/**/*.so", recursive=True))

blocks = []

@contextlib.contextmanager
def compiling(*arguments, **named):
    before = compiled()
    with notice(*arguments, **named):
        yield
    blocks.append((before, compiled(), named.get("programs", 1)))
    thread = threading.Thread(target=try_locks)
    thread.start()
    thread.join()

def try_locks():
    locks = list(engine.programs._building.values())
    held.append(bool(locks) and not any(lock.acquire(blocking=False) for lock in locks))

notice, program.compiling, held = program.compiling, compiling, []
engine = pg.Engine()
x = pg.asarray(np.ones((300, 400), np.float32), engine=engine)
blocks.clear(); held.clear()
"""


@pytest.mark.divided("processes of warm_up")
def test_without_a_cache_the_first_launch_is_a_part_of_the_build(
    engine: Engine, tmp_path: Path
) -> None:
    """PoCL compiles then; its libraries appear while the notice counts and the lock is held."""
    if drivers(engine.device.platform) is None:
        pytest.skip("another platform compiles in the build")
    piped(
        _WITHOUT_CACHE
        + """
total = pg.sum(x, engine=engine)
assert compiled() and blocks[-1][1] == compiled(), blocks
assert sum(after - before for before, after, _ in blocks) == compiled(), blocks
assert sum(programs for *_, programs in blocks) < len(blocks) and all(held)
assert float(pg.asnumpy(total)) == 120000
blocks.clear()
assert float(pg.asnumpy(pg.sum(x, engine=engine))) == 120000 and not blocks

# A launch does not wait for an event of the caller.
event = cl.UserEvent(engine.context)
first = pg.max(x, engine=engine, wait_for=[event])
second = pg.elementwise("x + 1", x=first, engine=engine)  # in the same queue, without the event
event.set_status(cl.command_execution_status.COMPLETE)
assert float(pg.asnumpy(first)) == 1 and float(pg.asnumpy(second)) == 2
""",
        POCL_CACHE_DIR=str(tmp_path), PORTABLE_GPU_CACHE="off",
    )  # fmt: skip


def test_lines_on_a_terminal_count_programs() -> None:
    """The first after 0.3 s, the second after 1.2 s of compilation."""
    lines = on_terminal(_SLOW).splitlines()
    assert lines == [_LINE.format(3, 0, _KEPT), _LINE.format(5, 1, _KEPT)]


def test_one_line_on_the_log_elsewhere() -> None:
    assert piped(_SLOW) == _LINE.format(3, 0, _KEPT) + "\n"
    log = 'logging.basicConfig(format="%(name)s %(levelname)s %(message)s")\n'
    result = piped(_SLOW.replace("\n\n", f"\n{log}", 1).replace("True", "False"))
    assert result == f"portable_gpu WARNING {_LINE.format(3, 0, '').rstrip('; ')}\n"
    assert piped(_SLOW.replace("\n\n", f"\n{log}logging.disable()\n", 1)) == ""


@pytest.mark.parametrize("run", [on_terminal, piped])
def test_no_line_where_nothing_takes_long(run: Callable[[str], str]) -> None:
    assert run(_SLOW.replace("= 0.3", "= 20")) == ""


@pytest.mark.parametrize("stderr", ["None", "Writer()", "open(os.devnull); sys.stderr.close()"])
def test_any_stderr_will_do(stderr: str) -> None:
    script = f"""
import os, sys
class Writer:
    def write(self, text): ...
    def flush(self): ...
sys.stderr = {stderr}
{_SLOW}"""
    assert subprocess.run([sys.executable, "-c", script], timeout=60).returncode == 0
