"""The files that CONTRIBUTING.md says to touch suffice, shown on a copy of the tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from portable_gpu.isa import find_compilers

pytestmark = pytest.mark.divided("the files of CONTRIBUTING")

ROOT = Path(__file__).resolve().parents[2]

Edits = dict[str, list[tuple[str, str]]]  # of each file: what stands there once, and what instead

MADE_UP_CLASS: Edits = {
    "portable_gpu/targets/dsp.py": [
        (
            "",
            """
from portable_gpu.targets.device_class import DeviceClass
from portable_gpu.targets.target import DeviceFacts

def _derive(facts, out):
    out.set("lockstep", False, "assumed", "barriers between the lanes")
    out.exchange("wavefront_lds", 16, "assumed", "as its manual says")

DSP = DeviceClass(
    name="dsp",
    define="DSP_DEVICE",
    summary="made up",
    matches=lambda facts: facts.vendor == "Made-up",
    derive=_derive,
    example=DeviceFacts(name="DSP 1", vendor="Made-up", type="accelerator"),
)
""",
        )
    ],
    "portable_gpu/targets/__init__.py": [
        ("(NVIDIA, ", "(DSP, NVIDIA, "),
        (
            "from portable_gpu.targets.gcn ",
            "from portable_gpu.targets.dsp import DSP\nfrom portable_gpu.targets.gcn ",
        ),
    ],
    "cl_kernels/common/prelude.cl.mako": [
        ("#define CUDA_DEVICE", "#define DSP_DEVICE 77\n#define CUDA_DEVICE")
    ],
    "tests/recorded_devices.py": [
        (
            '    "PoCL": (',
            """    "DSP": (
        DeviceFacts(name="DSP 2", vendor="Made-up", type="accelerator"),
        Expected("dsp", "wavefront_lds", 16, False, fp64=False),
    ),
    "PoCL": (""",
        )
    ],
    "docs/devices.md": [("| `generic` | all", "| `dsp` | made up | 16 | | |\n| `generic` | all")],
}
MADE_UP_OPERATOR: Edits = {
    "portable_gpu/codegen/operators.py": [
        (
            "@dataclass(frozen=True)\nclass Map:",
            'SATURATING_SUM = BinaryOp("saturating_sum", "0", "add_sat(a, b)")\n\n\n'
            "@dataclass(frozen=True)\nclass Map:",
        )
    ],
    "portable_gpu/__init__.py": [
        ("import BinaryOp, Map", "import SATURATING_SUM, BinaryOp, Map"),
        ('    "BinaryOp",', '    "SATURATING_SUM",\n    "BinaryOp",'),
    ],
    "tests/device/test_reduce.py": [
        (
            "def test_reduce_refuses(",
            """def test_saturating_sum(engine: Engine) -> None:
    for x in (np.arange(99_999, dtype=np.uint32), np.arange(9, dtype=np.uint32)):
        expected = min(int(x.sum(dtype=np.uint64)), 2**32 - 1)
        assert pg.reduce(x, pg.SATURATING_SUM, engine=engine) == expected


def test_reduce_refuses(""",
        )
    ],
}

MADE_UP_FAMILY: Edits = {
    "cl_kernels/scale/scale.cl.mako": [
        (
            "",
            """## y = 2 x.  elem: of both.  policy: ScalePolicy.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(elem)}
__kernel ${group.of_size(policy.group_size)}
void ${kernel("scale")}
{
    const long i = get_global_id(0);
    if (i >= n) return;
    const ${elem.value} value = ${elem.name}_load(x + x_offset + i);
    ${elem.name}_store(y + y_offset + i, value + value);
}
""",
        )
    ],
    "portable_gpu/ops/scale/__init__.py": [
        (
            "",
            """
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from portable_gpu.codegen.parameters import operand, scalars
from portable_gpu.codegen.specialization import specialize
from portable_gpu.dtypes import Element, element
from portable_gpu.ops.one_launch import OneLaunch
from portable_gpu.ops.operation import Invocation, Operation
from portable_gpu.ops.variant import Variant, bind_best
from portable_gpu.runtime.views import as_array
from portable_gpu.tuning.costs import DeviceCosts
from portable_gpu.tuning.policy import Range, TunedPolicy

@dataclass(frozen=True)
class ScalePolicy(TunedPolicy):
    group_size: Annotated[int, Range(1, 256)]

    @classmethod
    def default(cls, target, elem):
        return cls(target.subgroup_size)

    @classmethod
    def search_space(cls, target, elem):
        return {"group_size": (target.subgroup_size, 2 * target.subgroup_size)}

    def edges(self, itemsize):
        return self.group_size, 1, 1

    def limits(self, target, elem):
        return {"the group fits": self.group_size <= target.max_work_group_size}

@dataclass(frozen=True)
class ScaleProblem:
    elem: Element
    n: int

def variants(problem, target, table):
    p, costs = problem, DeviceCosts.of("device", target)
    row = table.choose("scale", ScalePolicy, target, p.elem)
    return [
        Variant(
            name="scale", launches=1,
            estimate=2 * p.n * p.elem.itemsize / (costs.bandwidth * target.compute_units),
            why="a work-item an element", texts=lambda: [text(p.elem, target, row.policy)],
            bind=partial(scale_plan, problem=p, policy=row.policy),
            row=row,
        )
    ]

def text(elem, target, policy):
    stored = f"{elem.name}_t"
    arrays = [*operand(stored, "x"), *operand(stored, "y", writes=True)]
    kernels = {"scale": [*arrays, *scalars("long", "n")]}
    return specialize("scale/scale", target, kernels, elem=elem, policy=policy)

def scale_plan(engine, problem, policy):
    spec, size = text(problem.elem, engine.target, policy), policy.group_size
    grid = (-(-problem.n // size) * size,)
    return OneLaunch(engine, spec, "scale", {"n": problem.n}, ["x", "y"], grid, (size,))

def scale(x, *, out=None, engine=None, queue=None, wait_for=None):
    return _SCALE.call((x,), (), out, (), engine, queue, wait_for)

def _normalise(arguments):
    x = as_array(arguments.inputs[0], "x")
    problem = ScaleProblem(element(x.dtype), x.size)

    def plan(engine, views):
        def make():
            return bind_best(engine, variants(problem, engine.target, engine.table))
        return engine.plan(problem, make)

    return Invocation(
        inputs=(x,), names=("x",), shape=x.shape, dtype=x.dtype, plan=plan, out=arguments.out
    )

_SCALE = Operation("scale", _normalise)
""",
        )
    ],
    "portable_gpu/ops/scale/commands/__init__.py": [("", "")],
    "portable_gpu/ops/scale/commands/family.py": [
        (
            "",
            """
from functools import partial

import numpy as np

from portable_gpu.checking.check import Check, Expected
from portable_gpu.checking.edges import around
from portable_gpu.checking.inputs import Input
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.family import (
    Benchmark, Compiled, Family, OperationRecord, Sizes, Tuning, Typical
)
from portable_gpu.ops.scale import ScaleProblem, scale, variants
from portable_gpu.tuning.table import TuningTable

def explain(question):
    if len(question.sizes) != 1:
        raise ArgumentError("scale takes one size")
    problem = ScaleProblem(question.elem, *question.sizes)
    return question.answer(variants(problem, question.target, question.table))

def specializations(target, dtype):
    problem = ScaleProblem(element(np.dtype(dtype)), 1000)
    return variants(problem, target, TuningTable.shipped())[0].texts()

def _check(dtype, n):
    x = Input(dtype, (n,))
    return Check(
        "scale", str(x), lambda engine: scale(x.array(engine), engine=engine),
        lambda: Expected(2 * x.host(), None, dtype),
    )

def _checks(dtypes):
    yield from (_check(dtype, 1000) for dtype in dtypes if dtype == np.float32)

def _oracle(case, inputs):
    return lambda found: 0.0 if np.array_equal(found, 2 * inputs[0]) else np.inf

_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="2^20", gpu="2^24"),
    roofline=Sizes(cpu="2^20", gpu="2^24"),
    flop=lambda case: case.extents[0],
    bytes=lambda case: 2 * case.extents[0] * element(dtype_of(case.dtype)).itemsize,
    oracle=_oracle,
    like_numpy=lambda case, arrays, library: partial(library.add, arrays[0], arrays[0]),
    form="a length",
    label="elements",
)
SCALE = Family(
    name="scale",
    operations=(
        OperationRecord("scale", scale, explain, specializations, extents=1,
                  typical=Typical(((1000,),))),
    ),
    checks=_checks,
    benchmarks={"scale": _BENCHMARK},
    tuning=Tuning(
        "scale", Sizes(cpu="1000", gpu="1000"), {"scale": Sizes(cpu="77", gpu="77")},
        lambda tile, dtype, cases: (_check(dtype, n) for n in around(tile[0], 97)),
    ),
    kernels={"scale/scale": Compiled(shown="scale")},
)
""",
        )
    ],
    "portable_gpu/ops/registry.py": [
        (
            "from portable_gpu.ops.reduce.commands.family import REDUCE",
            "from portable_gpu.ops.reduce.commands.family import REDUCE\n"
            "from portable_gpu.ops.scale.commands.family import SCALE",
        ),
        ("    GEMM,\n", "    GEMM,\n    SCALE,\n"),
    ],
    "portable_gpu/__init__.py": [
        (
            "from portable_gpu.runtime.array import Array",
            "from portable_gpu.ops.scale import scale\n"
            "from portable_gpu.runtime.array import Array",
        ),
        ('    "reduce",\n    "std"', '    "reduce",\n    "scale",\n    "std"'),
    ],
    "tests/device/test_scale.py": [
        (
            "",
            """
import numpy as np

import portable_gpu as pg

def test_scale(engine):
    x = np.arange(1001, dtype=np.float32)
    out = np.empty_like(x)
    for _ in range(2):
        np.testing.assert_array_equal(pg.scale(x, engine=engine), 2 * x)
        assert pg.scale(x, out=out, engine=engine) is out
        np.testing.assert_array_equal(out, 2 * x)
""",
        )
    ],
}
#: Lines of a small family, blank ones left out.
_MOST_LINES = 150
#: What every command must say of the made-up family; {folder} is a temporary one.
COMMANDS = {
    "explain scale 1000 --target gcn": "scale of 1000",
    "explain scale 1000": "a work-item an element",
    "render scale --target gcn": "// scale/scale",
    "warm-up scale": "1 programs",
    "selftest scale": "1 of 1 checks of 1 operations passed",
    "bench scale --sizes 1000 --peers numpy,pyopencl --json {folder}/bench.json": "scale, float32",
    "tune scale --budget 3s": "scale f32 any",
}


def files_to_touch(row: str, name: str = "dsp") -> set[str]:
    """The files and folders that a row of CONTRIBUTING.md's table names, with a made-up name."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    cells = re.findall(rf"^\| {row} \| (.*) \|$", text, re.MULTILINE)
    assert len(cells) == 1
    return set(re.findall(r"`([\w/.<>]+/[\w/.<>]*)`", cells[0].replace("<name>", name)))


def copy_with(edits: Edits, folder: Path) -> Path:
    """A copy of the tree in ``folder``, edited; with the bytecode of unedited files."""
    ignored = shutil.ignore_patterns(".*", "*.nb?")
    for name in ("portable_gpu", "cl_kernels", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, pairs in edits.items():
        path = folder / name
        text = path.read_text() if path.exists() else ""
        for old, new in pairs:
            assert not old or text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
            text = text.replace(old, new) if old else new
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def run_tests(tree: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the copy, whose package it imports."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(tree), *sys.path]),
        "PORTABLE_GPU_TEST_CASES": "all",
        **variables,
    }
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)


def test_a_class_is_detected_rendered_and_run(tmp_path: Path) -> None:
    assert files_to_touch("a device class") == set(MADE_UP_CLASS)
    tree = copy_with(MADE_UP_CLASS, tmp_path)
    host = ("tests/host/test_targets.py", "tests/host/test_catalogue.py")
    done = run_tests(tree, *host, "-k", "test_targets or dsp")
    assert done.returncode == 0, done.stdout
    done = run_tests(
        tree,
        "tests/device/test_job.py::test_forced_class_is_taken",
        "tests/device/test_reduce.py::test_sum_of_few[130]",
        PORTABLE_GPU_DEVICE_CLASS="dsp",
        PYOPENCL_BUILD_OPTIONS="-cl-opt-disable",  # it has many barriers
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("left_out", MADE_UP_CLASS)
def test_a_forgotten_file_is_missed(left_out: str, tmp_path: Path) -> None:
    edits = {name: pairs for name, pairs in MADE_UP_CLASS.items() if name != left_out}
    done = run_tests(copy_with(edits, tmp_path), "-x", "tests/host/test_targets.py")
    assert done.returncode != 0


def test_an_operator_is_computed(tmp_path: Path) -> None:
    assert files_to_touch("an operator") == set(MADE_UP_OPERATOR)
    tree = copy_with(MADE_UP_OPERATOR, tmp_path)
    done = run_tests(tree, "tests/device/test_reduce.py", "-k", "saturating_sum")
    assert done.returncode == 0, done.stdout


#: Runs commands in one process: lines of arguments in, a JSON list of statuses and outputs out.
RUN = """
import contextlib, io, json, sys
from portable_gpu.bench import roofs
from portable_gpu.cli import main

roofs._COPIED, roofs._steps = 1 << 20, lambda target: 256  # they are of no account here

if __name__ == "__main__":
    found = []
    for line in json.load(sys.stdin):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = main(line.split())
        found.append((status, text.getvalue()))
    json.dump(found, sys.stdout)
"""


def run_commands(tree: Path, lines: list[str]) -> list[tuple[int, str]]:
    """The exit status and the output of each command of the copy."""
    script = tree / "commands.py"  # a file: the tuner's process imports it once more
    script.write_text(RUN)
    done = subprocess.run(
        (sys.executable, str(script)),
        cwd=tree,
        env=os.environ
        | {
            "PYTHONPATH": os.pathsep.join([str(tree), *sys.path]),
            "PORTABLE_GPU_TUNING": str(tree / "tuning.json"),
            "COLUMNS": "200",
        },
        input=json.dumps(lines),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [(status, " ".join(text.split())) for status, text in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def tree_with_family(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_with(MADE_UP_FAMILY, tmp_path_factory.mktemp("family"))


def test_a_family_takes_what_its_row_says() -> None:
    edits = [edit for pairs in MADE_UP_FAMILY.values() for edit in pairs]
    old, new = (
        sum(bool(line.strip()) for text in texts for line in text.splitlines())
        for texts in zip(*edits, strict=True)
    )
    assert new - old <= _MOST_LINES
    folders = ("portable_gpu/ops/scale/", "cl_kernels/scale/")
    touched = {
        next((folder for folder in folders if name.startswith(folder)), name)
        for name in MADE_UP_FAMILY
    }
    assert files_to_touch("a family", "scale") == touched


def test_every_command_knows_a_new_family(tree_with_family: Path) -> None:
    pytest.importorskip("optuna")
    lines = [line.format(folder=tree_with_family) for line in COMMANDS]
    result = run_commands(tree_with_family, lines)
    for (line, wanted), (status, text) in zip(COMMANDS.items(), result, strict=True):
        assert status == 0, (line, text)
        assert wanted in text, (line, text)
    report = json.loads((tree_with_family / "bench.json").read_text())
    rows = [(row["operation"], row["peer"], row["flop"], row["bytes"]) for row in report["rows"]]
    assert rows == [("scale", "numpy", 1000, 8000)]  # pyopencl.array has none


def test_a_new_family_is_compiled(tree_with_family: Path) -> None:
    missing = find_compilers().missing
    machine = next((m for f, m in (("AMD", "gfx900"), ("NVIDIA", "sm_80")) if f not in missing), "")
    if not machine:
        pytest.skip("no offline compilers")
    ((status, text),) = run_commands(tree_with_family, [f"check-isa scale --target {machine}"])
    assert (status, "0 failed" in text) == (0, True), text


def test_a_new_family_passes_the_tests_of_all(tree_with_family: Path) -> None:
    done = run_tests(
        tree_with_family,
        "tests/device/test_scale.py",
        "tests/host/test_families.py",
        "tests/host/test_catalogue.py",
        "tests/host/test_architecture.py",
        "tests/host/test_parameters.py",
        "-k",
        "scale or record or unique or circle or (every and not explains and gcn) or public"
        " or one_mechanism or short or one_file or one_thing or declare_parameters",
    )
    assert done.returncode == 0, done.stdout
