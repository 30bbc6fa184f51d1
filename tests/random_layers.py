"""Random calls of the functions of ``portable_gpu.nn`` against NumPy in double precision.

A call of :mod:`random_functions` draws shapes, options and layouts; numbers such as a slope are
drawn with the values, so that the same call with other values also has other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product
from math import floor, prod
from typing import Any

import numpy as np
from layers import activations as formulas
from layers import attention as attentions
from layers import convolution as sums
from layers import padding as paddings
from layers import resampling as matrices
from layers.losses import Classes
from layers.normalization import Reference
from layers.optim import Rules
from layers.pooling import Windows
from random_linalg import values
from reference import assert_within, unit_roundoff, wider

from portable_gpu import Epilogue, nn
from portable_gpu.checking.oracle import SPLIT_ERRORS
from portable_gpu.dtypes import PRECISIONS, bfloat16, is_float16_like
from portable_gpu.ops.random.commands.family import kept_elements

BFLOAT16 = bfloat16()

Call = Any  # random_functions.Call, which imports this module
_OUT = 0.2  # how often a call has ``out=``


# -- arrays


def _dtype(d: Call) -> Any:
    name = d.programs.choice(("float32", "float32", "float16", "bfloat16", *d.names("float64")))
    if name == "bfloat16":
        return np.dtype(np.float16) if BFLOAT16 is None else BFLOAT16
    return np.dtype(name)


def _given(d: Call, x: Any, writes: bool = False) -> Any:
    """``x`` with any strides; channels-last more often than by chance."""
    if d.plain:
        return _plain(d, x, writes)
    if x.ndim < 3 or not d.can_transpose or not d.flag(0.3):
        return d.give(x, writes)
    there = d.give(np.ascontiguousarray(np.moveaxis(x, 1, -1)), writes)
    return there.transpose((0, x.ndim - 1, *range(1, x.ndim - 1)))


def _operand(d: Call, shape: Sequence[int], dtype: Any) -> tuple[Any, Any]:
    """Normal numbers, and what is given; some are broadcast by strides of 0."""
    if d.plain or d.flag(0.9) or not shape:
        x = d.filled(shape, dtype)
        return x, _given(d, x)
    small = d.filled([1 if d.flag() else n for n in shape], dtype)
    memory, view = d._laid(small, False)
    there = d._there(memory, np.broadcast_to(view, shape), False)
    return np.broadcast_to(small, shape), there


def _made(d: Call, name: str, arguments: Sequence[Any], results: Any, **options: Any) -> Any:
    """Call a function, now and then with ``out=``; return what its result holds.

    ``results`` has the shape and the dtype of the result, or a list of them.
    """
    several = isinstance(results, list)
    options = d.record(
        f"nn.{name} {[a for a in arguments if not hasattr(a, 'strides')]}", **options
    )
    if d.flag(_OUT):
        every = [
            _given(d, np.full(shape, 77).astype(dtype), writes=True)
            for shape, dtype in (results if several else [results])
        ]
        options["out"] = tuple(every) if several else every[0]
    got = getattr(nn, name)(*arguments, **options)
    if "out" in options:
        every = options["out"] if several else [options["out"]]
        assert all(
            item is other for item, other in zip(got if several else [got], every, strict=True)
        )
    actual = [np.asarray(values(item)) for item in (got if several else [got])]
    for item, (shape, dtype) in zip(actual, results if several else [results], strict=True):
        assert (item.shape, item.dtype) == (tuple(shape), dtype), (
            item.shape,
            item.dtype,
            shape,
            dtype,
        )
    return actual if several else actual[0]


def _sums(dtype: Any) -> Any:
    """The dtype that sums are computed in."""
    return np.dtype(np.float32) if is_float16_like(dtype) else dtype


def _near(got: Any, exact: Any, size: Any, terms: float) -> None:
    """``|got - exact| <= terms eps size``, and one rounding."""
    assert_within(got, exact, terms * 2 * unit_roundoff(_sums(got.dtype)) * np.asarray(size))


def _wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def _number(d: Call, low: float, high: float) -> float:
    """A number that is drawn with the values."""
    return float(np.float32(d.rng.uniform(low, high)))


# -- convolutions

_DIRECTIONS = ("conv", "conv", "input", "weight", "transpose", "bias")


def convolutions(d: Call) -> None:
    """A convolution or one of its gradients, by any of its variants."""
    rank, direction, dtype = (
        d.programs.choice((1, 2, 2, 3)), d.programs.choice(_DIRECTIONS), _dtype(d)
    )  # fmt: skip
    kernel, stride, dilation = (
        tuple(d.programs.choice(few) for _ in range(rank))
        for few in ((1, 2, 3, 3, 4, 5), (1, 1, 2, 3), (1, 1, 2))
    )
    word = d.programs.choice(("", "", "", "same", "valid"))
    if word == "same":
        stride = (1,) * rank
    whole = [r * (k - 1) for k, r in zip(kernel, dilation, strict=True)]
    pads = [(d.programs.randint(0, 3), d.programs.randint(0, 3)) for _ in range(rank)]
    if word:
        pads = [(n // 2, n - n // 2) if word == "same" else (0, 0) for n in whole]
    padding: Any = word or pads
    if not word and d.programs.random() < 0.4:
        pads = [(first, first) for first, _ in pads]
        padding = tuple(first for first, _ in pads)
    kind = sums.Kind(kernel, stride, dilation, pads)
    algos = ["auto", "direct", "im2col"] + ([] if d.engine.target.is_cpu else ["implicit_gemm"])
    algo = d.programs.choice(algos)
    d.plain = algo == "im2col"  # which needs contiguous weights and axes of space
    precision = d.programs.choice((None, None, *PRECISIONS)) if dtype == np.float32 else None
    groups = d.draw.choice((1, 1, 1, 2, 3, 20))
    in_group, filters = (
        d.draw.choice((1, 1, 2, 3, 4, 8, 16, 33) if groups < 20 else (1, 1, 2)) for _ in range(2)
    )
    batch = d.draw.choice((0, 1, 1, 2, 3, 5))
    space = [
        d.draw.randint(
            max(1, n + 1 - sum(pad)), n + d.draw.choice((3, 7, 20) if rank < 3 else (3, 6))
        )
        for n, pad in zip(whole, pads, strict=True)
    ]
    if rank == 1 and d.flag(0.2):
        space = [d.draw.randint(100, 700)]
    x_shape, w_shape = (batch, groups * in_group, *space), (groups * filters, in_group, *kernel)
    q = sums.extents_of(np.empty(x_shape), kind)
    while batch * prod(q) * prod(w_shape) > 3e6:
        batch = filters = 1 if batch > 1 else 0
        x_shape, w_shape = (batch, *x_shape[1:]), (groups * max(1, filters), *w_shape[1:])
    y_shape = (batch, w_shape[0], *q)
    options: dict[str, Any] = {
        "stride": stride, "padding": padding, "dilation": dilation, "groups": groups,
    }  # fmt: skip
    if direction != "bias":
        options |= {"algo": algo, "precision": precision}
    name = f"conv{rank}d" if direction == "conv" else f"conv{rank}d_{direction}"
    lost = SPLIT_ERRORS[precision or "ieee"] if not d.engine.target.is_cpu else 0.0
    check = (d, dtype, lost)
    w, there_w = _operand(d, w_shape, dtype)
    if direction == "conv":
        x, there = _operand(d, x_shape, dtype)
        exact, size = (sums.forward(f(x), f(w), kind, groups) for f in (_wide, _sizes))
        is_single = d.flag(0.1) and batch == 1  # without batch
        arrays, exact, size = [there[0] if is_single else there, there_w], *(
            a[0] if is_single else a for a in (exact, size)
        )  # fmt: skip
        _with_bias(check, name, arrays, exact, size, prod(w_shape[1:]), rank, options)
        return
    dy, there = _operand(d, y_shape, dtype)
    if direction == "bias":
        over = (0, *range(2, rank + 2))
        got = _made(d, name, [there], ((w_shape[0],), dtype))
        _near(got, _wide(dy).sum(over), _sizes(dy).sum(over), 16)
        return
    x = d.filled(x_shape, dtype)
    exact, size = (sums.gradients(f(x), f(w), f(dy), kind, groups) for f in (_wide, _sizes))
    terms = w_shape[0] // groups * prod(kernel)
    if direction == "input":
        _convolved(check, name, [x_shape, there_w, there], exact[0], size[0], terms, options)
    elif direction == "weight":
        arrays = [_given(d, x), w_shape, there]
        _convolved(check, name, arrays, exact[1], size[1], batch * prod(q), options)
    else:
        extra = _extra(kind, x_shape, y_shape)
        limits = zip(extra, stride, dilation, strict=True)
        if any(n < 0 or (n and n >= max(s, r)) for n, s, r in limits):
            return
        options["output_padding"] = extra
        name = f"conv_transpose{rank}d"
        _with_bias(check, name, [there, there_w], exact[0], size[0], terms, rank, options)


def _sizes(x: Any) -> Any:
    return np.abs(_wide(x))


def _extra(kind: Any, x_shape: Sequence[int], y_shape: Sequence[int]) -> list[int]:
    """Return the output_padding for which a transposed convolution has these extents."""
    each = zip(
        x_shape[2:], y_shape[2:], kind.stride, kind.pads, kind.dilation, kind.kernel, strict=True
    )
    return [n - ((q - 1) * s - sum(p) + r * (k - 1) + 1) for n, q, s, p, r, k in each]


def _with_bias(
    check: Any, name: str, arrays: list[Any], exact: Any, size: Any, terms: int, rank: int,
    options: dict[str, Any],
) -> None:  # fmt: skip
    d, dtype, _ = check
    if d.flag():
        bias = d.filled((exact.shape[-rank - 1],), dtype)
        arrays = [*arrays, d.give(bias)]
        shift = _wide(bias).reshape(-1, *[1] * rank)
        exact, size = exact + shift, size + np.abs(shift)
    epilogue, exact, size = _with_stages(d, dtype, exact, size, rank)
    if epilogue.stages:
        options = {**options, "epilogue": epilogue}
        terms += len(epilogue.stages)
    _convolved(check, name, arrays, exact, size, terms, options)


#: The stages of epilogues of convolutions.
_STAGES = ("", "", "", "add relu", "bias", "scale bias add relu", "scale clip", "relu add add")


def _with_stages(
    d: Call, dtype: Any, exact: Any, size: Any, rank: int
) -> tuple[Epilogue, Any, Any]:
    """Return an epilogue, the result of its stages, and the magnitude of what is summed there."""
    epilogue, lifted = Epilogue(), (-1, *[1] * rank)
    stages = d.programs.choice(_STAGES).split()
    of_array = d.programs.choice((dtype, np.dtype(np.float32)))
    for stage in stages:
        if stage in ("scale", "bias"):
            each = d.filled((exact.shape[-rank - 1],), of_array)
            epilogue, wide = getattr(epilogue, stage)(d.give(each)), _wide(each).reshape(lifted)
            if stage == "scale":
                exact, size = exact * wide, size * np.abs(wide)
            else:
                exact, size = exact + wide, size + np.abs(wide)
        elif stage == "add":
            each = d.filled([1 if d.flag(0.2) else n for n in exact.shape], of_array)
            epilogue = epilogue.add(_given(d, each))
            exact, size = exact + _wide(each), size + _sizes(each)
        else:
            epilogue = epilogue.relu() if stage == "relu" else epilogue.apply("v > 1 ? 1 : v")
            exact = np.maximum(exact, 0) if stage == "relu" else np.minimum(exact, 1)
    if stages and is_float16_like(dtype):  # a pass over the result reads what was rounded to it
        size = size * (1 + unit_roundoff(dtype) / unit_roundoff(np.dtype(np.float32)))
    return epilogue, exact, size


def _convolved(
    check: Any, name: str, arrays: list[Any], exact: Any, size: Any, terms: int,
    options: dict[str, Any],
) -> None:  # fmt: skip
    d, dtype, lost = check
    got = _made(d, name, arrays, (exact.shape, dtype), **options)
    more = 2 * lost * size  # of matrix units, which also truncate
    assert_within(
        got, exact, (terms + 2) * (4 if lost else 2) * unit_roundoff(_sums(dtype)) * size + more
    )


# -- windows


def pools(d: Call) -> None:
    """Largest elements, means and norms of windows, and unpooling, with their gradients."""
    d.programs.choice((_largest, _largest, _means, _means, _norms, _adaptive, _unpooled))(d)


def _windows(d: Call, axes: int, dilated: bool = True) -> Windows:
    max_extent = {1: d.draw.choice((9, 60, 300)), 2: d.draw.choice((9, 15)), 3: 6}[axes]
    return Windows(np.random.default_rng(d.draw.getrandbits(32)), axes, dilated, max_extent)


def _plane(d: Call) -> tuple[int, int]:
    return d.draw.choice(((1, 1), (2, 3), (3, 1), (0, 2), (2, 0), (1, 17), (1, 40)))


def _largest(d: Call) -> None:
    axes = d.programs.randint(1, 3)
    every = ["int8", "uint16", "int64"] if d.programs.random() < 0.2 else []
    dtype = np.dtype(d.programs.choice(every)) if every else _dtype(d)
    back, both = d.programs.random() < 0.4, d.programs.random() < 0.5
    w = _windows(d, axes)
    shape = (*_plane(d), *w.extents)
    x = d.rng.integers(0, 30, shape).astype(dtype)
    if dtype.kind not in "iu" and d.flag(0.2) and x.size:
        x.flat[d.rng.integers(0, x.size)] = np.nan
    lowest = np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf
    expected = np.full((*shape[:2], *w.shape()), lowest, x.dtype)
    chosen = np.full(expected.shape, -1, np.int64)
    for index, every_place, _ in w.all():
        for place in every_place:
            value, at = x[(..., *place)], (..., *index)
            more = (value > expected[at]) | (chosen[at] < 0) | (value != value)
            expected[at] = np.where(more, value, expected[at])
            chosen[at] = np.where(more, np.ravel_multi_index(place, w.extents), chosen[at])
    if not back or dtype.kind in "iu":
        results = [(expected.shape, dtype), (expected.shape, np.dtype(np.int64))]
        arrays = [_given(d, x)]
        name = f"max_pool{axes}d"
        if both:
            got, indices = _made(d, name, arrays, results, return_indices=True, **w.options)
            assert np.array_equal(indices, chosen)
        else:
            got = _made(d, name, arrays, results[0], **w.options)
        assert np.array_equal(_wide(got), _wide(expected), equal_nan=True)
        return
    g, there = _operand(d, expected.shape, dtype)
    exact, size, terms = (np.zeros(shape) for _ in range(3))
    flat = [a.reshape(*shape[:2], prod(shape[2:])) for a in (exact, size, terms)]
    for b, c in product(range(shape[0]), range(shape[1])):
        has = chosen[b, c] >= 0
        for target, part in zip(flat, (_wide(g), _sizes(g), np.ones(g.shape)), strict=True):
            np.add.at(target[b, c], chosen[b, c][has], part[b, c][has])
    arrays = [there, d.give(chosen), shape if d.flag() else _given(d, x)]
    got = _made(d, f"max_pool{axes}d_backward", arrays, (shape, dtype), **w.options)
    _near(got, exact, size, terms.max(initial=0) + 2)


def _means(d: Call) -> None:
    axes, dtype, back = d.programs.randint(1, 3), _dtype(d), d.programs.random() < 0.5
    include, divisor = d.programs.random() < 0.5, d.programs.random() < 0.2
    w = _windows(d, axes)
    shape = (*_plane(d), *w.extents)
    by = d.draw.randint(1, 7) if divisor else None
    options = w.options | {"count_include_pad": include, "divisor_override": by}
    result = (*shape[:2], *w.shape())
    x, g = d.filled(shape, dtype), d.filled(result, dtype)
    exact, size = np.zeros((2, *(shape if back else result)))
    for index, every_place, padded in w.all():
        count, at = by or (padded if include else len(every_place)), (..., *index)
        for place in every_place:
            source, target = ((g, at), (..., *place)) if back else ((x, (..., *place)), at)
            value = _wide(source[0][source[1]]) / count
            exact[target] += value
            size[target] += np.abs(value)
    name, terms = f"avg_pool{axes}d", prod(w.kernel) + 5
    if back:
        arrays = [_given(d, g), shape if d.flag() else _given(d, x)]
        got = _made(d, f"{name}_backward", arrays, (shape, dtype), **options)
    else:
        got = _made(d, name, [_given(d, x)], (result, dtype), **options)
    _near(got, exact, size, terms)


def _norms(d: Call) -> None:
    axes, dtype, back = d.programs.randint(1, 3), _dtype(d), d.programs.random() < 0.5
    p = d.programs.choice((1, 2, 2, 3, 2.5))
    w = _windows(d, axes)
    shape = (*_plane(d), *w.extents)
    x = d.filled(shape, np.float64)
    x = (np.sign(x) * (np.abs(x) / 4 + 0.5)).astype(dtype)  # powers are in the range of 16 bits
    powers, y = _sizes(x) ** p, np.zeros((*shape[:2], *w.shape()))
    for index, every_place, _ in w.all():
        y[(..., *index)] = sum(
            (powers[(..., *place)] for place in every_place), np.zeros(shape[:2])
        )
    y = y ** (1 / p)
    unit = 2 * unit_roundoff(_sums(dtype)) * (prod(w.kernel) + 120)
    unit += 8 * unit_roundoff(dtype) if is_float16_like(dtype) else 0
    if not back:
        got = _made(d, f"lp_pool{axes}d", [_given(d, x), p], (y.shape, dtype), **w.options)
        assert_within(got, y, unit * y)
        return
    y = y.astype(dtype)
    g, there = _operand(d, y.shape, dtype)
    exact, size = np.zeros((2, *shape))
    with np.errstate(all="ignore"):
        scaled = np.where(y == 0, 0, _wide(g) * _wide(y) ** (1 - p))
    for index, every_place, _ in w.all():
        for place in every_place:
            term = scaled[(..., *index)] * np.sign(_wide(x[(..., *place)]))
            term = term * _sizes(x[(..., *place)]) ** (p - 1)
            exact[(..., *place)] += term
            size[(..., *place)] += np.abs(term)
    arrays = [there, _given(d, x), _given(d, y), p]
    got = _made(d, f"lp_pool{axes}d_backward", arrays, (shape, dtype), **w.options)
    assert_within(got, exact, unit * size)


def _adaptive(d: Call) -> None:
    axes, dtype = d.programs.randint(1, 3), _dtype(d)
    back, largest = d.programs.random() < 0.5, d.programs.random() < 0.4
    extents = [d.draw.randint(1, {1: 200, 2: 20, 3: 7}[axes]) for _ in range(axes)]
    sizes = [d.draw.choice((1, n, d.draw.randint(1, 9))) for n in extents]
    shape = (*_plane(d), *extents)
    result = (*shape[:2], *sizes)
    x = d.filled(shape, dtype)
    name, every = (
        f"adaptive_avg_pool{axes}d",
        [matrices.areas(n, m) for n, m in zip(extents, sizes, strict=True)],
    )
    if largest:
        _adaptive_largest(d, axes, x, result, every)
        return
    if not back:
        exact, size = (matrices.along(f(x), every) for f in (_wide, _sizes))
        got = _made(d, name, [_given(d, x), sizes], (result, dtype))
        _near(got, exact, size, sum(extents) + prod(extents) ** 0.5 * 4 + 8)
        return
    g, there = _operand(d, result, dtype)
    exact, size = (matrices.along(f(g), [a.T for a in every]) for f in (_wide, _sizes))
    arrays = [there, shape if d.flag() else _given(d, x)]
    got = _made(d, f"{name}_backward", arrays, (shape, dtype))
    _near(got, exact, size, prod(sizes) + 8)


def _adaptive_largest(d: Call, axes: int, x: Any, result: Any, every: list[Any]) -> None:
    shape, name = x.shape, f"adaptive_max_pool{axes}d"
    expected, chosen = np.zeros(result, x.dtype), np.zeros(result, np.int64)
    for index in product(*(range(m) for m in result[2:])):
        spans = [np.nonzero(a[o])[0] for a, o in zip(every, index, strict=True)]
        window = x[(..., *(slice(s[0], s[-1] + 1) for s in spans))]
        flat = window.reshape(*shape[:2], prod(window.shape[2:]))
        if not flat.size:
            continue
        at = flat.argmax(2)
        expected[(..., *index)] = np.take_along_axis(flat, at[..., None], 2)[..., 0]
        inside = np.unravel_index(at, window.shape[2:])
        places = [part + s[0] for part, s in zip(inside, spans, strict=True)]
        chosen[(..., *index)] = np.ravel_multi_index(tuple(places), shape[2:])
    long = np.dtype(np.int64)
    if d.flag():
        results = [(result, x.dtype), (result, long)]
        got, indices = _made(
            d, name, [_given(d, x), list(result[2:])], results, return_indices=True
        )
        assert np.array_equal(_wide(got), _wide(expected))
        assert np.array_equal(indices, chosen)
        return
    g, there = _operand(d, result, x.dtype)
    exact, size = np.zeros((2, *shape[:2], prod(shape[2:])))
    for b, c in product(range(shape[0]), range(shape[1])):
        for target, part in ((exact, _wide(g)), (size, _sizes(g))):
            np.add.at(target[b, c], chosen[b, c], part[b, c])
    arrays = [there, d.give(chosen), shape if d.flag() else _given(d, x)]
    got = _made(d, f"{name}_backward", arrays, (shape, x.dtype))
    _near(got, exact.reshape(shape), size.reshape(shape), prod(result[2:]) + 2)


def _unpooled(d: Call) -> None:
    axes, dtype, back = d.programs.randint(1, 3), _dtype(d), d.programs.random() < 0.5
    kernel, stride = d.draw.randint(1, 4), d.draw.randint(1, 4)
    pad = d.draw.randint(0, kernel // 2)
    extents = [d.draw.randint(kernel, {1: 90, 2: 12, 3: 6}[axes]) for _ in range(axes)]
    shape = (*_plane(d), *extents)
    counts = [(n + 2 * pad - kernel) // stride + 1 for n in extents]
    result = (*shape[:2], *counts)
    flat = np.zeros(result, np.int64)
    x = d.filled(shape, dtype)
    places = [  # one in each window
        np.clip(np.arange(c) * stride - pad + d.rng.integers(0, kernel, c), 0, n - 1)
        for c, n in zip(counts, extents, strict=True)
    ]
    flat[...] = np.ravel_multi_index(tuple(np.meshgrid(*places, indexing="ij")), tuple(extents))
    rows = x.reshape(*shape[:2], prod(extents))
    picked = np.take_along_axis(rows, flat.reshape(*shape[:2], prod(counts)), 2)
    options = {"kernel_size": kernel, "stride": stride, "padding": pad}
    if back:
        arrays = [_given(d, x), d.give(flat)]
        got = _made(d, f"max_unpool{axes}d_backward", arrays, (result, dtype), **options)
        assert np.array_equal(_wide(got), _wide(picked.reshape(result)))
        return
    expected = np.zeros(rows.shape, dtype)
    np.put_along_axis(expected, flat.reshape(picked.shape), picked, 2)
    arrays = [_given(d, picked.reshape(result)), d.give(flat)]
    options["output_size"] = extents
    got = _made(d, f"max_unpool{axes}d", arrays, (shape, dtype), **options)
    assert np.array_equal(_wide(got), _wide(expected.reshape(shape)))


# -- other places


def pads(d: Call) -> None:
    """``pad``, pixel shuffles, and their gradients."""
    name = d.programs.choice(("pad", "pad", "pad_backward", "pixel_shuffle", "pixel_unshuffle"))
    every = ["bool", "int8", "uint32", "int64", *d.names("complex64", "complex128")]
    plain = name == "pad_backward" or d.programs.random() < 0.6
    dtype = _dtype(d) if plain else np.dtype(d.programs.choice(every))
    if name.startswith("pixel"):
        _shuffles(d, name, dtype)
        return
    mode = d.programs.choice(tuple(paddings.NUMPYS))
    rank = d.draw.randint(1, 4)
    shape = [d.draw.choice((1, 2, 3, 5, 8, 31)) for _ in range(rank)]
    if d.flag(0.15):
        shape[-1] = d.draw.randint(100, 900)
    numbers: list[int] = []
    for n in shape[::-1][: d.draw.randint(1, rank)]:
        max_extent = {"reflect": n - 1, "circular": n}.get(mode, 7)
        min_pad = max(-1, -((n - 1) // 2))
        pair = [d.draw.randint(min(min_pad, max_extent), min(max_extent, 7)) for _ in range(2)]
        if mode == "circular":  # from the other end of what negative numbers leave
            left = n + min(pair[0], 0) + min(pair[1], 0)
            pair = [min(one, left) for one in pair]
        numbers += pair
    value: Any = None
    if mode == "constant" and d.flag():
        value = bool(d.rng.integers(2)) if dtype.kind == "b" else int(d.rng.integers(0, 9))
    if name == "pad":
        x, there = _operand(d, shape, dtype)
        expected = paddings.padded(x, tuple(numbers), mode, 0 if value is None else value)
        got = _made(d, "pad", [there, numbers, mode, value], (expected.shape, x.dtype))
        assert got.tobytes() == np.ascontiguousarray(expected).tobytes()
        return
    source = paddings.padded(np.arange(1, prod(shape) + 1).reshape(shape), tuple(numbers), mode)
    g, there = _operand(d, source.shape, dtype)
    exact, size, terms = np.zeros((3, prod(shape) + 1))
    for target, part in ((exact, _wide(g)), (size, _sizes(g)), (terms, np.ones(g.shape))):
        np.add.at(target, source, part)
    got = _made(d, "pad_backward", [there, numbers, mode], (shape, dtype))
    exact, size = (a[1:].reshape(shape) for a in (exact, size))
    _near(got, exact, size, terms[1:].max(initial=0) + 2)


def _shuffles(d: Call, name: str, dtype: Any) -> None:
    r, few = d.draw.randint(1, 3), d.draw.choice((1, 2, 5))
    batch = d.draw.choice(((), (2,), (0,), (2, 3)))
    space = [d.draw.choice((1, 2, 7, 16)) for _ in range(2)]
    x = d.filled((*batch, few * r * r, *space), dtype)
    y = paddings.shuffled(x, r)
    back = d.flag(0.3)
    if (name == "pixel_unshuffle") != back:
        x, y = y, x
    text = f"{name}_backward" if back else name
    got = _made(d, text, [_given(d, x), r], (y.shape, x.dtype))
    assert got.tobytes() == np.ascontiguousarray(y).tobytes()


_KINDS = {
    "nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear",
    "trilinear": "linear", "bicubic": "cubic", "area": "area",
}  # fmt: skip


def _quotients(sizes: Sequence[int], extents: Sequence[int]) -> list[Any]:
    return [Fraction(m, n) for m, n in zip(sizes, extents, strict=True)]


def _by_torch(d: Call, mode: str, each: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Options of torch, and the matrices of the axes."""
    kind, name, rounding = _KINDS[mode], "half_pixel", "round_prefer_ceil"
    options: dict[str, Any] = {}
    if kind in ("linear", "cubic"):
        if len(each) == 2 and d.flag(0.25):
            matrix_of = matrices.antialiased
            return {"antialias": True}, [matrix_of(n, m, kind, float(1 / s)) for n, m, s in each]
        if d.flag(0.4):
            options["align_corners"], name = True, "align_corners"
    if mode == "nearest":
        name, rounding = "asymmetric", "floor"
    if kind == "area":
        return options, [matrices.areas(n, m) for n, m, _ in each]
    return options, [matrices.matrix(n, m, kind, name, s, rounding=rounding) for n, m, s in each]


_COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
    "tf_crop_and_resize",
)  # fmt: skip


def _by_onnx(d: Call, mode: str, each: Sequence[Any]) -> tuple[dict[str, Any], list[Any]]:
    """Options of ONNX's Resize, and the matrices of the axes."""
    mode = "nearest" if mode == "nearest-exact" else mode
    kind, name = _KINDS[mode], d.draw.choice(_COORDINATES)
    options: dict[str, Any] = {"mode": mode, "coordinates": name}
    rounding, a, exclude = "round_prefer_floor", -0.75, False
    rois = [(0.0, 1.0)] * len(each)
    if name == "tf_crop_and_resize":  # in 64ths, so that neither side rounds coordinates
        rois = [(d.draw.randint(-16, 40) / 64, d.draw.randint(20, 80) / 64) for _ in each]
        options["roi"] = [*(start for start, _ in rois), *(end for _, end in rois)]
    if kind == "nearest" and d.flag(0.7):
        options["rounding"] = rounding = d.draw.choice(tuple(matrices.ROUND))
    widens = kind in ("linear", "cubic") and len(each) == 2 and name == "half_pixel" and d.flag()
    if kind == "cubic":
        options["cubic_coefficient"] = a = d.draw.choice((-0.75, -0.5, -0.25))
    if kind == "cubic" or widens:
        options["exclude_outside"] = exclude = d.flag()
    if widens:
        matrix_of = matrices.antialiased
        return {**options, "antialias": True}, [
            matrix_of(n, m, kind, float(1 / s), a, exclude) for n, m, s in each
        ]
    return options, [
        matrices.matrix(
            n, m, kind, name, s, rounding=rounding, a=a, roi=roi, exclude=exclude
        )
        for (n, m, s), roi in zip(each, rois, strict=True)
    ]  # fmt: skip


