"""Run the device tests on each OpenCL implementation, and the compilers of other GPUs.

    python tools/test_matrix.py [--all] [JOB ...]

A job runs the tests marked `tiny` and `path`, with --all every device test but the large ones
(some 5 minutes a job).  Under Oclgrind, which is slow, it is the tiny ones in any case; on rusticl,
which has no double precision, the tiny and path ones.  `pocl-rest` runs the cases that a plain run
of pytest leaves out today.  A job is one run of pytest by two processes with its own environment;
Oclgrind's are one process each, and run two at a time.  `offline` is
`portable-gpu check-isa`; `emulated` runs NVIDIA's kernels from their PTX (tests/emulator), and
`front-end` has clang look for warnings in the texts for every recorded device (tests/front_end);
`oracle` compares layers on PoCL with PyTorch's (tests/oracle), `dask` runs workers of clusters on
this machine, and `pocl-optimised` has GPUs' kernels optimised by PoCL (tests/optimised); all five
are the same with --all.
A job whose implementation is not installed is skipped with a word on what to install.  Ends with
the closing line of each job; the exit status is 0 if all that ran passed.

PoCL and Intel's runtime come from the extras [pocl] and [intel]; rusticl and Oclgrind from the
system.  Intel's runtime runs each sub-group in lock-step and so hides missing barriers; PoCL and
Oclgrind, on the same tests, do not.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

from portable_gpu.isa import find_compilers, select
from portable_gpu.isa.compilers import CLANG

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT = 1200  # seconds for one job; a busy machine takes three times as long as a quiet one
TIME_LIMIT_ALL = 1800  # with --all
OFFLINE = "offline"
#: Every text for the newest of each maker, which has all that others have and matrix units; for
#: others some operations, as lanes, registers and occupancy differ.  With --all, every target.
OFFLINE_TARGETS = {
    ("gfx90a-dpp", "sm_90"): (),
    ("gfx1030-lds", "sm_60"): ("sum", "argmax", "gemv", "gemm", "fft"),
}
#: The message of faulthandler for a test that takes too long (pyproject.toml).
_HANGS = re.compile(r"^Timeout \(.*\)!\n(?:(?:Thread |  File |\n).*\n?)*", re.MULTILINE)
_CLOSING_LINE = re.compile(r"^=+ .*\bin [\d.]+s.*=+$")


@dataclass(frozen=True)
class Implementation:
    """One OpenCL implementation.

    Attributes:
        name: The device request that selects it.
        library: Finds the library to load, ``None`` where it is not installed; for PoCL, which
            pyopencl finds by itself, any path.
        install: What installs it.
        environment: Variables that all its jobs set.
        arguments: pytest's arguments.
    """

    name: str
    library: Callable[[], Path | None]
    install: str
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ("-n", "2", "-m", "tiny or path")


@dataclass(frozen=True)
class Job:
    """One run of the device tests, or of others."""

    name: str
    implementation: Implementation
    environment: dict[str, str]
    arguments: tuple[str, ...] = ()
    tests: str = "tests/device"


def _pocl() -> Path | None:
    spec = find_spec("pocl_binary_distribution")
    return Path(spec.origin) if spec and spec.origin else None


def _intel() -> Path | None:
    library = Path(sys.prefix) / "lib" / "libintelocl.so"
    return library if library.exists() else None


def _rusticl() -> Path | None:
    return next(Path("/usr/lib").glob("*/libRusticlOpenCL.so.1"), None)


def _oclgrind() -> Path | None:
    command = shutil.which("oclgrind")
    if command is None:
        return None
    prefix = Path(command).resolve().parent.parent
    return next(prefix.glob("lib*/oclgrind/liboclgrind-rt-icd.so"), None)


POCL = Implementation("Portable Computing Language", _pocl, "pip install '.[pocl]'")
INTEL = Implementation("Intel(R) OpenCL", _intel, "pip install '.[intel]'")
RUSTICL = Implementation(
    "rusticl",
    _rusticl,
    "apt-get install mesa-opencl-icd",
    {"RUSTICL_ENABLE": "llvmpipe"},  # without it rusticl has no device
)
OCLGRIND = Implementation(
    "Oclgrind",
    _oclgrind,
    "apt-get install oclgrind",
    {
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_MAX_ERRORS": "1000000",
        # Its optimiser makes intrinsics that its interpreter does not know (noalias.scope.decl).
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    },
    # One process, and stderr left alone: the reports there are matched with tests by time.
    ("-m", "tiny", "--capture=sys"),
)
#: No OpenCL: NVIDIA's kernels from their PTX.
EMULATOR = Implementation(
    "emulator",
    lambda: None if "NVIDIA" in find_compilers().missing else Path(CLANG),
    "apt-get install clang-19 libclc-15, pip install '.[offline]'",
    arguments=("-n", "2"),
)
#: No OpenCL either: every text through a compiler's front end.
FRONT_END = Implementation(
    "front-end",
    lambda: Path(CLANG) if shutil.which(CLANG) else None,
    f"apt-get install {CLANG}",
    arguments=("-n", "2"),
)
#: PoCL, and PyTorch's CPU build, whose functions tests/oracle compares with.
ORACLE = Implementation(
    POCL.name,
    lambda: _pocl() if find_spec("torch") else None,
    "pip install '.[pocl,oracle]'",
    arguments=("-n", "2"),
)
#: PoCL, and clusters of worker processes on this machine.
DASK = Implementation(
    POCL.name,
    lambda: _pocl() if find_spec("distributed") else None,
    "pip install '.[pocl,dask]'",
    arguments=(),
)
#: What runs on no OpenCL implementation.
HOST_ONLY = (EMULATOR, FRONT_END)


#: gemm's tiles exchange nothing between lanes: one forced class on PoCL shows what another would,
#: and a wavefront on Intel's runtime what other widths would, in tiny tests, for Intel's compiler
#: takes 2 to 5 s for a kernel of 64 lanes.
_LANES_ONLY = ("--ignore=tests/device/test_gemm.py", "--ignore=tests/device/test_matmul.py")
#: Layers run by README's line and on wavefronts.
_NO_LAYERS = ("--ignore-glob=tests/device/test_nn_*",)
#: Scales, axes and parts of results, which are the same at any width; Intel's compiler takes 5 s
#: for a transform of 64 lanes.
_SAME_TRANSFORMS = (
    "test_fft_groups.py::test_some_of_the_results",
    "test_fft_groups.py::test_three_passes",
    "test_fft_groups.py::test_scales",
    "test_fft_groups.py::test_a_plan_without_a_scale",
    "test_fft_groups.py::test_padding_and_axes",
    "test_fft_groups.py::test_real_lines_that_begin_anywhere",
    "test_signal.py::test_kernels_of_every_class",
)
#: What depends on the sub-group's width: no threads, and no warnings, which are the texts'.
_WIDTHS = (
    "--ignore=tests/device/test_contracts.py",
    "--ignore=tests/device/test_build_log.py",
    *(f"--deselect=tests/device/{name}" for name in _SAME_TRANSFORMS),
)
_WIDTHS_ONLY = (*_LANES_ONLY, *_WIDTHS)
#: Of a class or a width between two that other jobs have.
_TINY = (*_WIDTHS_ONLY, "-m", "tiny")

#: All that matrix units do, here emulated.
_MATRIX_UNITS = ("-k", "test_gemm_matrix_units or test_gemm_mfma", "-m", "not large")

#: PoCL's optimiser needs ten times as long as all else for kernels with many barriers: the job
#: pocl-gcn took 420 s with it and takes 55.  The job pocl-cpu has its own class optimised, and
#: pocl-optimised some kernels of others.
_UNOPTIMISED = {"PYOPENCL_BUILD_OPTIONS": "-cl-opt-disable"}
#: As PoCL compiles a kernel at its first launch; tests/conftest.py has them all run the binary's.
_SPECIALISED = {**_UNOPTIMISED, "POCL_WORK_GROUP_SPECIALIZATION": "1"}

#: With a look-out for uninitialised values; it makes Oclgrind crash on shuffles of wide vectors.
_INITIALISED = {"OCLGRIND_UNINITIALIZED": "1"}
_NARROW_ONLY = ("--deselect=tests/device/test_gemm_packed.py::test_tiny_in_parallel",)


def _job(
    name: str,
    implementation: Implementation,
    device_class: str = "",
    width: int = 0,
    arguments: tuple[str, ...] = (),
    extra: Mapping[str, str] = MappingProxyType({}),
) -> Job:
    environment = {**implementation.environment, **extra}
    if device_class:
        environment["PORTABLE_GPU_DEVICE_CLASS"] = device_class
    if width:
        environment["CL_CONFIG_CPU_VECTORIZER_MODE"] = str(width)
        environment["PORTABLE_GPU_TEST_SUBGROUP_SIZE"] = str(width)
    return Job(name, implementation, environment, arguments)


JOBS = (
    # README's line runs the others of today.
    _job(
        "pocl-rest",
        POCL,
        arguments=("tests/host", "-m", ""),
        extra={"PORTABLE_GPU_TEST_CASES": "rest", "PORTABLE_GPU_TEST_FEW": ""},
    ),
    _job("pocl-cpu", POCL, arguments=_NO_LAYERS, extra={"PORTABLE_GPU_TEST_OPTIMISED": "1"}),
    _job("pocl-gcn", POCL, "gcn", extra=_UNOPTIMISED),
    _job("pocl-gcn-gfx942", POCL, "gcn-gfx942", arguments=_MATRIX_UNITS, extra=_UNOPTIMISED),
    _job(
        "pocl-nvidia-sm20", POCL, "nvidia-sm20", arguments=(*_TINY, *_NO_LAYERS), extra=_UNOPTIMISED
    ),
    Job("pocl-optimised", POCL, {}, ("-m", ""), tests="tests/optimised"),
    _job(
        "pocl-generic", POCL, "generic", arguments=(*_LANES_ONLY, *_NO_LAYERS), extra=_SPECIALISED
    ),
    Job("oracle", ORACLE, _UNOPTIMISED, tests="tests/oracle"),
    Job(
        "dask", DASK, _UNOPTIMISED, ("tests/device/test_dask.py",), "tests/host/test_dask_graphs.py"
    ),
    _job("intel-cpu", INTEL, arguments=_NO_LAYERS),
    _job("intel-subgroup8", INTEL, "intel_gpu", 8, arguments=(*_WIDTHS_ONLY, *_NO_LAYERS)),
    _job("intel-subgroup16", INTEL, "intel_gpu", 16, arguments=(*_TINY, *_NO_LAYERS)),
    _job("intel-warp", INTEL, "intel_gpu", 32, arguments=(*_TINY, *_NO_LAYERS)),
    _job(
        "intel-wavefront", INTEL, "intel_gpu", 64, arguments=(*_WIDTHS, *_NO_LAYERS, "-m", "tiny")
    ),
    _job("rusticl", RUSTICL, arguments=_NO_LAYERS),
    *(
        _job(
            f"oclgrind-{name}",
            OCLGRIND,
            name,
            arguments=(*_NARROW_ONLY, *_NO_LAYERS),
            extra=_INITIALISED,
        )
        for name in ("generic", "gcn", "nvidia-sm20")
    ),
    _job("oclgrind-cpu", OCLGRIND, "cpu", arguments=_NO_LAYERS),
    Job("emulated", EMULATOR, {}, tests="tests/emulated"),
    Job("front-end", FRONT_END, {}, tests="tests/front_end"),
)


def environment(job: Job, library: Path, folder: Path, log: Path) -> dict[str, str]:
    """The variables of a job, whose standard error goes to ``log``.

    ``folder`` gets the list of OpenCL implementations.
    """
    vendors = folder / "vendors"
    vendors.mkdir()
    if job.implementation not in (POCL, ORACLE, DASK, *HOST_ONLY):
        (vendors / "only.icd").write_text(f"{library}\n")
    variables = {
        **os.environ,
        "PORTABLE_GPU_TEST_FEW": "1",
        **job.environment,
        "OCL_ICD_VENDORS": str(vendors),
        "PORTABLE_GPU_DEVICE": job.implementation.name,
        "PYOPENCL_NO_CACHE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if job.implementation is OCLGRIND:
        variables["PORTABLE_GPU_OCLGRIND_LOG"] = str(log)
    return variables


def run(
    job: Job, library: Path, folder: Path, whole: bool, say: Callable[[str], None]
) -> tuple[bool, str]:
    """Run one job; whether it passed, and pytest's closing line.  ``say`` gets what it prints."""
    log = folder / "stderr"
    variables = environment(job, library, folder, log)
    arguments = (*job.implementation.arguments, *job.arguments)
    if whole and job.implementation not in (OCLGRIND, ORACLE, DASK, RUSTICL, *HOST_ONLY):
        arguments = ("-n", "2", "-m", "not large")
        del variables["PORTABLE_GPU_TEST_FEW"]
    command = [sys.executable, "-m", "pytest", job.tests, *arguments]
    limit = TIME_LIMIT_ALL if whole else TIME_LIMIT
    closing = ""
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        timer = threading.Timer(limit, process.kill)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            say(line)
            if _CLOSING_LINE.match(line.strip()):
                closing = line.strip()
        status = process.wait()
        late = not timer.is_alive()
        timer.cancel()
    said = log.read_text(errors="replace")
    if not closing:
        say("\n".join([*said.splitlines()[-40:], ""]))
    if stacks := _HANGS.findall(said):
        say("The stacks of tests that hung:\n" + "\n".join([*stacks, ""]))
    if late:
        closing = f"killed, as it took longer than {limit} s"
    return status == 0, closing or f"pytest did not finish (status {status})"


