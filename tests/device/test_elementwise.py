"""Elementwise expressions against NumPy: bitwise where operations are exact, else within bounds.

Most tests share one expression, for the same text is built once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from device_arrays import from_device, launch, on_device
from sampling import FORCED, computes, needs, sample

import portable_gpu as pg
from portable_gpu.codegen.functions import Function, helper_texts, with_literals_of
from portable_gpu.codegen.source import render
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import (
    ArgumentError,
    BuildError,
    DTypeError,
    OverlapError,
    ReadOnlyError,
    ShapeError,
)
from portable_gpu.ops.elementwise import api
from portable_gpu.ops.elementwise.commands.catalogue import problem as problem_of
from portable_gpu.ops.elementwise.kernels import kernel_of
from portable_gpu.ops.elementwise.transposed import transposed_copy
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import example_target
from portable_gpu.tuning.table import TuningTable

RNG = np.random.default_rng(11)
DTYPES = ("int8", "uint16", "int32", "uint64", "float16", "float32", "float64")
#: What OpenCL 3.0, table 38, allows a function of float, in ulp.
ULP = {"exp": 3, "sin": 4, "pow": 16}


def values(shape: Any, dtype: Any) -> Any:
    """Whole numbers, of which every dtype holds sums, differences and products of two."""
    low = 0 if np.dtype(dtype).kind == "u" else -5
    return RNG.integers(low, 6, shape).astype(dtype)


def check(engine: Engine, expression: str, expected: Any, **inputs: Any) -> None:
    """One expression on NumPy arrays, and on device arrays of the same strides."""
    got = pg.elementwise(expression, engine=engine, **inputs)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype
    there = {
        name: on_device(engine, value) if isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }
    for _ in range(2):  # the second call is remembered
        result = pg.elementwise(expression, engine=engine, **there)
        assert isinstance(result, pg.Array)
        np.testing.assert_array_equal(from_device(result), expected)


@pytest.mark.tiny
def test_sizes(engine: Engine) -> None:
    size = engine.target.subgroup_size
    around = {size * k + d for k in (1, 4, 8, 32) for d in (-1, 0, 1)}
    for n in sorted({0, 1, 2, 3, 7, 8, 9, 31, 127, 1021, 4096, 4099, *around}):
        x, y = values(n, np.float32), values(n, np.float32)
        check(engine, "x * y - x", x * y - x, x=x, y=y)


@pytest.mark.parametrize("dtype", sample(DTYPES, "int8", "float16", "float32", "float64"))
def test_dtypes(engine: Engine, dtype: str) -> None:
    needs(engine, dtype)
    x, y = values((5, 67), dtype), values(67, dtype)
    if np.dtype(dtype).kind in "iu":  # which wrap around
        x, y = (np.iinfo(dtype).max // np.dtype(dtype).type(3) * a for a in (x, y))
    check(engine, "x * y - x", x * y - x, x=x, y=y)


def test_bfloat16(engine: Engine) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = RNG.standard_normal(1003).astype(ml_dtypes.bfloat16)
    check(engine, "x * 0.3", (x.astype("f4") * np.float32(0.3)).astype(x.dtype), x=x)


def test_16_bit_floats_are_rounded_once(engine: Engine) -> None:
    x, y = RNG.standard_normal((2, 1003)).astype(np.float16)
    x[:9] = np.nan, np.inf, -np.inf, 65504, 6e-8, 0, -0.0, 1, 3
    y[:9] = 1, 2, 3, 2, 0.5, 1, 1, np.nan, np.inf
    with np.errstate(all="ignore"):
        wide = (x.astype("f8") * y.astype("f8") - x).astype(np.float32).astype(np.float16)
    got = pg.elementwise("fma(x, y, -x)", x=x, y=y, engine=engine)
    np.testing.assert_array_equal(got, wide)


PROMOTIONS = [
    ("uint8", "int8"), ("int32", "float32"), ("float16", "float32"), ("bool", "int8")
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), sample(PROMOTIONS, "('uint8', 'int8')"), ids="-".join)
def test_promotion(engine: Engine, left: str, right: str) -> None:
    x, y = values(301, left), values(301, right)
    needs(engine, np.result_type(x, y))
    check(engine, "x * y - x", x * y - x, x=x, y=y) if left != "bool" else check(
        engine, "x + y", x + y, x=x, y=y
    )


def test_numbers(engine: Engine) -> None:
    """Python's are weak, NumPy's strong, and another value builds nothing."""
    x = values(77, np.float32)
    for number in (2, 2.5, True, np.float32(3), np.int8(4), np.array(5, np.float32)):
        check(engine, "x * a", x * np.float32(number), x=x, a=number)
    small = values(77, np.int8)
    check(engine, "x + a", small + np.int8(100), x=small, a=100)
    built = len(engine.programs)
    there = pg.asarray(x, engine=engine)
    for number in (0.1, 0.0, -0.0, float("nan"), 1e300, -1e300):
        with np.errstate(over="ignore", invalid="ignore"):
            expected = x * np.float32(number)
        for result in (
            pg.elementwise("x * a", x=x, a=number, engine=engine),
            pg.elementwise("x * a", x=there, a=number).get(),
        ):
            np.testing.assert_array_equal(result, expected)
            whole = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(result)[whole], np.signbit(expected)[whole])
    assert len(engine.programs) == built
    if engine.target.fp64:
        check(engine, "x + a", small + 0.5, x=small, a=0.5)
        check(engine, "x + a", x + np.float64(0.5), x=x, a=np.float64(0.5))
        alone = pg.elementwise("a + b", a=1, b=2.5, engine=engine)
        assert (alone, alone.dtype) == (3.5, np.float64)
    for number in (128, -129, 10**30):
        with pytest.raises(
            ArgumentError, match=f"a is {number}; expected a number from -128 to 127"
        ):
            pg.elementwise("x + a", x=small, a=number, engine=engine)


def test_dtype_of_the_result(engine: Engine) -> None:
    x, y = values((9, 31), np.float32), values(31, np.float32)
    got = pg.elementwise("x > y && !(y > 0)", x=x, y=y, dtype=bool, engine=engine)
    assert got.dtype == bool
    np.testing.assert_array_equal(got, (x > y) & ~(y > 0))
    got = pg.elementwise("x / 2", x=x, dtype=np.int16, engine=engine)
    np.testing.assert_array_equal(got, np.trunc(x / 2).astype(np.int16))
    ints = values(100, np.int16)
    got = pg.elementwise("0.5 * x", x=ints, dtype="float32", engine=engine)
    np.testing.assert_array_equal(got, ints * np.float32(0.5))
    got = pg.elementwise("x * x", x=ints * 300, dtype="int8", engine=engine)
    np.testing.assert_array_equal(got, ((ints.astype("i4") * 300) ** 2).astype("int8"))


SPREADS = [
    ((5, 1), (1, 7)), ((6, 130), (130,)), ((6, 130), (6, 1)), ((1,), (19,)), ((3, 300), (1, 1)),
    ((40, 3), (3,)), ((0, 3), (3,)), ((2, 1, 33), (2, 9, 1)),
]  # fmt: skip


@pytest.mark.tiny
def test_broadcasting(engine: Engine) -> None:
    for left, right in SPREADS[: 3 if FORCED else None]:
        x, y = values(left, np.float32), values(right, np.float32)
        check(engine, "x * y - x", x * y - x, x=x, y=y)


def layouts(x: Any) -> list[Any]:
    """Arrays of one shape (6, 40), in other strides."""
    return [
        np.asfortranarray(x[:6, :40]), x[:6, ::-1][:, :40], x[5::-1, 40:0:-1], x[::2, ::2][:6, :40],
        x[1:7, 3:43], np.broadcast_to(x[:6, :1], (6, 40)), x.T[:6, :40],
    ]  # fmt: skip


def test_strides(engine: Engine) -> None:
    x = values((90, 90), np.float32)
    plain = values((6, 40), np.float32)
    for view in layouts(x)[: 2 if FORCED else None]:
        check(engine, "x * y - x", plain * view - plain, x=plain, y=view)


@pytest.mark.parametrize("rim", [0, 1])
def test_only_the_output_is_written(engine: Engine, rim: int) -> None:
    """Into parts of larger arrays, whose rims stay; in place, and from their neighbours."""
    for rows, columns in ((7, 33), (130, 9)):
        for order in "CF":
            whole = np.full((rows + 2 * rim + 1, columns + 2 * rim + 1), 7, np.float32, order)
            part = whole[rim : rim + rows, rim : rim + columns]
            x = values((rows, columns), np.float32)
            expected = whole.copy(order)
            expected[rim : rim + rows, rim : rim + columns] = x * x - x
            result = pg.elementwise("x * y - x", x=x, y=x, out=part, engine=engine)
            assert result is part
            np.testing.assert_array_equal(whole, expected)
        part = np.full((rows, columns), 7, np.float32)
        there = on_device(engine, part, rim=16 * rim)
        memory = cla.Array(engine.queue, (there.base_data.size // 4,), "f4", data=there.base_data)
        operand = on_device(engine, x, rim=rim)
        for _ in range(2):
            result = pg.elementwise("x * y - x", x=operand, y=operand, out=there)
            assert result is there
        around = from_device(memory)
        np.testing.assert_array_equal(around[16 * rim :][: x.size].reshape(x.shape), x * x - x)
        assert not around[: 16 * rim].any()
        assert not around[16 * rim + x.size :].any()


def test_in_place(engine: Engine) -> None:
    for make in (np.copy, lambda a: on_device(engine, a)):
        x = values((64, 31), np.float32)
        y, step = make(x), values((64, 31)[1:], np.float32)
        expected = np.asarray(y if isinstance(y, np.ndarray) else x).copy()
        d = step if isinstance(y, np.ndarray) else on_device(engine, step)
        for _ in range(3):
            result = pg.elementwise("fmin(y, a) - d", y=y, d=d, a=3.0, out=y, engine=engine)
            assert result is y
            expected = np.minimum(expected, 3) - step
        for _ in range(2):
            result = pg.elementwise("y - 2 * z", y=y, z=y, out=y, engine=engine)
        got = result if isinstance(result, np.ndarray) else from_device(result)
        np.testing.assert_array_equal(got, expected)
    x = values(40, np.float32)
    for out in (x[1:], x[::-1][1:]):
        with pytest.raises(OverlapError, match="out shares memory with x"):
            pg.elementwise("x * 2", x=x[:-1], out=out, engine=engine)
    same = x[:]
    expected = x * 2
    pg.elementwise("x * 2", x=x, out=same, engine=engine)
    np.testing.assert_array_equal(x, expected)
    there = on_device(engine, x)
    with pytest.raises(OverlapError, match="out shares memory with x"):
        pg.elementwise("x * 2", x=there[:-1], out=there[1:])
    view = np.lib.stride_tricks.as_strided(x, (3, 3), (4, 4))
    with pytest.raises(OverlapError, match="out overlaps itself"):
        pg.elementwise("x * 2", x=np.ones((3, 3), "f4"), out=view, engine=engine)


def test_in_place_by_a_view(engine: Engine) -> None:
    """The input counts as the output itself, in each call; a separate output is another call."""
    for make in (np.copy, lambda a: on_device(engine, a)):
        x, step = values((64, 31), np.float32), values(31, np.float32)
        y, d = make(x), make(step)
        for count in (1, 2, 3):
            pg.elementwise("x + d", x=y, d=d, out=y[:], engine=engine)
            got = y if isinstance(y, np.ndarray) else from_device(y)
            expected = x
            for _ in range(count):
                expected = expected + step
            np.testing.assert_array_equal(got, expected)
            z = make(np.zeros_like(x))
            pg.elementwise("x + d", x=y, d=d, out=z, engine=engine)
            got = z if isinstance(z, np.ndarray) else from_device(z)
            np.testing.assert_array_equal(got, expected + step)


FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "exp": ("exp(x)", np.exp),
    "sin": ("sin(x)", np.sin),
    "pow": ("pow(fabs(x), 1.5)", lambda x: abs(x) ** 1.5),
}


@pytest.mark.parametrize("name", sample(list(FUNCTIONS), "exp"))
def test_functions(engine: Engine, name: str) -> None:
    expression, exact = FUNCTIONS[name]
    for dtype in ("float32", "float64"):
        if not computes(engine, dtype):
            continue
        x = (RNG.standard_normal(1003) * 3).astype(dtype)
        x[:3] = np.nan, 0, 20
        expected = exact(x.astype(np.longdouble))
        got = pg.elementwise(expression, x=x, engine=engine)
        bound = ULP[name] * np.spacing(abs(expected).astype(dtype))
        off = abs(got - expected)[1:]
        assert np.isnan(got[0])
        assert (off <= np.maximum(bound[1:], 2 * np.finfo(dtype).eps)).all(), off.max()


def test_softmax(engine: Engine) -> None:
    x = RNG.standard_normal((70, 131)).astype(np.float32)
    m, s = x.max(axis=1, keepdims=True), values(131, np.float32) + 9
    exact = np.exp(x.astype("f8") - m) / s
    u = 2.0**-24
    for order in (np.asarray, np.asfortranarray):
        got = pg.elementwise("exp(x - m) / s", x=order(x), m=m, s=s, engine=engine)
        # x - m is off by u |x - m|, which exp takes to a relative error; exp 3 ulp, / 2.5 ulp.
        np.testing.assert_array_less(abs(got - exact), (abs(x - m) + 6 + 5) * u * exact + 1e-37)


TEXTS = {
    "float": (
        "x > y ? x : y", "(x > 0) * x", "x > 0 ? 1 : 0", "x && y ? x - 1 : -y", "!x + y",
        "(x > 0 ? 1 : 2) / 2 + x", "fmax(x, 0)", "clamp(x, -1.0, 1.0)", "1 / 2 * x", "-x - -y",
        "x == y || x < 0", "(x <= 1) == (y > 2)", "isfinite(x) ? fabs(y) : x", "M_PI * x", "x != x",
        "x > 0 ? y > 0 ? 1 : 2 : 3.5", "(int)x / 2 * 1.0f", "1e1 * x - .5 + 2.",
        "x < 010 ? x : 0x1f", "convert_int(x)", "exp(1.0) * x", "+x * (y + 1)", "!(x > y) && y",
    ),
    "int": (
        "abs(x) + sign(y)", "maximum(x, 2) if y > 1 and not x else min(x, y)",
        "x ** 2 + (x - y) ** 2",
        "where(isnan(x) or x > y, ~(x > y), x == 3000000000)", "x // 3 * y % 5 << 33",
        "max(x, y) + min(x, 3)", "x & 3 | y << 2", "~x ^ y", "y != 0 ? x / y : x % 3", "-x * 2",
        "x > y", "(x > y) + 1", "x ? y : 2", "x >> 1 == y", "clamp(x, -1, y < 0 ? 3 : y)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("ctype", TEXTS)
def test_expressions_of_vectors_mean_the_same(engine: Engine, ctype: str) -> None:
    """All texts in one program: the functions of 4 values and those of one."""
    functions = [
        Function(f"f{k}", text, (("x", ctype), ("y", ctype)), ctype, "float")
        for k, text in enumerate(TEXTS[ctype])
    ]
    assert sum(f.vectors(4) is not None for f in functions) >= len(functions) - 6
    body = "\n".join(
        f"out[{8 * k} * n + i] = f{k}(x[i], y[i]);\nif (i % 4 == 0) "
        f"vstore4(f{k}_4(vload4(0, x + i), vload4(0, y + i)), 0, out + {8 * k + 4} * n + i);"
        for k in range(len(functions))
    )
    text = "\n".join(
        (
            render("common/prelude", target=engine.target),
            helper_texts(helper for f in functions for helper in f.helpers(4)),
            *(f.define(width) for f in functions for width in (1, 4)),
            f"__kernel void all_of_them(__global const {ctype} *x, __global const {ctype} *y,",
            "__global float *out, int n)\n{\nint i = get_global_id(0);",
            body + "\n}",
        )
    )
    kernel = engine.programs.kernel(Specialization("t", text, engine.target.options), "all_of_them")
    n = 64
    x, y = values(n, np.dtype(ctype).name), values(n, np.dtype(ctype).name)
    out = cla.zeros(engine.queue, (len(functions), 2, 4, n), np.float32)
    launch(
        engine.queue, kernel, (n,), cla.to_device(engine.queue, x).data,
        cla.to_device(engine.queue, y).data, out.data, np.int32(n),
    )  # fmt: skip
    result = out.get()
    for k, text in enumerate(TEXTS[ctype]):
        np.testing.assert_array_equal(result[k, 1, 0], result[k, 0, 0], err_msg=text)


@pytest.mark.parametrize(
    ("text", "ctype", "expected"),
    [
        ("x + 1", "float", "(x + ((float4)(1.0f)))"),
        ("x / 2", "int", None),
        ("x + 0.5", "int", None),
        ("1 / 2 + x", "float", "(((float4)((1.0f / 2.0f))) + x)"),
        ("(float)x", "float", None),
        ("x.s0", "float", None),
        ("x = 2", "float", None),
        ("x, x", "float", None),
        ("z + x", "float", None),
        ("exp(x", "float", None),
        ("select(x, x, 1)", "float", None),
        ("x % 2", "float", None),
        ("1 << x", "long", None),  # an int, however wide x is
        ("~0 >> x", "uint", None),
        ("(x > 0) << x", "long", None),
        ("x << 1", "long", "(x << ((long4)(1L)))"),
        ("x ? x : 2", "int", "((x != (int4)(0)) ? x : ((int4)(2)))"),
    ],
)
def test_from_single_values_to_vectors(text: str, ctype: str, expected: str | None) -> None:
    assert Function("f", text, (("x", ctype),), ctype, ctype).vectors(4) == expected


def test_literals() -> None:
    plain = "0.5 + .5 - 1. * 1e3 + 2 + 0x1p3 + 1.5f + x1.0 + M_PI + M_PI_F + M_1_PI + 3.5e-2"
    typed = (
        "0.5f + .5f - 1.f * 1e3f + 2 + 0x1p3 + 1.5f + x1.0 + M_PI_F + M_PI_F + M_1_PI_F + 3.5e-2f"
    )
    assert with_literals_of(plain, "float") == typed
    assert with_literals_of(plain, "double") == plain


def test_at_random(engine: Engine) -> None:
    rng = np.random.default_rng(2026)
    for turn in range(8 if FORCED else 24):
        shape = tuple(int(n) for n in rng.integers(1, (70, 40)[: rng.integers(1, 3)]))
        inputs = []
        for number in range(2):
            extents = [n if rng.random() < 0.7 else 1 for n in shape][
                number * int(rng.integers(0, 2)) :
            ]
            base = values([n * 2 + 3 for n in extents], np.float32)
            steps = [int(s) for s in rng.choice([1, 1, 1, 2, -1], len(extents))]
            view = base[tuple(slice(1, None) if s > 0 else slice(None, 0, -1) for s in steps)]
            inputs.append(
                view[
                    tuple(slice(0, n * abs(s), abs(s)) for n, s in zip(extents, steps, strict=True))
                ]
            )
        x, y = inputs
        expected = x * y - x
        out = np.zeros([n + 2 for n in expected.shape], np.float32)
        part = out[tuple(slice(1, -1) for _ in expected.shape)]
        options = {"out": part} if rng.random() < 0.5 else {}
        there = rng.random() < 0.5
        if there:
            x, y = (on_device(engine, a, rim=int(rng.integers(3))) for a in (x, y))
            options = {"out": on_device(engine, part)} if options else {}
        got = pg.elementwise("x * y - x", x=x, y=y, engine=engine, **options)
        got = from_device(got) if there else got
        np.testing.assert_array_equal(got, expected, err_msg=f"turn {turn}")
        assert out.sum() == (expected.sum() if options and not there else 0)


def test_events_and_queues(engine: Engine) -> None:
    x = values(1000, np.float32)
    queue = cl.CommandQueue(engine.context)
    gate = cl.UserEvent(engine.context)
    there = pg.elementwise("x * 2", x=cla.to_device(queue, x), queue=queue, wait_for=[gate])
    assert there.events[-1].command_execution_status != cl.command_execution_status.COMPLETE
    gate.set_status(cl.command_execution_status.COMPLETE)
    np.testing.assert_array_equal(there.get(), x * 2)
    mixed = pg.elementwise("x * y - x", x=there, y=x)
    np.testing.assert_array_equal(mixed.get(), 2 * x * x - 2 * x)


def test_calls_of_an_expression_count_once() -> None:
    expression = "max(abs(x), exp(-x)) + exp(-x) * erf(exp(y)) * (x + 1)"
    three = 3 * api._CALL_FLOP  # exp(-x), exp(y), erf(exp(y))
    assert api._flop_of_calls(expression, np.dtype(np.float64)) == three
    assert api._flop_of_calls("exp(-x) + exp(-x)", np.dtype(np.float32)) == api._INLINED_FLOP


def test_refusals(engine: Engine) -> None:
    x = np.ones((3, 4), np.float32)

    def refused(error: type[Exception], message: str, text: str = "x + 1", **inputs: Any) -> None:
        with pytest.raises(error, match=message):
            pg.elementwise(text, engine=engine, **{"x": x} | inputs)

    refused(
        ShapeError, r"x has shape \(3, 4\), y has shape \(3,\); they do not broadcast", y=x[:, 0]
    )
    refused(ShapeError, "out has shape", out=np.ones(3, np.float32))
    refused(DTypeError, "out has dtype int32", out=np.ones((3, 4), np.int32))
    refused(DTypeError, "dtype is 'no such'", dtype="no such")
    refused(ArgumentError, "the name of an input is 'exp', which means something else", exp=x)
    for name in ("float4", "as_int", "x__y", "kernel", "M_PI", "get_global_id", "LOCKSTEP"):
        refused(ArgumentError, f"the name of an input is '{name}'", **{name: x})
    refused(ArgumentError, "letters of a to z", größe=x)
    refused(ArgumentError, "is not part of an expression", "x; x")
    for text, reason in {
        "x + unknown": "undeclared|undefined", "x + nope(x)": "nope", "x.q + x": "member|subscript",
    }.items():  # fmt: skip
        refused(
            BuildError, rf"^expression '{re.escape(text)}' does not compile: .*({reason})", text
        )
    for text in ("x < 1 < 2", "x == 1 != 0"):
        refused(ArgumentError, "comparisons in a row", text)
    whole = x.astype("i4")
    for text, reason in {
        "sqrt(x)": r"convert, as in sqrt\(\(float\)x\)", "x ** -1": "is not an integer",
        "x + 2j": "2j is complex", "1 / 0 + x": "is not an integer",
        "clip(x, 1)": "takes 3 arguments",
    }.items():  # fmt: skip
        refused(ArgumentError, reason, text, x=whole)
    for text in ("x << 1", "~x", "x & 1"):
        refused(ArgumentError, "takes integers", text)
    read_only = x.copy()
    read_only.flags.writeable = False
    refused(ReadOnlyError, "out is read-only", out=read_only)
    refused(DTypeError, "y: dtype", y=np.array(["a"]))


@pytest.mark.parametrize("name", ["gcn", "nvidia-sm20"])
def test_forced_classes(name: str, engine: Engine) -> None:
    with pg.Engine(engine.device, device_class=name) as forced:
        x, y = values((37, 75), np.float32), values((37, 1), np.float32)
        check(forced, "x * y - x", x * y - x, x=x, y=y)
        flat = values(9001, np.int16)
        check(forced, "x * y - x", flat * flat - flat, x=flat, y=flat)
        check(forced, "x * y - x", flat[3:] * flat[:-3] - flat[3:], x=flat[3:], y=flat[:-3])


def test_copies_between_layouts(engine: Engine) -> None:
    """Extents around the edges of tiles, odd ones, images, steps, and bits of 16-bit floats.

    A GPU may change the bits of a NaN: an array of NumPy can arrive there in the result's layout,
    and then the copy converts to float32 and back.
    """
    with pg.Engine(engine.device, device_class="nvidia") as forced:
        for shape, order in (((64, 49), (1, 0)), ((2, 3, 66, 34), (0, 2, 3, 1))):
            for dtype in (np.uint16, np.float32):
                source = RNG.integers(0, 1 << 16, shape).astype(dtype)
                check(forced, "x", source.transpose(order), x=source.transpose(order))
        bits = RNG.integers(0, 1 << 16, (130, 65)).astype(np.uint16)[::-1]
        out = np.zeros((65, 200), np.float16)[:, 30:160]
        assert pg.elementwise("x", x=bits.view(np.float16).T, out=out, engine=forced) is out
        is_nan = np.isnan(bits.view(np.float16).T)
        assert np.array_equal(np.isnan(out), is_nan)
        assert np.array_equal(out.view(np.uint16)[~is_nan], bits.T[~is_nan])
        assert not out.base[:, :30].any()
        assert not out.base[:, 160:].any()


@pytest.mark.parametrize(
    ("shape", "strides", "vectors"),
    [
        ((64, 4096, 256), (4096 * 256, 1, 4096), (2, 2)),
        ((64, 49, 256), (49 * 256, 1, 49), (1, 2)),
        ((64, 256, 49), (49 * 256, 1, 256), (2, 1)),
        ((64, 256, 8), (8 * 256, 1, 256), None),  # few columns
        ((64, 256, 64), (256 * 64, 64, 1), None),  # the same axis
    ],
)
def test_which_copies_go_tile_by_tile(shape: Any, strides: Any, vectors: Any) -> None:
    problem = problem_of("x", np.dtype(np.float16), shape, {"x": strides})
    copy = transposed_copy(problem, example_target("nvidia-sm90"))
    assert (copy and copy.vector_sizes) == vectors
    assert transposed_copy(problem, example_target("cpu")) is None
    doubled = problem_of("x + x", np.dtype(np.float16), shape, {"x": strides})
    assert transposed_copy(doubled, example_target("nvidia-sm90")) is None


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((1 << 24,), (256, 4, 4, 1, False)),
        ((3, 1 << 20), (256, 4, 2, 1, False)),
        ((4096, 1000), (256, 4, 1, 2, False)),
        ((1 << 20, 3), (4, 1, 1, 4, False)),
        ((1 << 16, 1 << 16), (256, 4, 4, 1, True)),
    ],
)
def test_tiles(shape: tuple[int, ...], layout: tuple[Any, ...]) -> None:
    problem = problem_of(
        "x + y", np.dtype(np.float32), shape, {"y": (0,) * (len(shape) - 1) + (1,)}
    )
    result = kernel_of(problem, example_target("nvidia-sm90"), TuningTable([])).form
    assert (result.lanes, result.vector, result.across, result.down, result.wide) == layout
