"""The program of a revision's process: it makes that revision's calls, and times them.

It is run by its path, with the revision's folder first in ``sys.path``
(:mod:`portable_gpu.bench.revisions`).  So it imports nothing of this package by name but what every
revision has, the public functions.  Two modules of this revision are loaded by their paths.

Requests are pickles on the standard input: a name, and arguments by keyword.  Answers go to what
was the standard output: ``("done", value)`` or ``("failed", text)``.  The process ends when its
input does.
"""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pyopencl as cl


def loaded(path: Path) -> Any:
    """A module of this revision that uses nothing which other revisions lack."""
    name = f"timed_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module in {path}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server:
    """Answers requests; the names of its methods are theirs."""

    def __init__(self, package: Any, bench: Path) -> None:
        """``package`` is the revision's ``portable_gpu``, ``bench`` this file's folder."""
        self._package = package
        self._timing = loaded(bench / "timing.py")
        self._calls = loaded(bench.parent / "ops" / "public_call.py")
        self._prepared: dict[int, Any] = {}
        self._count = 0

    def open(
        self,
        device: str,
        device_class: str | None,
        on_host: bool,
        hold: str,
        options: Sequence[str],
    ) -> dict[str, str]:
        """Make the engine.

        Args:
            device: As the revision's ``Engine`` takes it.
            device_class: The name of a device class that is forced; None: the device's own class.
            on_host: Whether calls take NumPy's arrays.
            hold: Text of the kernel that holds the device.
            options: The build options of that kernel.
        """
        options_of_engine = {} if device_class is None else {"device_class": device_class}
        self._engine = self._package.Engine(device, **options_of_engine)
        self._on_host = on_host
        if not on_host:
            queue = self._engine.queue
            program = cl.Program(queue.context, hold).build(options=list(options))
            self._hold = self._timing.Hold(program, queue)
        return {"file": str(self._package.__file__), "version": str(self._package.__version__)}

    def prepare(self, call: dict[str, Any], operands: Sequence[Any], copies: int) -> Any:
        """Bind a call to copies of its operands; returns its number and the first result."""
        public_call = self._calls.PublicCall(**call)
        calls = [self._bound(public_call, operands) for _ in range(copies)]
        timing = self._timing
        if self._on_host:
            prepared = timing.Prepared(calls)
        else:
            prepared = timing.OpenCLInLine(calls, self._engine.queue, lambda: self._hold)
        result = prepared.result()
        self._count += 1
        self._prepared[self._count] = prepared
        return self._count, result

    def _bound(self, call: Any, operands: Sequence[Any]) -> Any:
        if self._on_host:
            arrays = [x.copy() for x in operands]
        else:
            arrays = [self._package.asarray(x, engine=self._engine) for x in operands]
        return call.bind(self._package, arrays, self._engine)

    def seconds(self, number: int, first: int, count: int, eager: bool) -> float:
        """See ``Timed.seconds``."""
        return float(self._timed(number, eager).seconds(first, count))

    def turn(self, number: int, first: int, count: int, eager: bool) -> float:
        """See ``Timed.turn``."""
        return float(self._timed(number, eager).turn(first, count))

    def _timed(self, number: int, eager: bool) -> Any:
        prepared = self._prepared[number]
        return prepared.eager() if eager else prepared

    def forget(self, numbers: Sequence[int]) -> None:
        """Give up calls and their arrays."""
        for number in numbers:
            self._prepared.pop(number, None)

    def answer(self, request: tuple[str, dict[str, Any]]) -> tuple[str, Any]:
        """Do what is requested; on a CPU, answer when no thread of this process works."""
        name, arguments = request
        try:
            value = getattr(self, name)(**arguments)
        except Exception as failure:  # the process that asked reports every error
            return "failed", f"{type(failure).__name__}: {failure}"
        if self._on_host and name != "forget":
            self._timing.fall_silent()
        return "done", value


def main() -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    answers: BinaryIO = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # compilers print to it
    requests = sys.stdin.buffer
    try:
        server = Server(importlib.import_module("portable_gpu"), Path(__file__).resolve().parent)
    except Exception as failure:  # the process that asked reports it
        pickle.dump(("failed", f"{type(failure).__name__}: {failure}"), answers)
        answers.flush()
        return
    while True:
        try:
            request = pickle.load(requests)  # trusted: the process that started this one sent it
        except EOFError:
            return
        pickle.dump(server.answer(request), answers, protocol=5)
        answers.flush()


if __name__ == "__main__":
    main()
