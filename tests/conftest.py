"""Fixtures that all tests share: caches apart from the user's, the engine, and Oclgrind's reports.

Environment:
    PORTABLE_GPU_DEVICE, PORTABLE_GPU_DEVICE_CLASS: What the device tests run on, and as what.
    PORTABLE_GPU_TEST_CALLS, PORTABLE_GPU_TEST_SEED: How many random calls of linalg, and which.
    PORTABLE_GPU_TEST_FEW: Set where fewer sizes will do, as in the jobs of tools/test_matrix.py.
    PORTABLE_GPU_TEST_CASES: Which cases of a test run, if it is a device test or marked "divided":
        "all"; a "share", the default where pytest gets no files and no -k or -m; or the "rest",
        which the job pocl-rest runs.
    PORTABLE_GPU_TEST_TURN: The number of the share, by default that of the day.
    PORTABLE_GPU_OCLGRIND_LOG: The file that holds this process's stderr, where Oclgrind writes.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from datetime import date
from itertools import compress, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import Engine

CASES, TURN = "PORTABLE_GPU_TEST_CASES", "PORTABLE_GPU_TEST_TURN"
_DEVICE = Path(__file__).parent / "device"
_ORDERING = ("host/test_sparse_*", "host/test_side_by_side.py")
OCLGRIND_LOG = os.environ.get("PORTABLE_GPU_OCLGRIND_LOG")
_REPORT = re.compile(
    rb"^(Invalid |Read-write data race|Write-write data race|Uninitialized|Work-group divergence)",
    re.MULTILINE,
)
_folder = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the user's caches and tuning table out of the tests, in xdist's workers too."""
    if hasattr(config, "workerinput"):  # a worker inherits the variables
        return
    folder = config.stash[_folder] = Path(tempfile.mkdtemp(prefix="portable_gpu-tests-"))
    os.environ.setdefault("PORTABLE_GPU_CACHE", str(folder / "programs"))
    os.environ.setdefault("PORTABLE_GPU_TUNING", str(folder / "no-tuning.json"))
    os.environ.setdefault(CASES, "share" if _runs_the_whole_folder(config) else "all")
    os.environ.setdefault(TURN, str(date.today().toordinal()))
    # Workers and processes of tests share bytecode: without it each import of the package takes
    # 0.3 s more, and each worker rewrites all assertions.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # PoCL compiles a kernel for the program's binary, and at its first launch for its grid.
    # Users run the binary's where kernels declare their group (runtime/pocl_functions.py), which
    # those of forced classes may not.  Tests run it for all, in two thirds of the time.
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_folder, None)
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _runs_the_whole_folder(config: pytest.Config) -> bool:
    """Return whether all device tests are to run, and no choice of them."""
    folders = [Path(config.invocation_params.dir, name.split("::")[0]) for name in config.args]
    is_chosen = config.option.keyword or config.option.markexpr
    return not is_chosen and any(_DEVICE.is_relative_to(folder.resolve()) for folder in folders)