def run_offline(whole: bool) -> tuple[bool, str]:
    """Compile for AMD's and NVIDIA's GPUs; whether it passed, and the closing line."""
    print(f"{OFFLINE}:", flush=True)
    missing = find_compilers().missing
    runs = []
    for names, operations in OFFLINE_TARGETS.items():
        selected = [name for name in names if select([name])[0].family not in missing]
        runs.append([*operations, *(f"--target={name}" for name in selected)])
    if whole or set(missing) == {"AMD", "NVIDIA"}:  # then it says what to install
        runs = [[]]
    good, result = True, []
    for arguments in runs:
        start = time.monotonic()
        command = [sys.executable, "tools/offline_check.py", *arguments]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="", flush=True)
        lines = done.stdout.splitlines() or ["it said nothing"]
        result += [line for line in lines[:-1] if ": skipped, " in line]
        result.append(f"{lines[-1]} in {time.monotonic() - start:.0f}s")
        good = good and done.returncode == 0
    return good, "\n".join(result)


def run_alone(job: Job, whole: bool) -> tuple[bool, str]:
    """Run a job that has the machine for itself; its output is printed at once."""
    return _run_if_installed(job, whole, partial(print, end="", flush=True))


def run_beside(job: Job, whole: bool) -> tuple[bool, str]:
    """Run a job at the same time as another; its output is printed when it has ended."""
    said: list[str] = []
    result = _run_if_installed(job, whole, said.append)
    print("".join(said), end="", flush=True)
    return result


