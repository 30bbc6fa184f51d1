"""Compile every kernel for GPUs that are not at hand, and read what the compilers say of it.

    python tools/offline_check.py [--full] [--verbose] [TARGET ...]

Renders each entry of the catalogue for AMD's architectures (clang's amdgcn back end; with DPP and
with local memory) and for NVIDIA's (clang to PTX, then ptxas).  Fails on compile errors, on spills
or scratch memory, on more local memory than a group may have, and on a wavefront size other than
the text was rendered for.  Nothing runs: that a kernel is right is for the device tests.

A family of targets whose compiler is missing is skipped with a word on what to install.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import UnsupportedError
from portable_gpu.ops.catalogue import catalogue
from portable_gpu.runtime.retarget import is_marked, retarget
from portable_gpu.targets import Target, detect, example_target

CLANG = "clang-19"
_PTX_VERSION = re.compile(r"^\.version .*", re.MULTILINE)  # clang's is too old for wgmma
_TOO_MUCH_SHARED = "uses too much shared data"
DEVICE_LIBRARY = Path("/usr/lib/x86_64-linux-gnu/amdgcn/bitcode")
LIBCLC = Path("/usr/lib/clc/nvptx64--nvidiacl.bc")
#: Compiled for every target and dtype; all other operations for float32 alone, unless --full.
ALWAYS = ("gemm", "gemv", "sum", "argmin", "dot", "nrm2", "var")
DTYPES = ("float32", "float64", "float16", "complex64", "int8")
#: For the machines that differ from another only in how lanes exchange values.
LDS_DTYPES = ("float32", "float64")
ALL_DTYPES = (*DTYPES, "int64", "uint16", "complex128", "bool")


@dataclass(frozen=True)
class Machine:
    """A GPU to compile for: what clang calls it, and what the library takes it for."""

    name: str
    architecture: str
    target: Target

    @property
    def is_amd(self) -> bool:
        """Whether clang's amdgcn back end compiles for it."""
        return self.architecture.startswith("gfx")


@dataclass(frozen=True)
class Kernel:
    """What a compiler said of one kernel.

    Attributes:
        name: Template and function.
        registers: Registers of a work-item (AMD: vector registers).
        local: Bytes of local memory.
        problems: What fails the check.
        scalar_spills: AMD's scalar registers that did not fit.  They go to lanes of a vector
            register, not to memory: no failure.
    """

    name: str
    registers: int = 0
    local: int = 0
    problems: list[str] = field(default_factory=list)
    scalar_spills: int = 0


@dataclass(frozen=True)
class Found:
    """A kernel, and for what it was compiled."""

    machine: Machine
    operation: str
    dtype: str
    kernel: Kernel


def machines() -> tuple[Machine, ...]:
    """The GPUs, AMD's twice: with DPP, and as a driver without clang's built-ins shows them."""
    found = []
    for architecture, device_class in (
        ("gfx803", "gcn"),
        ("gfx900", "gcn"),
        ("gfx90a", "gcn"),
        ("gfx1030", "rdna"),
    ):
        facts = example_target(device_class).facts
        for exchange, name in (("dpp", architecture), ("lds", f"AMD {architecture}")):
            target = detect(replace(facts, name=name))
            found.append(Machine(f"{architecture}-{exchange}", architecture, target))
    for sm in (60, 70, 90):
        found.append(Machine(f"sm_{sm}", f"sm_{sm}", example_target(f"nvidia-sm{sm}")))
    return tuple(found)


def compile_amd(machine: Machine, spec: Specialization, folder: Path) -> tuple[str, list[str]]:
    """Compile to assembly; its text, and the compiler's errors."""
    command = [
        CLANG, "-x", "cl", "-target", "amdgcn-amd-amdhsa", f"-mcpu={machine.architecture}",
        "-O3", f"--rocm-device-lib-path={DEVICE_LIBRARY}", "-S", *spec.options,
    ]  # fmt: skip
    return _compile(command, spec, folder / f"{spec.key}.{machine.name}.s")


