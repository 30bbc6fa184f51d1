"""What CONTRIBUTING.md says to touch is what it takes, tried out on a copy of the tree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def files_to_touch(row: str) -> set[str]:
    """The files that CONTRIBUTING.md names in a row of its table, the made-up class called dsp."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    cells = re.findall(rf"^\| {row} \| (.*) \|$", text, re.MULTILINE)
    assert len(cells) == 1
    return set(re.findall(r"`([\w/.<>]+/[\w/.<>]+)`", cells[0].replace("<name>", "dsp")))


def copy_with(edits: Edits, folder: Path) -> Path:
    """A copy of the tree in ``folder``, edited."""
    ignored = shutil.ignore_patterns("__pycache__", ".*")
    for name in ("portable_gpu", "cl_kernels", "tests", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for name, pairs in edits.items():
        path = folder / name
        text = path.read_text() if path.exists() else ""
        for old, new in pairs:
            assert not old or text.count(old) == 1, f"{name} has {old!r} {text.count(old)} times"
            text = text.replace(old, new) if old else new
        path.write_text(text)
    return folder


def run_tests(tree: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on the copy, whose package it imports."""
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), *sys.path]), **variables}
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
    done = run_tests(copy_with(edits, tmp_path), "tests/host/test_targets.py")
    assert done.returncode != 0


def test_an_operator_is_computed(tmp_path: Path) -> None:
    assert files_to_touch("an operator") == set(MADE_UP_OPERATOR)
    tree = copy_with(MADE_UP_OPERATOR, tmp_path)
    done = run_tests(tree, "tests/device/test_reduce.py", "-k", "saturating_sum")
    assert done.returncode == 0, done.stdout