def interpolations(d: Call) -> None:
    """``interpolate`` of torch's modes and ONNX's coordinates, and its gradient."""
    mode = d.programs.choice(tuple(_KINDS))
    kind, dtype, back = _KINDS[mode], _dtype(d), d.programs.random() < 0.5
    axes = {"linear": 1, "bilinear": 2, "trilinear": 3, "bicubic": 2}.get(mode, 0)
    axes = axes or d.programs.randint(1, 3)
    extents = [d.draw.randint(1, {1: 90, 2: 16, 3: 6}[axes]) for _ in range(axes)]
    options: dict[str, Any] = {"mode": mode}
    if d.flag():
        sizes = [d.draw.randint(1, {1: 150, 2: 24, 3: 9}[axes]) for _ in range(axes)]
        options["size"], scales = sizes, _quotients(sizes, extents)
    else:
        scales = [d.draw.choice((1.0, 2.0, 0.5, d.draw.uniform(0.4, 3))) for _ in range(axes)]
        sizes = [floor(n * s) for n, s in zip(extents, scales, strict=True)]
        if min(sizes) < 1:
            return
        options["scale_factor"] = scales
        if d.flag(0.3):
            options["recompute_scale_factor"] = True
            scales = _quotients(sizes, extents)
    each = list(zip(extents, sizes, scales, strict=True))
    if kind != "area" and d.flag(0.4):
        more, every = _by_onnx(d, mode, each)
        options |= more
    else:
        more, every = _by_torch(d, mode, each)
        options |= more
    shape = (*_plane(d), *extents)
    result = (*shape[:2], *sizes)
    used = [a.T for a in every] if back else every
    x, there = _operand(d, result if back else shape, dtype)
    exact = matrices.along(_wide(x), used)
    size = matrices.along(_sizes(x), [np.abs(a) for a in used])
    if back:
        arrays = [there, shape if d.flag() else _given(d, d.filled(shape, dtype))]
        got = _made(d, "interpolate_backward", arrays, (shape, dtype), **options)
    else:
        got = _made(d, "interpolate", [there], (result, dtype), **options)
    taps = int(np.prod([max((a != 0).sum(1).max(), 1) for a in used]))
    # Weights have errors of float64 that are not relative to the weight itself.
    spread = 64 * 2.0**-52 * matrices.along(_sizes(x), [1.0 * (a != 0) for a in used])
    unit = 2 * unit_roundoff(_sums(dtype))
    assert_within(got, exact, (taps + 6) * unit * size + spread)