def compile_nvidia(
    machine: Machine, spec: Specialization, folder: Path, ptxas: str
) -> tuple[str, list[str]]:
    """Compile to PTX and assemble that; what ptxas -v prints, and errors."""
    ptx = folder / f"{spec.key}.{machine.name}.ptx"
    command = [
        CLANG, "-x", "cl", "-Dasm=__asm__", "-target", "nvptx64-nvidia-nvcl",
        "-Xclang", "-target-cpu", "-Xclang", machine.architecture, "-O3",
        "-Xclang", "-mlink-builtin-bitcode", "-Xclang", str(LIBCLC), "-S", *spec.options,
    ]  # fmt: skip
    text, errors = _compile(command, spec, ptx)
    if errors:
        return "", errors
    architecture = machine.architecture
    if is_marked(spec.text):
        architecture += "a"
        ptx.write_text(_PTX_VERSION.sub(".version 8.0", retarget(text)))
    done = subprocess.run(
        [ptxas, f"-arch={architecture}", "-v", str(ptx), "-o", os.devnull],
        capture_output=True,
        text=True,
    )
    # The driver takes more local memory than ptxas does by itself; read_nvidia compares it.
    log = "\n".join(line for line in done.stderr.splitlines() if _TOO_MUCH_SHARED not in line)
    failed = done.returncode and (_TOO_MUCH_SHARED not in done.stderr or "error" in log.lower())
    return log, _errors(log) if failed else []


def _compile(command: list[str], spec: Specialization, out: Path) -> tuple[str, list[str]]:
    source = out.with_suffix(".cl")
    source.write_text(spec.text)
    done = subprocess.run([*command, "-o", str(out), str(source)], capture_output=True, text=True)
    if done.returncode:
        return "", _errors(done.stderr)
    return out.read_text(), []


def _errors(log: str) -> list[str]:
    lines = [line for line in log.splitlines() if "error" in line.lower()]
    return lines[:3] or ["the compiler failed without a word"]


def read_amd(text: str, target: Target) -> Iterator[Kernel]:
    """Each kernel of an assembly."""
    metadata = text.partition(".amdgpu_metadata")[2]
    # A frame may be reserved and left alone; a kernel's own buffers take global_ and flat_.
    touches_scratch = re.search(r"^\s+(scratch|buffer)_(load|store)", text, re.MULTILINE)
    for entry in re.split(r"^  - ", metadata, flags=re.MULTILINE)[1:]:
        numbers = {
            name: int(value) for name, value in re.findall(r"\.(\w+):\s+(\d+)\s*$", entry, re.M)
        }
        name = re.search(r"^    \.name:\s+(\S+)", entry, re.M)
        if name is None:
            continue
        problems = []
        if numbers.get("vgpr_spill_count"):
            problems.append(f"spills {numbers['vgpr_spill_count']} vector registers")
        if numbers.get("private_segment_fixed_size") and touches_scratch:
            problems.append(f"scratch memory is {numbers['private_segment_fixed_size']} bytes")
        if numbers.get("wavefront_size") != target.subgroup_size:
            width = numbers.get("wavefront_size")
            problems.append(f"wavefront size {width}, rendered for {target.subgroup_size}")
        local = numbers.get("group_segment_fixed_size", 0)
        yield Kernel(
            name[1],
            numbers.get("vgpr_count", 0),
            local,
            problems + _too_much(local, target),
            numbers.get("sgpr_spill_count", 0),
        )


def read_nvidia(log: str, target: Target) -> Iterator[Kernel]:
    """The same, of what ptxas prints."""
    for entry in re.split(r"Compiling entry function '", log)[1:]:
        stack, stores, loads = (
            int(number)
            for number in re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", entry)
        )
        problems = [f"stack frame is {stack} bytes"] if stack else []
        if stores or loads:
            problems.append(f"spills {stores} bytes, and loads {loads}")
        registers = re.search(r"Used (\d+) registers", entry)
        shared = re.search(r"(\d+) bytes smem", entry)
        local = int(shared[1]) if shared else 0
        problems += _too_much(local, target)
        name = entry.partition("'")[0]
        yield Kernel(name, int(registers[1]) if registers else 0, local, problems)


def _too_much(local: int, target: Target) -> list[str]:
    limit = target.static_local_mem
    return [f"local memory is {local} bytes, the limit {limit}"] if local > limit else []


def jobs(
    wanted: Sequence[Machine], full: bool
) -> Iterator[tuple[Machine, str, str, Specialization]]:
    """What to compile: machine, operation, dtype and text; the same text once a machine."""
    entries = catalogue()
    for machine in wanted:
        seen = set()
        usual = LDS_DTYPES if machine.name.endswith("-lds") else DTYPES
        for dtype in ALL_DTYPES if full else usual:
            for operation, build in entries.items():
                if not full and dtype != "float32" and operation not in ALWAYS:
                    continue
                try:
                    specs = build(machine.target, dtype_of(dtype))
                except UnsupportedError:  # reduce takes no complex numbers
                    continue
                for spec in specs:
                    if spec.key not in seen:
                        seen.add(spec.key)
                        yield machine, operation, dtype, spec


