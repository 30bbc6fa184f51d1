"""Call every public function and class with one wrong argument at a time.

    python tools/wrong_arguments.py SEED COUNT

Each draw takes a public function (of the package, fft, linalg, nn, signal and sparse) or a method
of a module, arguments that it takes, and puts a drawn value in place of one of them.  The call must
succeed or raise an error of this library that names the argument.  Any other exception is a fault
and is reported, except what a callable raises that is the argument itself.  A call that takes
longer than a minute is a fault too: it ends the process, which prints the stacks of its threads.
The exit status is 0 if there is no fault.
"""

from __future__ import annotations

import argparse
import faulthandler
import inspect
import os
import random
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Any, TextIO

import numpy as np
import pyopencl as cl

import portable_gpu as pg
from portable_gpu import errors

SECONDS = 60  # of one call

#: What calls make, not users; and functions that are NumPy's own.
NOT_CALLED = {
    "Array", "PlannedCall", "DeviceMemory", "MemoryEstimate", "Symbolic", "SingularMatrixError",
    "NotPositiveDefiniteError", "devices", "default_engine", "scipy_backend", "LRScheduler",
}  # fmt: skip


#: Errors in a matrix's values, found while it is factorised, whose messages give its index and
#: column; and of arrays of two contexts, which name those of the operation that finds them.
OF_VALUES = (
    errors.NotPositiveDefiniteError, errors.SingularMatrixError, errors.ContextMismatchError,
)  # fmt: skip


class Raises:
    """An object whose truth, comparison, length, index and text raise."""

    def _fail(self, *args: Any) -> Any:
        raise RuntimeError("no")

    __bool__ = __eq__ = __ne__ = __len__ = __index__ = __str__ = __repr__ = _fail  # type: ignore[assignment]
    __hash__ = object.__hash__


class RaisesAsArray(Raises):
    """Such an object whose conversion to an array raises, too."""

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no")


def values(engine: pg.Engine) -> list[Any]:
    """Values that are wrong almost everywhere."""
    queue = cl.CommandQueue(engine.context)
    other = cl.Context([engine.device])  # Intel's queues do not keep theirs
    foreign = cl.CommandQueue(other)
    event = cl.enqueue_marker(queue)
    return [
        None, True, False, 0, 1, -1, 3, 7, -(1 << 20), 1 << 63, -(1 << 63), 10**400, 2.5, 0.0, -1.0,
        float("nan"), float("inf"), float("-inf"), 1j, complex("nan"), Decimal("sNaN"),
        "", "N", "no such", "two words", "größe", "a\0b", "float32", "x + 1", "x", b"N", b"\xff",
        (), [], {}, set(), (0,), (0, 0), (-3, 4), (4, 4), (1, 2, 3), [None], [[1.0], [1.0, 2.0]],
        [[[]]], (1 << 63,), ("a",), [Raises()], (True, False), {"a": 1}, range(2), iter((1, 2)),
        np.int8(-1), np.uint64((1 << 64) - 1), np.bool_(True), np.float16("nan"), np.str_("N"),
        np.array(1), np.array([1, 2]), np.array([1.0, np.nan]), np.zeros(0), np.zeros((0, 4), "f4"),
        np.zeros((4, 4), "f4"), np.eye(4, dtype="f4"), -np.eye(4), np.ones((4, 4), "c8"),
        np.full((4, 4), np.nan, "f4"), np.ones((4, 4), "f2"), np.ones((4, 4), ">f4"),
        np.ones((4, 4), "O"), np.ones((4, 4), "U3"), np.ones((4, 4), "m8[s]"), np.ones((4, 4), "g"),
        np.ones((4, 4), "f4,f4"), np.ones((4, 3), "f4"), np.ones((3, 4, 4), "f4"), np.ones(10),
        np.ones((1,) * 20, "f4"), np.ones((4, 4), "i8"), np.ones((4, 4), "?"), np.ones(1000, "f8"),
        np.broadcast_to(np.float32(1), (4, 4)), np.ma.ones((4, 4)), np.asmatrix(np.eye(4)),
        pg.asarray(np.ones((4, 4), "f4")), pg.asarray(np.ones(4, "f8")),
        pg.asarray(np.ones((4, 4), "f4"), queue=foreign), object(), object, int, np.ndarray,
        lambda *args: 1, Raises(), RaisesAsArray(), [RaisesAsArray()], engine, engine.device, queue,
        foreign, engine.context, other, event, [event], (event, None), pg.Epilogue(), pg.Map(),
        errors, np.dtype("f4"), np.dtype("f4,f4"), np.float64, "datetime64", "f4,,(", "O",
        sys.stdout, slice(0, 2), Ellipsis, NotImplemented, memoryview(b"abc"), bytearray(b"abc"),
    ]  # fmt: skip


