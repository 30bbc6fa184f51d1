"""The gradients of attention on NVIDIA's matrix units, run from their PTX."""

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
from portable_gpu.ops.attention.gradient import (
    AnyGradientPolicy,
    GradientPolicy,
    WarpgroupGradientPolicy,
    gradient_on_matrix_units,
    takes,
)
from portable_gpu.ops.attention.plan import AttentionProblem

missing = find_compilers().missing.get("NVIDIA")
pytestmark = pytest.mark.skipif(missing is not None, reason=str(missing))

BF16 = element("bfloat16")
F16, F32 = element(np.float16), element(np.float32)
SMALL, TINY = GradientPolicy(2, 1, 32), GradientPolicy(2, 1, 16)


@dataclass(frozen=True)
class Case:
    """One attention, and the policies of both sides of its gradients."""

    queries: int = 70
    keys: int = 90
    dq: int = 32
    dv: int = 32
    batch: int = 1
    heads: int = 1
    shared: int = 1
    elem: Any = F16
    mask: str = ""
    apart: int = 0
    by_query: AnyGradientPolicy = SMALL
    by_key: AnyGradientPolicy = SMALL


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


@dataclass
class Rows:
    """An array of batches, heads, rows and elements, with ``apart`` chunks between its rows."""

    memory: Any
    values: Any
    strides: tuple[int, ...]

    @classmethod
    def drawn(cls, rng: Any, case: Case, heads: int, rows: int, extent: int) -> Rows:
        pitch = extent + 8 * case.apart
        memory = bits(rng.standard_normal((case.batch, heads, rows, pitch)), case.elem)
        steps = (heads * rows * pitch, rows * pitch, pitch, 1)
        shape = (case.batch, heads, rows, extent)
        strides = tuple(step if n > 1 else 0 for n, step in zip(shape, steps, strict=True))
        return cls(memory, numbers(memory[..., :extent], case.elem), strides)


