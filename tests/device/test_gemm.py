"""gemm against NumPy in higher precision: shapes, strides, factors, epilogues, every rung."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import assert_within, product_bound, wider
from sampling import needs_fp64

import portable_gpu as pg
from portable_gpu.dtypes import bfloat16, element
from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeviceMemoryError,
    DTypeError,
    OverlapError,
    PolicyError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.ops.gemm import Epilogue, GemmPolicy, Tiling, gemm
from portable_gpu.ops.gemm.binding import bind
from portable_gpu.ops.gemm.tiled.plan import TiledPlan
from portable_gpu.runtime.call import Call
from portable_gpu.runtime.engine import Engine

BFLOAT16 = bfloat16()

FLOATS = ["float16", "float32", "float64", "complex64", "complex128"]
DTYPES = [np.dtype(name) for name in FLOATS] + ([BFLOAT16] if BFLOAT16 is not None else [])


def random(shape: Any, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Values of mixed sign and size."""
    rng = np.random.default_rng(seed + 7 * sum(shape))
    values = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.standard_normal(shape)
    return values.astype(dtype)


def summed_in(dtype: Any) -> np.dtype[Any]:
    """The dtype that products of ``dtype`` are summed in."""
    dtype = np.dtype(dtype)
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def op(array: Any, trans: str) -> Any:
    return {"N": array, "T": array.T, "C": array.conj().T}[trans]


def check(got: Any, a: Any, b: Any, alpha: Any = 1, beta: Any = 0, c: Any = None) -> None:
    """``got`` is ``alpha * a @ b + beta * c`` within the bound of any order of summation."""
    expected = wider(alpha) * (wider(a) @ wider(b)) if alpha != 0 else np.zeros(np.shape(got))
    if beta != 0:
        expected = expected + wider(beta) * wider(c)
    if alpha == 0:
        a, b = np.zeros_like(a), np.zeros_like(b)
    sums = summed_in(np.result_type(a, b))
    assert_within(got, expected, product_bound(a, b, sums, alpha, beta, c))


SHAPES = [
    (1, 1, 1), (2, 3, 1), (17, 31, 13), (31, 33, 32), (63, 65, 64), (64, 64, 64), (97, 101, 103),
    (127, 129, 17), (128, 128, 16), (1, 257, 65), (257, 1, 65), (7, 500, 300), (500, 6, 300),
    (5, 6, 2050),
]  # fmt: skip


