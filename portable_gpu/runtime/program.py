"""Build programs, and make launches of their kernels; programs are kept in memory and on disk."""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import pyopencl as cl

from portable_gpu.codegen.arguments import arguments
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError
from portable_gpu.runtime import opencl_functions, pocl_bodies, pocl_entries, pocl_functions
from portable_gpu.runtime.build_message import build_message, names_a_line
from portable_gpu.runtime.compiler import CompilerError, compiled
from portable_gpu.runtime.disk_cache import DiskCache
from portable_gpu.runtime.inside_pyopencl import new_kernel
from portable_gpu.runtime.launch import Launch, LaunchThatCompiles
from portable_gpu.runtime.notice import compiling
from portable_gpu.runtime.pocl import drivers
from portable_gpu.runtime.pocl_binary import Driver
from portable_gpu.runtime.pocl_processor import version
from portable_gpu.runtime.retarget import is_marked, retarget

if TYPE_CHECKING:
    from portable_gpu.runtime.queue_state import QueueState

_verdicts: dict[str, str] = {}
#: The cache that was first to compile, by the identity of the devices that load its binaries.
_compilers: WeakValueDictionary[str, ProgramCache] = WeakValueDictionary()
_thread = threading.local()


class ProgramCache:
    """The programs of one context and device: in memory, then on disk, then built."""

    def __init__(
        self, context: cl.Context, device: cl.Device, disk: DiskCache, forced: bool = False
    ) -> None:
        """Start with no programs.

        Args:
            context, device: The context and device for which they are built.
            disk: The cache on disk.
            forced: Whether the kernels are those of another class of devices.
        """
        self._context = context
        self._device = device
        self._disk = disk
        self._programs: dict[str, cl.Program] = {}
        self._building: dict[str, threading.RLock] = {}
        #: Counts of what was compiled, not read from disk: programs, kernels, bytes of text.
        self.compiled = Counter[str]()
        self._identity = _identity(device, device.name, version(device))
        #: The driver, if it is one of those whose binaries can be shared; otherwise None.
        self._driver = Driver.of(device)
        self._is_pocl = drivers(device.platform) is not None
        #: Whether programs are stored in compiled form, so that other processes load them.  PoCL
        #: compiles kernels of a forced class at the launch, also from a binary.
        self.keeps_binaries = disk.folder is not None and not (forced and self._is_pocl)
        #: The kernels that have run (program, name and group), if PoCL compiles them when they
        #: first run; otherwise None.
        self._have_run: set[tuple[str, str, tuple[int, ...]]] | None = None
        if self._is_pocl and not self.keeps_binaries:
            self._have_run = set()
        #: The bits of the vectors of a PoCL that compiles a kernel's body once; otherwise 0.
        self._vector_bits = 0
        if pocl_functions.is_tried(device.platform):
            self._vector_bits = 32 * device.native_vector_width_float
        self._shared = "" if self._driver is None else _identity(device, *self._driver.device)

    def launch(
        self,
        spec: Specialization,
        name: str,
        constants: Mapping[str, Any],
        buffers: Sequence[str],
        scalars: Sequence[str],
        global_size: tuple[int, ...],
        local_size: tuple[int, ...],
        as_bits: Collection[str] = (),
        bound: Mapping[str, Any] | None = None,
    ) -> Launch:
        """Return a :class:`Launch` of the kernel ``name`` of the built specialization.

        Arguments are given by the names of the kernel's parameters.

        Args:
            spec: The text.
            name: The kernel.
            constants: The constant scalars.
            buffers, scalars: The names of the arguments that each call passes, in this order.
            global_size, local_size: The grid, and its group.
            as_bits: Scalars that calls pass as unsigned integers with the same bits.
            bound: The constant buffers, which the launch keeps alive.

        Raises:
            BuildError: The driver refused the source.
            LookupError: A parameter has no argument, or an argument no parameter.
        """
        by_index = arguments(spec, name, constants, buffers, scalars, as_bits, bound)
        make, sizes = partial(self.kernel, spec, name), (global_size, local_size)
        if self._have_run is None:
            return Launch(make, by_index, sizes, (spec, name))
        launch = LaunchThatCompiles(make, by_index, sizes, (spec, name))
        if (key := (spec.key, name, local_size)) not in self._have_run:
            launch.first_run = partial(self._first_run, self._have_run, key)
        return launch

    def _first_run(
        self,
        have_run: set[tuple[str, str, tuple[int, ...]]],
        key: tuple[str, str, tuple[int, ...]],
        state: QueueState,
        run: Callable[[], cl.Event | None],
    ) -> cl.Event | None:
        """Launch a kernel and wait for it, under the lock and the notice of a build.

        Errors of the run are reported by later waits for its event.

        Args:
            have_run, key: The kernels that have run, and this one.
            state: The queue.
            run: Enqueues the launch.
        """
        with self._builder(key[0]):
            if key in have_run:
                return run()
            with compiling(self._device.name.strip(), self._disk.folder is not None, programs=0):
                event = run()
                with suppress(cl.Error):
                    state.finish() if event is None else event.wait()
            have_run.add(key)
        return event

    def kernel(self, spec: Specialization, name: str) -> cl.Kernel:
        """Make an object of the kernel ``name`` of the built specialization.

        Raises:
            BuildError: The driver refused the source.
        """
        try:
            return _kernel(self.program(spec), name)
        except cl.Error:  # the binary loads but is of another program
            program = self._programs[spec.key] = self._build(spec)
        try:
            return _kernel(program, name)
        except cl.Error as error:
            raise self._refused(spec, error) from error

    def program(self, spec: Specialization) -> cl.Program:
        """Return the built program of ``spec``.

        One thread builds it; only threads that need the same program wait.

        Raises:
            BuildError: The driver refused the source.
        """
        program = self._programs.get(spec.key)
        if program is None:
            with self._builder(spec.key):
                program = self._programs.get(spec.key)
                if program is None:
                    program = self._programs[spec.key] = self._load(spec) or self._build(spec)
        return program

    @property
    def compiles_at_launch(self) -> bool:
        """Whether kernels are compiled when they first run, and not when they are built."""
        return self._have_run is not None

    @contextmanager
    def _builder(self, key: str) -> Iterator[None]:
        """Prevent other threads from building the same program.

        A signal handler or finalizer within a build takes no lock, and builds its own program:
        otherwise two threads might wait for each other.
        """
        if getattr(_thread, "is_building", False):
            yield
            return
        with self._building.setdefault(key, threading.RLock()):
            _thread.is_building = True
            try:
                yield
            finally:
                _thread.is_building = False
        self._building.pop(key, None)

    def __len__(self) -> int:
        return len(self._programs)

    def forget(self) -> None:
        """Drop the programs in memory."""
        self._programs.clear()

    def remembered(self, spec: Specialization, find_out: Callable[[], str]) -> str:
        """Return the stored result of ``find_out`` for ``spec`` on this device and driver."""
        key = _disk_key(self._identity, "verdict", spec)
        verdict = _verdicts.get(key)
        if verdict is None:
            stored = self._disk.read(key)
            verdict = find_out() if stored is None else stored.decode(errors="replace")
            _verdicts[key] = verdict
            if stored is None:
                self._disk.write(key, verdict.encode())
        return verdict

    def _load(self, spec: Specialization) -> cl.Program | None:
        binary = None
        if self._driver is not None:
            stored = self._disk.read(_disk_key(self._shared, "program", spec))
            binary = None if stored is None else self._driver.with_hash(stored)
        if binary is None:
            binary = self._disk.read(_disk_key(self._identity, "program", spec))
        if binary is None:
            return None
        if self._is_pocl:
            pocl_entries.discard_if_damaged(binary)
        try:
            program = compiled(self._context, self._device, binary, spec.options)
        except CompilerError:  # a driver that changed without changing its version
            return None
        if self._vector_bits:
            pocl_functions.share(binary, partial(self._text, spec))
        return program

    def _build(self, spec: Specialization) -> cl.Program:
        with compiling(self._device.name.strip(), self._disk.folder is not None):
            if self._is_pocl:
                pocl_entries.discard_damaged()
            program = self._compiled_elsewhere(spec) or self._compile(spec)
            kernels, text = spec.text.count("__kernel "), len(spec.text.encode())
            self.compiled.update(programs=1, kernels=kernels, text=text)
            if not self.keeps_binaries:
                return program
            binary = program.binaries[0]  # PoCL compiles here, not in the build
            if self._is_pocl and not _has_all_kernels(program, spec):
                # PoCL read a damaged entry of its cache, which must not come into this one.
                pocl_entries.discard(binary)
                program = self._compile(spec)
                binary = program.binaries[0]
            if self._vector_bits:
                pocl_functions.share(binary, partial(self._text, spec))
        shared = None if self._driver is None else self._driver.without_hash(binary)
        if shared is not None:
            self._disk.write(_disk_key(self._shared, "program", spec), shared)
        else:
            self._disk.write(_disk_key(self._identity, "program", spec), binary)
        return program

    def _compiled_elsewhere(self, spec: Specialization) -> cl.Program | None:
        """Return a program that another context has compiled, or ``None`` if none can.

        PoCL takes half a second at the first compilation in each context, to read its library of
        functions.  So one context compiles for all whose devices load each other's binaries.
        """
        if self._driver is None or not self.keeps_binaries:
            return None
        other = _compilers.setdefault(self._shared, self)
        if other is self or other._driver is None:
            return None
        try:
            plain = other._driver.without_hash(other._compile(spec).binaries[0])
            binary = None if plain is None else self._driver.with_hash(plain)
            if binary is not None:
                return compiled(self._context, self._device, binary, spec.options)
        except (BuildError, CompilerError):  # its message names the other device
            pass
        return None

    def _compile(self, spec: Specialization) -> cl.Program:
        try:
            program = self._compiled(spec)
            if is_marked(spec.text):
                ptx = retarget(program.binaries[0].rstrip(b"\0").decode())
                program = compiled(self._context, self._device, ptx.encode(), spec.options)
        except (CompilerError, ValueError) as error:
            raise self._refused(spec, error) from error
        return program

    def _compiled(self, spec: Specialization) -> cl.Program:
        text = self._text(spec)
        declaring = opencl_functions.declaring(text) if self._vector_bits else None
        if declaring is not None:
            options = (
                *spec.options, opencl_functions.NO_HEADER, *pocl_bodies.options(text),
            )  # fmt: skip
            with suppress(CompilerError):  # the log shall be that of the text with the header
                return compiled(self._context, self._device, declaring, options)
        return compiled(self._context, self._device, text, spec.options)

    def _text(self, spec: Specialization) -> str:
        return pocl_bodies.wrapped(spec.text, self._vector_bits) if self._vector_bits else spec.text

    def _refused(self, spec: Specialization, error: Exception) -> BuildError:
        message = build_message(spec, str(error), self._device)
        if self._is_pocl and not names_a_line(str(error)):
            message = f"{message}\n{pocl_entries.hint()}"
        return BuildError(message, spec.text, str(error))


