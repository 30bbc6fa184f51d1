"""Random calls of portable_gpu.linalg: operands, their layout in memory, and expected results.

A call is drawn twice: its options, shapes and layouts by one generator, its values by another.  So
it can be made again with other values, as a loop makes it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
from linear_systems import (
    CANARY,
    adjoint,
    assert_factor,
    assert_least_squares,
    assert_solution,
    backward_error,
    double,
    gamma,
    other_nan,
    packed_triangle,
    ratio,
    triangle,
)
from reference import assert_within, product_bound, unit_roundoff, wider

import portable_gpu as pg
from portable_gpu import linalg
from portable_gpu.errors import NotPositiveDefiniteError
from portable_gpu.linalg import packed, ragged
from portable_gpu.multi import GroupArray
from portable_gpu.runtime.engine import Engine


class Drawn:
    """One call's arrays.

    Attributes:
        draw, rng: What draws all but the values, and the values.
        engine: Where it runs.
        dtype: Of the arrays.
    """

    def __init__(
        self, draw: random.Random, rng: np.random.Generator, engine: Engine, dtypes: Sequence[str]
    ) -> None:
        self.draw, self.rng, self.engine = draw, rng, engine
        self.dtype = np.dtype(draw.choice(dtypes))
        self.kind = draw.choice(("host", "host", "device", "pyopencl's"))
        self._given: list[tuple[Any, Any, Any]] = []  # memory, what it was, what may change

    # -- what is drawn

    def flag(self, often: float = 0.5) -> bool:
        return self.draw.random() < often

    def extent(self, most: int = 40) -> int:
        """Small ones more often; now and then none, or more than a kernel takes at once."""
        if self.flag(0.03):
            return 0
        if self.flag(0.06):
            return self.draw.choice((129, 150, 257))
        return int(most ** self.draw.random())

    def batch(self) -> tuple[int, ...]:
        return self.draw.choice(((), (), (), (1,), (3,), (9,), (2, 3)))

    def part(self, batch: tuple[int, ...]) -> tuple[int, ...]:
        """An array that broadcasts to it."""
        some = batch[self.draw.randint(0, len(batch)) :] if self.flag(0.3) else batch
        return tuple(1 if self.flag(0.15) else extent for extent in some)

    def numbers(self, *shape: int) -> Any:
        values = self.rng.standard_normal(shape)
        if self.dtype.kind == "c":
            values = values + 1j * self.rng.standard_normal(shape)
        return values.astype(self.dtype)

    def definite(self, n: int, batch: tuple[int, ...] = ()) -> Any:
        """Eigenvalues from 1 to about 30."""
        x = self.numbers(*batch, n, n)
        a = double(x) @ adjoint(double(x)) / max(1, n) * 7 + np.eye(n)
        return ((a + adjoint(a)) / 2).astype(self.dtype)

    def triangle(self, n: int, batch: tuple[int, ...] = ()) -> Any:
        """Both triangles of it are such that solves do not grow."""
        return self.numbers(*batch, n, n) / max(1, n) + 2 * np.eye(n, dtype=self.dtype)

    def spoiled(self, a: Any) -> Any:
        """Now and then one of the matrices is not positive definite."""
        if a.size and self.rng.random() < 0.15:
            at = tuple(self.rng.integers(0, extent) for extent in a.shape[:-1])
            a[(*at, at[-1])] = -1
        return a

    # -- its place in memory

    def give(self, x: Any, writes: bool = False, in_line: bool = False) -> Any:
        """``x`` somewhere in memory with any strides; ``in_line``: the last axis without gaps."""
        return self._there(*self._laid(x, in_line), writes)

    def _laid(self, x: Any, in_line: bool) -> tuple[Any, Any]:
        """A piece of memory, and the view of it that holds x."""
        axes = list(range(x.ndim))
        free = axes[:-1] if in_line else axes
        layout = self.draw.choice(("plain", "plain", "columns", "any"))
        if layout == "columns" and len(free) > 1:
            free[-2:] = free[:-3:-1]
        elif layout == "any":
            self.draw.shuffle(free)
        order = [*free, *axes[len(free) :]]
        steps = [self.draw.choice((-2, -1, 1, 1, 1, 3)) if layout == "any" else 1 for _ in free]
        steps += [1] * (x.ndim - len(free))
        gaps = [self.draw.choice((0, 0, 0, 1, 5)) for _ in order]
        buffer = [
            x.shape[axis] * abs(step) + gap
            for axis, step, gap in zip(order, steps, gaps, strict=True)
        ]
        start = self.draw.choice((0, 0, 1, 3))
        memory = np.full(start + int(np.prod(buffer)) + 2, CANARY, x.dtype)
        block = memory[start : start + int(np.prod(buffer))].reshape(buffer)
        for place, (axis, step) in enumerate(zip(order, steps, strict=True)):
            cut = slice(0, x.shape[axis] * abs(step), abs(step))
            block = block[(slice(None),) * place + (cut,)]
            block = np.flip(block, place) if step < 0 else block
        view = block.transpose(np.argsort(order)) if order else block
        view[...] = x
        return memory, view

    def _there(self, memory: Any, view: Any, writes: bool) -> Any:
        may = np.zeros(memory.shape, bool)
        offset = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
        if writes and view.size:
            steps = [step // memory.itemsize for step in view.strides]
            np.ndarray(view.shape, bool, may, offset // memory.itemsize, steps)[...] = True
        if not view.size:
            offset = 0
        if self.kind == "host":
            self._given.append((memory, memory.copy(), may))
            return view
        there = cla.to_device(self.engine.queue, memory)
        self._given.append((there, memory, may))
        kind = pg.Array if self.kind == "device" else cla.Array
        return kind(
            self.engine.queue, view.shape, view.dtype, data=there.base_data, offset=offset,
            strides=view.strides, events=there.events,
        )  # fmt: skip

    def spread(self, x: Any, shape: tuple[int, ...]) -> Any:
        """``x`` given, and broadcast with strides of zero now and then."""
        memory, view = self._laid(x, False)
        if self.flag(0.2):
            view = np.broadcast_to(view, shape)
        return self._there(memory, view, False)

    def check_given(self) -> None:
        """Nothing but what was to be written has changed."""
        for memory, before, may in self._given:
            now = memory if isinstance(memory, np.ndarray) else memory.get()
            assert now[~may].tobytes() == before[~may].tobytes()


def values(result: Any) -> Any:
    """The values of a result, and the matrices without one."""
    if isinstance(result, np.ndarray) or np.isscalar(result):
        return result
    if isinstance(result, GroupArray):
        return result.asnumpy()
    if isinstance(result, pg.Array):
        result.check()
    for event in result.events:
        event.wait()
    if not result.size:
        return np.empty(result.shape, result.dtype)
    memory = np.empty(result.base_data.size, np.uint8)
    cl.enqueue_copy(result.queue, memory, result.base_data)
    return np.ndarray(result.shape, result.dtype, memory, result.offset, result.strides).copy()


def unless_indefinite(a: Any, work: Callable[[], Any]) -> Any:
    """Return the result of work; ``None`` if a matrix is not positive definite and work says so."""
    diagonal = np.diagonal(a, 0, -2, -1).real
    wrong = np.argwhere(~(diagonal > 0))
    if not wrong.size:
        return work()
    error = raised(work)
    assert (*error.index, error.column) == tuple(wrong[0])
    return None


def raised(work: Callable[[], Any]) -> NotPositiveDefiniteError:
    """The error that work raises."""
    try:
        work()
    except NotPositiveDefiniteError as error:
        return error
    raise AssertionError("no NotPositiveDefiniteError")


# -- the calls


def cholesky(d: Drawn) -> None:
    n, batch, lower, overwrite = d.extent(), d.batch(), d.flag(), d.flag(0.3)
    a = d.spoiled(d.definite(n, batch))
    operand = d.give(other_nan(a, lower), writes=overwrite)
    options = {"lower": lower, "overwrite_a": overwrite, "engine": d.engine}
    options["check"] = d.draw.choice(("late", "now"))
    got = unless_indefinite(a, lambda: values(linalg.cholesky(operand, **options)))
    if got is None:
        return
    assert_factor(a, got, lower)
    other = got[..., ~triangle(np.ones((n, n), bool), lower)]
    assert np.all(np.isnan(other) if overwrite else other == 0)


def solve_triangular(d: Drawn) -> None:
    n, m, batch, side = d.extent(), d.extent(80), d.batch(), d.draw.choice(("left", "right"))
    trans, lower, unit = d.draw.choice("NTC"), d.flag(), d.flag(0.25)
    overwrite, is_vector = d.flag(0.3), d.flag(0.2)
    a = d.triangle(n, d.part(batch))
    rows = (n, m) if side == "left" else (m, n)
    b = d.numbers(n) if is_vector else d.numbers(*(batch if overwrite else d.part(batch)), *rows)
    overwrite = overwrite and not (is_vector and a.ndim > 2)
    operand = d.spread(other_nan(a, lower, unit), np.broadcast_shapes(a.shape, (*batch, n, n)))
    shape = solution_shape(operand, b, is_vector)
    rhs = d.give(b, writes=overwrite)
    got = linalg.solve_triangular(
        operand, rhs, trans, lower, unit, side=side, overwrite_b=overwrite, engine=d.engine
    )
    assert (got is rhs) == overwrite
    x = values(got)
    assert x.shape == shape
    t = {"N": a, "T": np.swapaxes(a, -1, -2), "C": adjoint(a)}[trans]
    t = triangle(t, lower == (trans == "N"), unit)
    if is_vector:
        b, x = b[:, None], x[..., None]
        t = t if side == "left" else np.swapaxes(t, -1, -2)
    elif side == "right":
        t, x, b = (np.swapaxes(y, -1, -2) for y in (t, x, b))
    assert_solution(t, x, np.broadcast_to(b, x.shape))


def solution_shape(a: Any, b: Any, is_vector: bool) -> tuple[int, ...]:
    if is_vector:
        return (*a.shape[:-2], *b.shape)
    return (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:])


def inv_triangular(d: Drawn) -> None:
    n, batch, lower, unit = d.extent(), d.batch(), d.flag(), d.flag(0.25)
    a = d.triangle(n, batch)
    operand = d.give(other_nan(a, lower, unit))
    x = values(linalg.inv_triangular(operand, lower, unit, engine=d.engine))
    assert np.all(triangle(x, lower) == x)
    t = triangle(a, lower, unit)
    for at in np.ndindex(batch) if n else ():
        off = double(t[at]) @ double(x[at]) - np.eye(n)
        assert ratio(off.astype(d.dtype), t[at], x[at]) < 30


def cho_solve(d: Drawn) -> None:
    n, m, batch, lower, overwrite = d.extent(), d.extent(20), d.batch(), d.flag(), d.flag(0.3)
    over_a, is_vector = d.flag(0.3), d.flag(0.3) and not overwrite
    a = d.spoiled(d.definite(n, d.part(batch)))
    b = d.numbers(n) if is_vector else d.numbers(*(batch if overwrite else d.part(batch)), n, m)
    operand, rhs = d.give(other_nan(a, lower), writes=over_a), d.give(b, writes=overwrite)

    def work() -> Any:
        pair = linalg.cho_factor(operand, lower, over_a, engine=d.engine)
        x = linalg.cho_solve(pair, rhs, overwrite, engine=d.engine)
        assert (x is rhs) == overwrite
        return values(x)

    got = unless_indefinite(a, work)
    if got is not None:
        check_solved(a, got, b, is_vector)


def check_solved(a: Any, x: Any, b: Any, is_vector: bool, steps: int = 3) -> None:
    assert x.shape == solution_shape(a, b, is_vector)
    if is_vector:
        x, b = x[..., None], b[..., None]
    if x.size:
        assert backward_error(a, x, b) < steps * a.shape[-1] + 1


def solve(d: Drawn) -> None:
    n, m, batch, lower = d.extent(), d.extent(20), d.batch(), d.flag()
    refine, is_vector = d.draw.choice((None, None, "auto", 2)), d.flag(0.3)
    a = d.spoiled(d.definite(n, d.part(batch)))
    b = d.numbers(n) if is_vector else d.numbers(*d.part(batch), n, m)
    operand = d.spread(a if refine else other_nan(a, lower), (*batch, n, n))
    rhs, whole = d.give(b), np.broadcast_to(a, operand.shape)
    options = {"assume_a": "pos", "refine": refine, "engine": d.engine}
    got = unless_indefinite(whole, lambda: values(linalg.solve(operand, rhs, lower, **options)))
    if got is not None:
        check_solved(whole, got, b, is_vector)


def logdet(d: Drawn) -> None:
    n, batch, lower, of_factor = d.extent(), d.batch(), d.flag(), d.flag(0.3)
    a = d.spoiled(d.definite(n, batch))
    operand = d.give(other_nan(a, lower))

    def work() -> Any:
        if of_factor:
            pair = linalg.cho_factor(operand, lower, engine=d.engine)
            return values(linalg.logdet(pair, engine=d.engine))
        return values(linalg.logdet(operand, lower=lower, engine=d.engine))

    got = unless_indefinite(a, work)
    if got is None:
        return
    assert np.shape(got) == batch
    logarithms = np.log(np.linalg.eigvalsh(double(a)))
    allowed = 19 * unit_roundoff(d.dtype) * np.abs(logarithms).sum(-1)
    allowed = allowed + n * 31 * gamma(n + 3, d.dtype)  # the factor's: n cond(A) of that
    assert np.all(np.abs(got - logarithms.sum(-1)) <= allowed)


def lstsq(d: Drawn) -> None:
    n, k, batch, is_vector = d.extent(12), d.extent(6), d.batch(), d.flag(0.3)
    m = 3 * n + d.extent(20)
    a = d.numbers(*d.part(batch), m, n)
    b = d.numbers(m) if is_vector else d.numbers(*d.part(batch), m, k)
    operand, rhs = d.give(a), d.give(b)
    x = values(linalg.lstsq(operand, rhs, engine=d.engine))
    if is_vector:
        x, b = x[..., None], b[..., None]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    assert x.shape == (*batch, n, b.shape[-1])
    a, b = (np.broadcast_to(y, (*batch, *y.shape[-2:])) for y in (a, b))
    for at in np.ndindex(batch) if x.size else ():
        assert_least_squares(a[at], x[at], b[at], float(np.linalg.cond(double(a[at]))))


def products(d: Drawn) -> None:
    """Syrk, herk, syr2k and her2k."""
    name = d.draw.choice(("syrk", "herk", "syr2k", "her2k"))
    n, k, batch, lower, trans = d.extent(), d.extent(), d.batch(), d.flag(), d.flag()
    transpose = "C" if name[0] == "h" else "T"
    alpha, beta = d.draw.choice((1, 0.5, -2)), d.draw.choice((0, 0, 1, -1.5))
    hermitian, rows = name[0] == "h", (k, n) if trans else (n, k)
    x, y = d.numbers(*batch, *rows), d.numbers(*batch, *rows)
    c = d.numbers(*batch, n, n)
    every = np.arange(n)
    c[..., every, every] = c[..., every, every].real
    inside = triangle(np.ones((n, n), bool), lower)
    options = {
        "alpha": alpha,
        "lower": lower,
        "trans": transpose if trans else "N",
        "engine": d.engine,
    }
    if beta or d.flag(0.3):
        seen = c if beta else np.where(inside, np.nan, c).astype(c.dtype)
        options |= {"beta": beta, "c": d.give(seen, writes=True)}
    inputs = [d.give(x)] if "2" not in name else [d.give(x), d.give(y)]
    got = values(getattr(linalg, name)(*inputs, **options))
    flip = adjoint if hermitian else lambda z: np.swapaxes(z, -1, -2)
    left, right = (flip(z) if trans else z for z in (x, y))
    pairs = [(left, left)] if "2" not in name else [(left, right), (right, left)]
    expected, bound = wider(c) * beta, 0
    for u, v in pairs:
        expected = expected + alpha * (wider(u) @ flip(wider(v)))
        bound = bound + product_bound(u, flip(v), d.dtype, alpha, beta, c)
    before = c if "c" in options else np.zeros_like(c)
    assert np.array_equal(got[..., ~inside], before[..., ~inside])
    assert_within(got[..., inside], expected[..., inside], (bound + 0 * expected.real)[..., inside])


def packed_cholesky(d: Drawn) -> None:
    n, m, batch, lower, overwrite = d.extent(), d.extent(20), d.batch(), d.flag(), d.flag(0.3)
    a, b = d.spoiled(d.definite(n, batch)), d.numbers(*d.part(batch), n, m)
    operand, rhs = d.give(other_nan(a, lower)), d.give(b)
    line = values(packed.pack(operand, lower, engine=d.engine))
    assert np.array_equal(line, packed_triangle(a if lower else np.swapaxes(a, -1, -2)))
    ap = d.give(line, writes=overwrite, in_line=overwrite or d.kind != "host")

    def work() -> Any:
        factor = packed.cholesky(ap, overwrite_ap=overwrite, engine=d.engine)
        assert (factor is ap) == overwrite
        full = packed.unpack(factor, lower, engine=d.engine)
        return values(full), values(packed.cho_solve(factor, rhs, lower, engine=d.engine))

    got = unless_indefinite(a, work)
    if got is not None:
        assert_factor(a, got[0], lower)
        check_solved(a, got[1], b, False)


def packed_solve(d: Drawn) -> None:
    n, m, batch, side = d.extent(), d.extent(40), d.batch(), d.draw.choice(("left", "right"))
    trans, lower, unit, overwrite = d.draw.choice("NTC"), d.flag(), d.flag(0.25), d.flag(0.3)
    t = triangle(d.triangle(n, d.part(batch)), lower, unit)
    rows = (n, m) if side == "left" else (m, n)
    b = d.numbers(*(batch if overwrite else d.part(batch)), *rows)
    line = packed_triangle(t if lower else np.swapaxes(t, -1, -2))
    ap, rhs = d.give(line, in_line=d.kind != "host"), d.give(b, writes=overwrite)
    got = packed.solve_triangular(
        ap, rhs, trans, lower, unit, side=side, overwrite_b=overwrite, engine=d.engine
    )
    assert (got is rhs) == overwrite
    x = values(got)
    t = {"N": t, "T": np.swapaxes(t, -1, -2), "C": adjoint(t)}[trans]
    if side == "right":
        t, x, b = (np.swapaxes(y, -1, -2) for y in (t, x, b))
    assert_solution(t, x, np.broadcast_to(b, x.shape))


def packed_product(d: Drawn) -> None:
    n, k, batch, hermitian, lower = d.extent(), d.extent(), d.batch(), d.flag(), d.flag()
    alpha, beta = d.draw.choice((1, -2)), d.draw.choice((0, 0, 1, -1.5))
    x = d.numbers(*batch, n, k)
    other = adjoint(x) if hermitian else np.swapaxes(x, -1, -2)
    line = packed_triangle(d.definite(n, batch))
    c = d.give(line, writes=True, in_line=True) if beta or d.flag(0.3) else None
    product = partial(packed.herk, lower=lower) if hermitian else packed.syrk
    got = values(product(d.give(x), alpha=alpha, beta=beta, out=c, engine=d.engine))
    whole = wider(x) @ wider(other)
    stored = whole if lower or not hermitian else np.swapaxes(whole, -1, -2)
    expected = alpha * packed_triangle(stored) + beta * wider(line)
    bound = packed_triangle(product_bound(x, other, d.dtype, alpha))
    bound = bound + gamma(k + 3, d.dtype) * abs(beta) * np.abs(wider(line))
    assert_within(got, expected, bound)


def sizes(d: Drawn) -> list[int]:
    return [d.extent() for _ in range(d.draw.randint(0, 7))]


def fronts(d: Drawn, matrices: list[Any], writes: bool) -> ragged.Ragged:
    """Matrices in one buffer, with gaps between rows and matrices."""
    shapes = [x.shape for x in matrices]
    leading = [m + d.draw.choice((0, 0, 1, 4)) for _, m in shapes]
    ends = [n * ld + d.draw.choice((0, 3)) for (n, _), ld in zip(shapes, leading, strict=True)]
    offsets = np.cumsum([d.draw.choice((0, 2)), *ends])
    memory = np.full(int(offsets[-1]) + 3, CANARY, d.dtype)
    rows, columns = [n for n, _ in shapes], [m for _, m in shapes]
    made = ragged.Ragged(memory, rows, offsets[:-1], leading, columns)
    for k, x in enumerate(matrices):
        made[k][...] = x
    return made.like(d.give(memory, writes=writes, in_line=True))


def collection(d: Drawn, matrices: list[Any], writes: bool = False) -> Any:
    """A list, or places in one buffer."""
    return fronts(d, matrices, writes) if writes or d.flag() else [d.give(x) for x in matrices]


def ragged_cholesky(d: Drawn) -> None:
    every, lower, overwrite = sizes(d), d.flag(), d.flag(0.3)
    matrices = [d.definite(n) for n in every]
    right = [d.numbers(n, d.extent(9)) for n in every]
    wrong = [k for k, n in enumerate(every) if n and d.rng.random() < 0.05]
    for k in wrong:
        matrices[k][-1, -1] = -1
    inputs = collection(d, [other_nan(a, lower) for a in matrices], overwrite)
    rhs = collection(d, right)

    def work() -> Any:
        options = {"overwrite_a": True} if overwrite else {}
        factors = ragged.cholesky(inputs, lower=lower, engine=d.engine, **options)
        result = ragged.cho_solve(factors, rhs, lower, engine=d.engine)
        return each(factors), each(result)

    if wrong:
        error = raised(work)
        assert (*error.index, error.column) == (wrong[0], every[wrong[0]] - 1)
        return
    for a, f, x, b in zip(matrices, *work(), right, strict=True):
        assert_factor(a, f, lower)
        check_solved(a, x, b, False)


def each(found: Any) -> list[Any]:
    if isinstance(found, ragged.Ragged) and isinstance(found.buffer, pg.Array):
        found.buffer.check()
    return [values(found[k]) for k in range(len(found))]


def ragged_solve(d: Drawn) -> None:
    every, lower, unit, overwrite = sizes(d), d.flag(), d.flag(0.25), d.flag(0.3)
    trans, limit = d.draw.choice("NTC"), d.draw.choice((1, 9, 80))
    matrices = [d.triangle(n) for n in every]
    right = [d.numbers(n, d.extent(limit)) for n in every]
    inputs = collection(d, [other_nan(a, lower, unit) for a in matrices])
    rhs = collection(d, right, overwrite)
    options = {"overwrite_b": True} if overwrite else {}
    result = ragged.solve_triangular(inputs, rhs, trans, lower, unit, engine=d.engine, **options)
    for a, x, b in zip(matrices, each(result), right, strict=True):
        t = {"N": a, "T": a.T, "C": adjoint(a)}[trans]
        assert_solution(triangle(t, lower == (trans == "N"), unit), x, b)


CALLS = (
    cholesky, solve_triangular, inv_triangular, cho_solve, solve, logdet, lstsq, products,
    packed_cholesky, packed_solve, packed_product, ragged_cholesky, ragged_solve,
)  # fmt: skip