@pytest.mark.path
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(engine: Engine, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = random((m, k)), random((k, n), seed=1)
    check(gemm(a, b, engine=engine), a, b)


@pytest.mark.tiny
@pytest.mark.parametrize("shape", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)], ids=str)
def test_empty(engine: Engine, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = random((m, k)), random((k, n))
    result = gemm(a, b, engine=engine)
    np.testing.assert_array_equal(result, np.zeros((m, n), np.float32))
    c = np.full((m, n), 2, np.float32)
    assert gemm(a, b, beta=0.5, c=c, engine=engine) is c
    np.testing.assert_array_equal(c, np.ones((m, n), np.float32))


@pytest.mark.path
@pytest.mark.parametrize("trans", ["NN", "NT", "NC", "TN", "TT", "TC", "CN", "CT", "CC"])
def test_transposes(engine: Engine, trans: str) -> None:
    dtype = np.complex64 if "C" in trans else np.float32
    m, n, k = 70, 45, 67
    a = random((m, k) if trans[0] == "N" else (k, m), dtype)
    b = random((k, n) if trans[1] == "N" else (n, k), dtype)
    got = gemm(a, b, trans_a=trans[0], trans_b=trans[1], engine=engine)
    check(got, op(a, trans[0]), op(b, trans[1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(engine: Engine, dtype: Any) -> None:
    a, b, c = random((66, 70), dtype), random((70, 36), dtype), random((66, 36), dtype)
    factor = 1.5 - 2j if dtype.kind == "c" else 1.5
    got = gemm(a, b, alpha=factor, beta=-0.5, c=c.copy(), engine=engine)
    assert got.dtype == dtype
    check(got, a, b, factor, -0.5, c)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.itemsize == 2], ids=str)
def test_16_bit_floats_into_float32(engine: Engine, dtype: Any) -> None:
    a, b, c = random((40, 70), dtype), random((70, 36), dtype), random((40, 36))
    got = gemm(a, b, beta=2, c=c.copy(), engine=engine)
    assert got.dtype == np.float32
    check(got, a, b, 1, 2, c)


@pytest.mark.parametrize("alpha", [0, 1, -2.5])
@pytest.mark.parametrize("beta", [0, 1, 0.5])
def test_alpha_and_beta(engine: Engine, alpha: float, beta: float) -> None:
    a, b, c = random((33, 20)), random((20, 34)), random((33, 34))
    if alpha == 0:
        a[3, 4] = np.nan  # not read
    if beta == 0:
        c[:] = np.nan  # not read
    got = c.copy()
    assert gemm(a, b, alpha=alpha, beta=beta, c=got, engine=engine) is got
    check(got, a, b, alpha, beta, c)


def test_nan_and_infinity_travel_as_ieee_says(engine: Engine) -> None:
    a, b = np.ones((40, 30), np.float32), np.ones((30, 40), np.float32)
    a[3, 29], a[5, 0], b[7, 11] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(gemm(a, b, engine=engine), a @ b)
    z = np.full((4, 4), np.inf + 0j, np.complex64)
    eye = np.eye(4, dtype=np.complex64)
    got = gemm(z, eye[:, :1], alpha=2.0, engine=engine)
    assert np.isinf(got.real).any() or np.isnan(got).all()


def slices(array: Any) -> dict[str, Any]:
    """Views with the values of ``array`` in other memory."""
    m, n = array.shape
    wide = np.full((m + 5, 3 * n + 7), np.nan, array.dtype)
    wide[2 : m + 2, 3 : n + 3] = array
    stepped = np.full((2 * m, 3 * n), np.nan, array.dtype)
    stepped[::2, 1::3] = array
    return {
        "F order": np.asfortranarray(array),
        "slice": wide[2 : m + 2, 3 : n + 3],
        "steps": stepped[::2, 1::3],
        "negative": np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1],
        "negative rows of F": np.asfortranarray(array[::-1])[::-1],
    }


@pytest.mark.parametrize("kind", list(slices(np.zeros((1, 1)))))
@pytest.mark.parametrize("where", ["numpy", "device"])
def test_strided_inputs(engine: Engine, kind: str, where: str) -> None:
    a, b = random((35, 44)), random((44, 39))
    strided_a, strided_b = slices(a)[kind], slices(b)[kind]
    if where == "device":
        strided_a, strided_b = on_device(engine, strided_a), on_device(engine, strided_b)
    got = gemm(strided_a, strided_b, engine=engine)
    assert isinstance(got, np.ndarray if where == "numpy" else pg.Array)
    check(got if where == "numpy" else got.get(), a, b)


def test_zero_strides(engine: Engine) -> None:
    row, col = random((1, 40)), random((40, 1))
    a, b = np.broadcast_to(row, (33, 40)), np.broadcast_to(col, (40, 35))
    check(gemm(a, b, engine=engine), a, b)


def on_device(engine: Engine, array: Any) -> Any:
    """A device array with the strides of ``array``, in memory with a rim."""
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    flat = base.ravel(order="K")
    memory = cla.to_device(engine.queue, np.ascontiguousarray(flat))
    offset = array.ctypes.data - flat.ctypes.data if flat.base is not None else None
    if offset is None:
        offset = array.ctypes.data - base.ctypes.data
    return cla.Array(
        engine.queue, array.shape, array.dtype, data=memory.base_data, offset=offset,
        strides=array.strides,
    )  # fmt: skip


RIMS: dict[str, Callable[[Any], Any]] = {
    "C order": lambda big: big[3:40, 5:46],
    "columns": lambda big: big.T[3:40, 5:46],
    "steps": lambda big: big[3:77:2, 5:128:3],
    "upside down": lambda big: big[40:3:-1, 46:5:-1],
    "aligned": lambda big: big[4:41, 8:48],
}


@pytest.mark.parametrize("rim", list(RIMS))
@pytest.mark.parametrize("where", ["numpy", "device"])
def test_writes_c_and_nothing_else(engine: Engine, rim: str, where: str) -> None:
    big = np.full((128, 132), 77, np.float32)
    c = RIMS[rim](big)
    a, b = random((c.shape[0], 21)), random((21, c.shape[1]))
    c[:] = random(c.shape)
    before, expected_c = big.copy(), c.copy()
    if where == "numpy":
        gemm(a, b, alpha=2, beta=0.5, c=c, engine=engine)
    else:
        device_c = on_device(engine, c)
        gemm(
            cla.to_device(engine.queue, a), cla.to_device(engine.queue, b), alpha=2, beta=0.5,
            c=device_c, engine=engine,
        )  # fmt: skip
        memory = np.empty(big.size, np.float32)
        cl.enqueue_copy(engine.queue, memory, device_c.base_data)
        big[:] = memory.reshape(big.shape)
    check(c, a, b, 2, 0.5, expected_c)
    RIMS[rim](before)[:] = c
    np.testing.assert_array_equal(big, before)


# -- epilogues

_erf = np.vectorize(math.erf, otypes=[np.float64])
POINTWISE: dict[str, tuple[Epilogue, Callable[[Any], Any]]] = {
    "relu": (Epilogue().relu(), lambda v: np.maximum(v, 0)),
    "gelu": (Epilogue().gelu(), lambda v: v * 0.5 * (1 + _erf(v / math.sqrt(2)))),
    "gelu_tanh": (
        Epilogue().gelu_tanh(),
        lambda v: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    ),
    "sigmoid": (Epilogue().sigmoid(), lambda v: 1 / (1 + np.exp(-v))),
    "tanh": (Epilogue().tanh(), np.tanh),
    "user's own": (Epilogue().apply("v > 1 ? R(1.0) : v * v"), lambda v: np.where(v > 1, 1, v * v)),
    "row and col": (
        Epilogue().apply("v + row - 2 * col"),
        lambda v: v + np.arange(v.shape[0])[:, None] - 2 * np.arange(v.shape[1]),
    ),
}


@pytest.mark.parametrize("name", list(POINTWISE))
def test_pointwise_epilogues(engine: Engine, name: str) -> None:
    epilogue, function = POINTWISE[name]
    a, b = random((37, 19)), random((19, 41))
    expected = function(a.astype(np.float64) @ b.astype(np.float64))
    for order in "CF" if name == "row and col" else "C":
        c = np.empty((37, 41), np.float32, order=order)
        gemm(a, b, c=c, epilogue=epilogue, engine=engine)
        np.testing.assert_allclose(c, expected, rtol=2e-5, atol=2e-5)


def test_epilogues_with_arrays_compose_in_order(engine: Engine) -> None:
    a, b, residual = random((37, 19)), random((19, 41)), random((37, 41))
    bias, rows, scale = random((41,)), random((37,), np.float64), random((37,))
    epilogue = (
        Epilogue().bias(bias).bias(rows, per="row").scale(scale, per="row").relu().add(residual)
    )
    wide = a.astype(np.float64) @ b.astype(np.float64)
    expected = np.maximum((wide + bias + rows[:, None]) * scale[:, None], 0) + residual
    got = gemm(a, b, epilogue=epilogue, engine=engine)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-4)
    c = np.empty((37, 41), np.float32, order="F")
    gemm(a, b, c=c, epilogue=epilogue, engine=engine)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-4)