#: Environment variables on which the results of a driver's compiler depend.
_COMPILER_VARIABLES = (
    "CL_CONFIG_CPU_VECTORIZER_MODE",
    "CL_CONFIG_CPU_TARGET_ARCH",
    "POCL_WORK_GROUP_METHOD",
    "POCL_EXTRA_BUILD_FLAGS",
    "OCLGRIND_BUILD_OPTIONS",
    "PYOPENCL_BUILD_OPTIONS",
)
#: The versions of the texts that PoCL compiles in place of a given one.
_POCL_VERSIONS = (
    f"bodies {pocl_bodies.VERSION} {pocl_bodies.UNOPTIMISED}",
    f"declarations {opencl_functions.VERSION}",
)


def _identity(device: cl.Device, name: str, device_version: str) -> str:
    """Return the facts by which the binaries of a device differ."""
    return "\0".join(
        (
            device.platform.name,
            device.platform.version,
            name,
            device.vendor,
            device_version,
            device.driver_version,
            *(_POCL_VERSIONS if pocl_functions.is_tried(device.platform) else ("",)),
        )
    )


def _disk_key(identity: str, kind: str, spec: Specialization) -> str:
    """Return the key of a program; a build reads the variables, which may change until then."""
    variables = "\0".join(f"{name}={os.environ.get(name)}" for name in _COMPILER_VARIABLES)
    return hashlib.sha256(f"{identity}\0{variables}\0{kind}\0{spec.key}".encode()).hexdigest()


def _has_all_kernels(program: cl.Program, spec: Specialization) -> bool:
    try:
        for name in spec.kernels:
            _kernel(program, name)
    except cl.Error:
        return False
    return True


def _kernel(program: cl.Program, name: str) -> cl.Kernel:
    kernel = new_kernel(program, name)
    _ = kernel.num_args  # some drivers report a missing kernel only here
    return kernel
