"""Attention on NVIDIA's matrix units, run from its PTX."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from emulator.device import Emulator
from emulator.memory import Fault

from portable_gpu.dtypes import element
from portable_gpu.isa.compilers import find_compilers
from portable_gpu.ops.attention.matrix import attention_on_matrix_units, takes
from portable_gpu.ops.attention.plan import AttentionProblem
from portable_gpu.ops.attention.policy import AnyPolicy, AttentionPolicy, WarpgroupPolicy

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

BF16 = element("bfloat16")
F16, F32 = element(np.float16), element(np.float32)


@dataclass(frozen=True)
class Case:
    """Extents of one attention.

    ``apart`` is the space between heads and rows of q, k, v and out, in chunks of 8 elements.
    """

    batch: int = 1
    heads: int = 1
    shared: int = 1
    queries: int = 70
    keys: int = 90
    dq: int = 32
    dv: int = 32
    elem: Any = F16
    mask: str = ""
    apart: int = 0


def bits(values: Any, elem: Any) -> Any:
    """Values as an element stores them."""
    if elem is F16:
        return values.astype(np.float16)
    words = values.astype(np.float32).view(np.uint32)
    return ((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16)


def numbers(stored: Any, elem: Any) -> Any:
    if elem is F16:
        return stored.astype(np.float64)
    return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def min_finite(elem: Any) -> Any:
    """The least finite number, as it is stored; where all scores have it added, they are equal.

    Of bfloat16 they are equal in float32, too, where scores of less than 1e30 vanish.
    """
    return np.finfo(np.float16).min if elem is F16 else np.uint16(0xFF7F)


def operand(draw: Any, shape: tuple[int, ...], case: Case) -> tuple[Any, Any, tuple[int, ...]]:
    """Memory, values and strides of an array of batches, heads, rows and elements."""
    batch, heads, rows, extent = shape
    pitch = -(-extent // 8) * 8 + 8 * case.apart
    memory = bits(draw((batch, heads, rows, pitch)), case.elem)
    steps = (heads * rows * pitch, rows * pitch, pitch, 1)
    strides = tuple(step if size > 1 else 0 for size, step in zip(shape, steps, strict=True))
    return memory, numbers(memory[..., :extent], case.elem), strides


def attend(gpu: Emulator, case: Case, policy: AnyPolicy, scale: float = 1.0) -> tuple[Any, ...]:
    """The result and the logarithms of sums, their float64 values, and the bound of the error."""
    c, rng = case, np.random.default_rng(case.keys)
    draw = rng.standard_normal
    few = c.heads // c.shared
    q, k, v = (
        operand(draw, shape, c)
        for shape in (
            (c.batch, c.heads, c.queries, c.dq), (c.batch, few, c.keys, c.dq),
            (c.batch, few, c.keys, c.dv),
        )
    )  # fmt: skip
    out, _, of_out = operand(draw, (c.batch, c.heads, c.queries, c.dv), c)
    sums = np.full((c.batch, c.heads, c.queries), np.nan, np.float32)
    of_sums = (c.heads * c.queries, c.queries, 1, 0)
    scale *= c.dq**-0.5
    seen, added = np.ones((c.queries, c.keys), bool), 0.0
    masks, of_mask, mask = [], [], None
    if c.mask == "causal":
        seen = np.tril(seen)
    elif c.mask == "bool":
        seen = rng.random(seen.shape) < 0.6
        seen[3:4] = False
        masks, mask = [seen.view(np.uint8)], element(bool)
    elif c.mask == "added":
        stored = bits(draw(seen.shape), c.elem)
        stored[3:4] = min_finite(c.elem)
        masks, mask, added = [stored], c.elem, numbers(stored, c.elem)
    if masks:
        of_mask = [(0, 0, c.keys, 1)]
    problem = AttentionProblem(
        c.elem, F32, mask, c.batch, c.heads, c.shared, c.queries, c.keys, c.dq, c.dv,
        (q[2], k[2], v[2], *of_mask, of_out, of_sums), c.mask == "causal", scale, True,
    )  # fmt: skip
    assert takes(problem, gpu.target)
    plan = attention_on_matrix_units(gpu, problem, policy)  # type: ignore[arg-type]
    buffers = [q[0], k[0], v[0], *masks, out, sums]
    before = numbers(out, c.elem)[..., c.dv :]
    plan.enqueue(gpu, buffers, (0,) * len(buffers))  # type: ignore[arg-type]
    np.testing.assert_array_equal(numbers(out, c.elem)[..., c.dv :], before)

    a, b, x = q[1], *(np.repeat(y[1], c.shared, axis=1) for y in (k, v))
    products = scale * (a @ b.swapaxes(2, 3))
    scores = np.where(seen, products + added, -np.inf)
    top = np.maximum(scores.max(axis=3, keepdims=True, initial=-1e300), -1e300)
    powers = np.exp(scores - top)
    total = powers.sum(axis=3, keepdims=True)
    with np.errstate(all="ignore"):
        result = np.where(total > 0, powers @ x / total, 0)
        logarithms = (top + np.log(total))[..., 0]
        # Of each power: its own rounding, and that of its score, which is of sums of dq products.
        magnitude = scale * (np.abs(a) @ np.abs(b).swapaxes(2, 3))
        magnitude = magnitude + np.where(np.abs(added) < 1e30, np.abs(added), 0)
        unit = 2.0**-11 if c.elem is F16 else 2.0**-8
        in_score = 2.0**-23 * (c.dq + 8) * magnitude
        in_power = unit + 2.0**-21 + in_score + in_score.max(axis=3, keepdims=True, initial=0)
        weights = powers / total
        spread = (weights * in_power) @ np.abs(x) + np.abs(result) * (
            (weights * (in_power - unit)).sum(axis=3, keepdims=True)
        )
    spread += unit * np.abs(result) + 2.0**-22 * c.keys * np.abs(x).max(initial=0) + 2.0**-25
    values = numbers(out, c.elem)[..., : c.dv]
    return values, sums, result, logarithms, np.where(total > 0, spread, 0)


def check(gpu: Emulator, case: Case, policy: AnyPolicy, scale: float = 1.0) -> None:
    values, sums, result, logarithms, bound = attend(gpu, case, policy, scale)
    error = np.abs(values - result)
    assert np.all(error <= bound), (error.max(), bound.max())
    assert not np.isnan(sums).any()
    np.testing.assert_array_equal(np.isinf(sums), np.isinf(logarithms))
    finite = np.isfinite(logarithms)
    np.testing.assert_allclose(sums[finite], logarithms[finite], rtol=1e-5, atol=1e-5)


SMALL = AttentionPolicy(2, 1, 32)
CASES = {
    "plain": (Case(batch=2, heads=2, apart=1), SMALL),
    "wide tiles": (Case(queries=130, keys=65), AttentionPolicy(4, 2, 64)),
    "causal": (Case(queries=100, keys=80, mask="causal", elem=BF16), SMALL),
    "causal, two blocks": (Case(queries=150, keys=150, mask="causal"), AttentionPolicy(2, 2, 32)),
    "a mask, and shared heads": (Case(heads=4, shared=2, queries=40, mask="bool"), SMALL),
    "what is added": (Case(queries=40, mask="added", elem=BF16), SMALL),
    "other extents of v": (Case(queries=20, dq=40, dv=72), SMALL),
    "copies of other chunks": (Case(queries=20, keys=40, dq=96, dv=16), AttentionPolicy(1, 1, 16)),
    "queries from local memory": (
        Case(queries=40, keys=70, dq=128, dv=128), AttentionPolicy(2, 2, 64)
    ),
    "no key": (Case(keys=0), SMALL),
}  # fmt: skip


def drawn_case(draw: random.Random) -> tuple[Case, AnyPolicy, float]:
    """A case, a policy and a factor of the scale; extents are small, for they are emulated."""
    by_warpgroups = draw.random() < 0.5
    shared, few = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2))
    maximum = 128 if by_warpgroups else draw.choice((64, 64, 128, 256))
    dq, dv = (8 * draw.randint(1, draw.choice((4, maximum // 8))) for _ in range(2))
    queries, keys = (
        draw.choice((draw.randint(1, 20), draw.randint(1, 160), draw.choice((16, 32, 64, 65, 128))))
        for _ in range(2)
    )
    case = Case(
        draw.choice((1, 1, 2)) if queries < 70 else 1, few * shared if queries < 70 else 1,
        shared if queries < 70 else 1, queries, draw.choice((keys, keys, keys, 0, 1)), dq, dv,
        draw.choice((F16, BF16)), draw.choice(("", "causal", "bool", "added")),
        draw.choice((0, 0, 1, 3)),
    )  # fmt: skip
    policy: AnyPolicy = AttentionPolicy(
        draw.choice((1, 2, 4)), draw.choice((1, 2)), draw.choice((16, 32, 48, 64))
    )
    if by_warpgroups:
        policy = WarpgroupPolicy(
            draw.choice((1, 1, 2, 3)),
            draw.choice((16, 32, 64, 112, 128)),
            draw.choice((2, 3)),
        )
    return case, policy, draw.choice((1.0, 1.0, 0.1, 4.0))


@pytest.fixture
def gpu() -> Emulator:
    return Emulator.of("sm_90", races=True)


@pytest.mark.parametrize("name", CASES)
def test_attention(gpu: Emulator, name: str) -> None:
    case, policy = CASES[name]
    check(gpu, case, policy)


WARPGROUPS = {
    "plain": (Case(batch=2, heads=2, queries=40, dq=64, dv=64, apart=1), WarpgroupPolicy(1, 64, 2)),
    "causal, several tiles": (
        Case(queries=200, keys=300, dq=64, dv=64, mask="causal"), WarpgroupPolicy(2, 64, 2)
    ),
    "wide rows": (
        Case(queries=70, keys=140, dq=128, dv=128, elem=BF16), WarpgroupPolicy(2, 64, 3)
    ),
    "a mask, shared heads, and other extents": (
        Case(heads=4, shared=2, queries=40, dq=72, dv=40, mask="bool"), WarpgroupPolicy(1, 32, 2)
    ),
    "what is added": (
        Case(queries=40, keys=140, dq=64, dv=128, mask="added"), WarpgroupPolicy(1, 128, 2)
    ),
    "no key": (Case(keys=0, dq=64, dv=64), WarpgroupPolicy(1, 64, 2)),
    "three warpgroups": (
        Case(queries=130, keys=150, dq=64, dv=64, mask="causal"),
        WarpgroupPolicy(3, 64, 2),
    ),
    "three stages": (
        Case(queries=70, keys=100, dq=128, dv=72, elem=BF16), WarpgroupPolicy(2, 32, 3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WARPGROUPS)
def test_warpgroups(name: str) -> None:
    case, policy = WARPGROUPS[name]
    check(Emulator.of("sm_90"), case, policy)


def test_warpgroups_whose_copies_are_early() -> None:
    check(Emulator.of("sm_90", late=False), *WARPGROUPS["causal, several tiles"])


#: The same with warpgroups.
WARPGROUP_BUGS = {
    "nobody waits for what has arrived": (
        r"mbarrier\.try_wait[^;]*;", "setp.eq.u32 p, 0, 0;", "assert|too many"),
    "the matrix unit is not shown the copies": (r"fence\.proxy\.async[^;]*;", "", "not shown"),
    "powers replace operands in flight": (
        r"wait_group\.sync\.aligned 0", "wait_group.sync.aligned 7", "overwritten in flight"),
    "operands are exchanged": (
        r"\}, \{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}", r"}, {\1, \3, \2, \4}", "assert"),
    "tiles are not released": (r"mbarrier\.arrive\.shared[^;]*;", "", "wait for ever"),
}  # fmt: skip


@pytest.mark.parametrize("bug", WARPGROUP_BUGS)
def test_planted_bugs_of_warpgroups_are_seen(bug: str) -> None:
    before, after, message = WARPGROUP_BUGS[bug]
    actual = []
    for late in (True, False):
        gpu = Emulator.of("sm_90", late)
        gpu.edit = lambda text: re.sub(before, after, text)
        try:
            check(gpu, *WARPGROUPS["causal, several tiles"])
        except (AssertionError, Fault) as trouble:
            actual.append(
                f"assert {trouble}" if isinstance(trouble, AssertionError) else str(trouble)
            )
    assert any(re.search(message, item) for item in actual), actual


#: What is changed in the PTX, and what is found.
BUGS = {
    "a barrier is left out": (r"bar\.sync\s+0;", "", 3, "with no barrier between them"),
    "copies are not awaited": (r"cp\.async\.wait_group 0;", "", 0, "assert|overwrites"),
    "v is not transposed": (r"x4\.trans", "x4", 0, "assert"),
    "maxima are of one lane": (r"(shfl\S+ [^,]*, [^,]*), [^,]*,", r"\1, 0,", 0, "assert"),
    "swizzles differ": (r"xor\.b32(\s+%r\d+, %r\d+, 32;)", r"or.b32\1", 0, "assert"),
    "pairs are exchanged": (r"(f16x2\.f32 %r\d+), (%f\d+), (%f\d+)", r"\1, \3, \2", 0, "assert"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(gpu: Emulator, bug: str) -> None:
    before, after, count, message = BUGS[bug]
    gpu.edit = lambda text: re.sub(before, after, text, count=count)
    with pytest.raises((AssertionError, Fault), match=message):
        check(gpu, Case(), SMALL)


def test_attention_of_an_a100_whose_copies_are_early() -> None:
    gpu = replace(Emulator.of("sm_80", late=False), races=True)
    check(gpu, Case(mask="causal"), SMALL)