def test_epilogue_of_several_arrays(engine: Engine) -> None:
    a, b, mean, scale = random((37, 19)), random((19, 41)), random((41,)), random((37, 1))
    epilogue = Epilogue().apply("(v - mean) * scale", mean=mean, scale=scale).add(mean)
    expected = (a.astype(np.float64) @ b - mean) * scale + mean
    for order in "CF":
        c = np.empty((37, 41), np.float32, order)
        gemm(a, b, c=c, epilogue=epilogue, engine=engine)
        np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-4)


def test_complex_scale(engine: Engine) -> None:
    a, b, scale = random((9, 70), np.complex64), random((70, 20), np.complex64), random((20,))
    rotated = scale.astype(np.complex64) * 1j
    for factor in (scale, rotated):
        got = gemm(a, b, epilogue=Epilogue().scale(factor), engine=engine)
        np.testing.assert_allclose(got, (a @ b) * factor, rtol=1e-4, atol=1e-4)


# -- every rung of the ladder, forced

BLOCK = GemmPolicy(16, 16, 16, 1, 1, 4, 4)
RUNGS: dict[str, Tiling] = {
    "naive": Tiling("direct"),
    "lanes": Tiling("direct", splits=4),
    "block tile": Tiling("tiled", BLOCK),
    "1-D tile": Tiling("tiled", replace(BLOCK, tile_m=32, item_m=4)),
    "2-D tile": Tiling("tiled", replace(BLOCK, tile_m=32, tile_n=32, item_m=4, item_n=4)),
}
VECTORS = GemmPolicy(32, 32, 8, 4, 4, 4, 4, vector=4)
LADDER = {
    "vectors": VECTORS,
    "prefetch": replace(VECTORS, prefetch=True),
    "double buffer": replace(VECTORS, buffers=2),
    "double buffer, prefetch": replace(VECTORS, buffers=2, prefetch=True),
    "second-level prefetch": replace(VECTORS, buffers=2, prefetch=True, prefetch_local=True),
    "interleave": replace(VECTORS, prefetch=True, interleave=True),
    "warps": GemmPolicy(64, 32, 8, 8, 2, 4, 2, vector=2, prefetch=True, band=2),
}
RUNGS |= {name: Tiling("tiled", policy) for name, policy in LADDER.items()}
RUNGS |= {
    "split k": Tiling("split-k", VECTORS, splits=3),
    "split k of some tiles": Tiling("split-k", replace(VECTORS, tile_k=4), splits=2, unsplit=1),
    "transposed": Tiling("tiled", VECTORS, transposed=True),
}


