"""The benchmark's logic, on fake timings: no device and no clock."""

from __future__ import annotations

import ast
import io
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import rich.console

from portable_gpu.bench import noise, peers, revision_process, timing
from portable_gpu.bench.altered import check_changes, parse_changes
from portable_gpu.bench.cases import GROUPS, cases, copies, operands, oracle
from portable_gpu.bench.hunt import Hunt, Trial
from portable_gpu.bench.known_peers import open_peers, usual_peers
from portable_gpu.bench.ladder import LadderRow, LadderTimes
from portable_gpu.bench.measure import Bench, Remark, Row, alternate, ratios
from portable_gpu.bench.noise import Noise
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.roofs import Roofs, specializations
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import InLine, Prepared, Timed, calls_a_turn
from portable_gpu.bench.verdict import Verdict, pooled
from portable_gpu.cli import main
from portable_gpu.cli.bench_tables import table_of_ladder, table_of_rows
from portable_gpu.errors import ArgumentError, PortableGPUError, UnsupportedError
from portable_gpu.ops import public_call
from portable_gpu.ops.case import Case
from portable_gpu.ops.fft.commands.cases import axes_of
from portable_gpu.ops.public_call import PublicCall
from portable_gpu.ops.sizes import Size, parse_sizes
from portable_gpu.targets import class_names, example_target
from portable_gpu.tuning.table import TuningTable


class Fake(Prepared):
    """Records what is timed, and returns given seconds."""

    def __init__(self, name: str, log: list[tuple[str, int, int]], seconds: list[float]) -> None:
        super().__init__([lambda: np.float32(0)])
        self.name, self.log, self.left = name, log, list(seconds)

    def seconds(self, first: int, count: int) -> float:
        self.log.append((self.name, first, count))
        return self.left.pop(0) * count


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "fall_silent", lambda: None)


def test_statistic() -> None:
    result = Statistic.of([5.0, 1.0, 2.0, 4.0, 3.0])
    assert (result.median, result.low, result.high, result.count) == (3.0, 2.0, 4.0, 5)
    assert result.spread == pytest.approx(1 / 3)
    assert Statistic.of([7.0]) == Statistic(7.0, 7.0, 7.0, 1)


def test_sides_take_turns(silent: None) -> None:
    log: list[tuple[str, int, int]] = []
    ours, theirs = Fake("ours", log, [1, 2, 3]), Fake("theirs", log, [4, 6, 12])
    times = alternate([ours, theirs], [1, 1], 3)
    assert [name for name, *_ in log] == ["ours", "theirs"] * 3
    assert times == ([1, 2, 3], [4, 6, 12])
    assert ratios(*times) == [4, 3, 4]


def test_a_short_call_is_repeated_and_its_first_does_not_count(silent: None) -> None:
    log: list[tuple[str, int, int]] = []
    times = alternate([Fake("ours", log, [9, 1, 9, 2])], [100], 2)
    assert [count for *_, count in log] == [1, 100, 1, 100]
    assert [first for _, first, count in log if count > 1] == [1, 101]  # other copies each turn
    assert times == ([1, 2],)


def test_turns_last_long_enough() -> None:
    assert calls_a_turn(1.0) == 1
    for once in (1e-6, 3e-5, 1e-3, 0.9 * timing.TURN):
        assert calls_a_turn(once) * once >= timing.TURN


class _FullDriver(InLine):
    """A driver that accepts a number of launches before the device must end its work."""

    def __init__(self, accepts: int, launches: int, count: int) -> None:
        super().__init__([self._launch] * count, lambda: None, lambda result: result)
        self.accepts, self.launches, self.held, self.waiting = accepts, launches, 0.0, 0

    def _launch(self) -> None:
        self.waiting += self.launches

    def hold(self, seconds: float) -> None:
        self.held, self.waiting = self.held + seconds, 0

    def since_hold(self) -> float | None:
        return 1e-6 * self.waiting if self.waiting <= self.accepts else None


