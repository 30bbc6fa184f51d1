"""Every wrong argument of every public function raises an error of the library's, before a launch.

The calls are generated: each parameter that a signature names is given everything in its row of
``WRONG`` in turn, the others being right.  A parameter without a row fails the test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest

import portable_gpu as pg
from portable_gpu.errors import ArgumentTypeError, PortableGPUError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.launch import Launch

Case = tuple[str, Callable[[], Any]]


class Broken:
    """Like a sparse array: it promises an array, and raises something of its own."""

    shape, ndim, dtype = (4, 4), 2, np.dtype(np.float32)

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("this is sparse")


class Odd:
    """Raises something else wherever it is read."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        raise LookupError("no comparison")

    def __bool__(self) -> bool:
        raise LookupError("no truth")

    def __len__(self) -> int:
        raise LookupError("no length")


def objects() -> dict[str, Any]:
    """Values that are wrong for every parameter."""
    return {
        "bytes": b"N", "dict": {1: 2}, "object": object(), "class": Broken, "lambda": lambda: 0,
        "generator": (i for i in "ab"), "odd": Odd(), "broken": Broken(), "set": {1.5},
        "list of text": ["a", "b"], "objects": np.array([None, "a"], object),
        "masked": np.ma.array([1.0, 2.0], mask=[0, 1]), "module": np, "decimal": Decimal("NaN"),
    }  # fmt: skip


def numbers() -> dict[str, Any]:
    return {"nan": float("nan"), "huge": 10**400, "complex": 1j, "half": 1.5}