@pytest.hookimpl(tryfirst=True)  # before Hypothesis reads literals
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests, and leave out cases of device tests and of those marked "divided".

    The host's tests that order sparse matrices move to the front, where one worker runs them.  From
    empty caches their loops compile in 5 s, and all later processes load them.  Where another
    worker needs the loops before the first one has compiled them, both compile.
    """
    _leave_out_literals()
    items.sort(key=lambda item: not any(map(item.path.match, _ORDERING)))
    which = os.environ.get(CASES, "all")
    if which == "all":
        return
    from sampling import share

    cases: dict[str, list[str]] = {}
    for item in items:
        marker = item.get_closest_marker("divided")
        is_divided = _DEVICE in item.path.parents or marker
        name = item.nodeid.partition("[")[0] if is_divided else item.nodeid
        if marker and marker.args:
            (name,) = marker.args
        cases.setdefault(name, []).append(item.nodeid)
    chosen = {name for each in cases.values() for name in share(each, int(os.environ[TURN]))}
    runs = [(item.nodeid in chosen) == (which == "share") for item in items]
    config.hook.pytest_deselected(items=list(compress(items, [not each for each in runs])))
    items[:] = compress(items, runs)


def _leave_out_literals() -> None:
    """Keep Hypothesis from the literals of all modules that are imported.

    It takes each process 3 s to read 650 files of a fresh checkout, for integers beyond 100, one of
    which it draws at times.  Ranges of the tests end before, except for seeds, sizes of some graphs
    and words of 32 bits, for which Hypothesis has constants of its own.
    """
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    constants = getattr(providers, "_local_constants", None)
    if constants is not None and hasattr(providers, "_get_local_constants"):
        providers._get_local_constants = lambda: constants


def pytest_collection_finish() -> None:
    """Take the tests and all modules out of what Python's collector goes through.

    An engine made while eight others exist collects garbage, and so does every third test: among
    330,000 objects of tests that takes 0.2 s each time.
    """
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Do the same with what the tests of a file have left, after the last of them.

    The type checker leaves some million objects, which take 1.4 s each time.
    What a test itself holds is not frozen, so tests of lifetimes see it collected.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


def pytest_report_header() -> list[str]:
    names = ("PORTABLE_GPU_DEVICE", "PORTABLE_GPU_DEVICE_CLASS", "PORTABLE_GPU_OCLGRIND_LOG")
    divided = (CASES, TURN) if os.environ[CASES] != "all" else ()
    return [f"{name}={os.environ[name]}" for name in (*names, *divided) if name in os.environ]


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The default engine: the device and class that the environment asks for.

    Small problems stay on its worker threads, for tests are small and are to meet the division of
    work; test_calling_thread.py is about the others.
    """
    from portable_gpu.runtime.registry import default_engine

    engine = default_engine()
    engine.caller = None
    return engine


@pytest.fixture
def unoptimised(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """An engine that compiles fast: PoCL's optimiser takes seconds for kernels with barriers.

    A test that takes it builds nothing on ``engine``, whose programs on disk are optimised.
    """
    from sampling import compile_fast

    from portable_gpu.runtime.engine import Engine

    compile_fast(monkeypatch, engine)
    return Engine(queue=engine.queue)


@pytest.fixture(autouse=True, scope="session")
def _oclgrind_shadows() -> None:
    """Give Oclgrind large shadows for the buffers to come.

    It marks what is initialised in a shadow of each buffer, and a buffer that takes the place of
    a released one keeps that one's shadow, of that one's size: what lies beyond stays marked as
    uninitialised for ever.
    """
    if OCLGRIND_LOG is None or "OCLGRIND_UNINITIALIZED" not in os.environ:
        return
    import numpy as np
    import pyopencl as cl

    from portable_gpu.runtime.registry import default_engine

    context = default_engine().context
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    zeros = np.zeros(128 << 10, np.uint8)
    buffers = [cl.Buffer(context, flags, hostbuf=zeros) for _ in range(1024)]
    for buffer in buffers:
        buffer.release()


class OclgrindReports:
    """Reads what Oclgrind has written since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = path.stat().st_size

    def new(self) -> list[str]:
        """The reports since the last call, each with the lines that explain it."""
        with self._path.open("rb") as log:
            log.seek(self._position)
            text = log.read()
        self._position += len(text)
        starts = [match.start() for match in _REPORT.finditer(text)]
        return [
            text[start:end].decode(errors="replace")
            for start, end in pairwise((*starts, len(text)))
        ]


@pytest.fixture
def oclgrind_reports() -> OclgrindReports:
    """Oclgrind's reports from here on; skips where Oclgrind does not run."""
    if OCLGRIND_LOG is None:
        pytest.skip("not under Oclgrind")
    return OclgrindReports(Path(OCLGRIND_LOG))


@pytest.fixture(autouse=True)
def _oclgrind_silent(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test during which Oclgrind reported a race, a stray access or the like."""
    if OCLGRIND_LOG is None or request.node.get_closest_marker("oclgrind_expected"):
        yield
        return
    reports = OclgrindReports(Path(OCLGRIND_LOG))
    yield
    new_reports = reports.new()
    if new_reports:
        pytest.fail(
            f"Oclgrind: {len(new_reports)} report(s), the first:\n{new_reports[0][:800]}", False
        )