def check(gpu: Emulator, case: Case) -> None:
    """Compare both sides with float64, within the rounding of p and e, and of scores."""
    c, rng = case, np.random.default_rng(case.keys + case.queries)
    few = c.heads // c.shared
    q, grad, y = (Rows.drawn(rng, c, c.heads, c.queries, d) for d in (c.dq, c.dv, c.dv))
    k, v = (Rows.drawn(rng, c, few, c.keys, d) for d in (c.dq, c.dv))
    scale = c.dq**-0.5
    seen, added = np.ones((c.queries, c.keys), bool), np.zeros(1)
    masks: list[Any] = []
    if c.mask == "causal":
        seen = np.tril(seen)
    elif c.mask == "bool":
        seen = rng.random(seen.shape) < 0.6
        seen[3:4] = False
        masks = [seen.view(np.uint8)]
    elif c.mask == "added":
        masks = [bits(rng.standard_normal(seen.shape), c.elem)]
        masks[0][3:4] = np.finfo(np.float16).min if c.elem is F16 else 0xFF7F  # of bfloat16, too
        added = numbers(masks[0], c.elem)
    a, (b, x) = q.values, (np.repeat(z.values, c.shared, axis=1) for z in (k, v))
    scores = np.where(seen, scale * (a @ b.swapaxes(2, 3)) + added, -np.inf)
    with np.errstate(all="ignore"):
        sums = np.logaddexp.reduce(scores, axis=3, initial=-np.inf).astype(np.float32)
        p = np.where(seen, np.exp(scores - sums[..., None].astype(np.float64)), 0)
    delta = (grad.values * y.values).sum(axis=3, keepdims=True)
    slope = grad.values @ x.swapaxes(2, 3)
    e = p * (slope - delta)

    # Of each power its own rounding, and that of its score, which is of sums of dq products.
    unit, tiny = (2.0**-11, 2.0**-25) if c.elem is F16 else (2.0**-8, 0.0)
    size = scale * (np.abs(a) @ np.abs(b).swapaxes(2, 3)) + np.abs(added) + np.abs(scores)
    size = np.where(size < 1e30, size, 0)  # the least number of bfloat16 absorbs scores
    of_p = p * (2.0**-23 * (c.dq + 8) * size + 2.0**-20)
    far = np.abs(grad.values) @ np.abs(x).swapaxes(2, 3)
    far += (np.abs(grad.values) * np.abs(y.values)).sum(axis=3, keepdims=True)
    of_e = np.abs(slope - delta) * of_p + p * 2.0**-23 * (c.dv + 8) * far
    of_e += unit * np.abs(e) + tiny * (p > 0)
    of_p += unit * p + 2.0**-15 * tiny * (p > 0)
    expected = {"dq": scale * e @ b, "dk": scale * e.swapaxes(2, 3) @ a,
                "dv": p.swapaxes(2, 3) @ grad.values}  # fmt: skip
    bound = {"dq": scale * of_e @ np.abs(b), "dk": scale * of_e.swapaxes(2, 3) @ np.abs(a),
             "dv": of_p.swapaxes(2, 3) @ np.abs(grad.values)}  # fmt: skip
    for name in ("dk", "dv"):
        for items in (expected, bound):
            shape = (c.batch, few, c.shared, *items[name].shape[2:])
            items[name] = items[name].reshape(shape).sum(axis=2)

    results = {
        name: Rows.drawn(rng, c, heads, rows, extent)
        for name, heads, rows, extent in (
            ("dq", c.heads, c.queries, c.dq), ("dk", few, c.keys, c.dq), ("dv", few, c.keys, c.dv),
        )
    }  # fmt: skip
    of_sums = (c.heads * c.queries, c.queries, 1, 0)
    of_delta = np.full(sums.shape, np.nan, np.float32)
    mask = {"bool": element(bool), "added": c.elem}.get(c.mask)
    problem = AttentionProblem(
        c.elem, F32, mask, c.batch, c.heads, c.shared, c.queries, c.keys, c.dq, c.dv, (),
        c.mask == "causal", scale, True,
    )  # fmt: skip
    front = [q.strides, k.strides, v.strides, *[(0, 0, c.keys, 1)] * len(masks)]
    front += [grad.strides, of_sums]
    passed = [q.memory, k.memory, v.memory, *masks, grad.memory, sums]
    before = {name: numbers(rows.memory, c.elem) for name, rows in results.items()}
    for side, policy, strides, arrays in (
        ("q", c.by_query, (y.strides, results["dq"].strides, of_sums),
         (y.memory, results["dq"].memory, of_delta)),
        ("k", c.by_key, (of_sums, results["dk"].strides, results["dv"].strides),
         (of_delta, results["dk"].memory, results["dv"].memory)),
    ):  # fmt: skip
        whole = replace(problem, strides=(*front, *strides))
        assert takes(whole, gpu.target, side)  # type: ignore[arg-type]
        plan = gradient_on_matrix_units(gpu, whole, side, policy)  # type: ignore[arg-type]
        buffers = [*passed, *arrays]
        plan.enqueue(gpu, buffers, (0,) * len(buffers))  # type: ignore[arg-type]
    np.testing.assert_allclose(
        of_delta, delta[..., 0], rtol=0,
        atol=2.0**-23 * c.dv * (np.abs(grad.values) * np.abs(y.values)).sum(3).max(initial=1),
    )  # fmt: skip
    for name, rows in results.items():
        extent = expected[name].shape[-1]
        values = numbers(rows.memory, c.elem)
        error = np.abs(values[..., :extent] - expected[name])
        limit = bound[name] + 1.01 * unit * np.abs(expected[name]) + tiny
        terms = c.keys if name == "dq" else c.queries * c.shared
        limit += 2.0**-23 * terms * np.abs(bound[name]) / unit
        assert np.all(error <= limit), (name, error.max(), (error / limit).max())
        np.testing.assert_array_equal(values[..., extent:], before[name][..., extent:])


def drawn_case(draw: random.Random) -> Case:
    """A small case, for it is emulated."""
    shared, few = draw.choice((1, 1, 2, 3)), draw.choice((1, 1, 2))
    dq, dv = (8 * draw.randint(1, draw.choice((4, 8, 16))) for _ in range(2))
    queries, keys = (
        draw.choice((draw.randint(1, 20), draw.randint(1, 150), draw.choice((16, 32, 64, 65))))
        for _ in range(2)
    )
    policies: list[AnyGradientPolicy] = []
    by_warpgroups = draw.random() < 0.5
    for _ in range(2):
        if by_warpgroups:
            others = draw.choice((16, 32, 48, 64, 80))
            policies.append(WarpgroupGradientPolicy(others, draw.choice((2, 3))))
            continue
        warps = draw.choice((1, 2, 4))
        others = draw.choice([n for n in (16, 32, 48, 64) if n <= 32 * warps])
        policies.append(GradientPolicy(warps, draw.choice((1, 2)), others))
    return Case(
        queries, keys, dq, dv, draw.choice((1, 2)) if queries < 70 else 1,
        few * shared if queries < 70 else 1, shared if queries < 70 else 1,
        draw.choice((F16, BF16)), draw.choice(("", "causal", "bool", "added")),
        draw.choice((0, 0, 1, 3)), *policies,
    )  # fmt: skip