# -- rows


def elements(d: Call) -> None:
    """An activation or its gradient."""
    case = d.programs.choice(formulas.CASES)
    name, options, of_result, function, derivative, argument = case
    dtype, back = _dtype(d), d.programs.random() < 0.5
    if name == "leaky_relu":
        slope = _number(d, -0.5, 1.5)
        options = {"negative_slope": slope}
        function = lambda x: (np.where(x > 0, x, slope * x),)  # noqa: E731
        derivative = lambda x: (np.where(x > 0, 1, slope * np.ones_like(x)),)  # noqa: E731
    if name == "elu":
        alpha = _number(d, 0, 3)
        options = {"alpha": alpha}
        function = lambda x: (np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))),)  # noqa: E731
        derivative = lambda x: (np.where(x > 0, 1, alpha * np.exp(np.minimum(x, 0))),)  # noqa: E731
    shape = d.shape()
    x, there = _operand(d, shape, dtype)
    wide = x.astype(formulas.LD)
    terms = function(wide)
    if not back:
        got = _made(d, name, [there], (shape, dtype), **options)
        _active(got, terms, argument(wide), 0)
        return
    y = sum(terms).astype(dtype)
    g, there_g = _operand(d, shape, dtype)
    g = g.astype(formulas.LD)
    slopes = tuple(g * t for t in derivative(wide))
    # A gradient of the result has the error of the rounded result.
    more = (
        4 * unit_roundoff(dtype) * np.abs(g) if of_result and name not in ("relu", "relu6") else 0
    )
    if of_result:
        there = _given(d, y)
    if name == "relu":
        slopes = (g * (y.astype(formulas.LD) > 0),)
    got = _made(d, f"{name}_backward", [there_g, there], (shape, dtype), **options)
    _active(got, slopes, argument(wide), more)