def run_forced(
    engine: Engine,
    choice: Tiling,
    a: Any,
    b: Any,
    c: Any,
    alpha: Any,
    beta: Any,
    **options: Any,
) -> None:
    """``c = alpha * a @ b + beta * c`` by a given path; NumPy arrays."""
    call = Call((a, b, c), engine, None)
    views = call.input(a, "a"), call.input(b, "b"), call.output(c.shape, c.dtype, c, read=True)
    epilogue = options.get("epilogue", Epilogue())
    extras = [call.input(x, "extra") for x in epilogue.arrays]
    problem = bind(
        engine.target, *views, trans_a="N", trans_b="N", stages=epilogue.stages, extras=extras,
        multiplies=True, reads_c=beta != 0,
    )  # fmt: skip
    path = TiledPlan(engine, problem, choice)
    call.run(path, (*views[:2], *extras, views[2]), (alpha, beta))


def skip_lanes_of_no_subgroup(engine: Engine, rung: str) -> None:
    if rung == "lanes" and engine.target.subgroup_size < RUNGS[rung].splits:
        pytest.skip("here a sub-group is one work-item, or two")


@pytest.mark.parametrize("rung", list(RUNGS))
def test_rungs(unoptimised: Engine, rung: str) -> None:
    skip_lanes_of_no_subgroup(unoptimised, rung)
    policy = RUNGS[rung].policy
    if policy is not None:
        policy.check(unoptimised.target, element(np.float32))
    whole = [(64, 64, 32, "CC")] if rung in ("block tile", "vectors", "warps") else []
    for m, n, k, order in [(65, 36, 17, "FF"), *whole]:
        a = np.asarray(random((m, k)), order=order[0])
        b = np.asarray(random((k, n)), order=order[1])
        big = random((m + 2, n + 4))
        before = big.copy()
        run_forced(unoptimised, RUNGS[rung], a, b, big[1:-1, 2:-2], 1.5, -2)
        check(big[1:-1, 2:-2], a, b, 1.5, -2, before[1:-1, 2:-2])
        before[1:-1, 2:-2] = big[1:-1, 2:-2]
        np.testing.assert_array_equal(big, before)


@pytest.mark.tiny
@pytest.mark.parametrize("rung", list(RUNGS))
def test_tiny_rungs(unoptimised: Engine, rung: str) -> None:
    skip_lanes_of_no_subgroup(unoptimised, rung)
    choice = RUNGS[rung]
    if choice.policy is not None:  # the same steps on a tile of 4 x 4 or 4 x 8
        p = choice.policy
        small = replace(
            p, tile_m=2 * p.item_m, tile_n=2 * p.item_n, tile_k=4, lanes_m=2, lanes_n=1,
            item_m=p.item_m, item_n=p.item_n,
        )  # fmt: skip
        choice = replace(choice, policy=small)
        small.check(unoptimised.target, element(np.float32))
    a, b, c = random((9, 13)), random((13, 10)), random((9, 10))
    got = c.copy()
    run_forced(unoptimised, choice, a, b, got, 1.5, -2)
    check(got, a, b, 1.5, -2, c)