CASES = {
    "batches and heads": Case(20, 37, batch=2, heads=2, apart=1),
    "causal, two blocks": Case(
        70, 80, mask="causal", elem=BF16, by_query=GradientPolicy(1, 2, 32),
        by_key=GradientPolicy(1, 2, 16),
    ),
    "a mask, and shared heads": Case(20, 40, heads=4, shared=2, mask="bool"),
    "what is added": Case(40, 33, 40, 72, mask="added", elem=BF16),
    "other tiles": Case(
        30, 70, 96, 16, by_query=GradientPolicy(1, 1, 16), by_key=GradientPolicy(2, 1, 64)
    ),
    "no key": Case(10, 0),
}  # fmt: skip


@pytest.fixture
def gpu() -> Emulator:
    return Emulator.of("sm_90", races=True)


@pytest.mark.parametrize("name", CASES)
def test_gradients(gpu: Emulator, name: str) -> None:
    check(gpu, CASES[name])


def warpgroups(case: Case, others: int, stages: int) -> Case:
    policy = WarpgroupGradientPolicy(others, stages)
    return replace(case, by_query=policy, by_key=policy)


WARPGROUPS = {
    "a mask, and shared heads": warpgroups(
        Case(20, 40, 72, 40, heads=4, shared=2, mask="bool"), 16, 2
    ),
    "awaited in the next turn": warpgroups(
        Case(90, 40, heads=2, shared=2, elem=BF16, apart=1), 32, 3
    ),
    "causal": warpgroups(Case(140, 140, mask="causal"), 64, 2),
    "what is added": warpgroups(Case(40, 33, 40, 72, mask="added", elem=BF16), 32, 2),
    "no key": warpgroups(Case(10, 0), 16, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", WARPGROUPS)
def test_gradients_by_warpgroups(name: str) -> None:
    check(Emulator.of("sm_90", races=True), WARPGROUPS[name])


def test_gradients_of_an_a100_whose_copies_are_early() -> None:
    check(replace(Emulator.of("sm_80", late=False), races=True), CASES["a mask, and shared heads"])


#: What is changed in the PTX of both kernels, and what is found.
BUGS = {
    "a barrier is left out": (r"bar\.sync\s+0;", "", "with no barrier between them|assert"),
    "copies are not awaited": (r"cp\.async\.wait_group 0;", "", "assert|overwrites"),
    "tiles are not transposed": (r"x4\.trans", "x4", "assert"),
    "pairs are exchanged": (r"(f16x2\.f32 %r\d+), (%f\d+), (%f\d+)", r"\1, \3, \2", "assert"),
}  # fmt: skip


#: The same with warpgroups.
WARPGROUP_BUGS = {
    "a barrier is left out": (r"bar\.sync\s+0;", "", "with no barrier between them|assert"),
    "copies are not awaited": (r"cp\.async\.wait_group 0;", "", "assert|overwrites|not shown"),
    "the matrix unit is not shown the copies": (r"fence\.proxy\.async[^;]*;", "", "not shown"),
    "sums are not awaited": (
        r"wait_group\.sync\.aligned 1;", "wait_group.sync.aligned 7;", "in flight"),
    "pairs are exchanged": (
        r"\}, \{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}", r"}, {\1, \3, \2, \4}", "assert"),
}  # fmt: skip


@pytest.mark.parametrize("bug", WARPGROUP_BUGS)
def test_planted_bugs_of_warpgroups_are_seen(gpu: Emulator, bug: str) -> None:
    before, after, message = WARPGROUP_BUGS[bug]
    gpu.edit = lambda text: re.sub(before, after, text)
    with pytest.raises((AssertionError, Fault), match=message):
        check(gpu, warpgroups(Case(70, 20), 32, 3))


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_seen(gpu: Emulator, bug: str) -> None:
    before, after, message = BUGS[bug]
    gpu.edit = lambda text: re.sub(before, after, text)
    with pytest.raises((AssertionError, Fault), match=message):
        check(gpu, Case(20, 40, by_query=TINY, by_key=TINY))
