"""Functions of ``portable_gpu.nn`` and their gradients against torch's, on random shapes.

Torch computes in float64, with its automatic differentiation.  Extents and strides are arguments
of kernels, so that random ones cost nothing; windows and numbers of axes are not.
"""

from __future__ import annotations

import inspect
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from layers.activations import CASES, LD
from layers.normalization import Reference

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import ShapeError
from portable_gpu.runtime.engine import Engine

torch = pytest.importorskip("torch")
from oracle.torch_twins import LAYOUTS, back, matrix, near, on_planes, twin  # noqa: E402

F = torch.nn.functional
SINGLE = np.float32


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> Any:
    """Random numbers that depend on the test's name alone."""
    return np.random.default_rng(list(request.node.name.encode()))


def drawn(rng: Any, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(SINGLE)


def numbers(rng: Any, low: int, high: int, count: int) -> list[int]:
    """Integers from ``low`` up to, but not, ``high``."""
    return [int(n) for n in rng.integers(low, high, count)]


# -- signatures

#: What torch takes and this library does not: deprecated arguments; ``inplace``, which is ``out``
#: here; the dtype of a softmax; and the kind of gradients of embeddings.
LEFT_OUT = {
    "inplace", "size_average", "reduce", "_stacklevel", "dtype", "scale_grad_by_freq", "sparse",
}  # fmt: skip
#: Names that differ on purpose: ``dim`` has no default in torch but a deprecated one that depends
#: on the number of axes.
OTHER_DEFAULTS = {("softmax", "dim"), ("log_softmax", "dim")}
#: The weight of elements of ``mse_loss`` is new in torch 2.13.
OTHER_DEFAULTS |= {("mse_loss", "weight")}
BOTH = sorted(
    name for name in nn.__all__ if hasattr(F, name) and not inspect.isclass(getattr(nn, name))
)


def _of_torch(name: str) -> dict[str, Any]:
    """Torch's arguments and defaults; of functions in C++ from the first line of the docstring."""
    function = getattr(F, name)
    try:
        actual = inspect.signature(function)
        if "args" not in actual.parameters:
            return {key: one.default for key, one in actual.parameters.items()}
    except ValueError:
        pass
    line = re.search(rf"{name}\((.*?)\)\s*(->|$)", function.__doc__ or "", re.MULTILINE | re.DOTALL)
    assert line, name
    parts = [part.strip().strip("*") for part in line[1].replace("\n", " ").split(",")]
    result: dict[str, Any] = {}
    for part in filter(None, parts):
        key, _, value = (piece.strip() for piece in part.partition("="))
        names = {"None": None, "True": True, "False": False}
        plain = names.get(value, value.strip("'\""))
        if isinstance(plain, str) and re.fullmatch(r"-?[\d.e-]+", plain):
            plain = float(plain)
        result[key] = plain if value else inspect.Parameter.empty
    return result


@pytest.mark.parametrize("name", BOTH)
def test_signatures(name: str) -> None:
    """Functions have torch's arguments in the same order, with the same defaults."""
    theirs = {key: value for key, value in _of_torch(name).items() if key not in LEFT_OUT}
    theirs = {key: value for key, value in theirs.items() if (name, key) not in OTHER_DEFAULTS}
    ours = inspect.signature(getattr(nn, name)).parameters.values()
    mine = {one.name: one.default for one in ours if one.kind is not one.KEYWORD_ONLY}
    more = set(mine) - set(theirs)
    assert list(theirs) == [key for key in mine if key in theirs]
    assert all(mine[key] is not inspect.Parameter.empty for key in more - {"dim"})
    for key, value in theirs.items():
        assert mine[key] == value, key


# -- convolutions


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions(engine: Engine, rng: Any, axes: int) -> None:
    """Forward, transposed, and all gradients, with groups from 1 to all channels."""
    kernel = {1: [3], 2: [3, 2], 3: [2, 3, 2]}[axes]
    stride, dilation = {1: ([2], [1]), 2: ([1, 2], [2, 1]), 3: ([1, 2, 1], [1, 1, 2])}[axes]
    padding = [k // 2 for k in kernel]
    options: dict[str, Any] = {"stride": stride, "padding": padding, "dilation": dilation}
    on = {**options, "engine": engine}
    name, transposed = f"conv{axes}d", f"conv_transpose{axes}d"
    for groups, each, filters in ((1, 5, 4), (3, 2, 3), (6, 1, 1)):
        place = LAYOUTS[groups == 3]
        space = [
            int(d * (k - 1) + rng.integers(1, 7)) for k, d in zip(kernel, dilation, strict=True)
        ]
        x = place(drawn(rng, int(rng.integers(1, 4)), groups * each, *space))
        w, b = drawn(rng, groups * filters, each, *kernel), drawn(rng, groups * filters)

        def exact(x: Any, w: Any, b: Any, groups: int = groups) -> Any:
            return getattr(F, name)(x, w, b, groups=groups, **options)

        y, _ = back(exact, lambda shape: np.ones(shape), x, w, b)
        g = place(drawn(rng, *y.shape))
        y, exact_gradients = back(exact, g, x, w, b)
        size, sizes = back(exact, np.abs(g), *(np.abs(a) for a in (x, w, b)))
        taps, places = int(np.prod(kernel)), g.size // g.shape[1]
        got = getattr(nn, name)(x, w, b, groups=groups, **on)
        near(got, y, size, each * taps + 2)
        for which, terms, found in (
            (0, filters * taps, getattr(nn, f"{name}_input")(x.shape, w, g, groups=groups, **on)),
            (1, places, getattr(nn, f"{name}_weight")(x, w.shape, g, groups=groups, **on)),
            (2, places, getattr(nn, f"{name}_bias")(g, engine=engine)),
        ):
            near(found, exact_gradients[which], sizes[which], terms + 2)
        more = [s - 1 for s in stride]
        bias = drawn(rng, groups * each)
        function = getattr(F, transposed)
        arrays, rest = (g, w, bias), {"groups": groups, "output_padding": more}
        y = function(*map(twin, arrays), **options, **rest).numpy()
        size = function(*(twin(np.abs(a)) for a in arrays), **options, **rest).numpy()
        near(getattr(nn, transposed)(*arrays, **on, **rest), y, size, filters * taps + 2)
    if axes == 2:
        for word in ("same", "valid"):
            x, w = drawn(rng, 2, 3, 6, 7), drawn(rng, 4, 3, 3, 1)
            y = F.conv2d(twin(x), twin(w), padding=word).numpy()
            size = F.conv2d(twin(np.abs(x)), twin(np.abs(w)), padding=word).numpy()
            near(nn.conv2d(x, w, padding=word, engine=engine), y, size, 20)


def test_linear_and_embedding(engine: Engine, rng: Any) -> None:
    for lead in ((), (5,), (2, 3)):
        n, m = numbers(rng, 1, 40, 2)
        x, w, b, g = drawn(rng, *lead, n), drawn(rng, m, n), drawn(rng, m), drawn(rng, *lead, m)
        y, exact = back(F.linear, g, x, w, b)
        size, sizes = back(F.linear, *(np.abs(a) for a in (g, x, w, b)))
        near(nn.linear(x, w, b, engine=engine), y, size, n + 2)
        actual = nn.linear_backward(g, x, w, engine=engine)
        for got, one, terms in zip(actual, range(3), (m, x.size // n, x.size // n), strict=True):
            near(got, exact[one], sizes[one], terms + 3)
    rows, columns = numbers(rng, 3, 20, 2)
    table, indices = drawn(rng, rows, columns), rng.integers(0, rows, (4, 6))
    g = drawn(rng, 4, 6, columns)
    for padding in (None, 1, -1):
        y, (exact_table,) = back(lambda t: F.embedding(twin(indices), t, padding), g, table)
        _, (size,) = back(lambda t: F.embedding(twin(indices), t, padding), np.abs(g), table)
        assert np.array_equal(nn.embedding(indices, table, padding, engine=engine), y)
        got = nn.embedding_backward(g, indices, rows, padding, engine=engine)
        near(got, exact_table, size, indices.size)

        def by_frequency(t: Any) -> Any:
            return F.embedding(twin(indices), t, padding, scale_grad_by_freq=True)

        _, (exact_table,) = back(by_frequency, g, table)
        _, (size,) = back(by_frequency, np.abs(g), table)
        got = nn.embedding_backward(g, indices, rows, padding, True, engine=engine)
        near(got, exact_table, size, indices.size + 1)
    for order in (1.0, 2.0, float("inf"), 2.5):
        limited, theirs = table.copy(), twin(table).clone()
        limit = float(np.median(np.linalg.norm(table, order, 1)))
        y = F.embedding(twin(indices), theirs, 1, limit, order).numpy()
        got = nn.embedding(indices, limited, 1, limit, order, engine=engine)
        near(limited, theirs.numpy(), np.abs(table), 4 * columns + 20)
        near(got, y, np.abs(y), 4 * columns + 20)
        assert np.array_equal(got, limited[indices])
        assert (limited != table).any()


# -- sampling

MODES = {
    1: ("nearest", "nearest-exact", "linear", "area"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic", "area"),
    3: ("nearest", "nearest-exact", "trilinear", "area"),
}


def check_planes(rng: Any, space: Any, ours: Any, backward: Any, theirs: Any, taps: float) -> None:
    """A linear function of planes, and its gradient, in both layouts, within the sums of sizes."""
    m = matrix(theirs, space)
    for place in LAYOUTS:
        x = place(drawn(rng, *numbers(rng, 1, 4, 2), *space))
        y = theirs(twin(x)).numpy()
        near(ours(x), y, on_planes(np.abs(m), np.abs(x), y.shape[2:]), taps + 5)
        g = place(drawn(rng, *y.shape))
        _, (exact,) = back(theirs, g, x)
        maximum = int(np.count_nonzero(m, axis=0).max(initial=0))
        near(backward(g, x), exact, on_planes(np.abs(m).T, np.abs(g), space), taps + maximum + 5)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_interpolate(engine: Engine, rng: Any, axes: int) -> None:
    for mode in MODES[axes]:
        smooth = mode not in ("nearest", "nearest-exact", "area")
        for align, antialias in ((None, False), (True, False), (False, True)):
            if (align is not None and not smooth) or (antialias and axes != 2):
                continue
            options: dict[str, Any] = {"mode": mode, "align_corners": align}
            options |= {"antialias": antialias}
            space = numbers(rng, 2, 9, axes)
            if rng.random() < 0.5:
                options["size"] = numbers(rng, 1, 12, axes)
            else:
                options["scale_factor"] = [float(n) for n in rng.uniform(0.5, 2.5, axes)]
                options["recompute_scale_factor"] = bool(rng.integers(2)) or None
            check_planes(
                rng, space,
                lambda x: nn.interpolate(x, **options, engine=engine),
                lambda g, x: nn.interpolate_backward(g, x, **options, engine=engine),
                lambda x: F.interpolate(x, **options),
                6 ** axes if not antialias else 400,
            )  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pad(engine: Engine, rng: Any, axes: int) -> None:
    for mode in ("constant", "reflect", "replicate", "circular"):
        pads = numbers(rng, -1, 3, 2 * axes)
        space = numbers(rng, 4, 9, axes)
        check_planes(
            rng, space,
            lambda x: nn.pad(x, pads, mode, engine=engine),
            lambda g, x: nn.pad_backward(g, pads, mode, engine=engine),
            lambda x: F.pad(x, pads, mode),
            0,
        )  # fmt: skip
    x, pads = drawn(rng, *numbers(rng, 1, 5, axes)), numbers(rng, 0, 3, 2 * axes)
    assert np.array_equal(
        nn.pad(x, pads, value=2.5, engine=engine), F.pad(twin(x), pads, value=2.5).numpy()
    )


def windows(rng: Any, axes: int) -> tuple[dict[str, Any], list[int]]:
    """Options of a pooling that torch takes as well, and extents."""
    kernel = numbers(rng, 1, 4, axes)
    padding = [int(rng.integers(0, k // 2 + 1)) for k in kernel]
    options = {
        "kernel_size": kernel, "stride": numbers(rng, 1, 4, axes), "padding": padding,
        "ceil_mode": bool(rng.integers(2)),
    }  # fmt: skip
    min_extents = [2 * k - 1 for k in kernel]
    if options["ceil_mode"]:  # the first window may be cut off too
        each = zip(kernel, options["stride"], padding, strict=True)
        min_extents = [max(1, k - 2 * pad - step + 1) for k, step, pad in each]
    ranges = zip(min_extents, (2 * k + 6 for k in kernel), strict=True)
    return options, [int(rng.integers(low, high)) for low, high in ranges]


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_averages(engine: Engine, rng: Any, axes: int) -> None:
    for turn in range(3):
        options, space = windows(rng, axes)
        options["count_include_pad"] = bool(turn % 2)
        if turn == 2 and axes > 1:
            options["divisor_override"] = 3
        name = f"avg_pool{axes}d"
        check_planes(
            rng, space,
            lambda x: getattr(nn, name)(x, **options, engine=engine),
            lambda g, x: getattr(nn, f"{name}_backward")(g, x, **options, engine=engine),
            lambda x: getattr(F, name)(x, **options),
            int(np.prod(options["kernel_size"])),
        )  # fmt: skip
    size, name = numbers(rng, 1, 6, axes), f"adaptive_avg_pool{axes}d"
    space = numbers(rng, 2, 9, axes)
    check_planes(
        rng, space,
        lambda x: getattr(nn, name)(x, size, engine=engine),
        lambda g, x: getattr(nn, f"{name}_backward")(g, x, engine=engine),
        lambda x: getattr(F, name)(x, size),
        int(np.prod(space)),
    )  # fmt: skip


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_maxima(engine: Engine, rng: Any, axes: int) -> None:
    """Values and indices are equal; so are those of unpooling."""
    on = {"engine": engine}
    for turn in range(2):
        options, space = windows(rng, axes)
        options["dilation"] = [1 + turn] * axes
        space = [n + turn * k for n, k in zip(space, options["kernel_size"], strict=True)]
        x = LAYOUTS[turn](drawn(rng, *numbers(rng, 1, 4, 2), *space))
        name = f"max_pool{axes}d"
        function = getattr(F, name)
        y, indices = function(twin(x), **options, return_indices=True)
        got, found = getattr(nn, name)(x, **options, return_indices=True, **on)
        assert np.array_equal(got, y.numpy())
        assert np.array_equal(found, indices.numpy())
        assert np.array_equal(getattr(nn, name)(x, **options, **on), got)
        g = drawn(rng, *got.shape)
        _, (exact,) = back(lambda t: function(t, **options), g, x)
        _, (size,) = back(lambda t: function(t, **options), np.abs(g), x)
        dx = getattr(nn, f"{name}_backward")(g, found, x, **options, **on)
        near(dx, exact, size, int(np.prod(options["kernel_size"])))
    size = numbers(rng, 1, 6, axes)
    x, name = (
        drawn(rng, *numbers(rng, 1, 4, 2), *numbers(rng, 2, 9, axes)),
        f"adaptive_max_pool{axes}d",
    )
    y, indices = getattr(F, name)(twin(x), size, return_indices=True)
    got, found = getattr(nn, name)(x, size, True, **on)
    assert np.array_equal(got, y.numpy())
    assert np.array_equal(found, indices.numpy())
    g = drawn(rng, *got.shape)
    _, (exact,) = back(lambda t: getattr(F, name)(t, size), g, x)
    _, (sizes,) = back(lambda t: getattr(F, name)(t, size), np.abs(g), x)
    near(getattr(nn, f"{name}_backward")(g, found, x, **on), exact, sizes, x.size)
    kernel, name = [2, 3, 2][:axes], f"max_unpool{axes}d"
    space = [int(k * n + extra) for k, n, extra in zip(
        kernel, rng.integers(1, 4, axes), rng.integers(0, 2, axes), strict=True)]  # fmt: skip
    x = drawn(rng, 2, 3, *space)
    pooled, indices = getattr(F, f"max_pool{axes}d")(twin(x), kernel, return_indices=True)
    values, places = pooled.numpy().astype(SINGLE), indices.numpy()
    options = {"kernel_size": kernel, "output_size": space}
    y = getattr(F, name)(twin(values), indices, **options).numpy()
    assert np.array_equal(getattr(nn, name)(values, places, **options, **on), y)
    g = drawn(rng, *y.shape)
    _, (exact,) = back(lambda t: getattr(F, name)(t, indices, **options), g, values)
    got = getattr(nn, f"{name}_backward")(g, places, kernel, **on)
    assert np.array_equal(got, exact.astype(SINGLE))


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_powers(engine: Engine, rng: Any, axes: int) -> None:
    """Sums of powers, of positive numbers, whose relative errors the root makes smaller.

    Torch multiplies windows that are cut off by ``ceil_mode`` as if they were whole; they are
    left out.
    """
    for norm in (1.0, 2.0, 3.0):
        options, space = windows(rng, axes)
        del options["padding"]
        options["ceil_mode"] = False
        space = [max(n, k) for n, k in zip(space, options["kernel_size"], strict=True)]
        x, name = 0.1 + np.abs(drawn(rng, 2, 3, *space)), f"lp_pool{axes}d"

        def exact(t: Any, norm: float = norm, options: Any = options) -> Any:
            if axes == 1:
                options = {
                    key: one if key == "ceil_mode" else one[0] for key, one in options.items()
                }
            return getattr(F, name)(t, norm, **options)

        y = exact(twin(x)).numpy()
        got = getattr(nn, name)(x, norm, **options, engine=engine)
        near(got, y, y, int(np.prod(options["kernel_size"])) + 40)
        g = drawn(rng, *y.shape)
        _, (gradient,) = back(exact, g, x)
        _, (size,) = back(exact, np.abs(g), x)
        actual = getattr(nn, f"{name}_backward")(g, x, got, norm, **options, engine=engine)
        near(actual, gradient, size, 3 * int(np.prod(options["kernel_size"])) + 120)


def test_pixels(engine: Engine, rng: Any) -> None:
    for factor in (2, 3):
        c, h, w = numbers(rng, 1, 5, 3)
        x = drawn(rng, 2, c * factor**2, h, w)
        y = nn.pixel_shuffle(x, factor, engine=engine)
        assert np.array_equal(y, F.pixel_shuffle(twin(x), factor).numpy())
        z = nn.pixel_unshuffle(y, factor, engine=engine)
        assert np.array_equal(z, x)
        assert np.array_equal(z, F.pixel_unshuffle(twin(y), factor).numpy())
        assert np.array_equal(nn.pixel_shuffle_backward(y, factor, engine=engine), x)
        assert np.array_equal(nn.pixel_unshuffle_backward(x, factor, engine=engine), y)


# -- elements, rows and losses


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0] + str(c[1].get("approximate", "")))
def test_activations(engine: Engine, rng: Any, case: Any) -> None:
    """As tests/device/test_nn_activations.py bounds them: 32 ulp of the terms."""
    name, options, of_result, function, derivative, argument_error = case
    x = np.concatenate([rng.uniform(-9, 9, 400), rng.uniform(-80, 80, 80)]).reshape(8, 60)
    x, g = x.astype(SINGLE), drawn(rng, 8, 60)
    exact, (gradient,) = back(lambda t: getattr(F, name)(t, **options), g, x)
    wide = x.astype(LD)
    terms, slope = (sum(np.abs(t) for t in f(wide)) for f in (function, derivative))
    more = (1 + argument_error(wide)).astype(float)
    theirs = 2.0**-29 * (1 + np.abs(x))  # the error of torch's 1 + erf(x), which cancels
    y = getattr(nn, name)(x, **options, engine=engine)
    near(y, exact, more * terms.astype(float) + theirs, 32)
    got = getattr(nn, f"{name}_backward")(g, y if of_result else x, **options, engine=engine)
    size = more * slope.astype(float) + of_result + theirs
    near(got, gradient, np.abs(g) * size, 64)


def test_softmax(engine: Engine, rng: Any) -> None:
    for shape, dim in (((3, 7), -1), ((2, 5, 9), 1), ((4, 130), 0), ((200,), 0)):
        x, g, count = 3 * drawn(rng, *shape), drawn(rng, *shape), shape[dim]
        y, (exact,) = back(lambda t: F.softmax(t, dim), g, x)
        got = nn.softmax(x, dim, engine=engine)
        near(got, y, y, count + 60)
        size = y * (np.abs(g) + (np.abs(g) * y).sum(axis=dim, keepdims=True))
        near(nn.softmax_backward(g, got, dim, engine=engine), exact, size, 3 * (count + 60))
        y, (exact,) = back(lambda t: F.log_softmax(t, dim), g, x)
        got = nn.log_softmax(x, dim, engine=engine)
        near(got, y, 1 + np.abs(y), count + 60)
        size = np.abs(g) + np.exp(y) * np.abs(g).sum(axis=dim, keepdims=True) * (1 + np.abs(y))
        near(nn.log_softmax_backward(g, got, dim, engine=engine), exact, size, 2 * (count + 60))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(engine: Engine, rng: Any, reduction: str) -> None:
    for shape in ((6, 5), (2, 7, 3, 4)):
        classes, places = shape[1], (shape[0], *shape[2:])
        x, w = 2 * drawn(rng, *shape), rng.uniform(0.5, 2, classes).astype(SINGLE)
        target = rng.integers(0, classes, places)
        target.flat[1] = -100
        likely = np.moveaxis(rng.dirichlet(np.ones(classes), places), -1, 1).astype(SINGLE)
        rows = target.size if reduction == "sum" else 1
        for name, aims, weight, smoothing in (
            ("cross_entropy", target, None, 0.0), ("cross_entropy", target, w, 0.1),
            ("cross_entropy", likely, w, 0.2), ("nll_loss", target, w, None),
        ):  # fmt: skip
            options: dict[str, Any] = {"reduction": reduction}
            if smoothing is not None:
                options["label_smoothing"] = smoothing
            weights = None if weight is None else twin(weight)

            def exact(t: Any) -> Any:
                return getattr(F, name)(t, twin(aims), weights, **options)

            scale = 30.0 * (classes + 60)
            g = drawn(rng, *(places if reduction == "none" else ()))
            y, (gradient,) = back(exact, g, x)
            got = getattr(nn, name)(x, aims, weight, **options, engine=engine)
            near(got, y, rows, scale)
            got = getattr(nn, f"{name}_backward")(g, x, aims, weight, **options, engine=engine)
            near(got, gradient, 1, scale)
        y = drawn(rng, *shape)
        g = drawn(rng, *(shape if reduction == "none" else ()))
        exact_loss, (gradient, _) = back(
            lambda a, b: F.mse_loss(a, b, reduction=reduction), g, x, y
        )
        got = nn.mse_loss(x, y, reduction, engine=engine)
        near(got, exact_loss, exact_loss, 30)
        got = nn.mse_loss_backward(g, x, y, reduction, engine=engine)
        near(got, gradient, np.abs(gradient), 8)


def check_norm(want: Reference, dy: Any, got: Any, exact: Any) -> None:
    """``got`` has y and its gradients; the bounds are those of the reference's terms."""
    lost = (np.abs(want.x).max() + 1) * want.rstd
    terms = want.count + 40
    weighed = np.abs(want.hat * want.w)
    size = (lost * np.abs(want.w) + weighed).reshape(exact[0].shape) * terms
    near(got[0], exact[0], size + np.abs(want.b).max(), 1)
    *_, size = want.gradients(dy.reshape(want.x.shape), ())
    near(got[1], exact[1], (size * (1 + lost)).reshape(dy.shape), terms)
    maximum = dy.size * float(np.abs(dy).max()) * (1 + float(lost.max()))
    near(got[2], exact[2], maximum, 6)
    if len(got) > 3:
        near(got[3], exact[3], dy.size * float(np.abs(dy).max()), 1)


def test_layer_and_rms_norm(engine: Engine, rng: Any) -> None:
    for shape, ends in (((5, 33), (33,)), ((2, 3, 4, 5), (4, 5))):
        x, g, w, b = (
            drawn(rng, *shape) + 1,
            drawn(rng, *shape),
            drawn(rng, *ends),
            drawn(rng, *ends),
        )
        axes = tuple(range(len(shape) - len(ends), len(shape)))
        y, exact = back(lambda x, w, b: F.layer_norm(x, ends, w, b), g, x, w, b)
        got, mean, rstd = nn.native_layer_norm(x, ends, w, b, engine=engine)
        back_ = nn.layer_norm_backward(g, x, ends, mean, rstd, w, b, engine=engine)
        wide = w.astype(float), b.astype(float)
        check_norm(Reference(x, axes, *wide), g, (got, *back_), (y, *exact))
        near(nn.layer_norm(x, ends, w, b, engine=engine), y, 20 * x.size, 1)
        for eps in (None, 1e-3):
            y, exact = back(lambda x, w: F.rms_norm(x, ends, w, eps), g, x, w)
            if eps is None:  # torch's is that of the dtype computed in: here float32's
                eps = float(np.finfo(SINGLE).eps)
                y, exact = back(lambda x, w: F.rms_norm(x, ends, w, eps), g, x, w)
                got = nn.rms_norm(x, ends, w, engine=engine)
                near(got, y, 20 * x.size, 1)
            got, rstd = nn.native_rms_norm(x, ends, w, eps, engine=engine)
            back_ = nn.rms_norm_backward(g, x, ends, rstd, w, engine=engine)
            want = Reference(x, axes, wide[0], 0.0, centred=False, eps=eps)
            check_norm(want, g, (got, *back_), (y, *exact))


def test_group_and_instance_norm(engine: Engine, rng: Any) -> None:
    for place in LAYOUTS:
        shape = (2, 6, *numbers(rng, 2, 6, 2))
        x, g = place(drawn(rng, *shape) + 1), place(drawn(rng, *shape))
        w, b = drawn(rng, 6), drawn(rng, 6)
        for groups in (1, 3, 6):
            y, exact = back(lambda x, w, b: F.group_norm(x, groups, w, b), g, x, w, b)
            got, mean, rstd = nn.native_group_norm(x, groups, w, b, engine=engine)
            back_ = nn.group_norm_backward(g, x, groups, mean, rstd, w, b, engine=engine)
            split = (2, groups, 6 // groups, *shape[2:])
            wide = [p.astype(float).reshape(1, groups, -1, 1, 1) for p in (w, b)]
            check_norm(
                Reference(np.asarray(x).reshape(split), (2, 3, 4), *wide), np.ascontiguousarray(g),
                (got, *back_), (y, *exact),
            )  # fmt: skip
        near(nn.group_norm(x, 6, w, b, engine=engine), y, 20 * x.size, 1)
        y = F.instance_norm(twin(x), weight=twin(w), bias=twin(b)).numpy()
        near(nn.instance_norm(x, weight=w, bias=b, engine=engine), y, 20 * x.size, 1)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(engine: Engine, rng: Any, training: bool) -> None:
    """In training with running statistics, and by them."""
    for shape in ((7, 4), (3, 4, 5), (2, 4, 3, 5)):
        place = LAYOUTS[len(shape) == 4]
        x, g = place(drawn(rng, *shape) * 2 + 1), place(drawn(rng, *shape))
        w, b, mean = (drawn(rng, 4) for _ in range(3))
        var = rng.uniform(0.5, 2, 4).astype(SINGLE)
        theirs = twin(mean), twin(var)
        y, exact = back(
            lambda x, w, b: F.batch_norm(x, *theirs, w, b, training, 0.2, 1e-3),
            g,
            x,
            w,
            b,
        )
        got, mean_, rstd = nn.native_batch_norm(
            x, w, b, mean, var, training, 0.2, 1e-3, engine=engine
        )
        near(mean, theirs[0].numpy(), 3, x.size)
        near(var, theirs[1].numpy(), 10, x.size)
        saved = (mean_, rstd) if training else (None, None)
        back_ = nn.batch_norm_backward(g, x, w, mean, var, *saved, training, 1e-3, b, engine=engine)
        axes = (0, *range(2, len(shape)))
        columns = (1, 4, *(1,) * (len(shape) - 2))
        wide = [p.astype(float).reshape(columns) for p in (w, b)]
        want = Reference(x, axes, *wide, eps=1e-3)
        if not training:
            want.rstd = 1 / np.sqrt(var.astype(float).reshape(columns) + 1e-3)
            want.hat = (want.x - mean.astype(float).reshape(columns)) * want.rstd
        check_norm(want, g, (got, *back_), (y, *exact))
        fresh = mean.copy(), var.copy()
        if not training:
            near(nn.batch_norm(x, *fresh, w, b, False, 0.2, 1e-3, engine=engine), y, 20 * x.size, 1)


def test_attention(engine: Engine, rng: Any) -> None:
    """Masks of both kinds, causal, shared heads, another scale; a query that sees no key."""
    for b, h, shared, n, m, e, v in ((2, 4, 2, 9, 11, 8, 8), (1, 2, 1, 5, 5, 8, 8)):
        q, k, values, g = (
            drawn(rng, b, heads, rows, width)
            for heads, rows, width in (
                (h, n, e), (h // shared, m, e), (h // shared, m, v), (h, n, v)
            )
        )  # fmt: skip
        seen = rng.random((n, m)) < 0.6
        seen[:, 0] = True
        for mask, causal, scale in (
            (None, False, None), (None, True, 0.25), (seen, False, None),
            (drawn(rng, b, 1, n, m), False, None),
        ):  # fmt: skip
            options: dict[str, Any] = {"is_causal": causal, "scale": scale, "enable_gqa": True}

            def exact(q: Any, k: Any, v: Any) -> Any:
                passed = None if mask is None else twin(mask)
                return F.scaled_dot_product_attention(q, k, v, passed, **options)

            y, gradients = back(exact, g, q, k, values)
            got, sums = nn.native_scaled_dot_product_attention(
                q, k, values, mask, **options, engine=engine
            )
            near(got, y, 4, 20 * (m + 20))
            repeated = nn.scaled_dot_product_attention(q, k, values, mask, **options, engine=engine)
            assert np.array_equal(repeated, got)
            actual = nn.scaled_dot_product_attention_backward(
                g, q, k, values, got, sums, mask, **options, engine=engine
            )
            for gradient, other in zip(actual, gradients, strict=True):
                near(gradient, other, 4 * h, 20 * (max(n, m) + 20))


def test_dropout(engine: Engine, rng: Any) -> None:
    """The mask is the library's own; factor, rate and gradient are torch's."""
    x, g = drawn(rng, 100, 100), drawn(rng, 100, 100)
    y = nn.dropout(x, 0.3, seed=3, engine=engine)
    is_nonzero = y != 0
    assert abs(is_nonzero.mean() - 0.7) < 0.02
    near(y[is_nonzero], x[is_nonzero].astype(float) / 0.7, np.abs(x[is_nonzero]), 2)
    got = nn.dropout_backward(g, 0.3, seed=3, engine=engine)
    near(got, np.where(is_nonzero, g.astype(float) / 0.7, 0), np.abs(g), 2)
    assert np.array_equal(nn.dropout(x, 0.3, False, seed=3, engine=engine), x)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_dropout_of_channels(engine: Engine, rng: Any, axes: int) -> None:
    """Channels are dropped as wholes; the number of axes is torch's; so are factor and gradient."""
    function, backward = (getattr(nn, f"dropout{axes}d{end}") for end in ("", "_backward"))
    exact, on = getattr(F, f"dropout{axes}d"), {"seed": 5, "engine": engine}
    for n in range(1, 7):
        x, g = drawn(rng, *(2 + k for k in range(n))), drawn(rng, *(2 + k for k in range(n)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                theirs = exact(twin(x), 0.5).numpy()
            except RuntimeError:
                theirs = None
        if n not in (axes + 1, axes + 2):
            with pytest.raises(ShapeError, match="input has shape"):
                function(x, **on)
            continue
        y, whole = function(x, **on), tuple(range(1 + (theirs.ndim == axes + 2 or axes == 2), n))
        for is_nonzero in (y != 0, theirs != 0):  # both by channels, and nothing else
            assert np.array_equal(
                is_nonzero, np.broadcast_to(is_nonzero.all(whole, keepdims=True), is_nonzero.shape)
            )
        is_nonzero = y != 0
        near(y, np.where(is_nonzero, x.astype(float) / 0.5, 0), np.abs(x), 2)
        near(backward(g, **on), np.where(is_nonzero, g.astype(float) / 0.5, 0), np.abs(g), 2)
        assert np.array_equal(function(x, training=False, **on), x)


# -- optimisers

OPTIMISERS: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.25, "maximize": True}),
    ("Adam", {"lr": 0.01, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {}),
    ("AdamW", {}),
]


@pytest.mark.parametrize(("name", "options"), OPTIMISERS, ids=str)
def test_optimisers(engine: Engine, rng: Any, name: str, options: dict[str, Any]) -> None:
    """Four steps with a schedule and clipped gradients; the defaults are torch's."""
    start = drawn(rng, 7, 5)
    ours, theirs = nn.Parameter(start, engine), torch.nn.Parameter(twin(start))
    step, exact = (
        getattr(nn, name)([ours], **options),
        getattr(torch.optim, name)([theirs], **options),
    )
    for _ in range(4):
        g = drawn(rng, 7, 5)
        step.zero_grad()
        ours.add_grad(lambda out, g=g: pg.elementwise("x", x=pg.asarray(g, engine=engine), out=out))
        theirs.grad = twin(g)
        norm = nn.clip_grad_norm_([ours], 2.0)
        near(norm, torch.nn.utils.clip_grad_norm_([theirs], 2.0).numpy(), 6, 8)
        nn.clip_grad_value_([ours], 0.4)
        torch.nn.utils.clip_grad_value_([theirs], 0.4)
        step.step()
        exact.step()
    near(ours.data, theirs.detach().numpy(), 1 + np.abs(start), 60)


@pytest.mark.parametrize(("name", "options"), OPTIMISERS, ids=str)
def test_optimisers_take_torch_s_states(
    engine: Engine, rng: Any, name: str, options: dict[str, Any]
) -> None:
    """Training goes on from torch's ``state_dict``, and torch's from ours."""
    start = [drawn(rng, 7, 5), drawn(rng, 4)]
    ours = [nn.Parameter(one, engine) for one in start]
    theirs = [torch.nn.Parameter(twin(one)) for one in start]
    step = getattr(nn, name)([{"params": ours[:1], "lr": 0.3}, {"params": ours[1]}], **options)
    groups = [{"params": theirs[:1], "lr": 0.3}, {"params": theirs[1]}]
    exact = getattr(torch.optim, name)(groups, **options)
    for turn in range(9):
        for one, two in zip(ours, theirs, strict=True):
            g = drawn(rng, *one.shape)
            one.grad, two.grad = g, twin(g)
        if turn == 3:
            step.load_state_dict(exact.state_dict())
        if turn == 6:
            state = step.state_dict()
            tensors = {
                number: {key: torch.tensor(value) for key, value in entry.items()}
                for number, entry in state["state"].items()
            }
            more = exact.state_dict()["param_groups"]  # torch's options of its own
            same = [{**b, **a} for a, b in zip(state["param_groups"], more, strict=True)]
            exact.load_state_dict({"state": tensors, "param_groups": same})
        step.step()
        exact.step()
    for one, two, values in zip(ours, theirs, start, strict=True):
        near(one.data, two.detach().numpy(), 1 + np.abs(values), 120)


SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("StepLR", {"step_size": 3}),
    ("MultiStepLR", {"milestones": [2, 5, 5]}),
    ("ExponentialLR", {"gamma": 0.9}),
    ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}),
    ("LinearLR", {}),
    ("OneCycleLR", {"max_lr": 1.0, "total_steps": 10}),
]


@pytest.mark.parametrize(("name", "options"), SCHEDULES, ids=str)
def test_schedules(engine: Engine, name: str, options: dict[str, Any]) -> None:
    weight = np.ones(2, SINGLE)
    ours = nn.SGD([nn.Parameter(weight, engine)], lr=0.5, momentum=0.9)
    theirs = torch.optim.SGD([torch.nn.Parameter(twin(weight))], lr=0.5, momentum=0.9)
    mine = getattr(nn, name)(ours, **options)
    exact = getattr(torch.optim.lr_scheduler, name)(theirs, **options)
    for _ in range(10):
        assert mine.get_last_lr() == pytest.approx(exact.get_last_lr(), rel=1e-12)
        mine.step()
        theirs.step()  # torch warns if a schedule's step comes before it
        exact.step()  # of OneCycleLR, all steps that it has


# -- all of them

OF_AXES = (
    "adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "conv", "conv_transpose", "lp_pool",
    "max_pool", "max_unpool",
)  # fmt: skip
ENDS = ("", "_backward", "_bias", "_input", "_weight")


def test_every_function_has_a_test() -> None:
    """Also gradients and functions that torch's users do not call."""
    text = Path(__file__).read_text()
    assert all(f'"{kind}{{axes}}d' in text for kind in OF_AXES)
    tested = {f"{kind}{n}d{end}" for kind in OF_AXES for n in (1, 2, 3) for end in ENDS}
    names = {*(case[0] for case in CASES), "cross_entropy", "nll_loss"}
    tested |= {f"{name}{end}" for name in names for end in ENDS}
    tested |= {"adam_step", "sgd_step", "manual_seed"}  # of optimisers and of modules
    tested |= {f"dropout{n}d{end}" for n in (1, 2, 3) for end in ENDS}
    functions = {name for name in nn.__all__ if not inspect.isclass(getattr(nn, name))}
    functions = {name for name in functions - tested if not name.startswith("find_")}
    assert not {name for name in functions if f"nn.{name}(" not in text}
