"""Another revision of this library as a peer, in a process of its own.

This revision is timed in a process of its own too, by the same code, and the other one in a
second process.  So all three have the same overhead, and the two processes of one revision
differ by noise alone::

    this process ──requests──▶ this revision          timing.py, public_call.py of this revision
                 ──requests──▶ the other revision     the same two files, its own package
                 ──requests──▶ the other one again    likewise

A process waits for requests, and on a CPU it answers when its threads are silent.  So one process
works at a time.
"""

from __future__ import annotations

import io
import pickle
import subprocess
import sys
import tarfile
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyopencl as cl

from portable_gpu.bench import revision_process
from portable_gpu.bench.peers import Ours, Peer, public_call
from portable_gpu.bench.queued import hold_spec
from portable_gpu.bench.timing import Timed
from portable_gpu.checking.operands import Array, Operands
from portable_gpu.errors import ArgumentError, PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.runtime.devices import devices
from portable_gpu.runtime.engine import Engine

PREFIX = f"{Ours.name}@"  #: The names of such peers begin with it.
_PACKAGE, _KERNELS = "portable_gpu", "cl_kernels"
_HERE = Path(__file__).resolve().parents[2]  # the folder of this revision's package
_START = (
    "import runpy, sys; sys.path[0] = sys.argv[1]; runpy.run_path(sys.argv[2], run_name='__main__')"
)
_PATIENCE = 10.0  # seconds that a process may take to end


class Process:
    """A process with the package of a folder, on an engine's device."""

    def __init__(self, name: str, folder: Path, engine: Engine) -> None:
        """Start it.

        Args:
            name: The name of the process in errors.
            folder: The folder with ``portable_gpu``.
            engine: The engine whose device and device class the process uses.

        Raises:
            PortableGPUError: The folder has no such package, or the package does not run here.
        """
        self._name = name
        #: Whether every request has been answered, so that the next answer is to the next request.
        self._is_answered = True
        #: Numbers of calls that are no longer wanted.
        self.unwanted: list[int] = []
        command = [sys.executable, "-c", _START, str(folder), revision_process.__file__]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            target = engine.target
            hold = hold_spec(target)
            opened_package = self.ask(
                "open",
                device=_index(engine.device),
                device_class=target.device_class if target.forced else None,
                on_host=engine.maps_host_memory,
                hold=hold.text,
                options=hold.options,
            )
            if not Path(opened_package["file"]).resolve().is_relative_to(folder.resolve()):
                raise PortableGPUError(f"{name}: its process imports {opened_package['file']}")
        except BaseException:
            self.close()
            raise
        #: The version of the package.
        self.version: str = opened_package["version"]

    def ask(self, request: str, **arguments: Any) -> Any:
        """The answer to a request.

        Raises:
            PortableGPUError: The request fails, the process has ended, or an earlier request was
                interrupted.
        """
        if not self._is_answered:
            raise PortableGPUError(f"{self._name}: an earlier request was interrupted")
        self._is_answered = False
        try:
            if self.unwanted:
                numbers = self.unwanted[:]
                del self.unwanted[: len(numbers)]  # the collector may add more
                self._exchange("forget", {"numbers": numbers})
            outcome, value = self._exchange(request, arguments)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self._is_answered, code = True, self._child.wait()
            raise PortableGPUError(f"{self._name}: its process ended by itself ({code})") from None
        self._is_answered = True
        if outcome == "failed":
            raise PortableGPUError(f"{self._name}: {value}")
        return value

    def _exchange(self, request: str, arguments: dict[str, Any]) -> tuple[str, Any]:
        stdin, stdout = self._child.stdin, self._child.stdout
        assert stdin is not None
        assert stdout is not None
        pickle.dump((request, arguments), stdin, protocol=5)
        stdin.flush()
        outcome, value = pickle.load(stdout)  # trusted: this process started the other one
        return outcome, value

    def close(self) -> None:
        """End it."""
        if not self._is_answered:
            self._child.kill()
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        try:
            self._child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def _index(device: cl.Device) -> str:
    """The name by which other processes find a device.

    Raises:
        PortableGPUError: It is not in the list of devices.
    """
    index = next((item.index for item in devices() if item.device == device), None)
    if index is None:
        raise PortableGPUError(f"{device.name.strip()}: other processes do not find it")
    return index