def check(job: tuple[Machine, str, str, Specialization], folder: Path, ptxas: str) -> list[Found]:
    """Compile one text; a line for each of its kernels."""
    machine, operation, dtype, spec = job
    if machine.is_amd:
        text, errors = compile_amd(machine, spec, folder)
        kernels = list(read_amd(text, machine.target))
    else:
        text, errors = compile_nvidia(machine, spec, folder, ptxas)
        kernels = list(read_nvidia(text, machine.target))
    if not errors and not kernels:
        errors = ["no kernel in the compiler's output"]
    if errors:
        kernels = [Kernel("", problems=errors)]
    return [
        Found(machine, operation, dtype, replace(kernel, name=f"{spec.name} {kernel.name}"))
        for kernel in kernels
    ]


def missing() -> tuple[dict[bool, str], str]:
    """What is not installed, for AMD (``True``) and NVIDIA (``False``); and the path of ptxas."""
    lacks: dict[bool, str] = {}
    spec = find_spec("nvidia.cuda_nvcc") if find_spec("nvidia") else None
    folders = (
        [Path(place) / "bin" for place in (spec.submodule_search_locations or [])] if spec else []
    )
    path = os.pathsep.join([*map(str, folders), os.environ.get("PATH", "")])
    ptxas = shutil.which("ptxas", path=path) or ""
    if not shutil.which(CLANG):
        lacks = dict.fromkeys((True, False), f"apt-get install {CLANG} llvm-19")
    if not DEVICE_LIBRARY.is_dir():
        lacks[True] = f"apt-get install {CLANG} llvm-19 lld-19 rocm-device-libs"
    if not ptxas:
        lacks[False] = "pip install '.[offline]'"
    if not LIBCLC.exists():
        lacks[False] = f"apt-get install {CLANG} libclc-15"
    return lacks, ptxas


def table(results: list[Found]) -> str:
    """A line for each machine and dtype: how many kernels, and the most that one takes."""
    groups: defaultdict[tuple[str, str], list[Kernel]] = defaultdict(list)
    for found in results:
        groups[found.machine.name, found.dtype].append(found.kernel)
    form = "{:<14}{:<12}{:>8}{:>8}{:>11}{:>8}{:>15}"
    heads = ("target", "dtype", "kernels", "failed", "registers", "local", "scalar spills")
    lines = [form.format(*heads)]
    for (name, dtype), group in groups.items():
        failed = sum(bool(kernel.problems) for kernel in group)
        most = (
            max(getattr(kernel, what) for kernel in group)
            for what in ("registers", "local", "scalar_spills")
        )
        lines.append(form.format(name, dtype, len(group), failed, *most))
    return "\n".join(lines)


def main() -> int:
    """Compile, print the table and the failures; 1 if there are any."""
    known = machines()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    names = ", ".join(machine.name for machine in known)
    parser.add_argument("target", nargs="*", help=f"of {names}; default all")
    parser.add_argument("--full", action="store_true", help="every operation with every dtype")
    parser.add_argument("--verbose", action="store_true", help="a line for every kernel")
    options = parser.parse_args()
    if unknown := set(options.target) - {machine.name for machine in known}:
        parser.error(f"no target {', '.join(sorted(unknown))}; there are {names}")
    wanted = [m for m in known if not options.target or m.name in options.target]
    lacks, ptxas = missing()
    for amd, vendor in ((True, "AMD"), (False, "NVIDIA")):
        if amd in lacks and any(machine.is_amd == amd for machine in wanted):
            print(f"{vendor}: skipped, a compiler is missing ({lacks[amd]})")
    wanted = [machine for machine in wanted if machine.is_amd not in lacks]
    if not wanted:
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="portable_gpu-offline-") as folder,
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        every = pool.map(
            lambda job: check(job, Path(folder), ptxas), list(jobs(wanted, options.full))
        )
        results = [found for one in every for found in one]
    for found in results:
        kernel = found.kernel
        if kernel.problems or options.verbose:
            print(
                f"{found.machine.name} {found.operation} {found.dtype} {kernel.name}: "
                f"{kernel.registers} registers, {kernel.local} bytes local; "
                f"{'; '.join(kernel.problems) or 'ok'}"
            )
    print(table(results))
    failed = sum(bool(found.kernel.problems) for found in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
