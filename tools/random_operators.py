"""Compare random operators, assignments and methods of arrays with NumPy's, on the default device.

    python tools/random_operators.py [SEED] [COUNT]

Arrays and views of all dtypes (bool, integers, floats, complex) are drawn, with negative steps,
transposed, broadcast and overlapping.  COUNT calls are compared that NumPy computes.  It prints
each call that differs or is refused, as a script that shows it alone, and fails if there is one.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import portable_gpu as pg

DTYPES = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16")
SHAPES = ((), (1,), (5,), (3, 4), (4, 4), (2, 3, 4), (3, 1), (1, 4), (0,), (3, 0))
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "**")
BITS = ("&", "|", "^", "<<", ">>")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
UNARY = ("-{}", "+{}", "~{}", "abs({})")
METHODS = (
    "{}.copy()", "{}.reshape(-1)", "{}.ravel(order='F')", "{}.T", "{}.real", "{}.imag", "{}.conj()",
    "{}.squeeze()", "{}[None, ...]", "{}[..., None]", "{}.astype('{dtype}')",
)  # fmt: skip
INDICES = ("[::-1]", "[1:]", "[:-1]", "[::2]", "[...]", "[-1]", "[..., ::-1]", "[..., 0]", "[None]")
NUMBERS = (
    "0", "1", "2", "3", "-1", "-2", "7", "127", "128", "255", "-129", "300", "2**31", "2**63",
    "-2**63", "2**64", "True", "0.5", "-1.5", "2.0", "1e30", "2j", "(1-1j)", "np.int8(-3)",
    "np.uint8(200)", "np.int64(5)", "np.uint64(2**63)", "np.float16(1.5)", "np.float32(-2)",
    "np.float64(0.25)", "np.complex64(1j)", "np.bool_(True)",
)  # fmt: skip
# NumPy refuses these: it checks values of exponents; ``a[0] = b`` of one element is harmless.
_LATE = re.compile(
    "negative integer powers|setting an array element with a sequence|only 0-dimensional arrays"
)


@dataclass
class Drawn:
    """A random call.

    Attributes:
        arrays: The memory of its arrays by name, on the host.
        views: The text of a view of each.
        text: What is computed: an expression, or a statement that changes ``a``.
        is_statement: Which of the two.
    """

    arrays: dict[str, Any]
    views: dict[str, str]
    text: str
    is_statement: bool = False

    def run(self, place: Callable[[Any], Any]) -> Any:
        """The values of the expression, or of all of ``a`` after the statement."""
        memory = {name: place(array.copy()) for name, array in self.arrays.items()}
        names: dict[str, Any] = {"np": np}
        for name, view in self.views.items():
            base = memory["a" if view.startswith("a") else name]
            names[name] = eval(view, {"np": np, "a": memory["a"], name: base})
        if self.is_statement:
            exec(self.text, names)
            return memory["a"]
        return eval(self.text, names)

    def script(self) -> str:
        """A script that shows this call alone."""
        lines = ["import numpy as np, portable_gpu as pg"]
        for name, array in self.arrays.items():
            values = f"np.array({array.tolist()!r}, {array.dtype.str!r}).reshape({array.shape})"
            text = values.replace("nan", "np.nan").replace("inf", "np.inf")
            lines.append(f"memory_{name} = {text}")
        for place in ("", "pg.asarray"):
            for name in self.arrays:
                lines.append(f"{name} = m_{name} = {place}(memory_{name}.copy())")
            lines += [f"{name} = {view}" for name, view in reversed(self.views.items())]
            lines += [self.text, "print(m_a)"] if self.is_statement else [f"print({self.text})"]
        return "\n".join(lines)


def values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    """Numbers with the extremes of the dtype, zeros and ones among them."""
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        info = np.iinfo(dtype)
        x = rng.integers(max(info.min, -9), 10, shape).astype(dtype)
        special = rng.choice(np.array([info.min, info.max, info.max // 2, 0, 1], dtype), shape)
        return np.where(rng.random(shape) < 0.25, special, x)
    x = np.asarray(np.round(4 * rng.standard_normal(shape), 2))
    special = rng.choice([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0], shape)
    if kind == "c":
        x = x + 1j * np.round(4 * rng.standard_normal(shape), 2)
        special = rng.choice([0, 1, -1, 1j, 2 - 1j], shape)
    return np.where(rng.random(shape) < 0.15, special, x).astype(dtype)


def drawn(rng: np.random.Generator, dtypes: tuple[str, ...] = DTYPES) -> Drawn:
    """A random call that NumPy computes."""
    shape = SHAPES[rng.integers(len(SHAPES))]
    pick = lambda options: str(options[rng.integers(len(options))])  # noqa: E731
    dtype = pick(dtypes)
    arrays = {"a": values(rng, dtype, shape)}
    view, seen = drawn_view(rng, "a", arrays["a"])
    views = {"a": view}
    what = rng.random()
    if what < 0.12:
        return Drawn(arrays, views, pick(UNARY).format("a"))
    if what < 0.27:
        return Drawn(arrays, views, pick(METHODS).format("a", dtype=pick(dtypes)))
    other = pick(NUMBERS)
    if rng.random() < 0.7:
        other = "b"
        if rng.random() < 0.3:  # of the same memory
            views["b"], _ = drawn_view(rng, "a", arrays["a"])
            views = {"b": views["b"], "a": view}
        else:
            extents = tuple(1 if rng.random() < 0.2 else n for n in seen.shape)
            extents = (
                extents[int(rng.integers(0, len(extents) + 1)) :] if rng.random() < 0.3 else extents
            )
            arrays["b"] = values(rng, dtype if rng.random() < 0.3 else pick(dtypes), extents)
            views["b"] = "b"
            if rng.random() < 0.5 and arrays["b"].ndim > 0:  # the same shape, other strides
                axis = int(rng.integers(arrays["b"].ndim))
                arrays["b"] = np.flip(arrays["b"], axis).copy()
                views["b"] = f"b[{':, ' * axis}::-1]"
    if what < 0.72:
        sign = pick(COMPARISONS if rng.random() < 0.3 else (*ARITHMETIC, *BITS))
        left, right = ("a", other) if rng.random() < 0.6 else (other, "a")
        return Drawn(arrays, views, f"{left} {sign} {right}")
    if what < 0.86:
        return Drawn(arrays, views, f"a {pick((*ARITHMETIC, *BITS))}= {other}", True)
    index = pick(INDICES) if seen.ndim else "[...]"
    return Drawn(arrays, views, f"a{index} = {other}", True)


def drawn_view(rng: np.random.Generator, name: str, array: Any) -> tuple[str, Any]:
    """The text of a view of an array, and the view."""
    text = name
    if array.ndim and rng.random() < 0.6:
        text += "[" + ", ".join(
            str(rng.choice(["::-1", ":", "1:", ":-1", "::2", "-1:", "::-2"])) for _ in array.shape
        ) + "]"  # fmt: skip
    if array.ndim > 1 and rng.random() < 0.4:
        text += ".T"
    return text, eval(text, {name: array})


def differs(got: Any, want: Any, drawn_call: Drawn) -> str:
    """The fault of a result; empty if it is right."""
    if not isinstance(got, pg.Array):
        return f"a {type(got).__name__}"
    want = np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{got.shape}, NumPy's is {want.dtype}{want.shape}"
    host = got.get()
    if want.dtype.kind not in "fc":
        same = np.array_equal(host, want)
    else:
        same = close(host, want, drawn_call)
    return "" if same else f"{host.tolist()}, NumPy's is {want.tolist()}"


def close(got: Any, want: Any, call: Drawn) -> bool:
    """Whether floats agree within the bounds of OpenCL's functions."""
    eps = float(np.finfo(want.dtype).eps)
    loose = 64 if "**" in call.text else 4
    if want.dtype.kind == "c" or "abs" in call.text:
        loose *= 4
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    got, want = np.asarray(got).astype(wide), np.asarray(want).astype(wide)
    if want.dtype.kind != "c":
        known = np.isnan(want) | np.isinf(want)
        if not np.array_equal(got[known], want[known], equal_nan=True):
            return False
        error, size = np.abs(got[~known] - want[~known]), np.abs(want[~known])
        return bool(np.all(error <= loose * eps * size))
    # A complex infinity or NaN may have other parts, as in C.
    known = ~np.isfinite(want)
    if not np.array_equal(np.isfinite(got), ~known):
        return False
    with np.errstate(all="ignore"):
        error, size = np.abs(got - want), np.abs(want)
        growth = 1 + np.abs(np.log(size + 1e-300)) if "**" in call.text else 1
    return bool(np.all((error <= loose * eps * size * growth)[~known]))


