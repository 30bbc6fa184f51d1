"""Interpolation against matrices of the axes, whose weights are computed one by one in float64."""

from __future__ import annotations

from itertools import product
from math import floor
from typing import Any

import numpy as np
import pytest
from layers.resampling import along, antialiased, areas, matrix
from sampling import computes

import portable_gpu as pg
from portable_gpu import nn
from portable_gpu.errors import ArgumentError, DTypeError, PortableGPUError, ShapeError
from portable_gpu.ops.sampling.rules import Resize
from portable_gpu.runtime.engine import Engine

Values = np.ndarray[Any, Any]


def host(x: Any) -> Values:
    return x if isinstance(x, np.ndarray) else np.asarray(x.get())


def compare(
    engine: Engine, x: Values, matrices: list[Values], options: dict[str, Any], turn: int = 0
) -> None:
    """Compare a call and its gradient with the matrices."""
    wide, dtype = x.astype(float), x.dtype
    expected = along(wide, matrices)
    magnitude = along(np.abs(wide), [np.abs(a) for a in matrices])
    passed: Any = x
    if turn % 3 == 1:
        passed = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    if turn % 3 == 2:
        passed = pg.asarray(x, engine=engine)
    actual = nn.interpolate(passed, **options, engine=engine)
    assert actual.shape == expected.shape, options
    assert turn % 3 != 1 or 1 in x.shape or actual.strides[1] == x.itemsize
    taps = int(np.prod([max((a != 0).sum(1).max(), 1) for a in matrices]))
    unit = 2.0**-53 if dtype == np.float64 else 2.0**-24
    last = 2.0**-11 if dtype == np.float16 else unit
    bound = 2 * (taps + 5) * unit * magnitude + last * np.abs(expected)
    # Weights have errors of float64 that are not relative to the weight itself.
    bound += 64 * 2.0**-53 * along(np.abs(wide), [1.0 * (a != 0) for a in matrices])
    error = np.abs(host(actual).astype(float) - expected)
    assert (error <= bound).all(), (options, (error - bound).max())
    if dtype == np.float16:
        return
    g = np.random.default_rng(turn).standard_normal(expected.shape).astype(dtype)
    back = nn.interpolate_backward(g, x.shape, **options, engine=engine)
    transposed = [a.T for a in matrices]
    reference = along(g.astype(float), transposed)
    size = along(np.abs(g.astype(float)), [np.abs(a) for a in transposed])
    taps = int(np.prod([max((a != 0).sum(1).max(), 1) for a in transposed]))
    assert (np.abs(back - reference) <= 2 * (taps + 6) * unit * size).all(), options


MODES = {
    "nearest": "nearest", "nearest-exact": "nearest", "linear": "linear", "bilinear": "linear",
    "trilinear": "linear", "bicubic": "cubic", "area": "area",
}  # fmt: skip


@pytest.mark.path
@pytest.mark.parametrize("mode", MODES)
def test_modes_of_torch(engine: Engine, mode: str) -> None:
    random = np.random.default_rng(len(mode))
    kind = MODES[mode]
    axes = {"linear": 1, "trilinear": 3}.get(mode, 2)
    for turn in range(6):
        extents = [int(n) for n in random.integers(1, 8, axes)]
        dtype = np.dtype((np.float32, np.float32, np.float16, np.float64)[turn % 4])
        if not computes(engine, dtype) or (axes != 2 and turn % 4 > 1):
            dtype = np.dtype(np.float32)
        x = random.standard_normal((2, 3, *extents)).astype(dtype)
        options: dict[str, Any] = {"mode": mode}
        if turn % 2:
            options["size"] = sizes = [int(m) for m in random.integers(1, 15, axes)]
            scales = [m / n for m, n in zip(sizes, extents, strict=True)]
        else:
            options["scale_factor"] = scales = [1.0 + float(s) for s in random.random(axes) * 2]
            sizes = [floor(n * s) for n, s in zip(extents, scales, strict=True)]
            if turn % 4 == 2:
                options["recompute_scale_factor"] = True
                scales = [m / n for m, n in zip(sizes, extents, strict=True)]
        name, rounding = "half_pixel", "round_prefer_ceil"
        if kind in ("linear", "cubic") and turn > 3:
            options["align_corners"], name = True, "align_corners"
        if mode == "nearest":
            name, rounding = "asymmetric", "floor"
        each = zip(extents, sizes, scales, strict=True)
        if kind == "area":
            matrices = [areas(n, m) for n, m, _ in each]
        else:
            matrices = [matrix(n, m, kind, name, s, rounding=rounding) for n, m, s in each]
        compare(engine, x, matrices, options, turn)