@pytest.mark.parametrize("launches", [1, 5, 300, 1000])
def test_calls_of_many_launches_wait_in_shorter_lines(launches: int) -> None:
    # No call is timed twice, and the device is not held longer and longer.
    line = _FullDriver(1000, launches, 256)
    assert line.seconds(0, 256) == pytest.approx(256e-6 * launches)
    assert line.held < 0.5


def test_a_call_that_no_line_can_hold_is_an_error_after_few_tries() -> None:
    line = _FullDriver(1000, 1001, 4)
    with pytest.raises(PortableGPUError, match="--eager"):
        line.seconds(0, 4)
    assert line.held < 10


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000000", [Size((1_000_000,))]),
        ("2^20, 4096x4096/0", [Size((1 << 20,)), Size((4096, 4096), variant="0")]),
        ("1000:32x32x32/NT", [Size((32, 32, 32), 1000, "NT")]),
        ("2^20x100", [Size((1 << 20, 100))]),
    ],
)
def test_sizes(text: str, expected: list[Size]) -> None:
    assert parse_sizes(text) == tuple(expected)


@pytest.mark.parametrize("text", ["", "x", "4x", "0", "2^", "4096*4096", "0:4x4x4", "-3"])
def test_sizes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"--sizes has '.*'; (sizes are like|every extent)"):
        parse_sizes(text)


@pytest.mark.parametrize("on_cpu", [True, False])
@pytest.mark.parametrize("operation", GROUPS)
def test_a_case_is_what_its_size_says(operation: str, on_cpu: bool) -> None:
    result = cases(operation, ["float32", "complex64"], None, on_cpu)
    assert len(set(result)) == len(result)
    for case in result:
        assert cases(case.operation, [case.dtype], parse_sizes(case.size), on_cpu) == [case]
        assert case.size in case.command


def test_the_issues_products_are_timed() -> None:
    names = {case.size for case in cases("gemm", ["float32"], None, True)}
    assert {"8x3200x3200/NN", "4096x64x4096/NN", "400x100000x400/NN"} <= names
    assert {"1000:32x32x32/NN", "512x512x512/TT", "3000x3000x3000/NT"} <= names


