"""NVIDIA's transforms by work-groups, run from their PTX."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from emulator.memory import Fault

from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.fft import columns, group, grouping, joined
from portable_gpu.ops.fft.commands.catalogue import problem
from portable_gpu.ops.fft.grouping import real_as_complex
from portable_gpu.ops.fft.passes import Pass, PassOperand
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.problem import FftProblem, TransformKind
from portable_gpu.ops.fft.variants import variants

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

LANES = 3
SMALL = GroupFftPolicy(item_numbers=16, group_size=32, adjacent=4, max_length=4096)


def complex_pass(
    n: int, dtype: str, across: bool, twiddle_length: int = 0, inverse: bool = False
) -> Pass:
    rows = PassOperand("complex", n, LANES, 1) if across else PassOperand("complex", n, 1, n)
    return Pass(
        n,
        inverse,
        element(dtype),
        LANES,
        (2,),
        *(_of_two(rows, n),) * 2,
        twiddle_length=twiddle_length,
    )


def real_pass(n: int) -> Pass:
    half = n // 2 + 1
    source, result = PassOperand("real", n, 1, n), PassOperand("half", half, 1, half)
    real = element("float32")
    return Pass(n, False, real, LANES, (2,), _of_two(source, n), _of_two(result, half))


def _of_two(rows: PassOperand, length: int) -> PassOperand:
    """With the stride of a batch of two."""
    return PassOperand(rows.form, rows.rows, rows.row, rows.lane, (LANES * length,))


def transform(run: Pass, x: Any, gpu: Emulator, policy: GroupFftPolicy = SMALL) -> Any:
    plan = group.group_pass_plan(gpu, [run], policy)
    numbers = 2 * LANES * run.target.rows
    out = np.full(numbers, np.nan, np.complex64 if x.dtype.itemsize < 16 else np.complex128)
    plan.enqueue(gpu, [x.copy(), out], (0, 0))
    assert gpu.launches == ["fft/group"]
    return out


def close(got: Any, wanted: Any) -> None:
    bound = 2e-6 if got.dtype == np.complex64 else 5e-15
    assert np.linalg.norm((got - wanted).ravel()) <= bound * np.linalg.norm(wanted.ravel())


@pytest.mark.parametrize(
    ("name", "n", "dtype", "across", "inverse"),
    [
        ("sm_90", 64, "float32", False, False),
        ("sm_90", 256, "float64", True, True),
        ("sm_60", 30, "float32", True, False),
        ("sm_90", 103, "float32", False, True),  # by a chirp
        ("sm_90", 101, "float32", False, True),  # by a cyclic convolution
        ("sm_60", 61, "float64", True, False),
        ("sm_90", 311, "float32", False, False),  # of 31 x 10 numbers
        ("sm_90", 74, "float32", True, False),  # 37 x 2
    ],
)
def test_complex(name: str, n: int, dtype: str, across: bool, inverse: bool) -> None:
    x = _numbers((2, n, LANES) if across else (2, LANES, n), dtype)
    run = complex_pass(n, dtype, across, inverse=inverse)
    policy = replace(SMALL, prime=37 if n in (74, 311) else 13)
    got = transform(run, x, Emulator.of(name, races=True), policy).reshape(x.shape)
    retained = np.fft.ifft(x, axis=1 if across else 2) * n if inverse else None
    close(got, np.fft.fft(x, axis=1 if across else 2) if retained is None else retained)


@pytest.mark.parametrize(
    ("n", "across", "group"), [(32, True, 32), (8, True, 32), (256, False, 64)]
)
def test_roots_between_two_passes(n: int, across: bool, group: int) -> None:
    """Two stages, one, and transforms that exchange within the sub-groups of a group."""
    whole = n * LANES
    x = _numbers((2, n, LANES) if across else (2, LANES, n), "float32")
    run = complex_pass(n, "float32", across, whole)
    gpu = Emulator.of("sm_90", races=True)
    gpu.target = replace(gpu.target, compute_units=1)  # which has several transforms in a group
    got = transform(run, x, gpu, replace(SMALL, group_size=group)).reshape(x.shape)
    roots = np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(LANES)) / whole)
    close(got, np.fft.fft(x, axis=1) * roots if across else np.fft.fft(x) * roots.T)


def test_two_real_lines_as_one() -> None:
    x = _numbers((2, LANES, 48), "float32").real.copy()
    got = transform(real_pass(48), x, Emulator.of("sm_90", races=True))
    close(got.reshape(2, LANES, 25), np.fft.rfft(x))


@pytest.mark.parametrize(("n", "offset"), [(6, 0), (48, 1), (96, 0), (1024, 0), (512, 1)])
def test_a_real_line_as_a_complex_one_of_half_the_length(
    n: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stage and several; a line begins at no multiple of a pair."""
    of = grouping._figures
    monkeypatch.setattr(grouping, "_figures", lambda target: replace(of(target), packed_length=2))
    gpu = Emulator.of("sm_90", races=True)
    run = real_as_complex(real_pass(n), SMALL, gpu.target)
    assert run.source.form == "packed"
    x = _numbers((2 * LANES * n + offset,), "float32").real.copy()
    out = np.full(2 * LANES * run.target.rows, np.nan, np.complex64)
    group.group_pass_plan(gpu, [run], SMALL).enqueue(gpu, [x, out], (offset, 0))  # type: ignore[arg-type]
    expected = np.fft.rfft(x[offset:].reshape(2, LANES, n))
    close(out.reshape(expected.shape), expected)