class _RemoteCalls(Timed):
    """Calls that another process has prepared."""

    def __init__(
        self, process: Process, number: int, copies: int, first: Array, eager: bool = False
    ) -> None:
        self._process, self._number, self._first = process, number, first
        self._eager = eager
        self.copies = copies

    def result(self) -> Array:
        """See :class:`Timed`."""
        return self._first

    def seconds(self, first: int, count: int) -> float:
        """See :class:`Timed`."""
        return self._asked("seconds", first, count)

    def turn(self, first: int, count: int) -> float:
        """See :class:`Timed`."""
        return self._asked("turn", first, count)

    def _asked(self, request: str, first: int, count: int) -> float:
        turn = {"number": self._number, "first": first, "count": count, "eager": self._eager}
        return float(self._process.ask(request, **turn))

    def eager(self) -> Timed:
        """See :class:`Timed`."""
        same = _RemoteCalls(self._process, self._number, self.copies, self._first, eager=True)
        same.owner = self  # the process drops the calls when their owner is deleted
        return same

    #: The object that owns the calls, if this one does not.
    owner: _RemoteCalls | None = None


class RevisionProcess:
    """One side of a comparison of revisions: the calls of a process."""

    def __init__(self, name: str, process: Process, on_host: bool) -> None:
        """``on_host`` says whether calls take NumPy's arrays."""
        self.name = name
        self._process, self._on_host = process, on_host

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Timed:
        """Its calls on copies of the inputs.

        Raises:
            PortableGPUError: The revision has no such function or option, or the call fails.
        """
        process = self._process
        call = asdict(public_call(case, self._on_host))
        arguments = {"call": call, "operands": inputs[0], "copies": len(inputs)}
        number, first = process.ask("prepare", **arguments)
        result = _RemoteCalls(process, number, len(inputs), first)
        weakref.finalize(result, process.unwanted.append, number)
        return result


class Revision(Peer):
    """Another revision of this library.

    Attributes:
        ours: This revision, in a process of its own.
        again: The other revision, in a second process.
    """

    install = ""

    def __init__(self, engine: Engine, name: str, folder: Path, commit: str) -> None:
        """Start the processes: :meth:`close` ends them.

        Args:
            engine: The processes use its device.
            name: The name on the command line.
            folder: The folder with the revision's ``portable_gpu`` and ``cl_kernels``.
            commit: The revision's commit; empty if it has none.
        """
        self.name = name  # type: ignore[misc]  # peers of other classes have one name
        on_host = engine.maps_host_memory
        with ExitStack() as stack:
            processes = []
            for where in (_HERE, folder, folder):
                processes.append(Process(name, where, engine))
                stack.callback(processes[-1].close)
            self._opened = stack.pop_all()
        names = Ours.name, name, f"{name}, again"
        self.ours, self._process, self.again = (
            RevisionProcess(item, process, on_host)
            for item, process in zip(names, processes, strict=True)
        )
        self._version = f"{processes[1].version} {commit}".strip()

    @property
    def version(self) -> str:
        """See :class:`Peer`."""
        return self._version

    def prepare(self, case: Case, inputs: Sequence[Operands]) -> Timed:
        """See :class:`Peer`."""
        return self._process.prepare(case, inputs)

    @property
    def sides(self) -> tuple[RevisionProcess | Revision, ...]:
        """The sides that take turns: this revision, the other one, and the other one again."""
        return self.ours, self, self.again

    def close(self) -> None:
        """End the processes."""
        self._opened.close()


@contextmanager
def opened(name: str, engine: Engine) -> Iterator[Revision]:
    """The peer of a name: ``portable_gpu@`` and a revision of git, or the path of a folder.

    Raises:
        ArgumentError: There is no such revision or folder.
        PortableGPUError: It does not run here.
    """
    where = name.removeprefix(PREFIX)
    with ExitStack() as stack:
        folder, commit = Path(where), ""
        if not folder.is_absolute():
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="portable_gpu_")))
            commit = _check_out(name, where, folder)
        if not all((folder / part).is_dir() for part in (_PACKAGE, _KERNELS)):
            raise ArgumentError(f"--peers has {name!r}; no {_PACKAGE} and {_KERNELS} are there")
        revision = Revision(engine, name, folder, commit)
        stack.callback(revision.close)
        yield revision


def _check_out(name: str, revision: str, folder: Path) -> str:
    """Copy the package of a revision into a folder; returns the commit.

    Raises:
        ArgumentError: git does not know it, or there is no history.
    """
    commit = _git(name, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}").decode()
    archive = _git(name, "archive", commit.strip(), _PACKAGE, _KERNELS)
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return commit.strip()


def _git(name: str, *arguments: str) -> bytes:
    command = ["git", "-C", str(_HERE), *arguments]
    try:
        return subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        raise ArgumentError(
            f"--peers has {name!r}, which is not a revision that git knows in {_HERE}; "
            f"{PREFIX}/FOLDER takes a folder with {_PACKAGE} and {_KERNELS}"
        ) from None
