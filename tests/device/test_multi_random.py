"""Random uses of groups against NumPy: arrays, their parts, functions, exceptions, closing."""

from __future__ import annotations

import random
import re
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from device_groups import one_and_two

import portable_gpu as pg
from portable_gpu.errors import (
    ArgumentError,
    DeviceMemoryError,
    PortableGPUError,
    UnsupportedError,
)
from portable_gpu.multi import DeviceGroup, GroupArray

DTYPES = ("float32", "float64", "int32", "int64", "complex64", "float16", "bool", "uint8")
EXTENTS = (0, 1, 2, 3, 5, 7, 16, 33, 100)
REDUCTIONS = (
    "sum", "prod", "mean", "min", "max", "any", "all", "count_nonzero", "argmin", "argmax",
)  # fmt: skip
#: Errors that say that a group does not compute what one device does.
UNTAKEN = re.compile("cut along|of complex numbers")


@pytest.fixture(scope="module")
def devices() -> Iterator[list[Any]]:
    """Two devices of one kind."""
    with one_and_two() as (_, two):
        yield [engine.device for engine in two.engines]


class _Use:
    """A group that is opened with random options, and arrays of it with their values."""

    def __init__(self, devices: list[Any], seed: int) -> None:
        self.draw, self.rng = random.Random(seed), np.random.default_rng(seed)
        draw = self.draw
        options: dict[str, Any] = {}
        if draw.random() < 0.3:
            options["shares"] = draw.choice([(1, 0), (1, 3), (0, 1)])
        if draw.random() < 0.3:
            options["memory_limit"] = 1 << draw.choice([16, 20, 22])
        options["threads"] = draw.choice(["auto", "one", "each"])
        options["on_failure"] = draw.choice(["raise", "retry"])
        self.group = DeviceGroup(devices, **options)
        self.arrays: list[tuple[GroupArray, Any]] = []

    def values(self, least_axes: int = 0) -> Any:
        """Random values of a random shape and dtype."""
        draw = self.draw
        shape = [draw.choice(EXTENTS) for _ in range(draw.randint(least_axes, 3))]
        return (9 * self.rng.standard_normal(shape)).astype(draw.choice(DTYPES))

    def chosen(self, is_taken: Callable[[Any], bool] = lambda x: True) -> Any:
        """One of the arrays, with its values; a new one if there is none."""
        taken = [pair for pair in self.arrays if is_taken(pair[1])]
        if taken:
            return self.draw.choice(taken)
        x = self.rng.standard_normal((4, 6)).astype(np.float32)
        return self.group.asarray(x), x

    def keep(self, array: GroupArray, x: Any) -> None:
        """Keep an array whose values are right, in place of another one."""
        _check(array, x, 0)
        assert array.dtype == x.dtype
        self.arrays.append((array, x))
        if len(self.arrays) > 8:
            self.arrays.pop(self.draw.randrange(9))

    # -- the uses

    def asarray(self) -> None:
        x, draw = self.values(1), self.draw
        axis = draw.randrange(-x.ndim, x.ndim)
        blocks = draw.choice([None, draw.randint(1, max(1, x.shape[axis]))])
        swapped = x.astype(x.dtype.newbyteorder()) if draw.random() < 0.3 else x
        self.keep(self.group.asarray(swapped[::-1][::-1], axis, blocks=blocks), x)

    def broadcast(self) -> None:
        x = self.values()
        self.keep(self.group.broadcast(x), x)
        array, x = self.chosen()
        self.keep(self.group.broadcast(array), x)

    def scatter(self) -> None:
        x, draw = self.values(1), self.draw
        axis = draw.randrange(x.ndim)
        ends = sorted(draw.choices(range(x.shape[axis] + 1), k=3))  # some parts are empty
        self.keep(self.group.scatter(np.split(x, ends, axis), axis), x)

    def slices(self) -> None:
        array, x = self.chosen(lambda x: x.ndim > 0)
        key: list[Any] = []
        for axis, extent in enumerate(x.shape):
            bounds = [self.draw.randint(-extent - 2, extent + 2) for _ in range(2)]
            steps = (None, 1) if axis == array.axis else (None, 1, 2, -1, -3)
            key.append(slice(*bounds, self.draw.choice(steps)))
            if extent and axis != array.axis and self.draw.random() < 0.3:
                key[-1] = self.draw.randrange(-extent, extent)
        if self.draw.random() < 0.3:
            key[self.draw.randrange(len(key)) :] = [...]
        part = array[tuple(key)]
        self.keep(part, np.asarray(x[tuple(key)]))
        if part.axis is not None:
            assert part.bounds[0] == 0
            assert part.bounds[-1] == part.shape[part.axis]
            assert list(part.bounds) == sorted(part.bounds)

    def copies(self) -> None:
        array, x = self.chosen()
        out = np.empty((*x.shape, 2), x.dtype)[..., 1]
        assert array.asnumpy(out) is out
        np.testing.assert_array_equal(out, x)
        device = self.draw.randrange(2)
        whole = array.gather(device)
        assert whole.context == self.group.engines[device].context
        np.testing.assert_array_equal(whole.get(), x)

    def reduction(self) -> None:
        name = self.draw.choice(REDUCTIONS)
        array, x = self.chosen(lambda x: x.dtype.kind != "b" or name in ("any", "all"))
        axis = self.draw.choice([None, *range(-x.ndim, x.ndim)])
        wide = x.astype(np.float64) if x.dtype == np.float16 else x
        try:
            expected = getattr(np, name)(wide, axis=axis)
        except ValueError:  # of no elements
            with pytest.raises(PortableGPUError):
                getattr(pg, name)(array, axis=axis, engine=self.group)
            return
        result = getattr(pg, name)(array, axis=axis, engine=self.group)
        _check(result, expected, 2e-2 if x.dtype == np.float16 else 1e-4)

    def expression(self) -> None:
        array, x = self.chosen(lambda x: x.dtype == np.float32)
        kind = self.draw.randrange(4)
        y = self.rng.standard_normal(x.shape).astype(np.float32)
        other = (y, self.group.broadcast(y), array, y[:1] if y.ndim else y)[kind]
        y = (y, y, x, y[:1] if y.ndim else y)[kind]
        result = pg.elementwise("x * y + 1", x=array, y=other, engine=self.group)
        _check(result, x * y + 1, 1e-5)
        assert pg.elementwise("x - 1", x=result, out=result, engine=self.group) is result
        _check(result, x * y, 1e-5)

    def product(self) -> None:
        array, x = self.chosen(lambda x: x.dtype == np.float32 and x.ndim == 2)
        y = self.rng.standard_normal((x.shape[1], self.draw.choice(EXTENTS))).astype(np.float32)
        kinds = (lambda: y, lambda: self.group.broadcast(y), lambda: self.group.asarray(y, 1))
        result = pg.matmul(array, self.draw.choice(kinds)(), engine=self.group)
        _check(result, x @ y, 1e-4)

    def wrong(self) -> None:
        array, x = self.chosen(lambda x: x.ndim > 0 and x.size > 0)
        group = self.group
        calls: tuple[Callable[[], Any], ...] = (
            lambda: array[(0,) * 9], lambda: array["a"], lambda: array[:, True, ...],
            lambda: array[None], lambda: array.gather(2), lambda: np.asarray(array),
            lambda: group.asarray(x, 7), lambda: group.asarray(x, blocks=1 << 20),
            lambda: group.scatter([]), lambda: group.scatter([x, x[None]]),
            lambda: group.all_reduce([x]), lambda: pg.sum(array), lambda: list(array),
            lambda: pg.sum(array, axis=9, engine=group), lambda: group.empty((-1,), "f4"),
            lambda: pg.elementwise("x + q", x=array, engine=group),
            lambda: array.asnumpy(np.empty((*x.shape, 2), x.dtype)),
        )  # fmt: skip
        with pytest.raises(PortableGPUError):
            self.draw.choice(calls)()

    def interrupted(self) -> None:
        """An exception of a signal handler, at any moment of some calls."""

        def stop(*_: object) -> None:
            raise _StopError

        x, before = np.ones(3000, np.float32), signal.signal(signal.SIGALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_REAL, 5e-3 * self.draw.random())
            for _ in range(20):
                array = self.group.asarray(x, blocks=4)
                assert float(pg.sum(array, engine=self.group)) == 3000
        except _StopError:
            pass
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def check_all(self) -> None:
        """No use has changed an array."""
        for array, x in self.arrays:
            _check(array, x, 0)

    def close(self) -> None:
        """A closed group refuses all calls; what its arrays do raises errors of the library."""
        group, (array, _) = self.group, self.chosen()
        group.close()
        for call in (
            lambda: group.asarray(np.ones(3)), lambda: group.broadcast(1.0),
            lambda: group.empty(3, "f4"), lambda: group.all_reduce(array),
            lambda: pg.sum(array, engine=group), lambda: group.member(0),
        ):  # fmt: skip
            with pytest.raises(ArgumentError, match="closed"):
                call()
        group.close()


class _StopError(Exception):
    """Raised by a signal handler."""


USES = (
    "asarray", "asarray", "broadcast", "scatter", "slices", "slices", "slices", "copies",
    "reduction", "reduction", "expression", "product", "wrong", "interrupted",
)  # fmt: skip


def _check(array: Any, expected: Any, bound: float) -> None:
    """``|array - expected| <= bound`` times the largest expected magnitude, or 1."""
    got, expected = np.asarray(array.asnumpy()), np.asarray(expected)
    assert got.shape == expected.shape
    if not bound or expected.dtype.kind == "b":
        np.testing.assert_array_equal(got, expected)
    else:
        sizes = np.abs(expected.astype(complex))
        scale = max(1.0, sizes[np.isfinite(sizes)].max(initial=0))
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound * scale)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("seed", range(4))
def test_random_uses(devices: list[Any], seed: int) -> None:
    use = _Use(devices, seed)
    for _ in range(40):
        name = use.draw.choice(USES)
        try:
            getattr(use, name)()
        except DeviceMemoryError:
            assert use.group.memory_limit is not None
        except (ArgumentError, UnsupportedError) as error:
            if not UNTAKEN.search(str(error)):
                raise
    use.check_all()
    use.close()