def _run_if_installed(job: Job, whole: bool, say: Callable[[str], None]) -> tuple[bool, str]:
    """Whether the job passed or was skipped, and its closing lines."""
    library = job.implementation.library()
    if library is None:
        line = f"{job.name}: skipped, not installed ({job.implementation.install})"
        say(f"{line}\n")
        return True, line
    say(f"{job.name}:\n")
    with tempfile.TemporaryDirectory(prefix="portable_gpu-matrix-") as folder:
        good, closing = run(job, library, Path(folder), whole, say)
    return good, f"{job.name}: {'passed' if good else 'FAILED'}\n{closing}"


def main() -> int:
    """Run the jobs named on the command line, or all."""
    names = [*(job.name for job in JOBS), OFFLINE]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", nargs="*", help=", ".join(names), metavar="JOB")
    parser.add_argument("--all", action="store_true", help="every device test but the large ones")
    options = parser.parse_args()
    selected = options.job or names
    if unknown := set(selected) - set(names):
        parser.error(f"no job {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    results: list[tuple[bool, str]] = []
    chosen = [job for job in JOBS if job.name in selected]
    for implementation, jobs in groupby(chosen, key=lambda job: job.implementation.name):
        if implementation == OCLGRIND.name:
            with ThreadPoolExecutor(2) as pool:
                results += pool.map(partial(run_beside, whole=options.all), jobs)
        else:
            results += [run_alone(job, options.all) for job in jobs]
    if OFFLINE in selected:
        good, closing = run_offline(options.all)
        results.append((good, f"{OFFLINE}: {'passed' if good else 'FAILED'}\n{closing}"))
    print("\nThe matrix:\n" + "\n".join(lines for _, lines in results))
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
