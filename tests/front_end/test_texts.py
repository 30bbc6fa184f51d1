"""Clang's front end has nothing to remark on any text, whichever device it is for.

The job ``front-end`` of tools/test_matrix.py runs this.  A plain run of pytest does not: there are
some 20,000 texts, 6 ms each.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from random_problems import EACH, TABLE, problems
from recorded_devices import POCL, RECORDED
from sampling import dealt
from signatures import assert_passable

from portable_gpu.bench import roofs
from portable_gpu.codegen.epilogue import Epilogue
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import DTypeError, UnsupportedError
from portable_gpu.isa.compilers import CLANG, WARNINGS
from portable_gpu.ops.elementwise.commands.catalogue import problem as expression_of
from portable_gpu.ops.elementwise.variants import variants as elementwise_variants
from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.variants import variants as gemm_variants
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.ops.variant import Variant, sample_of_kinds
from portable_gpu.runtime import exchange
from portable_gpu.targets import Target, detect

pytestmark = pytest.mark.skipif(shutil.which(CLANG) is None, reason=f"apt-get install {CLANG}")

#: Classes that a CPU is made to take, in addition to the recorded devices.
FORCED = ("gcn", "gcn-gfx906", "gcn-gfx942", "rdna", "nvidia-sm20", "generic")
TARGETS = {name: detect(facts) for name, (facts, _) in RECORDED.items()}
TARGETS |= {f"PoCL as {name}": detect(POCL, name) for name in FORCED}

#: All for :data:`WHOLE`; four in turn for others that are the first of a class, or the first with
#: its matrix units; three in turn for others that exchange lanes in another way; one in turn for
#: each device that is like one of these.
DTYPES = (
    "float32", "float64", "float16", "bfloat16", "complex64", "bool", "int8", "uint16", "int64",
)  # fmt: skip
#: A device of each maker and a CPU; one with wgmma and one with MFMA are among them.
WHOLE = ("H200", "MI250", "Arc A770", "PoCL")
#: Every step that an epilogue has, and a user's.
EPILOGUES = (
    Epilogue().bias(0).scale(0, per="row").add(0),
    Epilogue().relu().apply("v > 6 ? 6 : v").apply("(v - mean) * scale", mean=0, scale=0),
    Epilogue().gelu().gelu_tanh().sigmoid().tanh(),
)
EXPRESSIONS = ("x > y ? x : y", "x == y", "x * x + y * y - z", "max(x, y)", "!x")

#: What clang compiles texts of a class for; for others the plainest machine that it knows.
MACHINES = {
    "nvidia": ("nvptx64-nvidia-nvcl", "-Dasm=__asm__"),
    "gcn": ("amdgcn-amd-amdhsa", "-target-cpu", "gfx942"),
    "rdna": ("amdgcn-amd-amdhsa", "-target-cpu", "gfx1030"),
}
OTHERS = ("spir64",)


def dtypes_of(name: str) -> Sequence[str]:
    """The catalogue's dtypes for a device: neighbours in the list of devices have others."""
    kind, kinds = _kind(TARGETS[name]), {other: _kind(TARGETS[other]) for other in TARGETS}
    same = [other for other in kinds if kinds[other] == kind]
    if same[0] != name:
        return dealt(DTYPES, same.index(name) - 1, 1)
    firsts = list(dict.fromkeys(kinds.values()))
    before = [(item, units) for item, _, units in firsts[: firsts.index(kind)]]
    if (kind[0], kind[2]) in before:
        return dealt(DTYPES, len(before), 3)
    return DTYPES if name in WHOLE else dealt(DTYPES, len(before), 4)


def _kind(target: Target) -> tuple[str, ...]:
    """The facts that decide most of a text; others, such as widths, serve all dtypes."""
    return target.device_class, target.exchange, target.matrix_units


def catalogue(target: Target, dtypes: Sequence[str]) -> Iterator[Specialization]:
    for dtype in map(dtype_of, dtypes):
        for build in CATALOGUE.values():
            try:
                yield from build(target, dtype)
            except (DTypeError, UnsupportedError):  # double precision, complex numbers, integers
                continue
    if not target.is_cpu:
        yield exchange.specialization(target)[0]
    yield from roofs.specializations(target, "float")


def finished(target: Target) -> Iterator[list[Variant]]:
    """Products with epilogues, and the C that they read: a size for each dtype and epilogue."""
    sizes = ((500, 300, 200), (4, 3000, 1000))
    for place, name in enumerate(("float32", "float16", "complex64", "int32")):
        for number, epilogue in enumerate(EPILOGUES):
            for m, n, k in dealt(sizes, place + number, 1):
                plain = contiguous(m, n, k, dtype_of(name))
                problem = replace(
                    plain, reads_c=True, epilogue=epilogue.stages,
                    extras=(plain.c,) * len(epilogue.arrays),
                )  # fmt: skip
                if not (plain.compute.complex or name == "int32") or epilogue is EPILOGUES[0]:
                    yield gemm_variants(problem, target, TABLE)


def expressions(target: Target) -> Iterator[list[Variant]]:
    for name in ("float32", "int8", "int64"):
        for text in EXPRESSIONS:
            yield elementwise_variants(
                expression_of(text, dtype_of(name), (300, 200), {"y": (0, 1)}), target, TABLE
            )


def texts(target: Target, dtypes: Sequence[str]) -> list[Specialization]:
    """The catalogue, every kind of way of random problems, epilogues, expressions.

    Of all but the first device of a kind, a quarter of the problems, and no epilogues.
    """
    is_first = len(dtypes) > 1
    ways = [every for _, every in problems(target, seed=1, each=EACH if is_first else EACH // 4)]
    ways += [*(finished(target) if is_first else ()), *expressions(target)]
    result = [spec for every in ways for item in sample_of_kinds(every) for spec in item.texts()]
    return list({spec.key: spec for spec in (*catalogue(target, dtypes), *result)}.values())


def remarks(target: Target, specs: list[Specialization], folder: Path) -> str:
    """Return clang's messages about texts, all of which have the target's options."""
    names = []
    for k, spec in enumerate(specs):
        names.append(f"{k}-{spec.name.replace('/', '-')}.cl")
        (folder / names[-1]).write_text(spec.text, encoding="utf-8")
    at = OTHERS if target.facts.type == "cpu" else MACHINES.get(target.device_class, OTHERS)
    command = [
        CLANG, "-cc1", "-x", "cl", "-fsyntax-only", "-finclude-default-header",
        "-fdeclare-opencl-builtins", "-cl-ext=+all", "-ferror-limit", "5", *WARNINGS,
        "-triple", *at, *target.options, *names,
    ]  # fmt: skip
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stderr


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_is_remarked_on(name: str, tmp_path: Path) -> None:
    specs = texts(TARGETS[name], dtypes_of(name))
    assert len(specs) > 50
    for spec in specs:
        assert_passable(spec)
    assert not remarks(TARGETS[name], specs, tmp_path)


@pytest.mark.parametrize("name", ["PoCL", "H200", "MI250", "Arc A770"])
@pytest.mark.parametrize(
    "flaw",
    ["x + y << 1", "x & y | 1", "p[1] * 1.5", "x == x", "x < y + 1u"],
)
def test_a_flaw_is_remarked_on(name: str, flaw: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    text = f"__kernel void k(__global float *p, int x, int y) {{ p[0] += {flaw}; }}"
    spec = Specialization("test/flaw", text, target.options)
    assert "[-Werror,-W" in remarks(target, [spec], tmp_path)
