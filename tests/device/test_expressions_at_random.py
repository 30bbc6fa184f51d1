"""Random expressions against NumPy, bit by bit: in every dtype, of single values and of vectors.

All expressions of a dtype are functions of one program, for a build costs half a second.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyopencl.array as cla
import pytest
from device_arrays import launch
from sampling import FORCED, needs, sample

from portable_gpu.codegen.functions import Function, helper_texts
from portable_gpu.codegen.source import render
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import element
from portable_gpu.runtime.engine import Engine

DTYPES = (
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32",
    "float64",
)  # fmt: skip
WIDTHS = (1, 2, 8)
EACH = 12 if FORCED else 40
N = 64
Part = tuple[str, Any]  # its text, and NumPy's values


def inputs(dtype: np.dtype[Any]) -> dict[str, Any]:
    """Integers of the whole range, its edges and small ones; whole floats, infinity and NaN."""
    rng = np.random.default_rng(5)
    result = {}
    for name in "xyz":
        if dtype.kind == "b":
            result[name] = rng.random(N) < 0.5
        elif dtype.kind == "f":
            values = rng.integers(-5, 6, N).astype(dtype)
            values[rng.integers(0, N, 3)] = np.nan, np.inf, -np.inf
            result[name] = values
        else:
            info = np.iinfo(dtype)
            values = rng.integers(info.min, info.max, N, dtype, endpoint=True)
            small = rng.integers(0, 80, N).astype(dtype) - dtype.type(5 if info.min else 0)
            edges = rng.choice(np.array([0, 1, info.max, info.min, info.max - 1], dtype), N)
            result[name] = np.choose(rng.integers(0, 3, N), [values, small, edges])
    return result


class Draw:
    """Draws expressions of some inputs."""

    def __init__(self, rng: random.Random, given: dict[str, Any]) -> None:
        self.rng, self.given = rng, given
        self.dtype = next(iter(given.values())).dtype

    def number(self, depth: int) -> Part:
        """A part of the dtype computed in."""
        rng, kind = self.rng, self.dtype.kind
        if depth == 0 or rng.random() < 0.1:
            if kind != "b" and rng.random() < 0.25:
                value = rng.randrange(0 if kind == "u" else -3, 8)
                return str(value) if value >= 0 else f"({value})", self.dtype.type(value)
            name = rng.choice(list(self.given))
            return name, self.given[name]
        ways = [self._arithmetic, self._chosen]
        ways += [self._function] if kind != "b" else []
        ways += [self._of_integers] * 2 if kind in "iu" else []
        return rng.choice(ways)(depth - 1)

    def pair(self, depth: int) -> tuple[Part, Part]:
        """Two parts; the first is not a literal, for those are computed exactly."""
        first = self.number(depth)
        while not np.shape(first[1]):
            first = self.number(depth)
        return first, self.number(depth)

    def mask(self, depth: int) -> Part:
        """A truth value."""
        rng = self.rng
        if depth > 0 and rng.random() < 0.5:
            (a, p), (b, q) = self.mask(depth - 1), self.mask(depth - 1)
            return rng.choice(
                [
                    (f"({a} and {b})", p & q), (f"({a} || {b})", p | q), (f"({a} ^ {b})", p ^ q),
                    (f"(not {a})", ~p), (f"(~{a})", ~p), (f"logical_xor({a}, {b})", p ^ q),
                ]
            )  # fmt: skip
        (a, p), (b, q) = self.pair(depth)
        sign, of = rng.choice(
            [("<", np.less), (">", np.greater), ("<=", np.less_equal), ("==", np.equal),
             ("!=", np.not_equal), (">=", np.greater_equal)]
        )  # fmt: skip
        return f"({a} {sign} {b})", of(p, q)

    def _arithmetic(self, depth: int) -> Part:
        (a, p), (b, q) = self.pair(depth)
        if self.dtype.kind == "b":
            return self.rng.choice(
                [(f"({a} + {b})", p + q), (f"({a} * {b})", p * q), (f"({a} ^ {b})", p ^ q)]
            )
        ways = [(f"({a} + {b})", p + q), (f"({a} - {b})", p - q), (f"{a} * {b}", p * q)]
        ways += [(f"(-{a})", -p), (f"{a} ** 2", p * p)]
        return self.rng.choice([(f"({text})", value) for text, value in ways])

    def _of_integers(self, depth: int) -> Part:
        (a, p), (b, q) = self.pair(depth)
        n = self.rng.randrange(7)
        ways = [
            (f"({a} // {b})", np.floor_divide(p, q)), (f"({a} % {b})", np.remainder(p, q)),
            (f"({a} << {b})", np.left_shift(p, q)), (f"({a} >> {b})", np.right_shift(p, q)),
            (f"({a} & {b})", p & q), (f"({a} | ~{b})", p | ~q), (f"({a} ^ {b})", p ^ q),
            (f"({a} << {n})", np.left_shift(p, self.dtype.type(n))),
            (f"({a} ** {n})", np.power(p, self.dtype.type(n))),
            (f"fmod({a}, {b})", np.fmod(p, q)),
        ]  # fmt: skip
        return self.rng.choice(ways)

    def _function(self, depth: int) -> Part:
        (a, p), (b, q) = self.pair(depth)
        ways: list[tuple[str, Callable[[], Any]]] = [
            (f"abs({a})", lambda: np.abs(p)), (f"sign({a})", lambda: np.sign(p)),
            (f"min({a}, {b})", lambda: np.minimum(p, q)),
            (f"maximum({a}, {b})", lambda: np.maximum(p, q)),
            (f"square({a})", lambda: np.square(p)),
            (f"clip({a}, {b}, 3)", lambda: np.minimum(np.maximum(p, q), self.dtype.type(3))),
        ]  # fmt: skip
        text, value = self.rng.choice(ways)
        return text, value()

    def _chosen(self, depth: int) -> Part:
        (c, m), ((a, p), (b, q)) = self.mask(depth), self.pair(depth)
        text = self.rng.choice(
            [f"({c} ? {a} : {b})", f"where({c}, {a}, {b})", f"({a} if {c} else {b})"]
        )
        return text, np.where(m, p, q)


@pytest.mark.parametrize("dtype", sample(DTYPES, "int8", "uint16", "int64", "float32"))
def test_random_expressions(engine: Engine, dtype: str) -> None:
    needs(engine, dtype)
    operand = inputs(np.dtype(dtype))
    draw, elem = Draw(random.Random(dtype), operand), element(dtype)
    texts, expected = [], []
    with np.errstate(all="ignore"):
        while len(texts) < EACH:
            text, value = draw.pair(3)[0] if len(texts) % 4 else draw.mask(2)
            texts.append(text)
            expected.append(value)
    kind = "int" if elem.boolean else elem.real
    functions = [
        Function(f"f{k}", text, tuple((n, elem.real) for n in "xyz"), kind, elem.real,
                 value.dtype == bool, elem.boolean)
        for k, (text, value) in enumerate(zip(texts, expected, strict=True))
    ]  # fmt: skip
    body = []
    for k, f in enumerate(functions):
        for j, w in enumerate(WIDTHS):
            at = f"({len(WIDTHS)} * {k} + {j}) * n + i * {w}"
            if w == 1:
                body.append(f"out[{at}] = {f.called(1)}(x[i], y[i], z[i]);")
                continue
            read = ", ".join(f"vload{w}(i, {name})" for name in "xyz")
            body.append(f"if (i < n / {w}) vstore{w}({f.called(w)}({read}), 0, out + {at});")
    arrays = ", ".join(f"__global const {elem.real} *{name}" for name in "xyz")
    source = "\n".join(
        (
            render("common/prelude", target=engine.target),
            helper_texts(helper for f in functions for w in WIDTHS for helper in f.helpers(w)),
            *(f.define(width) for f in functions for width in WIDTHS),
            f"__kernel void all_of_them({arrays}, __global {elem.real} *out, int n)",
            "{\nint i = get_global_id(0);",
            *body,
            "}",
        )
    )
    spec = Specialization("t", source, engine.target.options)
    kernel = engine.programs.kernel(spec, "all_of_them")
    stored = {
        name: values.astype("u1") if dtype == "bool" else values for name, values in operand.items()
    }
    out = cla.zeros(engine.queue, (EACH, len(WIDTHS), N), stored["x"].dtype)
    buffers = [cla.to_device(engine.queue, stored[name]) for name in "xyz"]
    launch(engine.queue, kernel, (N,), *(b.data for b in buffers), out.data, np.int32(N))
    result = out.get()
    for k, text in enumerate(texts):
        for j, width in enumerate(WIDTHS):
            np.testing.assert_array_equal(
                result[k, j], expected[k].astype(result.dtype), err_msg=f"{text}, {width} lanes"
            )
