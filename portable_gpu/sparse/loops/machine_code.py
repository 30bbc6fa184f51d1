"""Machine code of loops: LLVM compiles it for this processor, and a cache on disk keeps it."""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import struct
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numpy as np

from portable_gpu.errors import HostMemoryError
from portable_gpu.runtime.disk_cache import CACHE_VARIABLE, DiskCache
from portable_gpu.sparse.loops.instructions import ALLOCATE, FREE
from portable_gpu.sparse.loops.module import Translated, TranslationUnit
from portable_gpu.sparse.loops.values import TRUTH, ScalarType, TupleType, Type, parts_of

_ENTRY = "loop"
#: Codes of ``struct`` for the parts of values.
_CODES = {"i64": "q", "i1": "q", "double": "d", "ptr": "Q"}
_BOUNDS = struct.Struct("=QQ")
_numbers = itertools.count()
_owned: dict[int, weakref.ref[_Memory]] = {}  # one that is deleted would call no callback
#: Passes at this level, without unrolled and vector loops, take a third of the usual time, and
#: analyses are as fast: their loops wait for memory.
_LEVEL = 1
#: PyMem_RawFree with a second argument, which it does not read: the weak reference of a callback.
_free: Any = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.py_object)(
    ("PyMem_RawFree", ctypes.pythonapi)
)


def machine_code(
    function: Callable[..., Any],
    called: frozenset[Callable[..., Any]],
    types: tuple[Type, ...],
) -> Callable[[Sequence[int | float]], Any]:
    """Return a function that runs machine code on the parts of its arguments.

    It does not hold Python's lock while it runs.

    Args:
        function: A function in the subset of Python that
            :mod:`portable_gpu.sparse.loops.translation` describes.
        called: The functions that it and they may call.
        types: The types of the arguments, by :func:`type_of`.

    Raises:
        NotTranslatedError: The function is not in that subset.

    The result raises HostMemoryError if the memory of the host is too small for an array.
    """
    module = TranslationUnit(called)
    made = module.translated(function, types)
    module.entry(_ENTRY, made, types)
    return _Code(_object_of("\n".join(module.texts)), types, made)


class _Code:
    """Machine code of a function, in memory."""

    def __init__(self, content: bytes, types: Sequence[Type], made: Translated) -> None:
        """`content` is an object file."""
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(content))
        self._engine.finalize_object()
        run = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)
        self._run = run(self._engine.get_function_address(_ENTRY))
        parts = (part for kind in types for part in parts_of(kind))
        self._arguments = struct.Struct("=" + "".join(_CODES[part] for part in parts))
        self._results = struct.Struct("=" + "".join(_CODES[part] for part in made.parts))
        self._result = made.result
        first = 1 + len(parts_of(made.result))
        self._memories = range(8 * first, 8 * len(made.parts), 16)

    def __call__(self, words: Sequence[int | float]) -> Any:
        results = ctypes.create_string_buffer(self._results.size)
        # Before the call: after it, a signal handler may raise between any two instructions.
        memory = [_Memory(results, place) for place in self._memories]
        _free_with(memory)
        self._run(self._arguments.pack(*words), results)
        failed, *parts = self._results.unpack(results)
        if failed:
            raise HostMemoryError("the memory of the host is too small for an analysis")
        return _in_python(self._result, iter(parts), memory)


class _Memory:
    """Memory that machine code may have allocated, which is freed with the last array in it."""

    def __init__(self, results: Any, place: int) -> None:
        """Make the owner of memory before the call that allocates it.

        Args:
            results: What the call returns: zeros before.
            place: The place of the addresses of begin, or null, and end.
        """
        self._results, self._place = results, place

    def bounds(self) -> tuple[int, int]:
        """Return the addresses."""
        begin, end = _BOUNDS.unpack_from(self._results, self._place)
        return begin, end

    def freed(self) -> weakref.ref[_Memory]:
        """Return a reference that frees the memory when this object is deleted.

        Its callback is made of functions in C alone.  In a destructor in Python a signal handler
        could run, whose exception would be dropped.
        """
        return weakref.ref(
            self, partial(_free, ctypes.c_void_p.from_buffer(self._results, self._place))
        )


def _free_with(memory: Sequence[_Memory]) -> None:
    """Let memory be freed with its owners: keep their references, and drop those of past ones."""
    for number, reference in list(_owned.items()):
        if reference() is None:
            _owned.pop(number, None)
    for allocation in memory:
        _owned[next(_numbers)] = allocation.freed()


class _Interface:
    """A part of memory, for NumPy."""

    def __init__(self, memory: _Memory, address: int, shape: tuple[int, ...], dtype: str) -> None:
        self._memory = memory
        self.__array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": np.dtype(dtype).str,
            "version": 3,
        }


def _in_python(kind: Type, parts: Iterator[Any], memory: Sequence[_Memory]) -> Any:
    """Return a result; arrays in the memory of arguments are copied."""
    if isinstance(kind, ScalarType):
        return bool(next(parts)) if kind == TRUTH else next(parts)
    if isinstance(kind, TupleType):
        items = [_in_python(item, parts, memory) for item in kind.types]
        return kind.kind(*items) if kind.kind else tuple(items) if items else None
    address, *shape = (next(parts) for _ in parts_of(kind))
    for allocation in memory:
        begin, end = allocation.bounds()
        if 0 < begin <= address < end:
            return np.asarray(_Interface(allocation, address, tuple(shape), kind.dtype))
    array = np.empty(shape, kind.dtype)
    ctypes.memmove(array.__array_interface__["data"][0], address, array.nbytes)
    return array


def _object_of(text: str) -> bytes:
    """Return the object file of a module, from disk if it is there."""
    target = llvm.get_process_triple(), llvm.get_host_cpu_name(), _features()
    versions = llvmlite.__version__, *llvm.llvm_version_info
    disk = _disk(os.environ.get(CACHE_VARIABLE))
    key = hashlib.sha256(
        "\n".join(map(str, (*target, *versions, _LEVEL, text))).encode()
    ).hexdigest()
    content = disk.read(key)
    if content is None:
        content = _compiled(text)
        disk.write(key, content)
    return content


@cache
def _disk(_: str | None) -> DiskCache:
    """Return the cache on disk for a value of the environment variable."""
    return DiskCache.default()


def _compiled(text: str) -> bytes:
    machine = _machine()
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=_LEVEL)
    options.loop_unrolling = options.loop_interleaving = False
    options.loop_vectorization = options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    content: bytes = machine.emit_object(module)
    return content


def _machine() -> Any:
    """Return a new description of this processor for LLVM."""
    _initialize()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(llvm.get_host_cpu_name(), _features(), opt=_LEVEL, jit=True)


@cache
def _features() -> str:
    try:
        features: str = llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM does not find them on all systems
        return ""
    return features


@cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for name, function in [
        (ALLOCATE, ctypes.pythonapi.PyMem_RawCalloc),
        (FREE, ctypes.pythonapi.PyMem_RawFree),
    ]:
        llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)
