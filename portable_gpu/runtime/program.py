"""Build programs; keep them in memory and, checked by hash, on disk."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import tempfile
import threading
import warnings
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl
from platformdirs import user_cache_path

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError, DeviceMemoryError
from portable_gpu.runtime.retarget import is_marked, retarget

if TYPE_CHECKING:
    from portable_gpu.runtime.engine import QueueState

CACHE_VARIABLE = "PORTABLE_GPU_CACHE"
_MAGIC = b"portable_gpu program 1\n"
_verdicts: dict[str, str] = {}
# PoCL: "error: FILE:88:53: expected expression"; others: "FILE:88:53: error: expected expression".
_ERROR = re.compile(
    r"^error: [^\n]*?:(\d+):\d+: ([^\n]+)|^(?:[^\n]*:)?(\d+):\d+:\s+(?:fatal )?error: ([^\n]+)",
    re.MULTILINE,
)
_MOST_ERRORS = 3  # that a message shows: later ones mostly follow from the first
_MOST_OF_A_LOG = 10  # lines of a log that names no line


class DiskCache:
    """Program binaries in one folder, one file a program.

    A file is a magic line, a line of JSON (the full key, the payload's SHA-256) and the payload.
    What does not check out is treated as absent.  Files appear by rename, so several processes
    may share the folder.
    """

    def __init__(self, folder: Path | None) -> None:
        """``folder=None`` keeps nothing."""
        self.folder = folder

    @classmethod
    def default(cls) -> DiskCache:
        """``$PORTABLE_GPU_CACHE`` (``off`` for none), or the user's cache folder."""
        named = os.environ.get(CACHE_VARIABLE)
        if named == "off":
            return cls(None)
        return cls(Path(named) if named else user_cache_path("portable_gpu") / "programs")

    def read(self, key: str) -> bytes | None:
        """The payload stored under ``key``, if it is there and intact."""
        if self.folder is None:
            return None
        try:
            content = (self.folder / key).read_bytes()
        except OSError:
            return None
        if not content.startswith(_MAGIC):
            return None
        header, newline, payload = content[len(_MAGIC) :].partition(b"\n")
        try:
            fields = json.loads(header) if newline else {}
        except (ValueError, RecursionError):
            return None
        intact = isinstance(fields, dict) and fields.get("key") == key
        if intact and fields.get("sha256") == hashlib.sha256(payload).hexdigest():
            return payload
        return None

    def write(self, key: str, payload: bytes) -> None:
        """Store ``payload``; a folder that cannot be written is no error."""
        if self.folder is None:
            return
        header = json.dumps({"key": key, "sha256": hashlib.sha256(payload).hexdigest()})
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + header.encode() + b"\n" + payload)
                os.replace(temporary, self.folder / key)
            except OSError:
                os.unlink(temporary)
        except OSError:
            return


class Launch:
    """A kernel with its grid and the arguments that stay; buffers and a few scalars are left.

    Several threads may call it: arguments and launch go under one lock.
    """

    def __init__(
        self,
        kernel: cl.Kernel,
        parameters: Sequence[Any],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
    ) -> None:
        """Set what stays.

        Args:
            kernel: A kernel object of its own.
            parameters: In the kernel's order: ``BUFFER``; a NumPy scalar type, for a scalar that
                each call gives; or ``(type, value)``, for one that stays.
            global_size, local_size: The grid.
        """
        self._kernel = kernel
        # What pyopencl's own generated invokers call: set_arg tries a buffer, a sampler and so on
        # before it takes a number, 19 us each time.
        self._set_scalar = kernel._set_arg_buf  # type: ignore[attr-defined]
        self._global_size, self._local_size = global_size, local_size
        sizes = [(ctypes.c_size_t * len(size))(*size) for size in (global_size, local_size)]
        self._without_event = kernel.int_ptr, len(global_size), None, *sizes, 0, None, None
        self._buffers: list[int] = []
        self._scalars: list[tuple[int, Any]] = []
        for index, parameter in enumerate(parameters):
            if parameter is BUFFER:
                self._buffers.append(index)
            elif isinstance(parameter, tuple):
                kind, value = parameter
                self._set_scalar(index, kind(value))
            else:
                self._scalars.append((index, parameter))
        self._last: Sequence[Any] | None = None
        self._lock = threading.Lock()

    def __call__(
        self,
        state: QueueState,
        buffers: Sequence[Any],
        scalars: tuple[Any, ...] = (),
        wait_for: Sequence[cl.Event] | None = None,
    ) -> cl.Event | None:
        """Enqueue it and return its event, or ``None``; see :meth:`QueueState.event`.

        Args:
            state: The queue.
            buffers, scalars: What the parameters left open, in their order.
            wait_for: Events to wait for.

        Raises:
            DeviceMemoryError: A buffer that was promised turns out not to fit.
        """
        kernel = self._kernel
        set_argument = kernel.set_arg
        try:
            with self._lock:
                for index, buffer in zip(self._buffers, buffers, strict=True):
                    set_argument(index, buffer)
                if scalars != self._last:
                    self._last = None
                    for (index, kind), value in zip(self._scalars, scalars, strict=True):
                        self._set_scalar(index, kind(value))
                    self._last = scalars
                enqueue = state.enqueue_without_event
                if enqueue is not None and not wait_for and not enqueue(*self._without_event):
                    return None
                return cl.enqueue_nd_range_kernel(  # where that one failed, pyopencl says why
                    state.queue, kernel, self._global_size, self._local_size, None, wait_for
                )
        except cl.MemoryError as error:
            raise DeviceMemoryError(f"the device is out of memory: {error}") from error


