"""Every way of random lines: its passes are interpreted here, number by number, and counted.

The interpreter says what a ``Pass`` means: which numbers it reads and writes, and what it makes of
them.  It knows nothing of lanes in vectors, of tables or of kernels.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, permutations, product
from typing import Any

import numpy as np
import pytest
from recorded_devices import RECORDED

from portable_gpu.codegen.axes import Axis
from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.fft import variants as fft_variants
from portable_gpu.ops.fft.commands.catalogue import problem
from portable_gpu.ops.fft.convolution import ConvolutionPiece, ConvolutionProblem, Strided
from portable_gpu.ops.fft.decompositions import Decomposition, decompositions
from portable_gpu.ops.fft.joined import fused_axes
from portable_gpu.ops.fft.passes import Pass, PassLimits, PassOperand
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.problem import Line, LineOperand
from portable_gpu.ops.fft.variants import variants
from portable_gpu.ops.variant import best_of
from portable_gpu.runtime.plan import Part, Temporary
from portable_gpu.targets import detect, example_target
from portable_gpu.tuning.table import TuningTable

Array = np.ndarray[Any, Any]
REAL = element(dtype_of("float64"))
FORMS = [("complex", "complex"), ("real", "complex"), ("real", "half"), ("half", "real")]


class Memory:
    """Numbers of one operand, and how often each was written; places outside are an error."""

    def __init__(self, values: Array) -> None:
        self.values, self.writes = values, Counter[int]()

    def read(self, place: int) -> Any:
        assert 0 <= place < len(self.values), f"reads number {place} of {len(self.values)}"
        return self.values[place]

    def write(self, place: int, value: Any) -> None:
        assert 0 <= place < len(self.values), f"writes number {place} of {len(self.values)}"
        self.values[place] = value
        self.writes[place] += 1


def number_of(side: PassOperand, row: int, lane: int, batch: tuple[int, ...]) -> int:
    """The number that is row `row` of a lane."""
    return row * side.limit_row + lane + (batch[-1] * side.limit_batch if side.limit_batch else 0)


def is_there(side: PassOperand, row: int, at: int) -> bool:
    first = side.first <= (at if side.limit_row else row)
    return side.form == "folded" or (first and at < side.limit)


def read_lane(
    pass_: Pass, memory: Memory, base: int, batch: tuple[int, ...], lane: int, factors: Array | None
) -> Array:
    """The n numbers that a transform is made from."""
    side, n = pass_.source, pass_.n
    x = np.zeros(n, complex)
    for row in range(side.rows):
        at = number_of(side, row, lane, batch)
        if not is_there(side, row, at):
            continue
        if side.form == "folded":  # number `at` of a sequence of which half is there
            mirrored = 2 * at > side.limit
            zero = base - number_of(side, 0, 0, batch) * side.lane
            value = memory.read(zero + (side.limit - at if mirrored else at) * side.lane)
            value = np.conj(value) if mirrored else value
        else:
            value = memory.read(base + row * side.row + lane * side.lane)
        if side.factor:
            assert factors is not None
            value = value * factors[at if side.factor == "lanes" else row]
        if side.form != "half":
            x[row] = value
        elif row == 0 or 2 * row == n:
            x[row] = np.real(value)
        else:
            x[row], x[n - row] = value, np.conj(value)
    return x


def write_lane(
    pass_: Pass,
    memory: Memory,
    base: int,
    batch: tuple[int, ...],
    lane: int,
    found: Array,
    factors: Array | None,
) -> None:
    """Store the elements that fit."""
    side = pass_.target
    zero = base - number_of(side, 0, 0, batch) * side.lane
    for row in range(side.rows):
        at = number_of(side, row, lane, batch)
        if not is_there(side, row, at):
            continue
        value = found[row]
        if side.factor:
            assert factors is not None
            value = value * factors[at if side.factor == "lanes" else row]
        if side.form != "folded":
            value = value.real if side.form == "real" else value
            memory.write(base - side.shift + row * side.row + lane * side.lane, value)
        elif 2 * at <= side.limit:
            memory.write(zero + at * side.lane, value)
        elif lane and 2 * lane != (side.limit_batch or side.limit_row):
            # lanes that hold both of a pair store one
            memory.write(zero + (side.limit - at) * side.lane, np.conj(value))


def interpret(
    pass_: Pass,
    source: Memory,
    target: Memory,
    factors: tuple[Array | None, Array | None],
    scale: float,
    start: int,
) -> None:
    """Do one pass of a source from ``start`` on; all that it reads is read first."""
    j = np.outer(np.arange(pass_.n), np.arange(pass_.n)) % pass_.n
    matrix = np.exp((2j if pass_.inverse else -2j) * np.pi * j / pass_.n)
    stores: list[tuple[int, tuple[int, ...], int, Array]] = []
    for batch in product(*map(range, pass_.batch)):
        bases = [
            begin + sum(i * step for i, step in zip(batch, side.batch, strict=True))
            for side, begin in ((pass_.source, start), (pass_.target, 0))
        ]
        for lane in range(pass_.lanes):
            result = matrix @ read_lane(pass_, source, bases[0], batch, lane, factors[0])
            result = result * scale
            if pass_.twiddle_length:
                sign = 2j if pass_.inverse else -2j
                number = lane
                if pass_.by_batch:
                    number = batch[-1]
                elif pass_.source.limit_batch:
                    number = number_of(pass_.source, 0, lane, batch)
                result = result * np.exp(
                    sign * np.pi * number * np.arange(pass_.n) / pass_.twiddle_length
                )
            stores.append((bases[1], batch, lane, result))
    for base, batch, lane, result in stores:
        write_lane(pass_, target, base, batch, lane, result, factors[1])


def follow(way: Decomposition, source: Memory, target: Memory, scale: float) -> None:
    """Do the passes of a variant, with workspace between them."""
    rooms: dict[str, Memory] = {}
    for k, pass_step in enumerate(way.pass_steps):
        own_scale = scale if k == len(way.pass_steps) - 1 else 1.0
        start = pass_step.source.start if isinstance(pass_step.source, Part) else 0

        def of(place: Any) -> Memory:
            place = place.of if isinstance(place, Part) else place
            if isinstance(place, Temporary):
                size = place.nbytes // 16
                return rooms.setdefault(place.name, Memory(np.full(size, np.nan * 1j)))
            return source if place == "source" else target

        before, after = of(pass_step.source), of(pass_step.target)
        after.writes.clear()
        factors = tuple(
            make and make() for make in (pass_step.source_factors, pass_step.target_factors)
        )
        interpret(pass_step.pass_, before, after, (factors[0], factors[1]), own_scale, start)
        assert set(after.writes.values()) == {1}, "some number is written twice"
        if isinstance(pass_step.target, Temporary):
            assert len(after.writes) == len(after.values), "room is left"


@dataclass(frozen=True)
class Drawn:
    """A line, how many numbers its operands have, and where their lines begin."""

    line: Line
    sizes: tuple[int, int]
    bases: tuple[tuple[int, ...], tuple[int, ...]]


def draw(
    rng: random.Random, n: int, forms: tuple[str, str] | None = None, cropped: bool = False
) -> Drawn:
    """A line of random layout: axes in any order, with gaps, the line's own among them.

    ``cropped``: of its results but the half of a transform, some in the middle are wanted.
    """
    source, target = rng.choice(FORMS) if forms is None else forms
    extents = [rng.choice((1, 2, 3, 5, 9)) for _ in range(rng.choice((0, 1, 1, 2)))]
    whole = n // 2 + 1 if source == "half" else n
    first = rng.randint(0, n - 1) if cropped and target != "half" else 0
    counts = (
        whole if rng.random() < 0.6 else rng.randint(1, whole),
        n // 2 + 1 if target == "half" else rng.randint(1, n - first) if cropped else n,
    )
    steps, sizes = [], []
    for line_count in counts:
        order = rng.choice(list(permutations(range(len(extents) + 1))))
        extent, step, its = [line_count, *extents], 1, [0] * (len(extents) + 1)
        for axis in order:
            its[axis] = step
            step = step * extent[axis] + rng.choice((0, 0, 2))
        steps.append(its)
        sizes.append(step)
    others = tuple(
        Axis(extent, (steps[0][k + 1], steps[1][k + 1])) for k, extent in enumerate(extents)
    )
    bases = [
        tuple(
            sum(i * axis.strides[side] for i, axis in zip(place, others, strict=True))
            for place in product(*map(range, extents))
        )
        for side in (0, 1)
    ]
    line = Line(
        n,
        rng.random() < 0.5,
        REAL,
        LineOperand(source, counts[0], steps[0][0]),  # type: ignore[arg-type]
        LineOperand(target, counts[1], steps[1][0], first),  # type: ignore[arg-type]
        others,
    )
    return Drawn(line, (sizes[0], sizes[1]), (bases[0], bases[1]))


def wanted(line: Line, x: Array) -> Array:
    """NumPy's transform of the numbers of a line."""
    whole = np.zeros(line.n // 2 + 1 if line.source.form == "half" else line.n, complex)
    whole[: len(x)] = x
    if line.source.form == "half":
        result = np.fft.irfft(whole if line.inverse else whole.conj(), line.n) * line.n
    else:
        result = np.fft.ifft(whole) * line.n if line.inverse else np.fft.fft(whole)
    return result[line.target.first : line.target.end]


def check(drawn: Drawn, limits: PassLimits) -> Iterator[str]:
    """Follow every way of a line; yields their names."""
    line, rng = drawn.line, np.random.default_rng(drawn.line.n)
    values = rng.standard_normal(drawn.sizes[0])
    if line.source.form != "real":
        values = values + 1j * rng.standard_normal(drawn.sizes[0])
    result = decompositions(line, limits, (f"room{k}" for k in count()))
    assert result, f"no way for {line}"
    places = [
        {base + i * end.step for base in bases for i in range(end.count)}
        for end, bases in zip((line.source, line.target), drawn.bases, strict=True)
    ]
    for variant in result:
        source, target = Memory(values.copy()), Memory(np.full(drawn.sizes[1], np.nan * 1j))
        follow(variant, source, target, 0.5)
        np.testing.assert_array_equal(source.values, values)
        assert set(target.writes) == places[1], f"{variant.name} writes other numbers"
        for base, goal in zip(*drawn.bases, strict=True):
            x = values[base + line.source.step * np.arange(line.source.count)]
            y = target.values[goal + line.target.step * np.arange(line.target.count)]
            np.testing.assert_allclose(y, 0.5 * wanted(line, x), atol=1e-11 * line.n)
        yield variant.name


@pytest.mark.divided
@pytest.mark.parametrize("seed", range(12))
def test_random_lines(seed: int) -> None:
    rng, seen = random.Random(seed), Counter[str]()
    for _ in range(12):
        n = rng.choice((rng.randint(1, 12), rng.randint(13, 60), rng.randint(61, 144)))
        drawn = draw(rng, n)
        limit = rng.choice((13, 16, 64, 1024))
        lanes = rng.choice((2, 4, 8))
        seen.update(check(drawn, PassLimits(limit, lanes, limit, 4 * lanes)))
    assert {"one pass", "two passes", "chirp"} <= set(seen), f"only {seen}"


@pytest.mark.parametrize("forms", FORMS, ids="-".join)
@pytest.mark.parametrize("n", [48, 63, 64, 66, 98, 130])
def test_two_passes_of_lone_lines(n: int, forms: tuple[str, str]) -> None:
    """Even and odd factors, for pairs in the middle of a folded sequence."""
    rng = random.Random(n)
    names = [
        name for _ in range(4) for name in check(draw(rng, n, forms), PassLimits(16, 2, 16, 8))
    ]
    assert set(names) == {"two passes"}


@pytest.mark.divided
@pytest.mark.parametrize("by_batch", [False, True])
@pytest.mark.parametrize("forms", FORMS, ids="-".join)
@pytest.mark.parametrize("n", [120, 210, 231, 256, 315])
def test_three_passes(n: int, forms: tuple[str, str], by_batch: bool) -> None:
    """Whole and cut lines, of even and odd factors."""
    rng, limits = random.Random(n), PassLimits(16, 2, 4, 8, twiddles_by_batch=by_batch)
    names = [name for k in range(4) for name in check(draw(rng, n, forms, k % 2 > 0), limits)]
    assert "three passes" in names


@pytest.mark.parametrize("forms", [("real", "half"), ("half", "real")], ids="-".join)
def test_real_lines_keep_half_of_the_rows_between_three_passes(forms: tuple[str, str]) -> None:
    source, target = (LineOperand(form, 129 if form == "half" else 256, 1) for form in forms)  # type: ignore[arg-type]
    result = decompositions(
        Line(256, False, REAL, source, target, ()),
        PassLimits(16, 2, 4, 8, twiddles_by_batch=True),
        iter("abc"),
    )
    (three,) = (variant for variant in result if variant.name == "three passes")
    columns = three.pass_steps[0 if forms[0] == "real" else -1].pass_.n
    for place in (three.pass_steps[0].target, three.pass_steps[-1].source):
        assert isinstance(place, Temporary)
        assert place.nbytes == 16 * (columns // 2 + 1) * 256 // columns


@pytest.mark.parametrize("n", [2 * 3**5, 2**9, 7**3, 11**2 * 2, 13**3])
def test_lengths_whose_factors_are_no_good_fit(n: int) -> None:
    """A length that is not a product of two lengths of a pass is transformed nonetheless."""
    names = [*check(draw(random.Random(n), n, ("complex", "complex")), PassLimits(16, 2, 16, 8))]
    assert names
    assert set(names) <= {"two passes", "three passes"}


def spoilt(way: Decomposition, change: Callable[[Pass], Pass]) -> Decomposition:
    first, *others = way.pass_steps
    return replace(way, pass_steps=(replace(first, pass_=change(first.pass_)), *others))


@pytest.mark.parametrize(
    "change",
    [
        lambda pass_: replace(pass_, inverse=not pass_.inverse),
        lambda pass_: replace(pass_, twiddle_length=pass_.twiddle_length + 1),
        lambda pass_: replace(pass_, source=replace(pass_.source, limit=1 << 62)),
        lambda pass_: replace(pass_, target=replace(pass_.target, rows=pass_.target.rows - 1)),
        lambda pass_: replace(pass_, lanes=pass_.lanes - 1),
    ],
    ids=["direction", "twiddles", "limit", "rows", "lanes"],
)
def test_the_interpreter_notices(change: Callable[[Pass], Pass]) -> None:
    line = Line(60, False, REAL, LineOperand("complex", 33, 1), LineOperand("complex", 60, 1), ())
    x = np.random.default_rng(0).standard_normal(33) * (1 + 2j)
    (variant,) = decompositions(line, PassLimits(16, 2, 16, 8), iter("ab"))

    def result(which: Decomposition) -> Array:
        target = Memory(np.full(60, np.nan * 1j))
        follow(which, Memory(x.copy()), target, 1.0)
        return target.values

    np.testing.assert_allclose(result(variant), np.fft.fft(x, 60), atol=1e-12)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(result(spoilt(variant, change)), np.fft.fft(x, 60), atol=1e-12)


@pytest.mark.parametrize(
    ("device", "planes"),
    [("NVIDIA A100", False), ("NVIDIA H200", True), ("NVIDIA H100 80GB HBM3", True)],
)
def test_planes_take_one_launch_where_that_was_measured(device: str, planes: bool) -> None:
    local = example_target("nvidia")
    target = replace(local, facts=replace(local.facts, name=device))
    cube = problem("c2c", (256, 256, 256), np.dtype(np.complex64))
    result = variants(cube, target, TuningTable.shipped())
    assert any("two axes" in item.path for item in result)
    assert ("two axes" in best_of(result, target).path) == planes


def test_planes_lie_where_both_passes_write() -> None:
    """A real result cannot hold the numbers between its last two axes."""
    target = example_target("nvidia")
    cube = problem("c2r", (64, 64, 64), np.dtype(np.float32), inverse=True)
    result = variants(cube, target, TuningTable.shipped())
    assert [item.path for item in result] == ["one pass"]


def test_planes_of_a_strided_array_are_found_or_left() -> None:
    """The middle axis of three is far from the others, and planes need not be close."""
    policy, target = GroupFftPolicy(16, 128, 16, 16384), example_target("nvidia")

    def line(count: int, step: int, *others: Axis) -> Line:
        end = LineOperand("complex", count, step)
        return Line(count, False, element(dtype_of("float32")), end, end, others)

    first = line(32, 40, Axis(5, (2000, 2000)), Axis(32, (1, 1)))
    second = line(32, 1, Axis(5, (2000, 2000)), Axis(32, (40, 40)))
    (variant,) = fused_axes(first, second, policy, target, iter("a"))
    assert [pass_step.pass_.batch for pass_step in variant.pass_steps] == [(5,), (5,)]
    assert [pass_step.pass_.source.lane for pass_step in variant.pass_steps] == [1, 40]
    elsewhere = line(32, 1, Axis(5, (2000, 2000)), Axis(32, (44, 44)))
    assert not fused_axes(first, elsewhere, policy, target, iter("a"))


@pytest.mark.parametrize(("extra", "kinds"), [(0.01, 4), (0.0, 5)])
def test_launches_of_a_convolution_have_one_text(
    monkeypatch: pytest.MonkeyPatch, extra: float, kinds: int
) -> None:
    """The nine rows of a filter are transformed as the rows of an image, and not in two passes."""
    monkeypatch.setattr(fft_variants, "_HARDLY", extra)
    image, result = Strided((1, 1000, 300), (0, 300, 1)), Strided((1, 1008, 308), (0, 308, 1))
    filtered = ConvolutionProblem(
        element(dtype_of("float32")), (True, True), False, (1, 2), (1024, 320),
        Strided((1, 9, 9), (0, 9, 1)), (ConvolutionPiece(image, result, (0, 0)),),
    )  # fmt: skip
    target = detect(RECORDED["PoCL"][0])
    texts = best_of(variants(filtered, target, TuningTable.shipped()), target).texts()
    assert (len(texts), len({text.key for text in texts})) == (6, 1)
    assert texts[0].text.count("if (number == ") == kinds


@pytest.mark.parametrize(("axis", "programs"), [(0, 1), (None, 2)])
def test_launches_along_an_axis_have_one_text_on_cpus(axis: int | None, programs: int) -> None:
    """A line of 2^20 numbers takes two launches; transforms along another axis have their own."""
    target = detect(RECORDED["PoCL"][0])
    asked = problem("c2c", (1 << 20, 3), np.dtype("complex64"), axis=axis)
    texts = best_of(variants(asked, target, TuningTable.shipped()), target).texts()
    assert len({text.key for text in texts}) == programs
    assert len(texts) == 1 + programs