def _active(got: Any, terms: Any, argument: Any, more: Any) -> None:
    """32 ulp for functions and operations, and the argument's error."""
    computed = _sums(got.dtype)
    size = sum(np.abs(t) for t in terms)
    bound = 32 * np.finfo(computed).eps * (1 + argument) * size + more
    assert_within(got, sum(terms), bound + 4 * np.finfo(computed).tiny)


def _rows(d: Call) -> tuple[list[int], int]:
    """A shape, and the axis of its rows, which are long now and then."""
    shape = [d.draw.choice((1, 2, 3, 7, 16, 33)) for _ in range(d.draw.randint(1, 4))]
    dim = d.draw.randrange(len(shape))
    shape[dim] = d.draw.choice((1, 2, 5, 31, 64, 300, 1024, 2050, 9001))
    while prod(shape) > 40_000:
        others = [k for k in range(len(shape)) if k != dim]
        shape[max(others, key=shape.__getitem__)] = 1
    if d.flag(0.05):
        shape[d.draw.randrange(len(shape))] = 0
    return shape, dim


def softmaxes(d: Call) -> None:
    """``softmax``, ``log_softmax`` and their gradients."""
    name = d.programs.choice(("softmax", "log_softmax"))
    dtype, back = _dtype(d), d.programs.random() < 0.5
    shape, dim = _rows(d)
    x, there = _operand(d, shape, dtype)
    wide = wider(x)
    if 0 in shape:
        got = _made(d, name, [there, dim], (shape, dtype))
        return
    moved = wide - wide.max(axis=dim, keepdims=True)
    log = moved - np.log(np.exp(moved).sum(axis=dim, keepdims=True))
    terms, given = shape[dim] + 40, dim - len(shape) if d.flag() else dim
    if not back:
        got = _made(d, name, [there, given], (shape, dtype))
        if name == "softmax":
            _near(got, np.exp(log), np.exp(log), terms)
        else:
            _near(got, log, terms + np.abs(log) + np.abs(moved), 1)
        return
    y = (np.exp(log) if name == "softmax" else log).astype(dtype)
    g, there_g = _operand(d, shape, dtype)
    exact, wide_y = wider(g), wider(y)
    total = {"axis": dim, "keepdims": True}
    if name == "softmax":
        size = wide_y * (np.abs(exact) + (np.abs(exact) * wide_y).sum(**total))
        exact = wide_y * (exact - (exact * wide_y).sum(**total))
    else:
        power = np.exp(wide_y)
        size = np.abs(exact) + power * np.abs(exact).sum(**total) * (1 + np.abs(wide_y))
        exact = exact - power * exact.sum(**total)
    got = _made(d, f"{name}_backward", [there_g, _given(d, y), given], (shape, dtype))
    _near(got, exact, size, terms)