@dataclass(frozen=True)
class Called:
    """A public function, and arguments that it takes; each may be replaced.

    Attributes:
        name: Its name, with its module.
        function: The function, or another that calls it with arguments by name.
        right: Arguments; other parameters have defaults.
    """

    name: str
    function: Callable[..., Any]
    right: dict[str, Any]

    @property
    def parameters(self) -> list[str]:
        """The names of what can be given by name."""
        result = inspect.signature(self.function).parameters.values()
        return [
            item.name for item in result if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
        ]


def _elementwise(expression: Any, x: Any, k: Any = 1, **options: Any) -> Any:
    return pg.elementwise(expression, x=x, k=k, **options)


def _plan(operation: Any, a: Any, b: Any, **options: Any) -> Any:
    return pg.plan(operation, a, b, **options)


def _explain(operation: Any, sizes: Any, **options: Any) -> Any:
    return pg.explain(operation, 4, sizes, 4, **options)  # one of the sizes


def _with(adapter: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The adapter, with the keywords of the function in its signature."""
    parameters = [
        p for p in inspect.signature(adapter).parameters.values() if p.kind != p.VAR_KEYWORD
    ]
    more = [p for p in inspect.signature(function).parameters.values() if p.kind == p.KEYWORD_ONLY]

    def call(**arguments: Any) -> Any:
        return adapter(**arguments)

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [p.replace(kind=p.KEYWORD_ONLY) for p in (*parameters, *more)]
    )
    return call


def dense(x: np.ndarray[Any, Any]) -> Iterator[Called]:
    """The functions of dense arrays."""
    matrix = np.eye(4, dtype=np.float32) * 4 + x * 0.01
    spd = np.asarray(matrix + matrix.T)
    op = pg.BinaryOp("largest", "0", "max(a, b)")
    packed = pg.linalg.packed.pack(spd)
    ragged = pg.linalg.ragged
    named: dict[str, Any] = {
        "x": x, "a": spd, "b": x, "in1": x, "in2": x[:2, :2], "op": op, "target": 60, "n": 4,
        "c_and_lower": (np.linalg.cholesky(spd).astype("f4"), True), "ap": packed, "name": "f",
        "identity": "0", "combine": "a + b", "buffer": x.reshape(-1), "sizes": [2, 3],
    }  # fmt: skip
    special: dict[str, Any] = {"gemv": {"x": x[0]}, "dot": {"b": x}, "solve": {"assume_a": "pos"}}
    adapters: dict[str, Called] = {
        "elementwise": Called(
            "elementwise", _with(_elementwise, pg.elementwise), {"expression": "x + k", "x": x}
        ),
        "plan": Called("plan", _with(_plan, pg.plan), {"operation": "matmul", "a": x, "b": x}),
        "explain": Called(
            "explain", _with(_explain, pg.explain), {"operation": "gemm", "sizes": 4}
        ),
    }
    modules: list[ModuleType] = [pg, pg.fft, pg.linalg, pg.linalg.packed, ragged, pg.signal]
    for module in modules:
        for name in module.__all__:
            function = getattr(module, name)
            of_numpy = getattr(function, "__module__", "").startswith("numpy")
            if name in NOT_CALLED or not callable(function) or of_numpy:
                continue
            if module is pg and name in adapters:
                yield adapters[name]
                continue
            parameters = inspect.signature(function).parameters.values()
            needed = [p.name for p in parameters if p.default is p.empty]
            right = {n: named[n] for n in needed if n in named} | special.get(name, {})
            if module is ragged and name != "Ragged":
                right = {"a": [spd, spd[:2, :2]]} | ({"b": [x, x[:2, :2]]} if "b" in needed else {})
            yield Called(f"{module.__name__}.{name}", function, right)
    for method, right in (
        ("bias", {"array": x[0]}), ("scale", {"array": x[0]}), ("add", {"array": x}),
        ("apply", {"expression": "v + 1"}), ("relu", {}), ("gelu", {}),
    ):  # fmt: skip
        make = getattr(pg.Epilogue(), method)

        def applied(_make: Any = make, **arguments: Any) -> Any:
            return pg.gemm(x, x, epilogue=_make(**arguments))

        applied.__signature__ = inspect.signature(make)  # type: ignore[attr-defined]
        yield Called(f"Epilogue.{method}", applied, right)
    plan = pg.plan("matmul", x, x)
    yield Called("PlannedCall", lambda a, b: plan(a, b), {"a": x, "b": x})


def layers() -> Iterator[Called]:
    """The functions of layers, and the constructors of modules."""
    nn = pg.nn
    for name in nn.__all__:
        function = getattr(nn, name)
        if name in NOT_CALLED:
            continue
        parameters = inspect.signature(function).parameters.values()
        if any(p.kind == p.VAR_POSITIONAL for p in parameters):  # which has no name in a call
            continue
        needed = [p.name for p in parameters if p.default is p.empty]
        right = _of_layer(name)
        if inspect.isclass(function):
            right = {n: right[n] for n in needed if n in right}
        elif not all(n in right for n in needed):
            raise LookupError(f"{name} needs {needed}; {sorted(right)} are known")
        if all(n in right for n in needed):
            yield Called(f"nn.{name}", function, right)


def _of_layer(name: str) -> dict[str, Any]:
    """Arguments of a function of layers."""
    rank = next((int(one) for one in "123" if f"{one}d" in name), 2)
    ones = np.ones((2, 4, *(4,) * rank), np.float32)
    rows, four, index = np.ones((3, 4), np.float32), np.ones(4, np.float32), np.zeros(3, np.int64)
    weight, three = np.ones((4, 4, *(3,) * rank), np.float32), np.ones((3, 1), np.float32)
    result, pooled = ones[(..., *(slice(2),) * rank)], ones[(..., *(slice(2),) * rank)]
    places = np.zeros(pooled.shape, np.int64)
    keys, steps = np.ones((2, 3, 4), np.float32), {"param": four.copy(), "grad": four.copy()}
    sums = np.ones((2, 3), np.float32)
    grads = {"grad_output": pooled, "input": ones}
    images = {"input": ones, "weight": weight}
    pools = {"kernel_size": 2}
    elements = {"input": rows, "grad_output": rows, "output": rows}
    shape = {"normalized_shape": 4}
    attention = {"query": keys, "key": keys, "value": keys}
    every: dict[str, dict[str, Any]] = {
        "conv_bias": {"grad_output": ones}, "conv_transpose": images, "conv": images,
        "conv_input": {"input_size": ones.shape, "weight": weight, "grad_output": result},
        "conv_weight": {"input": ones, "weight_size": weight.shape, "grad_output": result},
        "max_pool": {"input": ones} | pools, "avg_pool": {"input": ones} | pools,
        "lp_pool": {"input": ones, "norm_type": 2} | pools,
        "max_pool_backward": {"indices": places} | grads | pools,
        "avg_pool_backward": grads | pools,
        "lp_pool_backward": grads | {"output": pooled, "norm_type": 2} | pools,
        "max_unpool": {"input": pooled, "indices": places} | pools,
        "max_unpool_backward": {"grad_output": ones, "indices": places} | pools,
        "adaptive_avg_pool": {"input": ones, "output_size": 2},
        "adaptive_max_pool": {"input": ones, "output_size": 2},
        "adaptive_avg_pool_backward": grads,
        "adaptive_max_pool_backward": grads | {"indices": places},
        "interpolate": {"input": ones, "size": 2}, "interpolate_backward": grads | {"size": 2},
        "pad": {"input": rows, "pad": (1, 1)}, "pad_backward": {"grad_output": rows, "pad": (1, 1)},
        "pixel_shuffle": {"input": ones, "upscale_factor": 2},
        "pixel_unshuffle": {"input": ones, "downscale_factor": 2},
        "pixel_shuffle_backward": {"grad_output": ones, "upscale_factor": 2},
        "pixel_unshuffle_backward": {"grad_output": ones, "downscale_factor": 2},
        "linear": {"input": rows, "weight": rows},
        "linear_backward": {"grad_output": rows[:, :3], "input": rows, "weight": rows},
        "embedding": {"input": index, "weight": rows},
        "embedding_backward": {"grad_output": rows, "indices": index, "num_weights": 3},
        "dropout": {"input": ones, "seed": 1}, "dropout_backward": {"grad_output": ones, "seed": 1},
        "layer_norm": {"input": rows} | shape, "native_layer_norm": {"input": rows} | shape,
        "rms_norm": {"input": rows} | shape, "native_rms_norm": {"input": rows} | shape,
        "layer_norm_backward": elements | shape | {"mean": three, "rstd": three},
        "rms_norm_backward": elements | shape | {"rstd": three},
        "group_norm": {"input": rows, "num_groups": 2},
        "native_group_norm": {"input": rows, "num_groups": 2},
        "group_norm_backward": elements
        | {"num_groups": 2, "mean": rows[:, :2], "rstd": rows[:, :2]},
        "instance_norm": {"input": ones, "running_mean": four.copy(), "running_var": four.copy()},
        "batch_norm": {"input": rows, "running_mean": four.copy(), "running_var": four.copy()},
        "native_batch_norm": {
            "input": rows, "weight": four, "bias": four, "running_mean": four.copy(),
            "running_var": four.copy(), "training": True, "momentum": 0.1, "eps": 1e-5,
        },
        "batch_norm_backward": elements | {
            "weight": four, "running_mean": None, "running_var": None, "save_mean": four,
            "save_invstd": four, "training": True, "eps": 1e-5,
        },
        "cross_entropy": {"input": rows, "target": index},
        "nll_loss": {"input": rows, "target": index},
        "cross_entropy_backward": {"grad_output": np.float32(1), "input": rows, "target": index},
        "nll_loss_backward": {"grad_output": np.float32(1), "input": rows, "target": index},
        "mse_loss": {"input": rows, "target": rows},
        "mse_loss_backward": {"grad_output": np.float32(1), "input": rows, "target": rows},
        "scaled_dot_product_attention": attention, "native_scaled_dot_product_attention": attention,
        "scaled_dot_product_attention_backward": attention
        | {"grad_output": keys, "output": keys, "logsumexp": sums},
        "sgd_step": steps | {"lr": 0.1},
        "adam_step": steps | {"exp_avg": four.copy(), "exp_avg_sq": four.copy(), "step": 1},
        "manual_seed": {"seed": 1},
        "clip_grad_norm_": {"parameters": [nn_parameter()], "max_norm": 1.0},
        "clip_grad_value_": {"parameters": [nn_parameter()], "clip_value": 1.0},
    }  # fmt: skip
    actual = every.get(re.sub(r"\dd", "", name).removeprefix("find_"))
    if actual is None:
        actual = elements | {
            "in_channels": 4, "out_channels": 4, "kernel_size": 3, "in_features": 4,
            "out_features": 4, "num_features": 4, "num_groups": 2, "num_channels": 4,
            "num_embeddings": 3, "embedding_dim": 4, "output_size": 2, "scale_factor": 2,
            "params": [nn_parameter()], "optimizer": pg.nn.SGD([nn_parameter()]), "data": rows,
            "body": pg.nn.ReLU(), "shape": (3,), "embed_dim": 4, "num_heads": 2, "norm_type": 2,
            "upscale_factor": 2, "downscale_factor": 2, "padding": 1, "value": 0.5, "dim": 1,
            "unflattened_size": (2, 2), "modules": [],
        } | shape  # fmt: skip
        if not name[0].isupper():
            parameters = inspect.signature(getattr(pg.nn, name)).parameters
            actual = {n: v for n, v in actual.items() if n in parameters}
    parameters = inspect.signature(getattr(pg.nn, name)).parameters
    return {n: v for n, v in actual.items() if n in parameters}


#: Modules of layers whose calls take one array, and an input of each; rows of four by default.
_LAYERS: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
    "Conv": ((4, 4, 3), (2, 4)), "ConvTranspose": ((4, 4, 3), (2, 4)), "BatchNorm": ((4,), (2, 4)),
    "InstanceNorm": ((4,), (2, 4)), "GroupNorm": ((2, 4), (2, 4)), "LayerNorm": ((4,), (3,)),
    "RMSNorm": ((4,), (3,)), "Linear": ((4, 4), (3,)), "MaxPool": ((2,), (2, 4)),
    "AvgPool": ((2,), (2, 4)), "LPPool": ((2, 2), (2, 4)), "AdaptiveAvgPool": ((2,), (2, 4)),
    "AdaptiveMaxPool": ((2,), (2, 4)), "ConstantPad": ((1, 0.5), (2, 4)), "Flatten": ((), (2, 3)),
    "ZeroPad": ((1,), (2, 4)), "ReflectionPad": ((1,), (2, 4)), "ReplicationPad": ((1,), (2, 4)),
    "CircularPad": ((1,), (2, 4)), "PixelShuffle": ((2,), (2, 4, 4)), "Dropout": ((), (2, 4)),
    "PixelUnshuffle": ((2,), (2, 4, 4)), "Unflatten": ((1, (2, 2)), (3,)),
    "Softmax": ((1,), (3,)), "LogSoftmax": ((1,), (3,)), "Upsample": ((2,), (2, 4, 4)),
}  # fmt: skip


def methods() -> Iterator[Called]:
    """The methods of modules after a call of each: what they take, and what they keep."""
    nn = pg.nn
    for name in nn.__all__:
        kind = getattr(nn, name)
        if not inspect.isclass(kind) or not issubclass(kind, nn.Module):
            continue
        if name.endswith("Loss") or name in (
            "Module", "ModuleList", "Embedding", "MultiheadAttention", "Sequential", "Residual",
            "Concat",
        ) or name.startswith("MaxUnpool"):  # fmt: skip
            continue
        arguments, lead = _LAYERS.get(re.sub(r"\dd$", "", name), ((), (3,)))
        rank = next((int(one) for one in "123" if f"{one}d" in name), 1)
        module = kind(*arguments)
        yield from _of_module(name, module, np.ones((*lead, *(4,) * rank), np.float32))
    rows = np.ones((3, 4), np.float32)
    branch = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    yield from _of_module("Sequential", branch, rows)
    yield from _of_module("Residual", nn.Residual(nn.Linear(4, 4)), rows)
    yield from _of_module("Concat", nn.Concat(nn.Linear(4, 4), nn.Tanh()), rows)
    yield from _of_module("MultiheadAttention", nn.MultiheadAttention(4, 2), rows, "query")
    index = np.zeros(3, np.int64)
    yield from _of_module("Embedding", nn.Embedding(3, 4), index)


def _of_module(name: str, module: Any, x: Any, first: str = "input") -> Iterator[Called]:
    """The methods of a module; a wrong gradient is given after a call with a right input."""
    output = module(x)
    ones = np.ones((output[0] if isinstance(output, tuple) else output).shape, np.float32)

    def backward(grad_output: Any) -> Any:
        module(x)
        return module.backward(grad_output)

    yield Called(f"nn.{name}()", module, {first: x})
    yield Called(f"nn.{name}.backward", backward, {"grad_output": pg.asarray(ones)})
    yield Called(
        f"nn.{name}.load_state_dict", module.load_state_dict, {"state": module.state_dict()}
    )
    yield Called(f"nn.{name}.train", module.train, {"mode": True})


def nn_parameter() -> Any:
    """A parameter with a gradient."""
    parameter = pg.nn.Parameter(np.ones(4, np.float32))
    parameter.add_grad(lambda out: pg.elementwise("x", x=parameter.data, out=out))
    return parameter


def of_sparse() -> Iterator[Called]:
    """The functions and methods of sparse matrices; nothing without SciPy and llvmlite."""
    try:
        import llvmlite  # noqa: F401
        import scipy.sparse
    except ImportError:
        return
    matrix = scipy.sparse.csc_matrix(np.eye(4) * 4.0)
    symbolic = pg.sparse.analyze(matrix)
    factor, stack = pg.sparse.cholesky(matrix), pg.sparse.FactorStack(symbolic, 2)
    factor_of_matrix = pg.sparse.cholesky(matrix)  # no call replaces its values, or fails to
    stack.refactorize(np.stack([matrix.data, matrix.data]))
    right = {"A": matrix, "b": np.ones(4), "symbolic": symbolic, "count": 2, "values": matrix.data}
    for name in pg.sparse.__all__:
        function = getattr(pg.sparse, name)
        if name not in NOT_CALLED and name != "plot_symbolic":  # which takes a second each
            needed = inspect.signature(function).parameters.values()
            arguments = {p.name: right[p.name] for p in needed if p.default is p.empty}
            yield Called(f"sparse.{name}", function, arguments)
    for name, of in (("Factor", factor), ("FactorStack", stack), ("Symbolic", symbolic)):
        for method in ("refactorize", "solve", "memory_estimate", "L", "as_linear_operator"):
            solves = of is factor and method != "refactorize"
            function = getattr(factor_of_matrix if solves else of, method, None)
            if not callable(function):
                continue
            parameters = inspect.signature(function).parameters.values()
            of_both = np.stack([matrix.data, matrix.data])
            arguments = right
            if of is stack:
                arguments = right | {"b": np.ones((2, 4)), "values": of_both}
            needed_names = [p.name for p in parameters if p.default is p.empty]
            yield Called(
                f"{name}.{method}",
                function,
                {n: arguments[n] for n in needed_names if n in arguments},
            )


def draw(
    seed: int, count: int, sparse: bool = True, log: TextIO | None = None
) -> tuple[Counter[str], list[str]]:
    """Make ``count`` calls: return how each ended, and the faults."""
    choice = random.Random(seed)
    x = np.arange(16, dtype=np.float32).reshape(4, 4) / 16
    called = [*dense(x), *layers(), *methods(), *(of_sparse() if sparse else ())]
    wrong = values(pg.default_engine())
    ended: Counter[str] = Counter()
    faults = []
    for _ in range(count):
        item = choice.choice(called)
        names = item.parameters
        if not names:
            continue
        name, at = choice.choice(names), choice.randrange(len(wrong))
        arguments = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in item.right.items()}
        operand = wrong[at].copy() if isinstance(wrong[at], np.ndarray) else wrong[at]
        if log is not None:
            print(f"{item.name}({name}={_text(operand)})", file=log, flush=True)
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        try:
            item.function(**(arguments | {name: operand}))
        except errors.PortableGPUError as error:
            is_named = re.search(rf"\b{name}\b", str(error)) or isinstance(error, OF_VALUES)
            ended["an error" if is_named else "an error without the name"] += 1
            if not is_named:
                faults.append(_fault(item, name, operand, error))
        except Exception as error:
            if name == "progress" and callable(operand):
                ended["an exception of the caller's own function"] += 1
                continue
            ended["another exception"] += 1
            faults.append(_fault(item, name, operand, error))
        else:
            ended["no error"] += 1
        finally:
            faulthandler.cancel_dump_traceback_later()
    return ended, faults


def _fault(one: Called, name: str, given: Any, error: Exception) -> str:
    return f"{one.name}({name}={_text(given)}): {type(error).__name__}: {error}"


def _text(value: Any) -> str:
    try:
        return " ".join(repr(value).split())[:80]
    except Exception:
        return f"of type {type(value).__name__}"


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--log", type=argparse.FileType("w"), help="a file for each call's text")
    parser.add_argument("--dense", action="store_true", help="leave the sparse ones out")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    faulthandler.enable()
    before = os.getcwd()  # noqa: PTH109
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)  # a text may be the name of a file
        ended, faults = draw(options.seed, options.count, not options.dense, options.log)
        os.chdir(before)
    for fault in sorted(faults):
        print(fault)
    print(", ".join(f"{number} {how}" for how, number in ended.most_common()))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