class Wrong:
    """Rows of wrong values by the names of parameters."""

    def __init__(self, engine: Engine) -> None:
        other = Engine(engine.device)
        foreign = cla.zeros(other.queue, (4, 4), np.float32)
        any_object, any_number = objects(), numbers()
        event = cl.enqueue_marker(other.queue)
        read_only = np.zeros((4, 4), np.float32)
        read_only.flags.writeable = False
        array = {
            **any_object, "huge": 10**400, "text": "text", "texts": np.array(["a"]),
            "dates": np.ones(2, "m8[s]"), "record": np.zeros(2, [("a", "f4")]),
            "ragged": [[1.0], [1.0, 2.0]], "wide": np.ones((4, 4), np.longdouble),
            "huge ints": [10**30],
        }  # fmt: skip
        del array["set"]
        out = {
            **array, **any_number, "list": [0.0], "number": np.float32(1), "foreign": foreign,
            "shape": np.zeros((3, 5, 2), np.float32), "dtype": np.zeros((4, 4), np.int8),
            "read-only": read_only, "spread": np.broadcast_to(np.float32(0), (4, 4)),
        }  # fmt: skip
        axis = {
            **any_object, **any_number, "text": "0", "list": [0], "true": True, "np.true": np.True_,
            "far": 99, "far below": -99, "twice": (0, 0), "in tuple": (0, "a"), "floats": (0.0,),
            "nested": ((0,),), "array": np.array([0, 1]), "beyond": 1 << 70,
        }  # fmt: skip
        flag = {
            **any_object,
            "nan": float("nan"),
            "complex": 1j,
            "half": 1.5,
            "text": "yes",
            "list": [],
            "pair": np.ones(2, bool),
        }
        word = {
            **any_object, **any_number, "unknown": "X", "empty": "", "list": ["N"], "tuple": ("N",),
            "array": np.array(["N", "T"]), "int": 0,
        }  # fmt: skip
        factor = {
            **any_object, "huge": 10**400, "complex": 1j, "text": "2", "list": [2], "none": None,
            "pair": np.ones(2), "decimal": Decimal("sNaN"),
        }  # fmt: skip
        text = {**any_object, **any_number, "none": None, "empty": "", "two": "a; b", "list": ["a"]}
        kind = {**any_object, **any_number, "text": "no such", "list": [1], "int": 1, "empty": ""}
        dtype = {
            **any_object, **any_number, "text": "bad", "U": "U3", "O": object, "V": "V8", "int": 3,
            "list": [], "longdouble": np.longdouble, "dates": "m8[s]", "array": np.ones(2),
            "comma": "f4,f4", "odd text": "f4,,(",
        }  # fmt: skip
        for of_numpy in ("bytes", "class", "broken"):  # a code of NumPy's, and what has a .dtype
            del dtype[of_numpy]
        place = {**kind, "context": engine.context, "device": engine.device, "class 2": pg.Engine}
        self.rows: dict[str, dict[str, Any]] = {
            "x": array, "a": array, "b": array, "out": out, "c": out, "y": out, "axis": axis,
            "keepdims": flag, "caller": flag, "dtype": dtype, "ddof": {
                **any_object, "text": "1", "none": None, "inf": float("inf"), "nan": float("nan"),
                "huge": 10**400, "complex": 1j, "pair": np.ones(2),
            },
            "alpha": factor, "beta": factor, "trans": word, "trans_a": word, "trans_b": word,
            "precision": word, "epilogue": {**kind, "class 2": pg.Epilogue},
            "engine": {**place, "queue": engine.queue}, "queue": {**place, "engine": engine},
            "wait_for": {
                **any_object, **any_number, "text": "e", "int": 1, "ints": [3], "none": [None],
                "event": event, "foreign": [event], "nested": [[event]], "array": np.ones(2),
                "generator": range(2),
            },
            "op": {**kind, "none": None, "class 2": pg.BinaryOp}, "map": text,
            "operation": {**word, "none": None},
            "sizes": {
                **any_object, **any_number, "text": "4", "negative": -1, "none": None,
                "beyond": 1 << 63, "array": np.ones(2), "list": [4],
            },
            "target": place, "device": {**kind, "context": engine.context, "queue": engine.queue},
            "device_class": kind, "table": {**kind, "class 2": pg.Engine},
            "operands": {**array, "none": None, "number": 1.0},
            "name": {**text, "words": "two words"}, "identity": text, "combine": text,
            "expression": text, "stages": {**kind, "none": None, "texts": ("relu",)},
            "arrays": {**kind, "none": None, "one too many": (1.0,)}, "per": word, "array": array,
            "order": word,
        }  # fmt: skip
        plain = {**any_object, **any_number, "text": "4", "true": True, "beyond": 1 << 63}
        axes = {name: item for name, item in axis.items() if name not in ("list", "array")}
        self.rows |= {
            "n": {**plain, "zero": 0, "negative": -1, "array": np.array([4, 4]), "tuple": (4,)},
            "s": {**plain, "zero": 0, "negative": (-2, 4), "short": (4,), "long": (4, 4, 4)},
            "axes": {**axes, "one": (0,), "all and more": (0, 1, -1)},
            "norm": word, "overwrite_x": flag, "plan": {**kind, "none": object()},
            "workers": {**plain, "zero": 0, "far below": -(1 << 20), "list": [2]},
        }  # fmt: skip
        for row in ("true", "beyond", "huge"):
            del self.rows["workers"][row]
        for row in ("map", "wait_for", "engine", "queue", "device", "device_class", "table"):
            self.rows[row].pop("empty", None)
        del self.rows["map"]["none"]

    def of(self, parameter: str) -> dict[str, Any]:
        assert parameter in self.rows, f"no wrong values for {parameter}: add a row"
        return self.rows[parameter]