def norms(d: Call) -> None:
    """Layer, RMS, group, instance and batch norm, and their gradients."""
    name = d.programs.choice(("layer", "layer", "rms", "group", "batch", "batch", "instance"))
    dtype, back, parameters = _dtype(d), d.programs.random() < 0.5, d.programs.choice((0, 1, 2))
    kept_dtype = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    of_weight = d.programs.choice((dtype, kept_dtype))
    eps = float(d.rng.choice((1e-5, 1e-3, 0.1)))
    shape = [d.draw.choice((1, 2, 5)), d.draw.choice((1, 4, 6, 12))]
    shape += [d.draw.choice((1, 3, 8, 30, 130)) for _ in range(d.draw.randint(0, 2))]
    if d.flag(0.2):
        shape[-1] = d.draw.choice((515, 1025, 3000))
    wide_axes = tuple(range(1, len(shape)))
    view, axes, at, per = shape, wide_axes, (1,), shape[1]  # view, rows, axes of parameters
    if name in ("layer", "rms"):
        count = d.draw.randint(1, len(shape))
        axes = at = tuple(range(len(shape) - count, len(shape)))
        per = shape[-count:]
        kept_shape = (*shape[:-count], *(1,) * count)
        first: Any = per if count > 1 or d.flag() else per[0]
    elif name in ("group", "instance"):
        first = d.draw.choice([n for n in (1, 2, 3, 4, 6, 12) if shape[1] % n == 0])
        first = shape[1] if name == "instance" else first
        view = [shape[0], first, shape[1] // first, *shape[2:]]
        axes, at, kept_shape = tuple(range(2, len(view))), (1, 2), (shape[0], first)
    else:
        axes, kept_shape, first = (0, *range(2, len(shape))), (shape[1],), None
        if prod(shape) // shape[1] < 2:
            shape[0] = view[0] = 3
    x = (d.filled(shape, np.float64) * 2 + d.rng.choice((0, 1, 3))).astype(dtype)
    n = per if isinstance(per, list) else [per]
    w = d.filled(n, of_weight) if parameters else None
    b = d.filled(n, of_weight) if parameters > 1 and name != "rms" else None
    lay = [view[k] if k in at else 1 for k in range(len(view))]
    W = 1.0 if w is None else _wide(w).reshape(lay)
    B = 0.0 if b is None else _wide(b).reshape(lay)
    want = Reference(x.reshape(view), axes, W, B, name != "rms", eps)
    there = _given(d, x)
    passed = [None if p is None else d.give(p) for p in (w, b)]
    results: list[Any] = [(shape, dtype), (kept_shape, kept_dtype), (kept_shape, kept_dtype)]
    if not back:
        _normed(d, name, first, there, passed, eps, want, results, view)
        return
    mean, rstd = (a.reshape(kept_shape).astype(kept_dtype) for a in (want.mean, want.rstd))
    g, there_g = _operand(d, shape, dtype)
    dx, dw, db, size = want.gradients(np.asarray(g).reshape(view), at)
    of_parameter = [(n, of_weight), (n, of_weight)]
    statistics = [d.give(mean), d.give(rstd)]
    if name == "batch":
        arrays = [there_g, there, passed[0], None, None, *statistics, True, eps, passed[1]]
    elif name == "rms":
        arrays = [there_g, there, first, statistics[1], passed[0]]
    else:
        arrays = [there_g, there, first, *statistics, *passed]
    text = "group" if name == "instance" else name
    actual = _gradients(d, f"{text}_norm_backward", arrays, [(shape, dtype), *of_parameter], (w, b))
    lost = 1 + (np.abs(want.x).max() + 1) * want.rstd
    _near(actual[0].reshape(view), dx, size * lost, want.count + 40)
    if w is not None:
        bound = (np.abs(_wide(g).reshape(view)) * (np.abs(want.hat) + 1) * lost).sum(
            axis=tuple(k for k in range(len(view)) if k not in at)
        )
        _near(actual[1].ravel(), dw.ravel(), bound.ravel(), prod(shape) / prod(n) + want.count + 40)
    if b is not None:
        over = tuple(k for k in range(len(view)) if k not in at)
        bound = np.abs(_wide(g).reshape(view)).sum(axis=over)
        _near(actual[2].ravel(), db.ravel(), bound.ravel(), prod(shape) / prod(n) + 40)


def _gradients(d: Call, name: str, arrays: list[Any], results: list[Any], parameters: Any) -> Any:
    """The gradients of a norm: ``None`` for a parameter that there is not."""
    got = getattr(nn, name)(*arrays, **d.record(f"nn.{name}"))
    actual = []
    for k, one in enumerate(got):
        if k and parameters[k - 1] is None:
            assert one is None
            actual.append(None)
            continue
        actual.append(np.asarray(values(one)))
        assert (actual[-1].shape, actual[-1].dtype) == (tuple(results[k][0]), results[k][1])
    return actual


def _normed(
    d: Call, name: str, first: Any, there: Any, given: list[Any], eps: float, want: Reference,
    results: list[Any], view: list[int],
) -> None:  # fmt: skip
    """A forward call, with statistics or without."""
    both, more = d.programs.random() < 0.5, None
    kept_dtype = results[1][1]
    if name == "layer":
        arrays: list[Any] = [there, first, *given, eps]
    elif name == "rms":
        arrays, results = [there, first, given[0], eps], [results[0], results[2]]
    elif name == "group":
        arrays = [there, first, *given, eps]
    elif name == "instance":
        arrays, both = [there, None, None, *given, True, 0.1, eps], False
    else:
        momentum = _number(d, 0, 1)
        channels = results[1][0]
        start = [np.full(channels, n, kept_dtype) for n in (2, 3)]
        running = [d.give(a, writes=True) for a in start] if d.flag() else [None, None]
        more = start, running, momentum
        arrays = [there, *running, *given, True, momentum, eps]
        if both:
            arrays = [there, *given, *running, True, momentum, eps]
    if both:
        actual = _made(d, f"native_{name}_norm", arrays, results)
        rstd = want.rstd.reshape(results[-1][0])
        scale = (np.abs(want.x).max() + 1) * want.rstd.max()
        _near(actual[-1], rstd, rstd * (scale + want.count), want.count + 30)
        if name != "rms":
            mean = want.mean.reshape(results[1][0])
            _near(actual[1], mean, np.abs(want.x).mean() + np.abs(mean) + 1, want.count + 30)
    else:
        actual = [_made(d, f"{name}_norm", arrays, results[0])]
    lost = (np.abs(want.x).max() + 1) * want.rstd * np.abs(want.w)
    size = lost + np.abs(want.hat * want.w) + np.abs(want.b)
    _near(actual[0].reshape(view), want.y, size, want.count + 30)
    if more and more[1][0] is not None:
        start, running, momentum = more
        unbiased = want.var.ravel() * want.count / (want.count - 1)
        for old, new, now in zip(start, (want.mean.ravel(), unbiased), running, strict=True):
            exact = (1 - momentum) * old + momentum * new
            _near(
                values(now), exact, np.abs(exact) + np.abs(want.x).max() ** 2 + 1, want.count + 30
            )


def losses(d: Call) -> None:
    """``cross_entropy``, ``nll_loss``, ``mse_loss`` and their gradients."""
    name = d.programs.choice(("cross_entropy", "cross_entropy", "nll_loss", "mse_loss"))
    dtype, back = _dtype(d), d.programs.random() < 0.5
    reduction = d.programs.choice(("none", "sum", "mean"))
    if name == "mse_loss":
        _squares(d, dtype, back, reduction)
        return
    weighted, dense = d.programs.random() < 0.5, d.programs.random() < 0.3
    dense = dense and name == "cross_entropy"
    smooth = d.programs.random() < 0.4 and name == "cross_entropy"
    smoothing = _number(d, 0, 1) if smooth else 0.0
    ignore = d.draw.choice((-100, 0, 1, 12345))
    batch, classes = d.draw.choice((1, 3, 9, 40)), d.draw.choice((2, 3, 10, 33, 300, 1100))
    places = [d.draw.choice((1, 4, 15)) for _ in range(d.draw.choice((0, 0, 1, 2)))]
    if classes > 33:
        batch, places = min(batch, 9), places[:1]
    shape = (batch, classes, *places)
    x = d.filled(shape, np.float64) * 3
    if name == "nll_loss":
        x = -np.abs(x)
    x = x.astype(dtype)
    rows = np.moveaxis(x, 1, -1).reshape(-1, classes)
    if dense:
        target = d.rng.dirichlet(np.ones(classes), len(rows)).astype(dtype)
        passed = np.moveaxis(target.reshape(batch, *places, classes), -1, 1)
    else:
        target = d.rng.integers(0, classes, len(rows))
        target[d.rng.random(len(rows)) < 0.1] = ignore
        passed = target.reshape(batch, *places).astype(d.draw.choice((np.int64, np.int32)))
    w = d.rng.uniform(0.5, 2, classes).astype(dtype) if weighted else None
    want = Classes(rows, w, smoothing, ignore)
    if name == "nll_loss":
        want.log = _wide(rows)
    p, weights = want.fractions(target)
    if reduction == "mean" and weights.sum() == 0:
        return
    options: dict[str, Any] = {"ignore_index": ignore, "reduction": reduction}
    if name == "cross_entropy":
        options["label_smoothing"] = smoothing
    result = (batch, *places) if reduction == "none" else ()
    arrays = [_given(d, x), d.give(passed), None if w is None else d.give(w)]
    size = (np.abs(p) * (np.abs(want.log) + np.abs(_wide(rows)).max(initial=1) + 1)).sum(1)
    if not back:
        exact = want.loss(target, reduction)
        total = size if reduction == "none" else size.sum()
        total = total / weights.sum() if reduction == "mean" else total
        got = _made(d, name, arrays, (result, dtype), **options)
        _near(got, np.reshape(exact, result), np.reshape(total, result), classes + len(rows) + 60)
        return
    g = d.filled(result, dtype)
    flat = np.asarray(g).reshape(-1, 1)
    if name == "cross_entropy":
        exact = want.gradient(target, flat, reduction)
        size = p + np.exp(want.log) * p.sum(axis=1, keepdims=True) * (2 + np.abs(_wide(rows)).max())
    else:
        exact = -_wide(flat) * p / (weights.sum() if reduction == "mean" else 1)
        size = p
    size = np.abs(_wide(flat)) * size / (weights.sum() if reduction == "mean" else 1)
    got = _made(d, f"{name}_backward", [d.give(g), *arrays], (shape, dtype), **options)
    _near(np.moveaxis(got, 1, -1).reshape(-1, classes), exact, size, classes + len(rows) + 60)


def _squares(d: Call, dtype: Any, back: bool, reduction: str) -> None:
    shape = d.shape()
    (x, there), (y, there_y) = _operand(d, shape, dtype), _operand(d, shape, dtype)
    if reduction == "mean" and not x.size:
        return
    part = _wide(x) - _wide(y)
    result = shape if reduction == "none" else ()
    count = max(1, x.size)
    if not back:
        exact = {"none": part**2, "sum": (part**2).sum(), "mean": (part**2).sum() / count}
        got = _made(d, "mse_loss", [there, there_y, reduction], (result, dtype))
        _near(got, exact[reduction], exact[reduction], 20)
        return
    g = d.filled(result, dtype)
    exact = 2 * _wide(g) * part / (count if reduction == "mean" else 1)
    got = _made(d, "mse_loss_backward", [d.give(g), there, there_y, reduction], (shape, dtype))
    _near(got, exact, np.abs(exact), 5)


# -- others


def linears(d: Call) -> None:
    """``linear`` and its gradients."""
    dtype, back = _dtype(d), d.programs.random() < 0.4
    leading = d.draw.choice(((), (1,), (7,), (0,), (3, 5), (2, 1, 4), (130,)))
    m, n = d.extent(150) or 1, d.extent(150)
    (x, there), (w, there_w) = _operand(d, (*leading, n), dtype), _operand(d, (m, n), dtype)
    lost = 0.0 if d.engine.target.is_cpu else SPLIT_ERRORS["ieee"]
    if not back:
        exact, size = f_linear(x, w)
        arrays = [there, there_w]
        if d.flag():
            bias = d.filled((m,), dtype)
            arrays.append(d.give(bias))
            exact, size = exact + _wide(bias), size + _sizes(bias)
        got = _made(d, "linear", arrays, (exact.shape, dtype))
        _near(got, exact, size, 2 * (n + 3) + lost * 2**25)
        return
    g, there_g = _operand(d, (*leading, m), dtype)
    flat_g, flat_x = _wide(g).reshape(prod(leading), m), _wide(x).reshape(prod(leading), n)
    mask = [d.flag(0.8) for _ in range(3)]
    options = d.record("nn.linear_backward", output_mask=mask)
    got = nn.linear_backward(there_g, there, there_w, **options)
    pairs = (
        (_wide(g) @ _wide(w), _sizes(g) @ _sizes(w), m),
        (flat_g.T @ flat_x, np.abs(flat_g).T @ np.abs(flat_x), prod(leading)),
        (flat_g.sum(0), np.abs(flat_g).sum(0), prod(leading)),
    )
    for item, wanted, (exact, size, terms) in zip(got, mask, pairs, strict=True):
        assert (item is not None) == wanted
        if wanted:
            actual = np.asarray(values(item))
            assert actual.dtype == dtype
            _near(actual, exact, size, 2 * (terms + 3) + lost * 2**25)


def f_linear(x: Any, w: Any) -> tuple[Any, Any]:
    """The product, and that of the magnitudes."""
    return _wide(x) @ _wide(w).T, _sizes(x) @ _sizes(w).T


def embeddings(d: Call) -> None:
    """``embedding`` and its gradient."""
    dtype, back = _dtype(d), d.programs.random() < 0.5
    rows, columns = d.draw.choice((1, 3, 37, 300)), d.draw.choice((1, 2, 7, 24, 65))
    shape = d.draw.choice(((), (1,), (5, 6), (0, 4), (700,), (3, 4, 5)))
    of_index = d.programs.choice(("int64", "int32", "uint8", "int16"))
    indices = d.rng.integers(0, min(rows, 127), shape).astype(of_index)
    there = d.give(np.asarray(indices))
    if not back:
        if d.programs.random() < 0.3:
            _limited(d, there, d.filled((rows, columns), dtype), indices)
            return
        weight, there_w = _operand(d, (rows, columns), dtype)
        got = _made(d, "embedding", [there, there_w], ((*shape, columns), dtype))
        assert got.tobytes() == np.ascontiguousarray(weight[indices]).tobytes()
        return
    g, there_g = _operand(d, (*shape, columns), dtype)
    exact, size = np.zeros((2, rows, columns))
    np.add.at(exact, indices.astype(int), _wide(g))
    np.add.at(size, indices.astype(int), _sizes(g))
    padding, by_frequency = d.draw.choice((None, None, -1, 0)), d.programs.random() < 0.3
    if padding is not None:
        exact[padding] = size[padding] = 0
    counts = np.bincount(indices.ravel(), minlength=rows)[:, None]
    if by_frequency:
        exact, size = exact / np.maximum(1, counts), size / np.maximum(1, counts)
    arrays = [there_g, there, rows, padding, by_frequency]
    got = _made(d, "embedding_backward", arrays, ((rows, columns), dtype))
    _near(got, exact, size, counts.max(initial=1) + by_frequency)


def _limited(d: Call, there: Any, weight: Any, indices: Any) -> None:
    """Rows of a weight are limited in place, and gathered."""
    order, there_w = d.programs.choice((1.0, 2.0, np.inf, 3.0)), _given(d, weight, writes=True)
    start = _wide(weight).copy()
    norms = np.linalg.norm(start, order, 1)
    limit = float(np.median(norms)) * _number(d, 0.5, 1.0)
    scales = np.where(norms > limit, limit / (norms + 1e-7), 1)
    scales[np.setdiff1d(np.arange(len(weight)), indices)] = 1
    shape = (*indices.shape, weight.shape[1])
    got = _made(d, "embedding", [there, there_w, None, limit, order], (shape, weight.dtype))
    assert got.tobytes() == np.ascontiguousarray(np.asarray(values(there_w))[indices]).tobytes()
    exact = start * scales[:, None]
    _near(values(there_w), exact, np.abs(exact), 3 * weight.shape[1] + 20)


def dropouts(d: Call) -> None:
    """``dropout`` and its gradient, by the mask of NumPy's Philox."""
    dtype, shape = _dtype(d), d.shape()
    x, there = _operand(d, shape, dtype)
    p, seed = _number(d, 0, 0.95), int(d.rng.integers(0, 2**62))
    name = d.programs.choice(("dropout", "dropout_backward"))
    got = _made(d, name, [there, p], (shape, dtype), seed=seed)
    mask = kept_elements(prod(shape), p, seed).reshape(shape)
    exact = np.where(mask, _wide(x) / (1 - p), 0)
    _near(got, exact, np.abs(exact), 2)


def attentions_of(d: Call) -> None:
    """Attention and its gradients."""
    dtype, back = _dtype(d), d.programs.random() < 0.4
    mask_kind = d.programs.choice(("", "", "bool", "added", "causal"))
    n, m = d.extent(80), d.draw.choice((1, 2, 7, 33, 64, 100))
    e, v = d.programs.choice((1, 8, 20, 64)), d.programs.choice((1, 8, 20, 64))
    form = d.draw.choice(("plain", "heads", "batch", "batch"))
    shared = d.draw.choice((1, 1, 2, 3)) if form == "batch" else 1
    heads = d.draw.choice((1, 2, 3))
    front, back_front = {
        "plain": ((), ()), "heads": ((heads,),) * 2,
        "batch": ((2, heads * shared), (2, heads)),
    }[form]  # fmt: skip
    (q, tq), (k, tk), (w, tv) = (
        _operand(d, shape, dtype)
        for shape in ((*front, n, e), (*back_front, m, e), (*back_front, m, v))
    )
    options: dict[str, Any] = {"enable_gqa": shared > 1 or d.flag()}
    mask: Any = None
    extra = []
    if mask_kind == "causal":
        options["is_causal"] = True
    elif mask_kind:
        wide = [1 if d.flag(0.3) else one for one in front]
        shape = [*(wide if d.flag() else ()), n, m]
        mask = d.filled(shape, np.bool_ if mask_kind == "bool" else dtype)
        extra = [d.give(mask)]
    scale = _number(d, 0.05, 0.6) if d.flag(0.4) else None
    options["scale"] = scale
    factor = 1.0 if scale is None else scale * np.sqrt(e)
    factors: Any = 1.0
    if d.programs.random() < 0.3:
        rate, seed = d.programs.choice((0.1, 0.5)), int(d.rng.integers(1 << 40))
        options |= {"dropout_p": rate, "seed": seed}
        shape = (*front, n, m)
        factors = kept_elements(prod(shape), rate, seed).reshape(shape) / (1 - rate)
    wide_mask = mask if mask is None or mask.dtype == bool else _wide(mask)
    arguments = _wide(q) * factor, _wide(k), _wide(w), wide_mask, mask_kind == "causal", factors
    exact = attentions.reference(*arguments) if n else np.zeros((*front, n, v))
    logit = np.abs(_wide(q)).max(initial=0) * np.abs(_wide(k)).max() * e * factor / np.sqrt(e)
    size = (m + 40 + e * logit) * np.abs(_wide(w)).max() * np.max(factors, initial=1)
    result = (exact.shape, dtype)
    if not back:
        got = _made(d, "scaled_dot_product_attention", [tq, tk, tv, *extra], result, **options)
        bound = 4 * unit_roundoff(_sums(dtype)) * size
        if n and _rounds_probabilities(d, dtype):
            q, k, w, *others = arguments
            bound = bound + unit_roundoff(dtype) * attentions.reference(q, k, np.abs(w), *others)
        assert_within(got, exact, bound)
        return
    if not n:
        return
    _attention_gradients(d, (tq, tk, tv, *extra), arguments, factor, exact, options, size)


def _rounds_probabilities(d: Call, dtype: Any) -> bool:
    """Whether attention may round probabilities p to the dtype, as operands of matrix units.

    Each p then has an error of u p, u being the dtype's unit roundoff, and a sum of p |v| has one
    of u times that sum: Higham, Accuracy and Stability of Numerical Algorithms, 2.2 and 3.1.
    """
    return is_float16_like(dtype) and d.engine.target.matrix_units in ("mma", "wgmma")


def _attention_gradients(
    d: Call, there: Any, arguments: Any, factor: float, y: Any, options: dict[str, Any], size: float
) -> None:
    q, k, w, mask, causal, factors = arguments
    dtype = there[0].dtype
    group = q.shape[1] // k.shape[1] if q.ndim == 4 else 1
    every_k, every_w = ((np.repeat(a, group, 1) if group > 1 else a) for a in (k, w))
    root = np.sqrt(q.shape[-1])
    s = q @ every_k.swapaxes(-1, -2) / root
    if causal:
        mask = np.tril(np.ones(s.shape[-2:], bool))
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    top = s.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.exp(s - top).sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        sums_of = (top + np.log(total))[..., 0]
    p = np.exp(s - top) / np.where(total == 0, 1, total)
    stored, result = _sums(dtype), y.astype(dtype)
    g, there_g = _operand(d, y.shape, dtype)
    G = _wide(g)
    dp = G @ every_w.swapaxes(-1, -2) * factors
    ds = p * (dp - (G * _wide(result)).sum(-1, keepdims=True))
    exact = [ds @ every_k / root * factor, ds.swapaxes(-1, -2) @ q / root]
    exact.append((p * factors).swapaxes(-1, -2) @ G)
    width = p * (
        np.abs(G) @ np.abs(every_w).swapaxes(-1, -2) * factors
        + (np.abs(G) * np.abs(y)).sum(-1, keepdims=True)
    )
    sizes = [
        width @ np.abs(every_k) / root * factor,
        width.swapaxes(-1, -2) @ np.abs(q) / root,
        (p * factors).swapaxes(-1, -2) @ np.abs(G),
    ]
    # What the rounding of p and ds as operands adds, for ds also where it is a subnormal number.
    small = np.abs(ds) + (0 if dtype != np.float16 else 2.0**-14 * (p > 0))
    rounded = [
        small @ np.abs(every_k) / root * factor,
        small.swapaxes(-1, -2) @ np.abs(q) / root,
        sizes[2],
    ]
    if group > 1:
        for k_ in (1, 2):
            for list_ in (exact, sizes, rounded):
                a = list_[k_]
                list_[k_] = a.reshape(a.shape[0], -1, group, *a.shape[2:]).sum(2)
    call = d.record("nn.scaled_dot_product_attention_backward", **options)
    arrays = [there_g, *there[:3], _given(d, result), d.give(sums_of.astype(stored)), *there[3:]]
    got = nn.scaled_dot_product_attention_backward(*arrays, **call)
    logit = float(np.abs(s[np.isfinite(s)]).max(initial=0)) + 1
    terms = sum(there[1].shape[-2:]) + sum(q.shape[-2:]) * group + 60 + q.shape[-1] * logit
    rounding = unit_roundoff(dtype) if _rounds_probabilities(d, dtype) else 0.0
    for item, want, of, more in zip(got, exact, sizes, rounded, strict=True):
        actual = np.asarray(values(item))
        assert actual.dtype == dtype
        bound = 4 * terms * 2 * unit_roundoff(stored) * of + rounding * more
        assert_within(actual, want, bound)


def steps(d: Call) -> None:
    """Two steps of an optimiser, in place."""
    name, dtype = d.programs.choice(("sgd", "adam")), _dtype(d)
    narrow, master = is_float16_like(dtype), d.programs.random() < 0.5
    stored, shape = _sums(dtype), d.shape()
    x = d.filled(shape, dtype)
    start = x.astype(stored) if narrow and master else x
    rule, place = Rules(_wide(start)), _plain(d, x)
    flags = {key: d.programs.random() < 0.4 for key in ("maximize", "nesterov", "decoupled", "ams")}
    common = {"lr": _number(d, 0.001, 0.2), "weight_decay": _number(d, 0, 0.1)}
    states = [_plain(d, np.zeros(shape, stored)) for _ in range(3)]
    copy = {"master": _plain(d, start.copy())} if narrow and master else {}
    momentum = _number(d, 0.1, 0.9) if d.programs.random() < 0.6 else 0.0
    betas = (_number(d, 0.5, 0.9), _number(d, 0.5, 0.99))
    for step in (1, 2):
        g = d.filled(shape, dtype)
        if name == "sgd":
            options_of_rule = {"momentum": momentum, "nesterov": flags["nesterov"] and momentum > 0}
            rule.sgd(_wide(g), maximize=flags["maximize"], **options_of_rule, **common)
            arrays = [place, _plain(d, g), states[0] if momentum else None]
            options_of_rule |= {"is_first": step == 1}
        else:
            options_of_rule = {"decoupled": flags["decoupled"], "betas": betas, "eps": 1e-3}
            rule.adam(
                _wide(g),
                amsgrad=flags["ams"],
                maximize=flags["maximize"],
                **options_of_rule,
                **common,
            )
            arrays = [place, _plain(d, g), *states[: 3 if flags["ams"] else 2]]
            options_of_rule |= {"step": step}
        options = d.record(
            f"nn.{name}_step", maximize=flags["maximize"], **options_of_rule, **common, **copy
        )
        assert getattr(nn, f"{name}_step")(*arrays, **options) is place
        if narrow and not master:  # the next step begins with the rounded value
            got = np.asarray(values(place))
            _near(got, rule.p, 10 * (np.abs(rule.p) + 1), 10)
            rule.p = _wide(got)
    unit = 2 * unit_roundoff(stored)
    if copy:
        assert_within(np.asarray(values(copy["master"])), rule.p, 400 * unit * (np.abs(rule.p) + 1))
    assert_within(np.asarray(values(place)), rule.p, 400 * unit * (np.abs(rule.p) + 1))


def _plain(d: Call, x: Any, writes: bool = True) -> Any:
    """``x`` in C order, at any offset."""
    memory = np.zeros(x.size + 8, x.dtype)
    offset = d.draw.choice((0, 1, 4))
    view = memory[offset : offset + x.size].reshape(x.shape)
    view[...] = x
    return d._there(memory, view, writes)


#: By name.
FAMILIES: dict[str, Callable[[Call], None]] = {
    "conv": convolutions, "pool": pools, "pad": pads, "interpolate": interpolations,
    "activation": elements, "softmax": softmaxes, "norm": norms, "loss": losses,
    "linear": linears, "embedding": embeddings, "dropout": dropouts, "attention": attentions_of,
    "optimiser": steps,
}  # fmt: skip
