"""Random orders of calls of modules, against modules that make the last call alone.

Calls that are refused, copies, states, switches between training and evaluation and repeated
gradients come in any order.  A gradient has the bits of that of a fresh module with the same state
and the same numbers of calls.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from layers.attention import reference
from random_linalg import values
from reference import assert_within, unit_roundoff

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import ArgumentError, PortableGPUError

Call = Any  # random_functions.Call, which imports this module

#: Modules and shapes of their inputs, the batch first; options take an engine, or do not.
LAYERS: list[tuple[Callable[..., Any], tuple[int, ...], bool]] = [
    (lambda **o: nn.InstanceNorm1d(5, track_running_stats=True, **o), (5, 9), True),
    (lambda **o: nn.InstanceNorm2d(4, affine=True, track_running_stats=True, **o), (4, 3, 6), True),
    (lambda **o: nn.InstanceNorm2d(3, **o), (3, 4, 5), True),
    (lambda **o: nn.BatchNorm2d(4, **o), (4, 3, 6), True),
    (lambda **o: nn.BatchNorm1d(4, momentum=None, **o), (4, 6), True),
    (lambda **o: nn.LayerNorm(7, **o), (3, 7), True),
    (lambda **o: nn.Linear(6, 5, **o), (3, 6), True),
    (lambda **o: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular", **o), (3, 5, 6), True),
    (lambda **o: nn.Conv1d(4, 4, 3, padding="same", groups=2, **o), (4, 9), True),
    (lambda **o: nn.MultiheadAttention(8, 2, 0.3, batch_first=True, seed=3, **o), (5, 8), True),
    (lambda: nn.MaxPool2d(2), (3, 6, 7), False),
    (lambda: nn.MaxUnpool2d(2), (3, 4, 5), False),
    (lambda: nn.LPPool2d(2, 2), (2, 6, 5), False),
    (lambda: nn.AdaptiveMaxPool2d((2, 3)), (2, 5, 7), False),
    (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (2, 5, 3), False),
    (lambda: nn.ReflectionPad2d((1, 2, 0, 1)), (2, 5, 6), False),
    (lambda: nn.ZeroPad2d(1), (2, 5, 6), False),
    (lambda: nn.ReLU6(), (4, 7), False),
    (lambda: nn.ReLU6(inplace=True), (4, 7), False),
    (lambda: nn.Hardtanh(-0.5, 0.7), (4, 7), False),
    (lambda: nn.LogSoftmax(-1), (4, 7), False),
    (lambda: nn.Dropout(0.4, seed=5), (4, 7), False),
    (lambda: nn.Dropout2d(0.4, seed=6), (4, 3, 7), False),
    (lambda: nn.Dropout3d(0.4, seed=7), (4, 3, 2, 5), False),
    (lambda: nn.Residual(nn.Sequential(nn.Dropout(0.3, seed=1), nn.Tanh())), (4, 7), False),
    (lambda: nn.Concat(nn.ReLU6(), nn.Dropout(0.5, seed=2)), (4, 7), False),
]
_ORDERS = (
    "forward", "forward", "backward", "backward", "refused", "mode", "copy", "pickled", "state",
    "zero_grad", "no_grad",
)  # fmt: skip


class _Last:
    """The last forward call: what a fresh module repeats.

    Attributes:
        is_copied: Whether the module was copied since.  What it keeps is in C order then, and sums
            may have another order than those of arrays of other strides.
    """

    def __init__(self, module: Any, inputs: list[Callable[[], Any]]) -> None:
        self.is_copied = False
        self.state, self.training = module.state_dict(), module.training
        self.calls = [one.calls for one in _every(module) if hasattr(one, "calls")]
        self.inputs = inputs

    def repeated(self, fresh: Any) -> Any:
        """The output of a fresh module."""
        fresh.load_state_dict(self.state)
        fresh.train(self.training)
        counting = [module for module in _every(fresh) if hasattr(module, "calls")]
        for module, calls in zip(counting, self.calls, strict=True):
            module.calls = calls
        return fresh(*(item() for item in self.inputs))


def _every(module: Any) -> list[Any]:
    return [module, *(one for _, child in module.named_children() for one in _every(child))]


def _output(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def _host(x: Any) -> Any:
    return np.asarray(values(x))


def _same(got: Any, want: Any) -> None:
    got, want = _host(got), _host(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert got.tobytes() == want.tobytes(), np.abs(got - want).max()


def orders(d: Call) -> None:
    """Calls of a module in any order."""
    make, shape, takes_engine = d.programs.choice(LAYERS)
    options = {"engine": d.engine} if takes_engine else {}
    module, last, grads = make(**options), None, {}
    if takes_engine:
        module.load_state_dict(
            {
                name: np.abs(d.rng.standard_normal(a.shape)) if a.dtype.kind == "f" else a
                for name, a in module.state_dict().items()
            }
        )
    d.kind = "device"
    d.record(type(module).__name__)
    with pytest.raises(ArgumentError, match="before forward"):
        module.backward(pg.asarray(np.ones(1, np.float32), engine=d.engine))
    output: Any = None
    for order in d.draw.choices(_ORDERS, k=d.draw.randint(4, 12)):
        d.descriptions.append(order)
        if order == "forward":
            x = d.filled((d.draw.choice((1, 2, 3)), *shape), np.float32)
            laid = partial(_laid_out, d, x, d.flag())
            inputs: list[Callable[[], Any]] = [laid]
            if isinstance(module, nn.MaxUnpool2d):
                large = d.filled((*x.shape[:2], *(2 * n for n in x.shape[2:])), np.float32)
                indices = nn.max_pool2d(large, 2, return_indices=True, engine=d.engine)[1]
                inputs.append(partial(_laid_out, d, np.asarray(indices), False))
            last = _Last(module, inputs)
            output = _output(module(*(item() for item in inputs)))
            fresh = make(**options)
            _same(output, _output(last.repeated(fresh)))
            for name, state in fresh.state_dict().items():
                _same(module.state_dict()[name], state)
        elif order == "backward" and last is not None:
            g = pg.asarray(d.filled(output.shape, np.float32), engine=d.engine)
            got, fresh = module.backward(g), make(**options)
            last.repeated(fresh)
            fresh = copy.deepcopy(fresh) if last.is_copied else fresh
            _same(got, fresh.backward(g))
            for name, parameter in fresh.named_parameters():
                gradient = _host(parameter.grad)
                grads[name] = grads[name] + gradient if name in grads else gradient
            for name, parameter in module.named_parameters():
                _same(parameter.grad, grads[name])
        elif order == "refused":
            if not _refused(d, module, shape):
                last = None
        elif order == "mode":
            module.train(d.flag())
        elif order == "copy":
            module = copy.deepcopy(module)
            if last is not None:
                last.is_copied = True
        elif order == "pickled":
            state = pickle.loads(pickle.dumps(module.state_dict()))
            module.load_state_dict(state)
        elif order == "state":
            with pytest.raises(PortableGPUError):
                module.load_state_dict({**module.state_dict(), "unknown": np.ones(3)})
        elif order in ("zero_grad", "no_grad"):
            grads = {}
            if order == "zero_grad":
                module.zero_grad()
            for parameter in module.parameters():
                parameter.grad = None


def _laid_out(d: Call, x: Any, plain: bool) -> Any:
    """``x`` on the device, in C order or in the reverse order of memory with gaps."""
    if plain:
        return pg.asarray(x, engine=d.engine)
    wide = np.repeat(x[..., ::-1], 2, -1)
    return pg.asarray(wide, engine=d.engine)[..., ::-2]


def _refused(d: Call, module: Any, shape: tuple[int, ...]) -> bool:
    """Whether a call with a wrong argument is refused."""
    dtype, wrong = d.draw.choice(
        ((np.complex64, (2, *shape)), (np.int32, (2, *shape)), (np.float32, (3,)),
         (np.float32, (2, *(n + 1 for n in shape))))
    )  # fmt: skip
    x = pg.asarray(np.ones(wrong, dtype), engine=d.engine)
    try:
        module(*((x, x) if isinstance(module, nn.MaxUnpool2d) else (x,)))
    except PortableGPUError:
        d.descriptions.append("refused")
        return True
    return False


# -- attention of several heads


def heads_of(d: Call) -> None:
    """``MultiheadAttention`` against NumPy: outputs, probabilities, gradients of inputs."""
    dtype = np.dtype(d.programs.choice(("float32", "float32", *d.names("float64"), "float16")))
    heads, per = d.draw.choice((1, 2, 3)), d.draw.choice((1, 2, 4, 7))
    e, batch_first, bias = heads * per, d.flag(), d.flag(0.7)
    n, queries = d.draw.choice((0, 1, 2, 3)), d.draw.choice((0, 1, 2, 7, 19))
    is_one = d.flag()
    keys = queries if is_one else d.draw.choice((1, 2, 7, 23))
    kdim, vdim = (None, None) if is_one or d.flag() else (d.draw.choice((3, e)), 5)
    is_single = d.flag(0.15)
    n = 1 if is_single else n
    rate = d.draw.choice((0.0, 0.0, 0.5))
    module = nn.MultiheadAttention(
        e, heads, rate, bias, kdim=kdim, vdim=vdim, batch_first=batch_first, dtype=dtype,
        engine=d.engine, seed=7,
    )  # fmt: skip
    state = {
        name: (d.rng.standard_normal(a.shape) / max(1, a.shape[-1]) ** 0.5).astype(dtype)
        for name, a in module.state_dict().items()
    }
    module.load_state_dict(state)
    module.train(d.flag(0.7))
    widths = (e, kdim or e, vdim or e)
    arrays = [
        d.filled((n, rows, width), dtype)
        for rows, width in zip((queries, keys, keys), widths, strict=True)
    ]
    arrays = arrays[:1] * 3 if is_one else arrays
    d.kind = "device"
    options, seen, added = _masks(d, (n, heads, queries, keys), dtype, is_single)
    d.record(
        f"MultiheadAttention {dtype} {e} {heads} {n} {queries} {keys} {kdim} {vdim} first "
        f"{batch_first} single {is_single} one {is_one} rate {rate} {module.training}",
        **{k: v if isinstance(v, bool) else v.shape for k, v in options.items()},
    )
    passed = [_ordered(d, a, batch_first, is_single) for a in (arrays[:1] if is_one else arrays)]
    calls = d.draw.choice((0, 3))
    module.calls = calls
    got, weights = module(*passed, **options)
    factors: Any = 1.0
    if rate and module.training:
        ones = np.ones((n, heads, queries, keys), np.float32)
        factors = nn.dropout(ones, rate, seed=7, offset=calls, engine=d.engine)
    wide = {name: a.astype(np.float64) for name, a in state.items()}
    forward = _Attention(wide, [a.astype(np.float64) for a in arrays], heads, seen, added, factors)
    unit = unit_roundoff(dtype) if dtype == np.float16 else 2 * unit_roundoff(dtype)
    y = _unordered(got, batch_first, is_single)
    assert y.dtype == dtype
    size = 40 * (1 + np.abs(forward.y).max(initial=0)) * (e + keys)
    assert_within(y, forward.y, np.full(y.shape, unit * size))
    if options["need_weights"]:
        want = forward.p * factors
        want = want.mean(1) if options["average_attn_weights"] else want
        w = _host(weights)
        w = w[None] if is_single else w
        assert_within(w, want, np.full(w.shape, 40 * unit * (e + 20)))
    else:
        assert weights is None
    g = d.filled(y.shape, dtype)
    grad = module.backward(_ordered(d, g, batch_first, is_single))
    actual = [
        _unordered(item, batch_first, is_single) for item in (grad if not is_one else (grad,))
    ]
    dxs, dws = forward.gradients(g.astype(np.float64))
    if is_one:
        dxs = [sum(dxs)]
    for gradient, want in zip(actual, dxs, strict=True):
        bound = 200 * unit * (1 + np.abs(want).max(initial=0)) * (e + keys)
        assert_within(gradient, want, np.full(gradient.shape, bound))
    for name, parameter in module.named_parameters():
        gradient, want = _host(parameter.grad), dws[name]
        rows = max(1, n * max(queries, keys))
        bound = 200 * unit * (1 + np.abs(want).max(initial=0)) * (e + rows)
        assert_within(gradient, want, np.full(gradient.shape, bound))


def _masks(d: Call, sizes: Any, dtype: Any, is_single: bool) -> Any:
    n, heads, queries, keys = sizes
    options: dict[str, Any] = {
        "is_causal": d.flag(0.3), "need_weights": d.flag(), "average_attn_weights": d.flag(),
    }  # fmt: skip
    seen, added = np.ones((n, heads, queries, keys), bool), np.zeros((n, heads, queries, keys))
    kind = d.draw.choice(("", "", "bool", "added"))
    if kind:
        wide = d.flag()
        shape = (n * heads, queries, keys) if wide else (queries, keys)
        mask = d.filled(shape, np.bool_ if kind == "bool" else dtype)
        lay = mask.reshape(n, heads, queries, keys) if wide else mask
        seen, added = (seen & ~lay, added) if kind == "bool" else (seen, added + lay)
        options["attn_mask"] = d.give(mask) if d.flag() else mask
    elif options["is_causal"]:
        seen = np.tril(seen)
    kind = d.draw.choice(("", "", "bool", "added"))
    if kind:
        mask = d.filled((n, keys), np.bool_ if kind == "bool" else dtype)
        if kind == "added" and mask.size and d.flag():
            mask[0, d.rng.integers(keys)] = -np.inf
        lay = mask[:, None, None]
        seen, added = (seen & ~lay, added) if kind == "bool" else (seen, added + lay)
        mask = mask[0] if is_single and d.flag() else mask
        options["key_padding_mask"] = d.give(mask) if d.flag() else mask
    return options, seen, added


def _ordered(d: Call, x: Any, batch_first: bool, is_single: bool) -> Any:
    x = x[0] if is_single else x if batch_first else x.swapaxes(0, 1)
    return d.give(np.ascontiguousarray(x))


def _unordered(x: Any, batch_first: bool, is_single: bool) -> Any:
    x = _host(x)
    return x[None] if is_single else x if batch_first else x.swapaxes(0, 1)


class _Attention:
    """Outputs, probabilities and gradients in double precision."""

    def __init__(
        self, state: Any, arrays: Any, heads: int, seen: Any, added: Any, factors: Any
    ) -> None:
        self.state, self.arrays, self.heads, self.factors = state, arrays, heads, factors
        e = len(state["out_proj.weight"])
        self.e, bias = e, state.get("in_proj_bias", np.zeros(3 * e))
        joined = "in_proj_weight" in state
        self.weights = [
            state["in_proj_weight"][k * e : k * e + e] if joined else state[f"{c}_proj_weight"]
            for k, c in enumerate("qkv")
        ]
        self.parts = [
            self.split(a @ w.T + bias[k * e : k * e + e])
            for k, (a, w) in enumerate(zip(arrays, self.weights, strict=True))
        ]
        q, k, v = self.parts
        mask = np.where(seen, added, -np.inf)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + mask
        top = s.max(-1, keepdims=True, initial=-1e300)
        power = np.exp(s - top)
        total = power.sum(-1, keepdims=True)
        self.p = power / np.where(total == 0, 1, total)
        self.context = (self.p * factors) @ v
        if s.size:
            np.testing.assert_allclose(self.context, reference(q, k, v, mask, factors=factors))
        self.y = self.joined(self.context) @ state["out_proj.weight"].T
        self.y = self.y + state.get("out_proj.bias", 0)

    def split(self, x: Any) -> Any:
        n, rows, e = x.shape
        return x.reshape(n, rows, self.heads, e // self.heads).swapaxes(1, 2)

    def joined(self, x: Any) -> Any:
        n, _, rows, _ = x.shape
        return x.swapaxes(1, 2).reshape(n, rows, self.e)

    def gradients(self, g: Any) -> tuple[list[Any], dict[str, Any]]:
        """Return the gradients of the three inputs, and those of the parameters by name."""
        q, k, v = self.parts
        dws = {
            "out_proj.weight": np.einsum("nrm,nre->me", g, self.joined(self.context)),
            "out_proj.bias": g.sum((0, 1)),
        }
        dc = self.split(g @ self.state["out_proj.weight"])
        dp = dc @ v.swapaxes(-1, -2) * self.factors
        ds = self.p * (dp - (dp * self.p).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
        dv = (self.p * self.factors).swapaxes(-1, -2) @ dc
        parts = [self.joined(one) for one in (ds @ k, ds.swapaxes(-1, -2) @ q, dv)]
        dxs = [one @ w for one, w in zip(parts, self.weights, strict=True)]
        each = [np.einsum("nrm,nre->me", p, a) for p, a in zip(parts, self.arrays, strict=True)]
        dws["in_proj_weight"] = np.concatenate(each) if len({e.shape for e in each}) == 1 else None
        dws |= {f"{c}_proj_weight": one for c, one in zip("qkv", each, strict=True)}
        dws["in_proj_bias"] = np.concatenate([p.sum((0, 1)) for p in parts])
        return dxs, dws


#: By name.
FAMILIES: dict[str, Callable[[Call], None]] = {"orders": orders, "heads": heads_of}