class ProgramCache:
    """The programs of one context and device: in memory, then on disk, then built."""

    def __init__(self, context: cl.Context, device: cl.Device, disk: DiskCache) -> None:
        self._context = context
        self._device = device
        self._disk = disk
        self._programs: dict[str, cl.Program] = {}
        self._lock = threading.Lock()
        self._identity = "\0".join(
            (
                device.platform.name,
                device.platform.version,
                device.name,
                device.vendor,
                device.version,
                device.driver_version,
                *(f"{name}={os.environ.get(name)}" for name in _COMPILER_VARIABLES),
            )
        )

    def launch(
        self,
        spec: Specialization,
        name: str,
        parameters: Sequence[Any],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
    ) -> Launch:
        """A :class:`Launch` of the kernel ``name`` of the built specialization.

        Raises:
            BuildError: The driver refused the source.
        """
        kernel = cl.Kernel(self.program(spec), name)
        return Launch(kernel, parameters, global_size, local_size)

    def program(self, spec: Specialization) -> cl.Program:
        """The built program of ``spec``."""
        with self._lock:
            program = self._programs.get(spec.key)
            if program is None:
                program = self._programs[spec.key] = self._load(spec) or self._build(spec)
            return program

    def remembered(self, spec: Specialization, find_out: Callable[[], str]) -> str:
        """What ``find_out`` said of ``spec`` on this device and driver when it was first asked."""
        key = self._disk_key(spec, "verdict")
        verdict = _verdicts.get(key)
        if verdict is None:
            stored = self._disk.read(key)
            verdict = find_out() if stored is None else stored.decode()
            _verdicts[key] = verdict
            if stored is None:
                self._disk.write(key, verdict.encode())
        return verdict

    def _disk_key(self, spec: Specialization, kind: str = "program") -> str:
        return hashlib.sha256(f"{self._identity}\0{kind}\0{spec.key}".encode()).hexdigest()

    def _load(self, spec: Specialization) -> cl.Program | None:
        binary = self._disk.read(self._disk_key(spec))
        if binary is None:
            return None
        try:
            program = cl.Program(self._context, [self._device], [binary])
            return _quietly_built(program, spec.options)
        except cl.Error:  # a driver that changed without changing its version
            return None

    def _build(self, spec: Specialization) -> cl.Program:
        try:
            program = _quietly_built(cl.Program(self._context, spec.text), spec.options)
            if is_marked(spec.text):
                ptx = retarget(program.binaries[0].rstrip(b"\0").decode())
                program = cl.Program(self._context, [self._device], [ptx.encode()])
                program = _quietly_built(program, spec.options)
        except (cl.Error, ValueError) as error:
            raise BuildError(
                build_message(spec, str(error), self._device), spec.text, str(error)
            ) from error
        self._disk.write(self._disk_key(spec), program.binaries[0])
        return program


#: Variables that change what a driver's compiler makes of the same source.
_COMPILER_VARIABLES = (
    "CL_CONFIG_CPU_VECTORIZER_MODE",
    "CL_CONFIG_CPU_TARGET_ARCH",
    "POCL_WORK_GROUP_METHOD",
    "OCLGRIND_BUILD_OPTIONS",
    "PYOPENCL_BUILD_OPTIONS",
)


def _quietly_built(program: cl.Program, options: Sequence[str]) -> cl.Program:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        program.build(list(options), cache_dir=False)  # type: ignore[arg-type]  # False: no cache
    return program


def build_message(spec: Specialization, log: str, device: cl.Device) -> str:
    """A few lines, the last of them what the compiler found and where: a user's own, mostly."""
    lines = spec.text.splitlines()
    found = []
    for match in islice(_ERROR.finditer(log), _MOST_ERRORS):
        at = int(match[1] or match[3])
        text = lines[at - 1].strip() if at <= len(lines) else ""
        found.append(f"line {at}:  {text}\n    {match[2] or match[4]}")
    return "\n".join(
        (
            f"kernel {spec.name} failed to build on {device.name.strip()}; "
            "its text is this error's `source`, all that the compiler said its `log`",
            *(found or log.strip().splitlines()[-_MOST_OF_A_LOG:]),
        )
    )


#: Parameters that kernels share.
BUFFER = None
INT = np.int32
LONG = np.int64
UINT = np.uint32
