"""The offline compilers: clang for AMD's GPUs; clang to PTX, and ptxas, for NVIDIA's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import prod
from pathlib import Path

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import BuildError, how_to_install
from portable_gpu.isa import amdgcn, ptx
from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.machines import Machine
from portable_gpu.runtime.retarget import is_marked, retarget

CLANG = "clang-19"
DEVICE_LIBRARY = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
LIBCLC = Path("/usr/lib/clc/nvptx64--nvidiacl.bc")
_PTX_VERSION = re.compile(r"^\.version .*", re.MULTILINE)  # clang's is too old for wgmma
_TOO_MUCH_SHARED = "uses too much shared data"
_PREPARING = threading.Lock()
_BOUND = re.compile(r"reqd_work_group_size\((\d+), (\d+), (\d+)\)")
_UNBOUND = re.compile(r"UNBOUND_GROUP\((\d+)\)")  # see common/prelude


@dataclass(frozen=True)
class MissingCompiler:
    """A family of GPUs whose compiler is missing, and what to install."""

    family: str
    install: str

    def __str__(self) -> str:
        return f"{self.family}: skipped, a compiler is missing ({self.install})"


@dataclass(frozen=True)
class Compilers:
    """The installed compilers.

    Attributes:
        ptxas: Its path, empty if there is none.
        missing: An entry for each family that lacks something.
    """

    ptxas: str
    missing: Mapping[str, MissingCompiler] = field(default_factory=dict)

    def compile(self, spec: Specialization, machine: Machine, folder: Path) -> list[CompiledKernel]:
        """Compile one text, and read the output.

        Args:
            spec: The text.
            machine: The GPU.
            folder: A folder for temporary files.

        Raises:
            BuildError: A compiler refused it; the message has its errors.
        """
        if machine.architecture.is_amd:
            text = _compiled(_amd_command(machine, folder), spec, machine, folder)
            kernels = list(amdgcn.read(text))
        else:
            text = self.ptx(spec, machine, folder)
            log = self._assemble(spec, machine, text, folder)
            kernels = list(ptx.read(text, log, group_size_of(spec)))
        if not kernels:
            raise BuildError("no kernel in the compiler's output")
        return kernels

    def ptx(self, spec: Specialization, machine: Machine, folder: Path) -> str:
        """The PTX of one text, for ptxas; arguments and errors as in :meth:`compile`."""
        text = _compiled(_ptx_command(machine), spec, machine, folder)
        if is_marked(spec.text):
            text = _PTX_VERSION.sub(".version 8.3", retarget(text))
        return ptx.with_group_size(text, group_size_of(spec)) if is_bound(spec) else text

    def _assemble(self, spec: Specialization, machine: Machine, text: str, folder: Path) -> str:
        """The output of ptxas for PTX."""
        name = f"{machine.architecture.name}{'a' if is_marked(spec.text) else ''}"
        file = folder / f"{spec.key}-{machine.name}.ptx"
        file.write_text(text, encoding="utf-8")
        register_limit = [
            item.replace(_LIMIT, "-maxrregcount=")
            for item in spec.options
            if item.startswith(_LIMIT)
        ]
        command = [self.ptxas, f"-arch={name}", "-v", *register_limit, str(file), "-o", os.devnull]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        finally:
            file.unlink()
        # Drivers accept more local memory than ptxas alone; the requirements check the size.
        log = "\n".join(line for line in done.stderr.splitlines() if _TOO_MUCH_SHARED not in line)
        if done.returncode and (_TOO_MUCH_SHARED not in done.stderr or "error" in log.lower()):
            raise BuildError(_errors(log))
        return log


def find_compilers() -> Compilers:
    """Look for clang, AMD's device library, libclc and ptxas."""
    spec = find_spec("nvidia.cuda_nvcc") if find_spec("nvidia") else None
    places = (spec.submodule_search_locations or []) if spec else []
    folders = [str(Path(place) / "bin") for place in places]
    ptxas = shutil.which("ptxas", path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    clang = shutil.which(CLANG) is not None
    lacks = {}
    if not clang or not DEVICE_LIBRARY.is_dir():
        lacks["AMD"] = f"apt-get install {CLANG} llvm-19 lld-19 rocm-device-libs"
    if not clang or not LIBCLC.exists():
        lacks["NVIDIA"] = f"apt-get install {CLANG} libclc-15"
    elif ptxas is None:
        lacks["NVIDIA"] = how_to_install("offline")
    missing = {family: MissingCompiler(family, install) for family, install in lacks.items()}
    return Compilers(ptxas or "", missing)


#: The driver's option for the most registers of a work-item, which ptxas has by another name.
_LIMIT = "-cl-nv-maxrregcount="


def group_size_of(spec: Specialization) -> int:
    """Work-items of a group, as stated in the text."""
    sizes = _BOUND.search(spec.text) or _UNBOUND.search(spec.text)
    return prod(map(int, sizes.groups())) if sizes else 1


def is_bound(spec: Specialization) -> bool:
    """Whether the text states the group's size for the compiler, by ``reqd_work_group_size``."""
    return _BOUND.search(spec.text) is not None


#: Warnings that are errors: no compiler may have a remark on a text.
WARNINGS = (
    "-Werror", "-Wall", "-Wextra", "-Wdouble-promotion", "-Wundef",
    # Clang has these off, but old clangs, which are in many drivers, had them on.
    "-Wbitwise-op-parentheses", "-Wlogical-op-parentheses",
    "-Wno-unused-function",  # a text has all functions of a type, of which a kernel calls some
    # Some kernels of a family have the same parameters, of which each uses some.
    "-Wno-unused-parameter", "-Wno-unused-but-set-parameter",
    "-Wno-sometimes-uninitialized",  # local memory that another work-item of the group sets
)  # fmt: skip
# Two warnings are left out: libclc is for another triple, and a kernel misses the occupancy that it
# asks for, which the requirements check.
_NO_REMARKS = (*WARNINGS, "-Wno-linker-warnings", "-Wno-pass-failed")


def _amd_command(machine: Machine, folder: Path) -> list[str]:
    library = _device_library(machine, folder)
    return [
        CLANG, "-x", "cl", "-target", "amdgcn-amd-amdhsa", f"-mcpu={machine.architecture.name}",
        *_NO_REMARKS, "-O3", f"--rocm-device-lib-path={library}", "-S",
    ]  # fmt: skip


def _ptx_command(machine: Machine) -> list[str]:
    return [
        CLANG, "-x", "cl", "-Dasm=__asm__", "-target", "nvptx64-nvidia-nvcl",
        "-Xclang", "-target-cpu", "-Xclang", machine.architecture.name, *_NO_REMARKS, "-O3",
        "-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(LIBCLC), "-S",
    ]  # fmt: skip


def _device_library(machine: Machine, folder: Path) -> Path:
    """AMD's device library, with a similar architecture's constants for one that it lacks."""
    library_name = f"oclc_isa_version_{machine.architecture.name.removeprefix('gfx')}.bc"
    if (DEVICE_LIBRARY / library_name).exists():
        return DEVICE_LIBRARY
    similar = machine.architecture.device_library.removeprefix("gfx")
    library = folder / machine.architecture.name
    with _PREPARING:
        if not library.exists():
            library.mkdir()
            for file in DEVICE_LIBRARY.glob("*.bc"):
                (library / file.name).symlink_to(file)
            (library / library_name).symlink_to(DEVICE_LIBRARY / f"oclc_isa_version_{similar}.bc")
    return library


def _compiled(command: list[str], spec: Specialization, machine: Machine, folder: Path) -> str:
    """The assembly that clang makes of a text."""
    name = f"{spec.key}-{machine.name}"  # machines may share a text
    source, assembly = folder / f"{name}.cl", folder / f"{name}.s"
    source.write_text(spec.text, encoding="utf-8")
    options = [item for item in spec.options if not item.startswith(_LIMIT)]
    command = [*command, *options, "-o", str(assembly), str(source)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise BuildError(_errors(done.stderr.replace(f"{source}:", "line ")))
        return assembly.read_text(encoding="utf-8")
    finally:
        source.unlink(missing_ok=True)
        assembly.unlink(missing_ok=True)


def _errors(log: str) -> str:
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    return "; ".join(lines[:3]) or "the compiler failed without a message"