@pytest.mark.parametrize("name", ["align_corners", "tf_crop_and_resize"])
def test_places_that_are_elements_are_exact(name: str) -> None:
    """The last result is the last element: it has no other tap, and is not outside of the part."""
    for n, m in product(range(2, 30), range(2, 60)):
        counts, places, _ = Resize(n, m, "linear", name, m / n).entries()
        o = np.arange(m)
        assert np.array_equal(counts, np.where(o * (n - 1) % (m - 1), 2, 1)), (n, m)
        assert (places[0], places[-1]) == (0, n - 1)
        half = 2 * o * (n - 1) % (2 * (m - 1)) == m - 1  # ties are found, too
        _, nearest, _ = Resize(
            n, m, "nearest", name, m / n, rounding="round_prefer_floor"
        ).entries()
        assert np.array_equal(nearest[half], (o * (n - 1) // (m - 1))[half]), (n, m)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_antialias(engine: Engine, mode: str) -> None:
    x = np.random.default_rng(1).standard_normal((1, 2, 17, 11)).astype(np.float32)
    for size in ((5, 4), (17, 22), (1, 3)):
        matrices = [
            antialiased(n, m, MODES[mode], n / m) for n, m in zip((17, 11), size, strict=True)
        ]
        compare(engine, x, matrices, {"mode": mode, "size": size, "antialias": True})
    for exclude in (False, True):  # the rules of ONNX
        matrices = [
            antialiased(n, m, MODES[mode], n / m, -0.75, exclude)
            for n, m in zip((17, 11), (5, 14), strict=True)
        ]
        options = {"coordinates": "half_pixel", "exclude_outside": exclude}
        compare(engine, x, matrices, {"mode": mode, "size": (5, 14), "antialias": True, **options})


@pytest.mark.parametrize(
    "name",
    ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
     "tf_crop_and_resize"],
)  # fmt: skip
def test_coordinates_of_onnx(engine: Engine, name: str) -> None:
    x = np.random.default_rng(2).standard_normal((1, 2, 6, 5)).astype(np.float32)
    crop = name == "tf_crop_and_resize"
    starts, ends = ((0.13, -0.2), (0.87, 1.3)) if crop else ((0, 0), (1, 1))
    for turn, mode in enumerate(("bilinear", "bicubic", "nearest", "bicubic")):
        factors, exclude = (1.3, 2.6), turn == 3
        options: dict[str, Any] = {
            "mode": mode, "scale_factor": factors, "coordinates": name, "exclude_outside": exclude
        }  # fmt: skip
        if crop:
            options["roi"] = (*starts, *ends)
        rounding = "round_prefer_floor"
        if mode == "nearest" and not crop:
            options["rounding"] = rounding = "ceil"
        if exclude:
            options["cubic_coefficient"] = -0.5
        matrices = [
            matrix(
                n, floor(n * s), MODES[mode], name, s, rounding=rounding, roi=(start, end),
                a=-0.5 if exclude else -0.75, exclude=exclude,
            )
            for n, s, start, end in zip((6, 5), factors, starts, ends, strict=True)
        ]  # fmt: skip
        compare(engine, x, matrices, options, turn)


@pytest.mark.tiny
def test_exact_cases(engine: Engine) -> None:
    colours = np.arange(12, dtype=np.uint8).reshape(1, 3, 2, 2)
    twice = nn.interpolate(colours, scale_factor=2, engine=engine)
    np.testing.assert_array_equal(twice, colours.repeat(2, 2).repeat(2, 3))
    infinite = np.array([[[1, np.inf, 2, 3]]], np.float32)
    same = nn.interpolate(infinite, 4, mode="linear", align_corners=True, engine=engine)
    np.testing.assert_array_equal(same, infinite)
    assert nn.interpolate(np.zeros((0, 3, 4, 4), "f4"), 7, engine=engine).shape == (0, 3, 7, 7)
    for n, m in ((3, 10), (10, 7), (49, 147)):  # rounding errors would change places
        x = np.arange(n, dtype=np.float32).reshape(1, 1, n)
        exact = np.arange(m) * n // m
        np.testing.assert_array_equal(nn.interpolate(x, m, engine=engine)[0, 0], exact)


IMAGE = np.zeros((1, 2, 5, 6), np.float32)


@pytest.mark.parametrize(
    ("error", "words", "call"),
    [
        (ArgumentError, "one of them", lambda: nn.interpolate(IMAGE)),
        (ArgumentError, "one of them", lambda: nn.interpolate(IMAGE, 3, 2.0)),
        (ArgumentError, "mode is 'cubic'", lambda: nn.interpolate(IMAGE, 3, mode="cubic")),
        (ShapeError, "mode 'linear' takes 3 axes", lambda: nn.interpolate(IMAGE, 3, mode="linear")),
        (ArgumentError, "align_corners is True",
         lambda: nn.interpolate(IMAGE, 3, align_corners=True)),
        (ArgumentError, "antialias is True", lambda: nn.interpolate(IMAGE, 3, antialias=True)),
        (ArgumentError, "size is 0", lambda: nn.interpolate(IMAGE, 0)),
        (ArgumentError, "expected .*, or 2", lambda: nn.interpolate(IMAGE, (3, 3, 3))),
        (ArgumentError, "scale_factor is 0.01", lambda: nn.interpolate(IMAGE, None, 0.01)),
        (ArgumentError, "coordinates is 'half'",
         lambda: nn.interpolate(IMAGE, 3, mode="bilinear", coordinates="half")),
        (ArgumentError, "roi is", lambda: nn.interpolate(IMAGE, 3, mode="bilinear", roi=(0, 1))),
        (ArgumentError, "rounding is 'up'",
         lambda: nn.interpolate(IMAGE, 3, coordinates="asymmetric", rounding="up")),
        (DTypeError, "uint8", lambda: nn.interpolate(IMAGE.astype("u1"), 3, mode="bilinear")),
        (ShapeError, "must not be empty", lambda: nn.interpolate(IMAGE[:, :, :0], 3)),
        (ShapeError, "grad_output has shape",
         lambda: nn.interpolate_backward(IMAGE, IMAGE, 3)),
    ],
)  # fmt: skip
def test_bad_arguments(error: type[PortableGPUError], words: str, call: Any) -> None:
    with pytest.raises(error, match=words):
        call()