def right(engine: Engine) -> dict[str, dict[str, Any]]:
    """Arguments of each public callable; the rest of its parameters may be left out."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    op = pg.BinaryOp("largest", "0", "max(a, b)")
    reductions = {
        name: {"x": x}
        for name in (
            "sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax",
            "count_nonzero", "asum", "nrm2",
        )
    }  # fmt: skip
    return {
        **reductions,
        "reduce": {"x": x, "op": op},
        "elementwise": {"expression": "x + 1", "x": x},
        "dot": {"a": x, "b": x},
        "vdot": {"a": x, "b": x},
        "gemv": {"a": x, "x": x[0]},
        "gemm": {"a": x, "b": x},
        "matmul": {"a": x, "b": x},
        "plan": {"operation": "matmul", "operands": (x, x)},
        "explain": {"operation": "gemm", "sizes": (4, 4, 4)},
        "asarray": {"x": x},
        "asnumpy": {"x": x},
        "Engine": {},
        "BinaryOp": {"name": "f", "identity": "0", "combine": "a + b"},
        "Map": {},
        "Epilogue": {},
    }


def transforms() -> dict[str, dict[str, Any]]:
    """One transform of each kind, for they share all checks."""
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    return {
        "fft": {"x": x}, "rfft": {"x": x}, "irfft": {"x": x},
        "fftn": {"x": x, "s": (4, 4), "axes": (0, 1)},
        "irfftn": {"x": x, "s": (4, 4), "axes": (0, 1)},
    }  # fmt: skip


#: What calls make, not users; and what takes no arguments.
NOT_CALLED = {"Array", "PlannedCall", "__version__", "devices", "default_engine"}


def call(function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    if function is pg.elementwise:
        return function(arguments.pop("expression"), **arguments)
    if function is pg.plan:
        return function(arguments.pop("operation"), *arguments.pop("operands"), **arguments)
    sizes = arguments.pop("sizes", None)
    if sizes is None:
        return function(**arguments)
    return function(arguments.pop("operation"), *sizes, **arguments)


def generated(engine: Engine) -> Iterator[Case]:
    """Every call with one wrong argument."""
    wrong, good = Wrong(engine), right(engine)
    assert set(pg.__all__) - NOT_CALLED == set(good)
    named = [(pg, name, arguments) for name, arguments in good.items()]
    named += [(pg.fft, name, arguments) for name, arguments in transforms().items()]
    for module, name, arguments in named:
        function = getattr(module, name)
        parameters = inspect.signature(function).parameters
        local = {"engine": engine} if "engine" in parameters and name != "explain" else {}
        for parameter in parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            for what, value in wrong.of(parameter.name).items():
                operand = value
                if parameter.kind is parameter.VAR_POSITIONAL:
                    operand = (
                        (4, 4, value) if parameter.name == "sizes" else (np.ones((4, 4)), value)
                    )
                all_arguments = {**local, **arguments, parameter.name: operand}
                if parameter.name == "beta":
                    all_arguments.setdefault("y" if name == "gemv" else "c", None)
                yield (
                    f"{name}({parameter.name}={what})",
                    lambda f=function, g=all_arguments: call(f, dict(g)),
                )
    x = good["gemm"]["a"]
    for what, value in wrong.of("array").items():
        for method in ("bias", "scale", "add"):
            yield (
                f"Epilogue.{method}(array={what})",
                lambda m=method, v=value: pg.gemm(
                    x, x, epilogue=getattr(pg.Epilogue(), m)(v), engine=engine
                ),
            )
    for what, value in wrong.of("per").items():
        yield f"Epilogue.bias(per={what})", lambda v=value: pg.Epilogue().bias(x[0], v)
        yield f"Epilogue.apply(per={what})", lambda v=value: pg.Epilogue().apply("v", x, v)
    for what, value in wrong.of("combine").items():
        yield f"Epilogue.apply(expression={what})", lambda v=value: pg.Epilogue().apply(v)
    for what, value in wrong.of("x").items():
        yield (
            f"elementwise(inputs={what})",
            lambda v=value: pg.elementwise("x + y", x=x, y=v, engine=engine),
        )
        yield (
            f"reduce(inputs={what})",
            lambda v=value: pg.reduce(x, good["reduce"]["op"], "x + y", y=v, engine=engine),
        )
    for what in ("two words", "", "exp", "größe", "a__b", "float4"):
        yield (
            f"elementwise(a name={what})",
            lambda w=what: pg.elementwise("x + 1", **{"x": x, w: x}, engine=engine),
        )
        yield (
            f"reduce(a name={what})",
            lambda w=what: pg.reduce(x, good["reduce"]["op"], "x", **{w: x}, engine=engine),
        )
    for what, value in {**wrong.of("expression"), "unclosed": "(x"}.items():
        yield (
            f"explain(elementwise, expression={what})",
            lambda v=value: pg.explain("elementwise", 4, expression=v, target="gcn"),
        )
    options = {"trans_a": "gemm", "trans_b": "gemm", "precision": "gemm", "trans": "gemv"}
    for option, operation in options.items():
        for what, value in wrong.of(option).items():
            sizes = (4, 4, 4)[: 3 if operation == "gemm" else 2]
            yield (
                f"explain({operation}, {option}={what})",
                lambda o=operation, s=sizes, g={option: value}: pg.explain(o, *s, **g),
            )
    for what, value in wrong.of("axis").items():
        yield (
            f"explain(sum, axis={what})",
            lambda v=value: pg.explain("sum", 4, 4, axis=v, engine=engine),
        )
    for what, value in {**wrong.of("axis"), "twice": (-1, 2)}.items():
        yield (
            f"explain(matmul, batch={what})",
            lambda v=value: pg.explain("matmul", 4, 4, 4, batch=v, engine=engine),
        )
    for what, value in {"wait_for": [], "no such option": 1, "a": x}.items():
        yield f"plan(an option={what})", lambda g={what: value}: pg.plan("matmul", x, x, **g)
    out, lists = np.zeros((4, 4), np.float32), [[1.0]]
    for name, plan, inputs, outputs in (
        ("plan", pg.plan("gemm", x, x, engine=engine), (x, x), ()),
        ("plan of lists", pg.plan("gemm", lists, lists, engine=engine), (lists, lists), ()),
        ("plan with c", pg.plan("gemm", x, x, c=out, engine=engine), (x, x), (out,)),
        ("plan of sum", pg.plan("sum", x, axis=0, engine=engine), (x,), ()),
        ("plan of gemv", pg.plan("gemv", x, x[0], y=out[0], engine=engine), (x, x[0]), (out[0],)),
        (
            "plan of elementwise",
            pg.plan("elementwise", "x * s", x=x, s=2.0, out=out, engine=engine), (x,), (out,),
        ),
    ):  # fmt: skip
        good_call = (*inputs, *outputs)
        yield f"{name} of nothing", lambda p=plan: p()
        yield f"{name} of one too many", lambda p=plan, g=good_call: p(*g, g[0])
        for at in range(len(good_call)):
            row = wrong.of("a" if at < len(inputs) else "out")
            for what, value in {**row, "none": None}.items():
                operand = (*good_call[:at], value, *good_call[at + 1 :])
                yield f"{name}({at}={what})", lambda p=plan, g=operand: p(*g)


@pytest.mark.parametrize("third", range(3))
def test_wrong_arguments(engine: Engine, monkeypatch: pytest.MonkeyPatch, third: int) -> None:
    every = list(generated(engine))
    assert len(every) >= 4000
    cases = every[third::3]
    launched: list[Any] = []
    plain = Launch.__call__

    def counted(self: Launch, *args: Any, **options: Any) -> Any:
        launched.append(args)
        return plain(self, *args, **options)

    monkeypatch.setattr(Launch, "__call__", counted)
    faults = []
    types = [
        name for name, item in objects().items() if not isinstance(item, (np.ndarray, Decimal))
    ]
    of_wrong_type = tuple(f"={name})" for name in types)
    for what, wrong_call in cases:
        launched.clear()
        try:
            result = wrong_call()
        except PortableGPUError as error:
            if launched:
                faults.append(f"{what}: launched before {error!r}")
            is_plan = "plan=" in what  # which SciPy refuses so
            if what.endswith(of_wrong_type) and not (is_plan or isinstance(error, TypeError)):
                faults.append(f"{what}: no TypeError, {error!r}")
            if isinstance(error, ArgumentTypeError) and "dtype" in str(error):
                faults.append(f"{what}: no dtype is wrong, {error!r}")
        except Exception as error:
            faults.append(f"{what}: {error!r}")
        else:
            faults.append(f"{what}: no error, {type(result).__name__}")
    assert not faults, f"{len(faults)} of {len(cases)}:\n" + "\n".join(faults)
