"""Plant known bugs, one at a time, and see whether the tests find them.

    python tools/planted_bugs.py [--control] [JOB ...]

Each bug goes into a copy of the tree.  A few tests of one job of tools/test_matrix.py then run
there, selected and set up as that job does it, and one of them has to fail.  --control plants
nothing: then all of them have to pass.  Prints a line a bug: the job, what was planted, whether it
was found, by what and after how long.  The exit status is 0 if every bug was found.  A job whose
implementation is not installed is skipped with a word on what to install.

A bug replaces a text that occurs once in its file.  If a kernel changes, its bugs have to be
written again for the new text.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from test_matrix import JOBS, OFFLINE, ROOT, Implementation, Job, environment

from portable_gpu.isa import find_compilers
from portable_gpu.isa.compilers import CLANG

TIME_LIMIT = 300  # seconds for the tests of one bug
#: What the tests need of the tree.
PARTS = ("portable_gpu", "cl_kernels", "tests", "tools", "pyproject.toml")
#: Each test in this process, up to the first that fails.
ONE_BY_ONE = ("-n", "0", "-x", "--tb=short", "-p", "no:cacheprovider")

COMPILERS = Implementation(
    "compilers",
    lambda: None if "AMD" in find_compilers().missing else Path(CLANG),
    "apt-get install clang-19 llvm-19 lld-19 rocm-device-libs",
)
BY_NAME = {job.name: job for job in (*JOBS, Job(OFFLINE, COMPILERS, {}))}


@dataclass(frozen=True)
class Bug:
    """One mistake in a copy of the tree, and the tests that should see it.

    Attributes:
        job: A job of tools/test_matrix.py.
        what: What is wrong, in a few words.
        file: Where it is planted.
        old: The correct text, which occurs there once.
        new: The text that replaces it.
        tests: Arguments of pytest; of check-isa, for the job `offline`.
    """

    job: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


REDUCE = "tests/device/test_reduce.py"
SUBGROUP = "tests/device/test_subgroup.py"
GEMV = "tests/device/test_gemv.py"
UNITS = "tests/device/test_gemm_matrix_units.py"


def _no_barrier_in_groups(job: str) -> Bug:
    return Bug(
        job,
        "group: no barrier between the sub-groups' sums and their fold",
        "cl_kernels/group/group.cl.mako",
        "wave[lid / ${S}u] = v;\n    barrier(CLK_LOCAL_MEM_FENCE);\n",
        "wave[lid / ${S}u] = v;\n",
        (f"{SUBGROUP}::test_whole_groups",),
    )


def _shuffles_over_few_lanes(job: str, lanes: int) -> Bug:
    return Bug(
        job,
        f"khr_subgroup: shuffles over at most {lanes} lanes",
        "cl_kernels/subgroup/khr_subgroup.cl.mako",
        "#define LANE_PARTNER(v, d) sub_group_shuffle_xor(v, (uint)(d))",
        f"#define LANE_PARTNER(v, d) sub_group_shuffle_xor(v, (uint)(d) & {lanes - 1}u)",
        ("tests/device/test_job.py",),
    )


BUGS = (
    Bug(
        "pocl-cpu",
        "prelude: ABS(x) is x where built-ins are not inlined, as PoCL takes it",
        "cl_kernels/common/prelude.cl.mako",
        "#define ABS(x) ((x) < 0 ? -(x) : (x))",
        "#define ABS(x) (x)",
        (f"{REDUCE}::test_tiny_norms_of_floats",),
    ),
    Bug(
        "pocl-gcn",
        "_local_tree: at d = 32 the partner is lane + 31",
        "cl_kernels/subgroup/_local_tree.cl.mako",
        "own[${d}].${field.name}",
        "own[${d - (d == 32)}].${field.name}",
        (f"{SUBGROUP}::test_widths_of_the_devices_own_mechanism",),
    ),
    Bug(
        "pocl-gcn",
        "_mainloop: a staggered group turns one tile late",
        "cl_kernels/gemm/_mainloop.cl.mako",
        "{step} == tiles - 1{' - start' if stagger else ''}",
        "{step} == tiles{' - start' if stagger else ' - 1'}",
        ("tests/device/test_stagger.py::test_public_calls",),
    ),
    Bug(
        "pocl-gcn",
        "gemv's _rows: the second round of a staggered row lacks an element",
        "cl_kernels/gemv/_rows.cl.mako",
        "(round ? start : last)",
        "(round ? start - 1 : last)",
        ("tests/device/test_stagger.py::test_tiny",),
    ),
    Bug(
        "pocl-gcn",
        "_panel: the second step of a pair is read beyond k",
        "cl_kernels/gemm/_strided.cl.mako",
        "${ahead + piece} < tail",
        "${ahead} < tail",
        ("tests/device/test_gemm_pairs.py::test_public_calls",),
    ),
    Bug(
        "pocl-gcn-gfx942",
        "mfma: sums are stored one row off",
        "cl_kernels/gemm/mfma.cl.mako",
        "row = top + ${instruction.row(r)};",
        "row = top + ${instruction.row(r)} + 1;",
        (f"{UNITS}::test_products_take_the_path",),
    ),
    Bug(
        "pocl-gcn-gfx942",
        "mfma: wavefronts side by side multiply the same columns",
        "cl_kernels/gemm/mfma.cl.mako",
        "cols_at = wave % ${policy.waves_n} * ${policy.wave_n};",
        "cols_at = 0;",
        (f"{UNITS}::test_products_take_the_path",),
    ),
    Bug(
        "pocl-gcn-gfx942",
        "_mfma_steps: B is read from the place of another chunk",
        "cl_kernels/gemm/_mfma_steps.cl.mako",
        "cols_at + ${j * side} + lane, chunk)",
        "cols_at + ${j * side} + lane, chunk ^ 1)",
        (f"{UNITS}::test_products_take_the_path",),
    ),
    Bug(
        "pocl-gcn-gfx942",
        "_chunks: the tail of k is one step too long",
        "cl_kernels/gemm/_chunks.cl.mako",
        "+ {j} >= tail ?",
        "+ {j} > tail ?",
        (f"{UNITS}::test_products_take_the_path",),
    ),
    Bug(
        "pocl-nvidia-sm20",
        "warp_volatile: no barriers where there is no lock-step",
        "cl_kernels/subgroup/warp_volatile.cl.mako",
        "#define SUBGROUP_SYNC() barrier(CLK_LOCAL_MEM_FENCE)",
        "#define SUBGROUP_SYNC()",
        (f"{SUBGROUP}::test_widths_of_the_devices_own_mechanism",),
    ),
    _no_barrier_in_groups("pocl-generic"),
    Bug(
        "intel-cpu",
        "prelude: ABS(x) is x where built-ins are inlined, which PoCL does not take",
        "cl_kernels/common/prelude.cl.mako",
        "#define ABS(x) fabs(x)",
        "#define ABS(x) (x)",
        (f"{REDUCE}::test_tiny_norms_of_floats",),
    ),
    Bug(
        "intel-subgroup8",
        "group: the first sub-group folds no more waves than it has lanes",
        "cl_kernels/group/group.cl.mako",
        "w < ${waves}u;",
        "w < ${min(waves, S)}u;",
        (f"{REDUCE}::test_tiny_split_over_groups",),
    ),
    _shuffles_over_few_lanes("intel-subgroup16", 8),
    _shuffles_over_few_lanes("intel-warp", 16),
    _shuffles_over_few_lanes("intel-wavefront", 32),
    Bug(
        "rusticl",
        "cpu: llvmpipe is of this class",
        "portable_gpu/targets/cpu.py",
        ' and not facts.name.startswith("llvmpipe")',
        "",
        ("tests/device/test_reduce_axes.py::test_long_and_flat",),
    ),
    Bug(
        "rusticl",
        "operators: masks are not compared with 0",
        "portable_gpu/codegen/operators.py",
        '"(CONVERT({self.mask_type(width)}, {condition}) != 0)"',
        '"CONVERT({self.mask_type(width)}, {condition})"',
        (f"{REDUCE}::test_tiny", "-k", "argmin or asum"),
    ),
    _no_barrier_in_groups("oclgrind-generic"),
    Bug(
        "oclgrind-gcn",
        "gemv's _rows: rows past the last are read, and not used",
        "cl_kernels/gemv/_rows.cl.mako",
        "(row + ${k} < m ? row + ${k} : m - 1)",
        "(row + ${k})",
        (f"{GEMV}::test_tiny",),
    ),
    Bug(
        "oclgrind-nvidia-sm20",
        "_local_tree: no sync after the last step, where slots are volatile",
        "cl_kernels/subgroup/_local_tree.cl.mako",
        "    }\n    SUBGROUP_SYNC();\n",
        "    }\n% if d > 1 or not qualifier:\n    SUBGROUP_SYNC();\n% endif\n",
        (f"{SUBGROUP}::test_widths_of_the_devices_own_mechanism",),
    ),
    Bug(
        "oclgrind-cpu",
        "cpu_columns: a block narrower than a vector begins at its first column",
        "cl_kernels/reduce/cpu_columns.cl.mako",
        "before = wide < ${V} ? ${V} - wide : 0,",
        "before = 0,",
        (f"{REDUCE}::test_tiny_last_block_narrower_than_a_vector",),
    ),
    Bug(
        "emulated",
        "warp_shuffle: shuffles over at most 16 lanes",
        "cl_kernels/subgroup/warp_shuffle.cl.mako",
        "#define LANE_PARTNER(v, d) warp_shuffle_xor(v, d)",
        "#define LANE_PARTNER(v, d) warp_shuffle_xor(v, (d) & 15u)",
        ("tests/emulated/test_gemv_and_reduce.py::test_reductions", "-k", "sm_90 and 130"),
    ),
    Bug(
        "emulated",
        "_wgmma_steps: a consumer does not wait for what has arrived",
        "cl_kernels/gemm/_wgmma_steps.cl.mako",
        "barrier_wait(full_base + 8 * (stage + ${part}), phase);",
        "",
        ("tests/emulated/test_gemm.py::test_wgmma_tiles", "-k", "late and False"),  # no boxes
    ),
    Bug(
        OFFLINE,
        "wavefront_dpp: a built-in is misspelt",
        "cl_kernels/subgroup/wavefront_dpp.cl.mako",
        "__builtin_amdgcn_mov_dpp(",
        "__builtin_amdgcn_move_dpp(",
        ("sum", "--target=gfx900-dpp"),
    ),
    Bug(
        OFFLINE,
        "gemv's _rows: a private array is indexed by the lane",
        "cl_kernels/gemv/_rows.cl.mako",
        "    return sums;\n",
        "    ${real} kept[64] = {0};\n"
        "    kept[lane % 64] = sums.re0_0;\n"
        "    sums.re0_0 = kept[(lane + first) % 64];\n"
        "    return sums;\n",
        ("gemv", "--target=gfx900-dpp"),
    ),
)


def plant(bug: Bug, tree: Path) -> bool:
    """Put the bug into a tree; return whether its text occurs there exactly once."""
    file = tree / bug.file
    text = file.read_text()
    file.write_text(text.replace(bug.old, bug.new))
    return text.count(bug.old) == 1


def copy_of_the_tree(folder: Path) -> Path:
    """The files that the tests need, in a new folder."""
    tree = folder / "tree"
    tree.mkdir()
    for part in PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / part, tree)
    return tree


def run(bug: Bug, library: Path, tree: Path, folder: Path) -> tuple[int, str]:
    """Run the bug's tests in a tree; their exit status, and what they printed."""
    job = BY_NAME[bug.job]
    log = folder / "stderr"
    variables = {
        **environment(job, library, folder, log),
        "PORTABLE_GPU_CACHE": str(folder / "programs"),
        "PYTHONPATH": str(tree),  # before the tree that is installed
    }
    if bug.job == OFFLINE:
        command = [sys.executable, "tools/offline_check.py", *bug.tests]
    else:
        arguments = (*job.implementation.arguments, *job.arguments, *bug.tests, *ONE_BY_ONE)
        command = [sys.executable, "-m", "pytest", *arguments]
    with log.open("w") as errors:
        try:
            done = subprocess.run(
                command, cwd=tree, env=variables, stdout=subprocess.PIPE, stderr=errors, text=True,
                timeout=TIME_LIMIT,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return -1, f"not done in {TIME_LIMIT} s"
    return done.returncode, done.stdout


def first_words(printed: str) -> str:
    """The first failure, of a test or a kernel, and its message, in a line."""
    if kernel := re.search(r"^gfx\S+ .+: .+", printed, re.MULTILINE):
        return kernel[0][:160]
    test = re.search(r"^(?:FAILED|ERROR) [^:]+::(.+?)(?: - .*)?$", printed, re.MULTILINE)
    said = re.findall(r"^(?:E  |Oclgrind: .*\n)(.*)", printed, re.MULTILINE)
    return f"{test[1] if test else ''}: {' '.join(' '.join(said[:4]).split())[:120]}"


def verdict(bug: Bug, library: Path, control: bool) -> tuple[bool, str]:
    """Plant one bug, or nothing; whether its tests end as they should, and how they do."""
    with tempfile.TemporaryDirectory(prefix="portable_gpu-bug-") as name:
        folder = Path(name)
        tree = copy_of_the_tree(folder)
        if not control and not plant(bug, tree):
            return False, f"NOT PLANTED, its text does not stand once in {bug.file}"
        status, printed = run(bug, library, tree, folder)
    how = first_words(printed) if status == 1 else (printed.splitlines() or [""])[-1].strip("= ")
    if control:
        return status == 0, f"{'passed' if status == 0 else 'FAILED'}, {how}"
    return status == 1, f"{'found' if status == 1 else 'NOT FOUND'}, {how}"


def main() -> int:
    """Plant the bugs of the jobs named on the command line, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("job", nargs="*", help=", ".join(BY_NAME), metavar="JOB")
    parser.add_argument("--control", action="store_true", help="plant nothing")
    options = parser.parse_args()
    if unknown := set(options.job) - set(BY_NAME):
        parser.error(f"no job {', '.join(sorted(unknown))}; there are {', '.join(BY_NAME)}")
    good = True
    for name in options.job or BY_NAME:
        implementation = BY_NAME[name].implementation
        library = implementation.library()
        if library is None:
            print(f"{name}: skipped, not installed ({implementation.install})")
            continue
        for bug in (bug for bug in BUGS if bug.job == name):
            start = time.monotonic()
            as_it_should, words = verdict(bug, library, options.control)
            seconds = time.monotonic() - start
            print(f"{name}: {bug.what}: {words} ({seconds:.0f} s)", flush=True)
            good = good and as_it_should
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