@pytest.mark.parametrize(
    ("rung", "dtype"),
    list(zip(cycle(("second-level prefetch", "split k", "interleave")), DTYPES, strict=False)),
    ids=str,
)
def test_rungs_in_all_dtypes(unoptimised: Engine, rung: str, dtype: Any) -> None:
    policy = RUNGS[rung].policy
    assert policy is not None
    narrow = replace(policy, vector=1 if dtype.kind == "c" else 2)
    if dtype.itemsize == 16:
        narrow = replace(narrow, item_m=2, item_n=2)
    a, b, c = random((34, 27), dtype), random((27, 38), dtype), random((34, 38), dtype)
    got = c.copy()
    run_forced(unoptimised, replace(RUNGS[rung], policy=narrow), a, b, got, 2, 0.5)
    check(got, a, b, 2, 0.5, c)


def test_rung_with_epilogue_transposed_and_split(unoptimised: Engine) -> None:
    a, b, bias = random((34, 27)), random((27, 38)), random((38,))
    epilogue = Epilogue().bias(bias).apply("v + row")
    expected = a @ b + bias + np.arange(34)[:, None]
    for rung in ("interleave", "split k", "transposed"):
        got = np.full((34, 38), np.nan, np.float32)
        run_forced(unoptimised, RUNGS[rung], a, b, got, 1, 0, epilogue=epilogue)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_more_products_than_a_grid_is_deep(unoptimised: Engine) -> None:
    policy = GemmPolicy(4, 4, 4, 1, 1, 4, 4)
    a, b = random((66_000, 2, 3)), random((66_000, 3, 2))
    for choice in (Tiling("tiled", policy), Tiling("split-k", policy, splits=1)):
        c = np.full((66_000, 2, 2), np.nan, np.float32)
        run_forced(unoptimised, choice, a, b, c, 1, 0)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


def test_a_policy_that_does_not_fit_is_refused(unoptimised: Engine) -> None:
    c = np.zeros((8, 8), np.float32)
    for wrong in (
        replace(VECTORS, lanes_m=16), replace(VECTORS, vector=3), replace(BLOCK, tile_m=1 << 20),
        replace(VECTORS, item_m=0), replace(VECTORS, tile_k=1 << 16),
    ):  # fmt: skip
        with pytest.raises(PolicyError):
            run_forced(unoptimised, Tiling("tiled", wrong), c, c, c.copy(), 1, 0)


# -- calls


@pytest.mark.path
@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_repeats_bit_by_bit(engine: Engine, dtype: str) -> None:
    if dtype == "complex128":
        needs_fp64(engine)
    a, b = random((50, 3000), dtype), random((3000, 40), dtype)
    first = gemm(a, b, engine=engine)
    for _ in range(20):
        assert gemm(a, b, engine=engine).tobytes() == first.tobytes()


def test_device_arrays_stay_on_the_device(engine: Engine) -> None:
    a, b = random((70, 80)), random((80, 60))
    device_a, device_b = cla.to_device(engine.queue, a), cla.to_device(engine.queue, b)
    product = gemm(device_a, device_b)
    assert isinstance(product, pg.Array)
    assert product.events
    check(product.get(), a, b)
    check(gemm(device_a, b).get(), a, b)  # a NumPy operand is uploaded


def test_out_of_order_queue(engine: Engine) -> None:
    properties = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
    try:
        queue = cl.CommandQueue(engine.context, engine.device, properties)
    except cl.Error:
        pytest.skip("the device has in-order queues only")
    a, b = random((40, 3000)), random((3000, 40))
    device_a, device_b = cla.to_device(queue, a), cla.to_device(queue, b)
    product = gemm(device_a, device_b, queue=queue)
    twice = gemm(product, product, queue=queue)
    check(twice.get(queue), product.get(queue), product.get(queue))