@pytest.mark.parametrize(
    ("operation", "size", "message"),
    [
        ("gemm", "4096", "gemm takes m x k x n"),
        ("gemv", "4:4x4", "gemv takes rows x columns"),
        ("gemm", "4x4x4/XX", "there are NN, NT, TN, TT"),
        ("sum", "2:4", "takes no batch"),
        ("sum", "4x4/2", "has no variant '2'"),
        ("fft", "4x4/2", "fft has no variant '2'; axes are 0, 1"),
        ("rfft", "4/T", "rfft has no variant 'T'"),
        ("sin", "4", "no benchmark 'sin'; there are: sum, reduce"),
    ],
)
def test_sizes_that_do_not_fit(operation: str, size: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        cases(operation, ["float32"], parse_sizes(size), True)


def test_a_row_is_lost_beyond_two_percent_and_twice_the_spread() -> None:
    quiet = [1.001, 0.999] * 4
    assert Verdict.of([0.97] * 8, quiet).lost
    assert not Verdict.of([0.985] * 8, quiet).lost
    assert not Verdict.of([1.2] * 8, quiet).lost
    biased = Verdict.of([0.97] * 8, [1.02] * 8)  # the revision itself seems to differ by 2 %
    assert (biased.lost, biased.spread) == (False, pytest.approx(math.log(1.02)))
    assert Verdict.of([0.95] * 8, [1.02] * 8).lost
    noisy = Verdict.of([0.97] * 8, [1.1, 1 / 1.1] * 4)
    assert not noisy.lost
    assert noisy.itself == pytest.approx(1)
    assert noisy.spread == pytest.approx(math.log(1.1) / math.sqrt(7))
    assert noisy.to_dict()["lost"] is False
    close = Verdict.of([0.978] * 8, quiet)
    assert close.lost
    result = pooled([close, biased, noisy])
    assert [item.lost for item in result] == [False] * 3  # all rows say how far processes differ
    assert result[0].spread == pytest.approx(math.log(1.02) / math.sqrt(3), rel=1e-3)
    assert result[2] == noisy  # whose own spread is larger
    assert pooled([close] * 3)[0].lost
    assert pooled([]) == []


@pytest.mark.parametrize(
    ("module", "known"),
    [
        (timing, {"portable_gpu.errors"}),
        (revision_process, set()),
        (public_call, set()),
    ],
)
def test_processes_of_revisions_use_nothing_that_others_lack(
    module: ModuleType, known: set[str]
) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    result = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
    result |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert {name for name in result if name.startswith("portable_gpu")} == known


def test_transforms_of_several_axes_are_timed_by_their_own_function() -> None:
    for case, expected in (
        (Case("fft", (8,), "complex64", batch=3), PublicCall("fft.fft", {"axis": -1})),
        (Case("rfft", (8, 4)), PublicCall("fft.rfftn", {"axes": (-2, -1)})),
        (Case("fft", (8, 4), "complex64", axis=0), PublicCall("fft.fft", {"axis": -2})),
    ):
        assert peers.public_call(case, on_host=True) == expected


def test_cost() -> None:
    product = Case("gemm", (2, 3, 5), "complex64", trans="TN", batch=7)
    assert product.flop == 8 * 7 * 2 * 3 * 5
    assert product.bytes == 8 * 7 * (2 * 3 + 3 * 5 + 2 * 5)
    assert product.shapes == ((7, 3, 2), (7, 3, 5))
    total = Case("sum", (10, 20), "float64", axis=0)
    assert (total.flop, total.bytes) == (200, 8 * 220)
    assert Case("gemv", (10, 20), trans="T").bytes == 4 * 230


@pytest.mark.parametrize("extents", [(72, 2, 1019), (5, 1, 4000), (300, 3, 2000)])
def test_the_oracle_allows_for_its_own_rounding(extents: tuple[int, int, int]) -> None:
    """With many columns and few terms its sums are longer than the product's."""
    case = Case("gemm", extents, "float64", trans="TT")
    for seed in range(10):
        a, b = inputs = operands(case, seed)
        product = a.T @ b.T
        assert oracle(case, inputs)(product) <= 1
        product[1, 2] *= 1 + 1e-9
        assert oracle(case, inputs)(product) > 1


def test_manners_of_gemm() -> None:
    split, wide = cases(
        "gemm", ["float32:bf16x6", "float16:float32"], parse_sizes("2x3x5/NT"), True
    )
    assert (split.precision, split.result, split.type) == ("bf16x6", "float32", "float32:bf16x6")
    assert (wide.precision, wide.result, wide.dtype) == ("ieee", "float32", "float16")
    assert wide.bytes == 2 * (2 * 3 + 3 * 5) + 4 * 2 * 5
    assert split.command == "portable-gpu bench gemm --sizes 2x3x5/NT --dtype float32:bf16x6"
    for operation, dtype in (
        ("gemv", "float32:tf32"), ("gemm", "float64:tf32"), ("gemm", "float16:bfloat16"),
        ("gemm", "float32:"), ("gemm", "float32:float32"),
    ):  # fmt: skip
        with pytest.raises(ArgumentError, match=f"--dtype has '{dtype}'"):
            cases(operation, [dtype], parse_sizes("4x4x4" if operation == "gemm" else "4x4"), True)


def test_oracle_allows_a_precision_what_it_loses() -> None:
    case = Case("gemm", (200, 300, 100), trans="NN", manner="tf32")
    a, b = operands(case)
    short = (a.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    assert oracle(case, (a, b))(short @ b) <= 1
    assert oracle(replace(case, manner=""), (a, b))(short @ b) > 1
    assert oracle(case, (a, b))((1.1 * a) @ b) > 1


def test_transforms_take_the_numbers_of_a_precision() -> None:
    """A real dtype stands for complex numbers where those are transformed, and the other way."""
    for operation, dtype in (("fft", "complex64"), ("rfft", "float32")):
        both = cases(operation, ["float32", "complex64"], parse_sizes("10:64"), True)
        assert both == [Case(operation, (64,), dtype, batch=10)]
        assert not [c for c in cases("all", ["float16"], None, True) if c.operation == operation]
        with pytest.raises(ArgumentError, match=f"{operation} takes float32, float64, complex64"):
            cases(operation, ["float16"], parse_sizes("64"), True)
    lines, columns = cases("fft", ["complex128"], parse_sizes("10:64,64x10/0"), True)
    assert lines.flop == columns.flop == 5 * 64 * 6 * 10
    assert (lines.bytes, columns.shapes) == (2 * 16 * 640, ((64, 10),))
    (real,) = cases("rfft", ["float64"], parse_sizes("10:64"), True)
    assert (real.flop, real.bytes) == (lines.flop // 2, 8 * 640 + 16 * 330)


def test_a_transforms_oracle_looks_at_each_line() -> None:
    """One wrong line of many is not lost among the right ones."""
    case = Case("fft", (64,), "complex64", batch=10_000)
    inputs = operands(case)
    judge, right = oracle(case, inputs), by_numpy(case, inputs)
    assert judge(right) <= 0.5
    wrong = right.copy()
    wrong[777] *= np.float32(1 + 1e-5)
    assert judge(wrong) > 1


def test_transforms_have_peers_of_their_own() -> None:
    assert {"scipy", "pyfftw"} < set(usual_peers(("fft",), True))
    assert not {"scipy", "pyfftw"} & {*usual_peers(("sum",), True), *usual_peers(("fft",), False)}
    assert {"numpy", "torch"} < set(usual_peers(("sum", "rfft"), True))


def test_copies_outgrow_the_cache() -> None:
    case = Case("dot", (1 << 20,))  # 8 MiB
    assert copies(case, 32 << 20, 64 << 30) == 8
    assert copies(case, 1 << 10, 64 << 30) == 2
    assert copies(case, 1 << 40, 64 << 30) == 16
    assert copies(case, 32 << 20, 64 << 20) == 1


SMALL = [
    Case("sum", (5000,)),
    Case("sum", (60, 70), axis=1),
    Case("dot", (5000,), "complex64"),
    Case("max", (5000,)),
    Case("argmax", (5000,)),
    Case("nrm2", (5000,), "float64"),
    Case("nrm2", (5000,), "float16"),
    Case("gemv", (50, 40), trans="T"),
    Case("gemm", (30, 40, 20), trans="TN"),
    Case("gemm", (30, 40, 20), "complex128", trans="NT"),
    Case("gemm", (8, 9, 10), trans="NN", batch=3),
    Case("fft", (60,), "complex64", batch=7),
    Case("fft", (34, 20), "complex128"),
    Case("fft", (34, 20), "complex64", axis=0),
    Case("rfft", (34, 21), "float64", batch=2),
    Case("rfft", (1000,), "float32"),
]


def by_numpy(case: Case, inputs: tuple[Any, ...]) -> Any:
    if case.operation in ("gemm", "gemv"):
        a, b = inputs
        a = np.swapaxes(a, -1, -2) if case.trans[0] == "T" else a
        b = np.swapaxes(b, -1, -2) if case.trans[1:] == "T" else b
        return np.asarray(a @ b)
    if case.operation == "nrm2":
        return np.asarray(np.linalg.norm(inputs[0]))
    if case.operation in ("fft", "rfft"):
        axes = axes_of(case)
        return np.asarray(getattr(np.fft, f"{case.operation}n")(*inputs, axes=axes))
    options = {} if case.axis is None else {"axis": case.axis}
    return np.asarray(getattr(np, case.operation)(*inputs, **options))


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_oracle(case: Case) -> None:
    inputs = operands(case)
    judge, right = oracle(case, inputs), by_numpy(case, inputs)
    assert judge(right) <= 1
    wrong = right.copy()
    index = (0,) * wrong.ndim
    wrong[index] = wrong[index] + (1 if wrong.dtype.kind == "i" else 0.05 * (1 + abs(right[index])))
    assert judge(wrong) > 1
    lost = right.copy()
    lost[index] = np.nan if lost.dtype.kind != "i" else -1
    assert judge(lost) > 1
    assert judge(right[None]) > 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_oracle_sees_one_lost_term(dtype: str) -> None:
    case = Case("sum", (1 << 16,), dtype)
    (x,) = operands(case)
    judge = oracle(case, (x,))
    assert judge(np.asarray(x.sum())) <= 1
    assert judge(np.asarray(x[:-1000].sum())) > 1


ROOFS = Roofs(Statistic.of([1e11]), {"float": Statistic.of([1e13]), "double": Statistic.of([1e12])})


def test_roofs() -> None:
    product, total = Case("gemm", (1000, 1000, 1000), trans="NN"), Case("sum", (10**9,))
    assert ROOFS.limit(product) == "fma"
    assert ROOFS.seconds(product) == pytest.approx(2e9 / 1e13)
    assert ROOFS.share(product, 4e-4) == pytest.approx(0.5)
    assert ROOFS.limit(total) == "copy"
    assert ROOFS.share(total, 0.08) == pytest.approx(0.5)
    assert ROOFS.flops(Case("sum", (10,), "complex128")) == 1e12
    assert ROOFS.flops(Case("sum", (10,), "float16")) == 1e13


def test_roofs_are_the_highest_that_was_reached() -> None:
    slow, fast = Statistic.of([1e10]), Statistic.of([2e11])
    other = Roofs(fast, {"float": slow, "double": fast})
    raised = ROOFS.raised(other)
    assert raised == other.raised(ROOFS)
    assert (raised.copy, raised.fma["float"]) == (fast, ROOFS.fma["float"])


HALVES = replace(ROOFS, matrix={"float16": Statistic.of([5e14])})


def timed(case: Case, seconds: float, theirs: float | None = None) -> Row:
    """A row of one turn."""
    other = None if theirs is None else Statistic.of([theirs])
    ratio = None if theirs is None else Statistic.of([theirs / seconds])
    peer = None if theirs is None else "numpy"
    return Row(case, peer, Statistic.of([seconds]), other, ratio, (1,), 1, (0.5,))


def test_products_on_matrix_units_are_held_to_their_roof() -> None:
    product = Case("gemm", (1 << 16,) * 3, "float16", trans="NN")
    assert (HALVES.limit(product), HALVES.flops(product)) == ("matrix", 5e14)
    for other in (replace(product, dtype="float32"), Case("gemv", (4096,) * 2, "float16")):
        assert HALVES.flops(other) == 1e13
    wide = replace(product, manner="float32")  # a type of its own
    assert HALVES.limit(wide) == "fma"
    emulated = replace(ROOFS, matrix={"float16": Statistic.of([1e9])})
    assert emulated.limit(product) == "fma"


def test_no_row_beats_the_roof_of_matrix_units() -> None:
    product = Case("gemm", (1 << 16,) * 3, "float16", trans="NN")
    fast, faster = product.flop / 6e14, product.flop / 8e14
    rows = [timed(product, fast, faster), timed(Case("sum", (10,), "float16"), 1e-30)]
    roofs = HALVES.reached(rows)
    assert roofs.flops(product) == pytest.approx(8e14)
    assert roofs.share(product, fast) == pytest.approx(0.75)
    assert HALVES.reached([timed(product, 100.0)]) == HALVES
    assert HALVES.raised(roofs) == roofs


def test_the_tables_fit_80_columns() -> None:
    sizes = "400x1100000x400,1024:64x64x64,2048x2048x2048/NN"
    result = cases("gemm", ["float32:bf16x6"], parse_sizes(sizes), False)
    rows = [timed(case, 12.345678, 1.2345678) for case in result]
    assert_fits(table_of_rows("gemm, float32:bf16x6", rows, HALVES, {"numpy": "policy 12"}))
    result = cases("all", ["float32"], None, False)
    rows = [timed(case, 1.2345678e-4, 0.0012345) for case in result]
    assert_fits(table_of_rows("all", rows, HALVES, {}))
    names = "double buffer, 128b, prefetch", "portable_gpu", "numpy"
    seconds = {name: Statistic.of([1.2345e-2]) for name in names}
    sizes = [f"{n}x{n}x{n}/NN" for n in (256, 512, 1024, 2048)]
    steps = tuple(LadderRow(size, seconds) for size in sizes)
    assert_fits(table_of_ladder(LadderTimes("sgemm", "A note.", names[:1], names[1:], steps)))


def assert_fits(table: Any) -> None:
    text = io.StringIO()
    rich.console.Console(file=text, width=80).print(table)
    lines = text.getvalue().splitlines()
    assert lines
    assert all(len(line) <= 80 and "…" not in line for line in lines), text.getvalue()


def test_noise() -> None:
    quiet = Noise(16, 1.0, 0.05, True)
    assert quiet.reasons == []
    busy = replace(quiet, busy=3.0, spread=0.2)
    assert busy.reasons == [
        "other processes kept 3.0 of 16 cores busy", "half of the rows spread by 20% or more"
    ]  # fmt: skip
    assert replace(busy, host_counts=False, spread=None).reasons == []
    assert busy.to_dict()["too_busy"]


def test_what_others_take_is_heard(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ticks = os.sysconf("SC_CLK_TCK")
    stat, now, process_seconds = tmp_path / "stat", [100.0], [1.0]

    def write(user: float, stolen: float) -> None:
        words = (user, 0, 0, 500, 70, 0, 0, stolen, user, 0)
        stat.write_text(f"cpu  {' '.join(str(int(word * ticks)) for word in words)}\ncpu0 1\n")

    monkeypatch.setattr(noise, "_STAT", stat)
    monkeypatch.setattr(noise.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(noise, "_own_seconds", lambda: process_seconds[0])
    write(user=50, stolen=0)
    listener = noise.Listener()
    now[0], process_seconds[0] = 110.0, 16.0  # in ten seconds we took 15
    write(user=80, stolen=5)  # of 35
    heard = listener.noise([Statistic.of([1.0, 2.0, 3.0])], True)
    assert heard.busy == pytest.approx(2.0)
    assert heard.spread == pytest.approx(0.25)
    stat.unlink()
    monkeypatch.setattr(noise.os, "getloadavg", lambda: (1.5, 0, 0))
    assert noise.Listener().noise([], True).busy == 1.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("chunk=128", None),
        ("nope=1", "no policy in this run has nope; there are: vector, item_m"),
        ("chunk=0", "chunk"),
        ("chunk", "it takes field=value"),
    ],
)
def test_changes_that_no_case_takes_are_refused(text: str, message: str | None) -> None:
    engine: Any = SimpleNamespace(target=example_target("cpu"), table=TuningTable([]))
    result = cases("gemm", ["float32"], parse_sizes("500x500x500/NN"), True)
    if message is None:
        check_changes(text, result, engine)
        return
    with pytest.raises(ArgumentError, match=f"--policy has .*{message}"):
        check_changes(text, result, engine)


def synthetic_report(peers: list[str]) -> Any:
    result = cases("roofline", ["float32", "float16"], None, False)
    rng = np.random.default_rng(0)
    rows = [
        replace(timed(case, *(HALVES.seconds(case) / rng.uniform(0.1, 1, 2))), peer=peer)
        for case in result
        for peer in peers
    ]
    facts = SimpleNamespace(name="A device")
    engine: Any = SimpleNamespace(maps_host_memory=False, target=SimpleNamespace(facts=facts))
    return BenchReport(engine, [], 9, ["bench"], roofs=HALVES, rows=rows)


@pytest.mark.divided("types, pages and texts")
def test_every_point_of_a_roofline_is_named_and_no_name_covers_another(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.text import Text

    from portable_gpu.bench.plot import plot_roofline

    report, path = synthetic_report(["torch", "unroll=1"]), tmp_path / "roofline.png"
    figure = plot_roofline(report, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    (axes,) = figure.axes
    labels = [text for text in axes.texts if text.get_text().isdigit()]
    named = {case for row in report.rows for case in [row.case]}
    assert sorted(int(label.get_text()) for label in labels) == list(range(1, len(named) + 1))
    boxes = [Text.get_window_extent(label) for label in labels]
    frame = axes.get_window_extent()
    for i, box in enumerate(boxes):
        assert frame.contains(*box.min)
        assert frame.contains(*box.max)
        assert not any(box.overlaps(other) for other in boxes[:i])
    alone = [line.get_xydata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    points = axes.transData.transform(alone)
    assert len(points) == 3 * len(named)
    assert not any(box.contains(*point) for box in boxes for point in points)


BUSY = Noise(cores=2, busy=1.7, spread=0.05, host_counts=True)


@pytest.mark.divided
@pytest.mark.parametrize("noise", [None, replace(BUSY, busy=0.0), BUSY])
def test_throughput_draws_policies_too_and_says_if_the_machine_was_busy(
    tmp_path: Path, noise: Noise | None
) -> None:
    pytest.importorskip("matplotlib")
    from portable_gpu.bench.plot import plot_throughput

    report = replace(synthetic_report(["torch", "unroll=1"]), noise=noise)
    if noise is not BUSY:  # the panels are the same, and take seconds to draw
        report.rows = report.rows[:8]
    title = plot_throughput(report, tmp_path / "bench.png")._suptitle
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")
    assert ("too busy: other processes kept 1.7 of 2" in title.get_text()) is (noise is BUSY)
    assert title.get_color() == ("C3" if noise is BUSY else "black")


@pytest.mark.divided
@pytest.mark.parametrize("rows", [1, 3, 5])
def test_a_hunt_has_no_empty_panel(tmp_path: Path, rows: int) -> None:
    pytest.importorskip("matplotlib")
    from portable_gpu.bench.plot import plot_ratios

    report = synthetic_report([])
    report.trials = [
        Trial(f"row {row}", "sum", "float32", "100", 10**k, "numpy", 1, 1 + k, 1, 1, 1, 1)
        for row in range(rows)
        for k in range(1, 4)
    ]
    shown = [axes for axes in plot_ratios(report, tmp_path / "hunt.png").axes if axes.axison]
    assert [len(axes.lines[0].get_xdata()) for axes in shown] == [3] * rows


@pytest.mark.parametrize("target", class_names())
@pytest.mark.parametrize("real", ["float", "double"])
def test_roof_kernels_render(target: str, real: str) -> None:
    copy, fma = specializations(example_target(target), real)
    assert "__kernel void copy(" in copy.text
    assert fma.text.count("* f + t;") == 12
    assert real in fma.text


@dataclass(frozen=True)
class Rival:
    """A peer with a result and times of our choice."""

    result: Any
    log: list[tuple[str, int, int]] = field(default_factory=list)
    once: float = 1e-3
    name: str = "rival"

    def prepare(self, case: Case, inputs: Any) -> Prepared | None:
        if self.result is None:
            return None
        fake = Fake(self.name, self.log, [self.once] * 100)
        fake.calls = [lambda: self.result]
        return fake


def admit(rival: Rival, judge: Callable[[Any], float], budget: float | None = 20.0) -> Any:
    bench = Bench(engine=None, peers=(), budget=budget)  # type: ignore[arg-type]
    return bench.admit(rival, Case("sum", (10,)), [], judge)


def test_a_wrong_result_is_not_timed() -> None:
    rival = Rival(np.float32(1))
    refused = admit(rival, lambda found: 3.0 if found == 1 else 0.0)
    assert isinstance(refused, Remark)
    assert refused.wrong
    assert "3 times its bound" in refused.text
    assert rival.log == []
    assert isinstance(admit(Rival(np.float32(1)), lambda found: math.nan), Remark)


def test_a_right_result_is_admitted() -> None:
    admitted = admit(Rival(np.float32(2)), lambda admitted: 0.25)
    assert (admitted.name, admitted.error) == ("rival", 0.25)
    assert admitted.once == pytest.approx(1e-3)
    assert admit(Rival(None), lambda admitted: 0.0) is None


def test_a_slow_peer_is_left_out_of_default_runs_alone() -> None:
    slow = Rival(np.float32(2), once=10.0)
    refused = admit(slow, lambda found: 0.0)
    assert isinstance(refused, Remark)
    assert not refused.wrong
    assert not isinstance(admit(slow, lambda found: 0.0, budget=None), Remark)


def test_peers_that_cannot_run_are_skipped_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Missing:
        install = "pip install missing"

        def __init__(self, engine: Any) -> None:
            raise ImportError

    class Unfit:
        def __init__(self, engine: Any) -> None:
            raise UnsupportedError("it needs a moon")

    known = {"missing": Missing, "unfit": Unfit}
    monkeypatch.setattr("portable_gpu.bench.known_peers.registry", lambda: known)
    engine: Any = None
    with open_peers(["missing", "unfit"], engine) as (opened, lines):
        assert opened == []
    assert lines == [
        "missing is not installed and left out: pip install missing",
        "unfit is left out: it needs a moon",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sin"], "no benchmark 'sin'; there are: sum"),
        (["sum", "--peers", "matlab"], "--peers has 'matlab'; there are: numpy"),
        (["sum", "--sizes", "large"], "--sizes has 'large'"),
        (["sum", "--ladder"], "--ladder takes gemv, gemm or all"),
        (["dispatch", "--sizes", "8x8x8"], "No such option: --sizes"),
        (["--seed", "1", "dispatch", "--ladder"], "No such option: --ladder"),
        (["dispatch", "--budget", "soon"], "--budget has 'soon'; a time is like 90s"),
        (["dispatch", "--dtype", "int32"], "--dtype has int32; floating-point types"),
        (["gemm", "--shapes", "5"], "No such option: --shapes"),
        (["dispatch", "--plot", "x.png"], "No such option: --plot"),
        (["dispatch", "--rows", "sum"], "--rows of dispatch is 'sum'; it takes gemm or fft"),
        (["hunt", "--ladder"], "No such option: --ladder"),
        (["sum", "--peers", "portable_gpu@not-there"], "--peers has 'portable_gpu@not-there', wh"),
        (["sum", "--peers", "portable_gpu@/not/there"], "--peers has 'portable_gpu@/not/there'; "),
        (["gemm", "--ladder", "--peers", "portable_gpu@HEAD"], "--peers has 'portable_gpu@HEAD'"),
        (["hunt", "--rows", "gemm,nope"], "--rows has 'nope'; there are: sum, of all, float32;"),
    ],
)
def test_refusal_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"error: {message}")
    assert captured.err.count("\n") == 1


def test_changes_of_policies() -> None:
    changes = parse_changes("bulk=true, stages=5,name=x")
    assert changes == {"bulk": True, "stages": 5, "name": "x"}
    for text in ("bulk", "=3", "bulk=", "a-b=1", ""):
        with pytest.raises(ArgumentError, match="field=value"):
            parse_changes(text)


def test_a_matrix_times_its_own_transpose() -> None:
    (case,) = cases("gemm", ["float32"], parse_sizes("5x3x5/NS"), False)
    assert case.shapes == ((5, 3),)
    a = operands(case)[0]
    call = peers.public_call(case, False)
    selected: list[Any] = []
    library = SimpleNamespace(matmul=lambda *arrays, **_: selected.extend(arrays))
    call.bind(library, [a], None)()
    assert selected[0] is a
    assert np.shares_memory(*selected)
    assert oracle(case, (a,))(a @ a.T) <= 1
    assert oracle(case, (a,))(a @ a.T + np.eye(5)) > 1
    with pytest.raises(ArgumentError, match="m x k x m"):
        cases("gemm", ["float32"], parse_sizes("5x3x4/NS"), False)[0].shapes  # noqa: B018


class _Switching(Timed):
    """Calls of a process; the first one after those of another process takes longer."""

    last: Timed | None = None
    copies = 1

    def result(self) -> Any:
        raise NotImplementedError

    def eager(self) -> Timed:
        return self

    def seconds(self, first: int, count: int) -> float:
        change = 4e-4 if _Switching.last is not self else 0.0
        _Switching.last = self
        return change + count * 1e-5


def test_turns_of_eager_calls_do_not_count_the_change_of_the_process() -> None:
    """Whichever side was timed last before the turns, all sides have the time of their calls."""
    sides = [_Switching() for _ in range(3)]
    _Switching.last = sides[0]
    hunt: Any = SimpleNamespace(_engine=SimpleNamespace(maps_host_memory=False))
    assert Hunt._times(hunt, sides, eager=True) == pytest.approx([1e-5] * 3)