def outcome(call: Drawn, place: Callable[[Any], Any]) -> Any:
    """The result, or the error."""
    try:
        return call.run(place)
    except Exception as error:
        return error


def is_open(call: Drawn) -> bool:
    """Whether a call converts floats to integers that cannot hold them."""
    source, target = call.arrays["a"], re.search(r"astype\(.(\w+)", call.text)
    kind = np.dtype(target[1]) if target else source.dtype
    if call.is_statement and "] = b" in call.text and "b" in call.arrays:
        source = call.arrays["b"]
    if source.dtype.kind not in "fc" or kind.kind not in "iu":
        return False
    real, info = source.real.astype(float), np.iinfo(kind)
    return not np.all((real > info.min - 1.0) & (real < info.max + 1.0))


def check(call: Drawn, engine: pg.Engine | None = None) -> tuple[str, str]:
    """The outcome of a call, and a message.

    It is ``right``, ``wrong``, ``refused`` (NumPy computes it), ``refused by both``, or
    ``left out``: NumPy refuses it for its values, which the device does not wait for, or converts
    floats to integers that cannot hold them, which C leaves open.
    """
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = outcome(call, lambda x: x)
        got = outcome(call, lambda x: pg.asarray(x, engine=engine))
    if isinstance(want, Exception):
        if _LATE.search(str(want)) and not isinstance(got, Exception):
            return "left out", ""
        if isinstance(got, pg.errors.PortableGPUError):
            return "refused by both", ""
        return "wrong", f"{got!r}, NumPy raises {want!r}"
    if isinstance(got, Exception):
        return "refused", repr(got)
    wrong = differs(got, want, call)
    if wrong and is_open(call):
        return "left out", ""
    return ("wrong", wrong) if wrong else ("right", "")


def main() -> None:
    """Draw calls and compare them."""
    inputs = [int(word) for word in sys.argv[1:]]
    seed, count = (inputs + [1, 5000][len(inputs) :])[:2]
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("right", "wrong", "refused", "refused by both", "left out"), 0)
    k = 0
    while counts["right"] + counts["wrong"] + counts["refused"] < count:
        k += 1
        call = drawn(rng)
        result, message = check(call)
        counts[result] += 1
        if result in ("wrong", "refused"):
            print(f"# call {k} is {result}: {message[:600]}\n{call.script()}\n", flush=True)
    print(", ".join(f"{n} {result}" for result, n in counts.items()))
    sys.exit(bool(counts["wrong"] or counts["refused"]))


if __name__ == "__main__":
    main()