@pytest.mark.parametrize(("n", "offset"), [(512, 0), (1024, 1)])
def test_lines_that_the_copy_engine_copies(
    n: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two groups have three lines each; lines that begin at no multiple of 16 bytes are read."""
    monkeypatch.setattr(group, "uses_half_the_registers", lambda *_: True)
    gpu = Emulator.of("sm_90", races=True)
    gpu.target = replace(gpu.target, compute_units=2)
    run = complex_pass(n, "float32", False)
    assert "cp.async.bulk" in group.specialization([run], SMALL, gpu.target).text
    x = _numbers((2 * LANES * n + offset,), "float32")
    out = np.full(2 * LANES * n, np.nan, np.complex64)
    group.group_pass_plan(gpu, [run], SMALL).enqueue(gpu, [x, out], (offset, 0))  # type: ignore[arg-type]
    expected = np.fft.fft(x[offset:].reshape(2, LANES, n))
    close(out.reshape(expected.shape), expected)


@pytest.mark.parametrize("real", [False, True], ids=["complex", "real"])
def test_warps_that_do_not_wait_for_each_other(real: bool) -> None:
    """Each warp has a slot; it goes on to the next layout while another one still reads."""
    x = _numbers((2, LANES, 512), "float32")
    run = real_pass(512) if real else complex_pass(512, "float32", False)
    gpu, warps = Emulator.of("sm_90", races=True), replace(SMALL, group_size=128)
    if real:
        got = transform(run, x.real.copy(), gpu, warps)
        close(got.reshape(2, LANES, 257), np.fft.rfft(x.real))
    else:
        close(transform(run, x, gpu, warps).reshape(x.shape), np.fft.fft(x))


@pytest.mark.parametrize(
    ("kind", "shape", "dtype", "own"),
    [
        ("c2c", (5, 32, 32), "complex64", False),
        ("c2c", (5, 32, 32), "complex128", False),
        ("r2c", (5, 32, 64), "float32", False),
        ("c2c", (32, 7), "complex64", True),
        ("r2c", (3, 6, 10), "float32", True),
    ],
)
def test_two_axes_in_one_launch(
    kind: TransformKind,
    shape: tuple[int, ...],
    dtype: str,
    own: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group has its own planes, or those of both passes take turns; counters end at 0."""
    if not own:
        small_groups(monkeypatch)
    p = problem(kind, shape, np.dtype(dtype))
    assert at_once(p, "two axes") == ["fft/group"] * max(1, len(shape) - 1)


@pytest.mark.parametrize(
    ("kind", "shape", "dtype"),
    [
        ("c2c", (64, 16), "complex64"),  # columns first
        ("r2c", (2, 64, 30), "float32"),  # rows first; 16 columns
        ("c2c", (2, 64, 16), "complex128"),
    ],
)
def test_columns_in_two_passes(
    kind: TransformKind, shape: tuple[int, ...], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them shares a launch with the rows."""
    monkeypatch.setattr(columns, "_MIN_LENGTH", 64)
    monkeypatch.setattr(joined, "_BYTES_AHEAD", 64)
    assert at_once(problem(kind, shape[-2:], np.dtype(dtype), shape[:-2]), "two axes", 3)


@pytest.mark.parametrize(("kind", "dtype"), [("c2c", "complex64"), ("r2c", "float32")])
def test_lines_in_two_passes_of_one_launch(
    kind: TransformKind, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "_BYTES_AHEAD", 64)
    short = replace(SMALL, max_length=16)
    monkeypatch.setattr(GroupFftPolicy, "default", classmethod(lambda *_: short))
    assert at_once(problem(kind, (256,), np.dtype(dtype), (3,)), "two passes") == ["fft/group"]


def test_a_plane_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch)
    monkeypatch.setattr(group, "pipeline_depth", lambda *_: 0)  # the second pass would run first
    with pytest.raises(Fault, match="for ever"):
        at_once(problem("c2c", (5, 32, 32), np.dtype("complex64")), "two axes")


def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several groups share a plane."""
    monkeypatch.setattr(grouping, "_fused_shapes", lambda *_: None)
    monkeypatch.setattr(GroupFftPolicy, "default", classmethod(lambda *_: SMALL))
    monkeypatch.setattr(joined, "_BYTES_AHEAD", 64)


def at_once(p: FftProblem, name: str, passes: int = 0) -> list[str]:
    """Transform numbers by the way of that name whose passes share a launch; its launches."""
    gpu = Emulator.of("sm_90", races=True)
    (variant,) = (
        item
        for item in variants(p, gpu.target, gpu.table)
        if f"{name} at once" in item.path and passes in (0, item.details["passes"])
    )
    x = _numbers(p.shape_in, "float64" if p.real.needs_fp64 else "float32")
    out = np.full(p.shape_out, np.nan, x.dtype)
    x = x.real.copy() if p.kind == "r2c" else x
    variant.bind(gpu).enqueue(gpu, [x, out], (0, 0), (1.0,))  # type: ignore[arg-type]
    assert not gpu.counters.any()
    close(out, (np.fft.rfftn if p.kind == "r2c" else np.fft.fftn)(x, axes=p.axes))
    return gpu.launches


def test_a_missing_barrier_is_seen() -> None:
    gpu = Emulator.of("sm_90", races=True)
    gpu.target = replace(gpu.target, compute_units=1)  # which has several warps in a group
    gpu.edit = partial(re.sub, r"bar\.sync\s+\d+;", "", count=1)
    x = _numbers((2, 256, LANES), "float32")
    with pytest.raises(Fault, match="no barrier between them"):
        transform(complex_pass(256, "float32", True), x, gpu)


def _numbers(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    return x.astype(np.complex64 if dtype == "float32" else np.complex128)
