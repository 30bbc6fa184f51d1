"""Products of float16 on tiles that take two steps of k in one instruction, emulated elsewhere.

The class is forced, so that this runs on devices without the instruction.  The emulation follows
the instruction's definition and knows nothing of the kernel around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import gcd
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from reference import assert_within, product_bound, wider
from sampling import compile_fast, in_pairs

from portable_gpu import Engine, gemm
from portable_gpu.dtypes import element
from portable_gpu.ops.gemm import GemmPolicy, Tiling
from portable_gpu.ops.gemm.matrix import check as matrix_check
from portable_gpu.ops.gemm.problem import GemmProblem, Operand
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.ops.gemm.variants import make_plan

HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)
VECTORS = GemmPolicy(32, 32, 8, 4, 4, 4, 4, vector=4)
LEAST = GemmPolicy(4, 8, 4, 2, 4, 2, 1, vector=4)
POLICIES = {
    "block tile": GemmPolicy(16, 16, 16, 1, 1, 4, 4),
    "vectors": VECTORS,
    "shallow": replace(VECTORS, tile_k=4),
    "prefetch": replace(VECTORS, prefetch=True),
    "double buffer": replace(VECTORS, buffers=2),
    "second-level prefetch": replace(VECTORS, buffers=2, prefetch=True, prefetch_local=True),
    "interleave": replace(VECTORS, prefetch=True, interleave=True),
    "warps": GemmPolicy(64, 32, 8, 8, 2, 4, 2, vector=2, prefetch=True, band=2),
}


@pytest.fixture(scope="module")
def paired(engine: Engine) -> Iterator[Engine]:
    """An engine whose device has the instruction, at least by emulation."""
    with pytest.MonkeyPatch.context() as patch:
        compile_fast(patch, engine, exchanges=False)
        yield Engine(queue=engine.queue, device_class="gcn-gfx906")


def numbers(shape: Any, seed: int = 0) -> Any:
    """Small whole numbers: their products and sums are exact in float32."""
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(HALF)


def random(shape: Any, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(HALF)


def problem(m: int, n: int, k: int, trans: str = "NN", aligned: int = 16) -> GemmProblem:
    def operand(rows: int, cols: int, across: bool) -> Operand:
        row, col = (1, rows) if across else (cols, 1)
        nbytes = gcd(aligned, 2 * max(row, col))
        return Operand(element(HALF), row, col, (), False, nbytes)

    a, b = operand(m, k, trans[0] == "T"), operand(k, n, trans[1] == "T")
    c = Operand(element(SINGLE), n, 1, (), False, 4)
    return GemmProblem(m, n, k, (), a, b, c, element(SINGLE))


def multiply(engine: Engine, p: GemmProblem, a: Any, b: Any, choice: Tiling) -> Any:
    """The product of contiguous arrays, into memory that held NaN."""
    path = TiledPlan(engine, p, choice, pairs=True)
    orders = ["C" if x.col == 1 else "F" for x in (p.a, p.b)]
    buffers = [
        cla.to_device(engine.queue, x.ravel(order=order))
        for x, order in zip((a, b), orders, strict=True)
    ]
    out = cla.to_device(engine.queue, np.full((p.m, p.n), np.nan, SINGLE))
    path.enqueue(engine.state(), [x.data for x in (*buffers, out)], (0, 0, 0), (1.0, 0.0)).wait()
    return out.get()


def check(engine: Engine, p: GemmProblem, choice: Tiling) -> None:
    a, b = numbers((p.m, p.k)), numbers((p.k, p.n), 1)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_array_equal(multiply(engine, p, a, b, choice), expected)


WHOLE, TAILS = (64, 64, 64), (72, 40, 56)  # of tiles; the rows are aligned


@pytest.mark.parametrize(
    ("name", "left", "right", "shape"),
    in_pairs(list(POLICIES), "NT", "NT", (WHOLE, TAILS)),
    ids=str,
)
def test_policies(
    paired: Engine, name: str, left: str, right: str, shape: tuple[int, int, int]
) -> None:
    policy = POLICIES[name]
    policy.check(paired.target, element(SINGLE))
    check(paired, problem(*shape, left + right), Tiling("tiled", policy))


@pytest.mark.parametrize("trans", ["NN", "TT"])
@pytest.mark.parametrize("k", [1, 2, 15, 16, 17, 33])
def test_nothing_is_aligned(paired: Engine, k: int, trans: str) -> None:
    check(paired, problem(37, 41, k, trans, aligned=2), Tiling("tiled", VECTORS))


@pytest.mark.parametrize("k", [100, 104, 128])
def test_parts_of_k(paired: Engine, k: int) -> None:
    # Parts are whole tiles of 8 steps, panels of 16: a part may end with half a panel.
    for trans in ("NN", "TT"):
        check(paired, problem(40, 48, k, trans), Tiling("split-k", VECTORS, splits=3))


@pytest.mark.tiny
def test_one_tile(paired: Engine) -> None:
    check(paired, problem(9, 12, 13, "NT"), Tiling("tiled", LEAST))
    check(paired, problem(8, 16, 24), Tiling("tiled", LEAST))


def test_bound(paired: Engine) -> None:
    a, b = random((50, 300)), random((300, 60), 1)
    got = multiply(paired, problem(50, 60, 300), a, b, Tiling("tiled", VECTORS))
    assert_within(got, wider(a) @ wider(b), product_bound(a, b, SINGLE))


def test_subnormal_halves_count(paired: Engine) -> None:
    a, b = np.full((32, 64), 2.0**-24, HALF), np.ones((64, 32), HALF)
    got = multiply(paired, problem(32, 32, 64), a, b, Tiling("tiled", VECTORS))
    np.testing.assert_array_equal(got, np.full((32, 32), 2.0**-18, np.float32))


def test_nan_and_infinity(paired: Engine) -> None:
    a, b = np.ones((32, 40), HALF), np.ones((40, 32), HALF)
    a[3, 39], a[5, 0], b[7, 11] = np.nan, np.inf, -np.inf
    got = multiply(paired, problem(32, 32, 40), a, b, Tiling("tiled", VECTORS))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, a.astype(np.float64) @ b.astype(np.float64))


@pytest.mark.path
def test_public_calls(paired: Engine) -> None:
    a, b, c = random((70, 67)), random((67, 45), 1), random((70, 45), 2)
    for trans_a, trans_b in (("N", "N"), ("T", "T")):
        x, y = (a, b) if trans_a == "N" else (a.T.copy(), b.T.copy())
        got = gemm(
            x, y, alpha=1.5, beta=-2, c=c.copy(), trans_a=trans_a, trans_b=trans_b, engine=paired
        )
        expected = 1.5 * (wider(a) @ wider(b)) - 2 * wider(c)
        assert_within(got, expected, product_bound(a, b, SINGLE, 1.5, -2, c))
    got = gemm(a[::-2, ::3], b[::3, ::2], engine=paired)
    assert_within(
        got,
        wider(a[::-2, ::3]) @ wider(b[::3, ::2]),
        product_bound(a[::-2, ::3], b[::3, ::2], SINGLE),
    )


def test_only_where_both_are_halves(paired: Engine, engine: Engine) -> None:
    halves = problem(64, 64, 64)
    mixed = replace(halves, b=replace(halves.b, elem=element(SINGLE)))
    paths = [make_plan(paired, p) for p in (halves, mixed)]
    assert [path.pairs for path in paths if isinstance(path, TiledPlan)] == [True, False]


def test_falls_back_where_the_check_fails(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # The last argument but one is the exponent of A's numbers: those of float16 are then subnormal.
    monkeypatch.setattr(matrix_check, "_multiplies", lambda *args: args[-2] == 0)
    fresh = Engine(queue=engine.queue, device_class="gcn-gfx906")
    with pytest.warns(UserWarning, match="products of pairs of .* take subnormal numbers for 0"):
        path = make_plan(fresh, problem(64, 64, 64))
    assert isinstance(path, TiledPlan)
    assert not path.pairs