def test_eight_threads(engine: Engine) -> None:
    cases = [(random((m, 40)), random((40, 30))) for m in (20, 33)]
    expected = [gemm(a, b, engine=engine) for a, b in cases]
    wrong: list[int] = []

    def work(seed: int) -> None:
        for i in range(50):
            a, b = cases[(seed + i) % 2]
            if gemm(a, b, engine=engine).tobytes() != expected[(seed + i) % 2].tobytes():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_errors_leave_c_untouched(engine: Engine) -> None:
    a, b = random((3, 4)), random((4, 5))
    c = np.full((3, 5), 7, np.float32)
    read_only = c.copy()
    read_only.flags.writeable = False
    cases: list[tuple[type[Exception], dict[str, Any]]] = [
        (ShapeError, {"b": random((3, 5))}),
        (ShapeError, {"a": random((4,))}),
        (ShapeError, {"trans_a": "T"}),
        (ShapeError, {"c": np.zeros((5, 3), np.float32)}),
        (DTypeError, {"c": np.zeros((3, 5))}),
        (DTypeError, {"a": np.ones((3, 4), int), "b": np.ones((4, 5), int)}),
        (DTypeError, {"a": np.full((3, 4), "x")}),
        (DTypeError, {"alpha": 1j}),
        (ArgumentTypeError, {"alpha": "2"}),
        (ArgumentError, {"trans_b": "H"}),
        (ArgumentError, {"precision": "fp8"}),
        (ArgumentError, {"beta": 1.0, "c": None}),
        (ReadOnlyError, {"c": read_only}),
        (ShapeError, {"epilogue": Epilogue().bias(np.zeros(4, np.float32))}),
        (DTypeError, {"epilogue": Epilogue().add(np.zeros((3, 5), np.complex64))}),
    ]
    for error, change in cases:
        arguments: dict[str, Any] = {"a": a, "b": b, "c": c, **change}
        left, right = arguments.pop("a"), arguments.pop("b")
        with pytest.raises(error):
            gemm(left, right, engine=engine, **arguments)
        assert np.all(c == 7)
    complex_a = a.astype(np.complex64)
    with pytest.raises(DTypeError):
        gemm(complex_a, b, epilogue=Epilogue().relu(), engine=engine)
    check(gemm(a, b, c=c, engine=engine), a, b)  # the engine still works


def test_overlap_is_refused(engine: Engine) -> None:
    memory = random((10, 10))
    before = memory.copy()
    with pytest.raises(OverlapError):
        gemm(memory, random((10, 10)), c=memory, engine=engine)
    with pytest.raises(OverlapError):
        gemm(random((5, 5)), random((5, 5)), c=memory[:5, :5], engine=engine,
             epilogue=Epilogue().add(memory[:5, :5]))  # fmt: skip
    device = cla.to_device(engine.queue, memory)
    with pytest.raises(OverlapError):
        gemm(device, device, c=device, engine=engine)
    np.testing.assert_array_equal(memory, before)


def test_too_little_memory(engine: Engine) -> None:
    column = np.broadcast_to(np.float32(1), (1 << 22, 1))
    with pytest.raises(DeviceMemoryError):
        gemm(column, column.T, engine=engine)


def test_a_users_bad_snippet_shows_the_source(engine: Engine) -> None:
    from portable_gpu.errors import BuildError

    a = random((8, 70))
    with pytest.raises(BuildError, match=r"\(nonsense \+ v\);\n.*nonsense[^\n]*$"):
        gemm(a, a, trans_b="T", epilogue=Epilogue().apply("nonsense + v"), engine=engine)


sizes = st.sampled_from([1, 2, 15, 33, 64, 100])


@pytest.mark.path
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    m=sizes, n=sizes, k=sizes, trans=st.sampled_from(["NN", "TN", "NT"]),
    alpha=st.sampled_from([0, 1, 3.5]), beta=st.sampled_from([0, 1, -1]),
    rows=st.sampled_from([1, 2, -1]), columns=st.sampled_from([1, 3, -2]),
)  # fmt: skip
def test_random_cases(
    m: int, n: int, k: int, trans: str, alpha: float, beta: float, rows: int, columns: int
) -> None:
    a = random((m, k) if trans[0] == "N" else (k, m))
    b = random((k, n) if trans[1] == "N" else (n, k))
    big = random((m * abs(rows), n * abs(columns)))
    c = big[::rows, ::columns]
    before = c.copy()
    gemm(a, b, alpha=alpha, beta=beta, c=c, trans_a=trans[0], trans_b=trans[1])
    check(c, op(a, trans[0]), op(b, trans[1]), alpha, beta, before)
