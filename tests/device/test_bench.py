"""The benchmark on this machine's device: small runs; their times are not asserted."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyopencl as cl
import pyopencl.array as cla
import pytest
from sampling import compile_fast

import portable_gpu
from portable_gpu.bench import dispatch, roofs, timing, worker_pool
from portable_gpu.bench.altered import Altered
from portable_gpu.bench.cases import cases, operands, oracle
from portable_gpu.bench.hunt import Hunt, HuntRow, Trial, kinds, random_cases, revision_rows
from portable_gpu.bench.known_peers import open_peers, registry
from portable_gpu.bench.ladder import CLIMBED, LadderTimes, climb, ladders
from portable_gpu.bench.measure import Bench, Remark, Row
from portable_gpu.bench.peers import NumPyPeer, Ours, PyOpenCLPeer
from portable_gpu.bench.queued import Queued
from portable_gpu.bench.roofs import measure_roofs
from portable_gpu.bench.timing import Hold
from portable_gpu.bench.worker_pool import WorkerPool
from portable_gpu.cli import main
from portable_gpu.errors import PortableGPUError
from portable_gpu.ops.case import Case
from portable_gpu.ops.family import RandomSizes
from portable_gpu.ops.fft.commands import cases as fft_cases
from portable_gpu.ops.gemm.commands import cases as gemm_cases
from portable_gpu.ops.sizes import Size, parse_sizes
from portable_gpu.runtime.engine import Engine


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "TURN", 1e-6)
    monkeypatch.setattr(timing, "fall_silent", lambda: None)
    monkeypatch.setattr(roofs, "_COPIED", 1 << 20)
    monkeypatch.setattr(roofs, "_steps", lambda target: 256)


#: Whose arrays: those that suit the device, or as on a GPU.
PLACES = ("device's own", "on the device")


@pytest.fixture(params=PLACES)
def placed(request: pytest.FixtureRequest, unoptimised: Engine) -> Engine:
    """An engine whose benchmarks take the arrays that suit it, and one as on a GPU."""
    if request.param == "on the device":
        unoptimised.maps_host_memory = False
    return unoptimised


SMALL = [
    *cases("reduce", ["float32"], parse_sizes("3000,60x70"), True),
    *cases("reduce", ["float16", "complex64"], parse_sizes("3000,60x70"), True)[::5],
    *cases("gemv", ["float32", "float16"], parse_sizes("50x40"), True),
    *cases("gemm", ["float32", "float16"], parse_sizes("30x30x30,8x20x12,5:9x8x7"), True),
]


@pytest.mark.parametrize(
    ("case", "placed"),
    [(case, PLACES[turn // 2 % 2]) for turn, case in enumerate(SMALL)],
    indirect=["placed"],
    ids=str,
)
def test_everybody_is_right(case: Case, placed: Engine) -> None:
    inputs = [operands(case)] * 2
    judge = oracle(case, inputs[0])
    for peer in (Ours(placed), NumPyPeer(placed), PyOpenCLPeer(placed)):
        prepared = peer.prepare(case, inputs)
        if prepared is not None:
            assert len(prepared.calls) == 2
            assert judge(prepared.result()) <= 1, peer.name
            assert prepared.seconds(0, 3) > 0


def test_the_host_does_not_count_but_for_eager_calls(engine: Engine) -> None:
    pause = 0.02
    x = cla.to_device(engine.queue, np.ones(100, np.float32))

    def call() -> cla.Array:
        time.sleep(pause)
        return 2 * x

    queued = Queued(engine, [call])
    assert queued.eager().seconds(0, 4) > 4 * pause
    assert min(queued.seconds(0, 4) for _ in range(5)) < pause


def test_the_same_with_other_policies(placed: Engine) -> None:
    case = cases("reduce", ["float32"], parse_sizes("3000"), True)[0]
    peers = [Altered(placed, text) for text in ("unroll=1", "unroll=0", "x=2")]
    rows = list(Bench(placed, peers).run(case))
    assert isinstance(rows[0], Row)
    assert (rows[0].peer, [type(row) for row in rows[1:]]) == ("unroll=1", [Remark, Remark])
    assert "unroll is 0, not from 1" in rows[1].text  # type: ignore[union-attr]
    assert "no policy that it takes has such fields" in rows[2].text  # type: ignore[union-attr]


def test_a_device_that_cannot_be_held(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    queued = Queued(engine, [engine.queue.finish])
    monkeypatch.setattr(Hold, "__call__", lambda hold, seconds: cl.enqueue_marker(engine.queue))
    with pytest.raises(PortableGPUError, match="cannot be held until all calls are enqueued"):
        queued.seconds(0, 1)


CLBLAST = [
    *cases("reduce", ["float32", "complex64"], parse_sizes("3000"), True),
    *cases("gemv", ["float32"], parse_sizes("50x40"), True),
    *cases("gemm", ["float32"], parse_sizes("20x20x20/NN,20x20x20/TT"), True),
]


@pytest.mark.parametrize("case", CLBLAST, ids=str)
def test_clblast_is_right(case: Case, placed: Engine) -> None:
    from portable_gpu.bench.clblast import CLBlastPeer

    try:
        peer = CLBlastPeer(placed)
    except ImportError:
        pytest.skip("no libclblast")
    inputs = [operands(case)]
    prepared = peer.prepare(case, inputs)
    if prepared is not None:
        assert oracle(case, inputs[0])(prepared.result()) <= 1


TRANSFORMS = [
    *cases("fft", ["complex64"], parse_sizes("20:48,20x24,48x20/0"), True),
    *cases("rfft", ["float32"], parse_sizes("20:48"), True),
]


@pytest.mark.parametrize("name", ["scipy", "pyfftw", "pyvkfft", "portable_gpu", "numpy"])
def test_transforms_are_right(name: str, unoptimised: Engine) -> None:
    engine = unoptimised
    known = {**registry(), Ours.name: Ours}
    if not engine.maps_host_memory and name in ("scipy", "pyfftw", "numpy"):
        pytest.skip("a peer on the host")
    try:
        peer = known[name](engine)
    except ImportError:
        pytest.skip(f"no {name}")
    for case in TRANSFORMS:
        inputs = [operands(case)] * 2
        prepared = peer.prepare(case, inputs)
        assert prepared is not None
        assert oracle(case, inputs[0])(prepared.result()) <= 1, case
        assert peer.version
    if name in ("scipy", "pyfftw", "pyvkfft"):
        case = Case("sum", (1000,))
        assert peer.prepare(case, [operands(case)]) is None


def test_peers_on_the_host_are_for_cpus(unoptimised: Engine) -> None:
    unoptimised.maps_host_memory = False
    with open_peers(["scipy", "pyfftw"], unoptimised) as (peers, lines):
        assert peers == []
    assert lines == [f"{name} is left out: {name} runs on CPUs" for name in ("scipy", "pyfftw")]


def test_a_row(engine: Engine) -> None:
    (row,) = Bench(engine, [NumPyPeer(engine)]).run(Case("sum", (1000,)))
    assert isinstance(row, Row)
    assert row.theirs is not None
    assert row.ratio is not None
    assert {row.ours.count, row.theirs.count, row.ratio.count} == {9}
    assert row.peer == "numpy"
    assert row.copies >= 1


def test_without_a_peer_we_are_timed_alone(engine: Engine) -> None:
    (row,) = Bench(engine, [PyOpenCLPeer(engine)]).run(Case("nrm2", (1000,)))
    assert isinstance(row, Row)
    assert (row.peer, row.theirs, row.ratio) == (None, None, None)


def test_a_wrong_result_of_ours_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = np.array(1e6, np.float32)
    result = wrong if engine.maps_host_memory else cla.to_device(engine.queue, wrong)
    monkeypatch.setattr(portable_gpu, "sum", lambda x, **_: result)
    (refused,) = Bench(engine, [NumPyPeer(engine)]).run(Case("sum", (1000,)))
    assert isinstance(refused, Remark)
    assert refused.wrong
    assert refused.who == "portable_gpu"


ROOT = Path(__file__).resolve().parents[2]

#: A library of another revision, with what the process of one needs and little else.
OTHER = """
import os
import numpy as np
__version__ = "0.0.1"
class Engine:
    def __init__(self, device): pass
def asarray(x): return x
def sum(x, engine): return np.sum(x)
def dot(x, y, engine): os._exit(3)
"""


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The folder of that library."""
    package = tmp_path / "portable_gpu"
    package.mkdir()
    (tmp_path / "cl_kernels").mkdir()
    (package / "__init__.py").write_text(OTHER)
    (package / "errors.py").write_text("class PortableGPUError(Exception): pass")
    return tmp_path


@pytest.mark.divided("bench beside a revision")
def test_a_revision_runs_its_own_library(engine: Engine, other: Path) -> None:
    if not engine.maps_host_memory:
        pytest.skip("that library runs on the host")
    name = f"portable_gpu@{other}"
    with open_peers([name], engine) as (peers, _):
        (revision,) = peers
        assert revision.version == "0.0.1"
        bench = Bench(engine, peers)
        for operation, expected in (
            ("sum", None),
            ("max", f"left out: {name}: AttributeError: module 'portable_gpu' has no"),
            ("dot", f"left out: {name}: its process ended by itself (3)"),
            ("sum", f"left out: {name}: its process ended by itself (3)"),
        ):
            (result,) = bench.run(Case(operation, (1000,)))
            if isinstance(result, Remark):
                assert expected is not None, result.text
                assert result.text.startswith(expected)
                continue
            assert expected is None
            assert result.peer == name
            assert result.verdict is not None
            assert result.verdict.count == 9


BESIDE = [
    Case("sum", (60, 70), axis=0),
    Case("elementwise", (3000,)),
    Case("gemm", (30, 20, 10), "float16", trans="TN", manner="float32"),
    Case("fft", (8, 12), "complex64"),
    Case("cholesky", (20,), batch=3),
]


@pytest.mark.divided("bench beside a revision")
def test_a_revision_beside_itself(placed: Engine, tmp_path: Path) -> None:
    """Every kind of call, of a copy of this library, with NumPy in the same run."""
    for part in ("portable_gpu", "cl_kernels"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("*.nb?"))
    with open_peers([f"portable_gpu@{tmp_path}", "numpy"], placed) as (peers, _):
        for case in BESIDE if placed.maps_host_memory else BESIDE[:1]:
            row, *others = Bench(placed, peers).run(case)
            assert isinstance(row, Row), row
            assert row.verdict is not None
            assert all(isinstance(item, Row) and item.verdict is None for item in others)
        row_of = kinds(placed)[0]
        (result,) = Hunt(placed, peers).over([(row_of, Case("sum", (999,)))])
    trials = [item for item in result if isinstance(item, Trial)]
    assert [trial.itself is None for trial in trials] == [False, True]
    (item,) = revision_rows(trials)
    assert item.verdict.count == item.eager.count == 1


@pytest.mark.divided("bench beside a revision")
def test_the_command_beside_a_revision_of_git(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no history")
    report = tmp_path / "bench.json"
    arguments = ["bench", "elementwise", "--sizes", "1000", "--peers", "portable_gpu@HEAD"]
    status = main([*arguments, "--json", str(report)])
    content = json.loads(report.read_text())
    (row,) = content["rows"]
    assert row["peer"] == "portable_gpu@HEAD"
    assert status == int(row["verdict"]["lost"])
    assert re.fullmatch(r"\S+ [0-9a-f]{40}", content["versions"]["portable_gpu@HEAD"])
    output = capsys.readouterr().out
    assert "revision 1: portable_gpu@HEAD" in output
    assert f"{row['verdict']['itself']:.3f}" in output


def test_roofs(engine: Engine) -> None:
    result = measure_roofs(engine, 1)
    assert result.copy.median > 0
    assert set(result.fma) == ({"float", "double"} if engine.target.fp64 else {"float"})
    assert min(item.median for item in result.fma.values()) > 0


def test_roofs_of_matrix_units(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Emulated units are not a roof; the way to measure true ones runs on them all the same."""
    case = Case("gemm", (8, 9, 10), "float16", trans="NN")
    if not engine.target.is_cpu:
        pytest.skip("on other devices their units are in the way")
    assert measure_roofs(engine, 1, [case, Case("sum", (10,))]).matrix == {}
    compile_fast(monkeypatch, engine)
    emulated = Engine(engine.device, device_class="gcn-gfx90a")
    monkeypatch.setattr(roofs, "warm_up", lambda prepared: 1.0)  # emulation takes its time
    measured = roofs._product(emulated, case.type)
    assert measured is not None
    assert measured[1] == 2 * 256**3
    assert roofs._product(emulated, "complex64") is None


@pytest.mark.parametrize("operation", CLIMBED)
def test_ladder(unoptimised: Engine, operation: str) -> None:
    bench = Bench(unoptimised, [NumPyPeer(unoptimised)], turns=1)
    for ladder in ladders(operation, unoptimised):
        small = "40x16/N" if operation == "gemv" else "40x40x40/NN"
        *remarks, times = climb(bench, replace(ladder, sizes=small))
        assert remarks == []
        assert isinstance(times, LadderTimes)
        (row,) = times.rows
        assert {"portable_gpu", "numpy"} < set(row.seconds)
        assert set(row.seconds) <= {*times.rungs, *times.peers}


def test_command(engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    report, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    sizes = "40x40x40/NT,3:8x9x10"
    arguments = ["bench", "gemm", "--sizes", sizes, "--peers", "numpy"]
    assert main([*arguments, "--json", str(report), "--plot", str(picture)]) == 0
    output = capsys.readouterr().out
    assert engine.target.facts.name in output
    assert "40x40x40/NT" in output
    content = json.loads(report.read_text())
    assert content["device"]["driver"] == engine.target.facts.driver_version
    assert {"portable_gpu", "python", "numpy", "pyopencl"} <= set(content["versions"])
    assert [row["size"] for row in content["rows"]] == ["40x40x40/NT", "3:8x9x10/NN"]
    for row in content["rows"]:
        assert row["ratio"]["count"] == content["protocol"]["turns"] == 9
        assert row["gflops"] == pytest.approx(row["flop"] / row["seconds"]["median"] / 1e9)
        assert row["share_of_roof"] > 0
        assert row["roof"] in ("copy", "fma", "matrix")
        assert row["command"].startswith(f"portable-gpu bench gemm --sizes {row['size']} --dtype")
    assert content["noise"]["cores"] == os.cpu_count()
    assert content["noise"]["too_busy"] == bool(content["noise"]["reasons"])
    assert ("Do not believe these figures" in output) == content["noise"]["too_busy"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("rows", "jobs", "fault", "status"),
    [([], ["--jobs", "2"], float("inf"), 0), (["--rows", "fft"], [], 0.0, 1)],
)
def test_dispatch(
    rows: list[str],
    jobs: list[str],
    fault: float,
    status: int,
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    compile_fast(monkeypatch, engine)
    monkeypatch.setattr(dispatch, "FAULT", fault)
    monkeypatch.setattr(gemm_cases, "LARGEST", 40)
    short = RandomSizes("short", (), lambda rng, _: Size((rng.randint(8, 40),), 3))
    monkeypatch.setattr(fft_cases, "COMPLEX", [short])
    report = tmp_path / "dispatch.json"
    arguments = ["bench", "dispatch", *rows, "--shapes", "3", "--seed", "3", "--json", str(report)]
    assert main([*arguments, *jobs, "--budget", "1h"]) == status
    output = capsys.readouterr().out
    assert f"{engine.target.facts.name}: 3 of 3 cases timed" in output
    content = json.loads(report.read_text())
    kind = " ".join(rows or ["--rows", "gemm"])
    options = f"{kind} --dtype float32 --shapes 3 --seed 3"
    assert content["command"] == f"portable-gpu bench dispatch {options}"
    assert content["dispatch"]["distribution"]["count"] == 3
    for product in content["dispatch"]["products"]:
        assert product["size"] in output
        assert product["ratio"] >= 1
        assert product["chosen_seconds"] > 0
        assert min(product["ways"].values()) == product["ways"][product["best"]] > 0


@pytest.mark.divided("processes of bench dispatch")
def test_a_crew_tells_of_cases_in_their_order(engine: Engine) -> None:
    """As one process does, except for times.  On a GPU the command takes it."""
    cases = random_cases(few_rows(engine), 3, 4, on_cpu=True)
    members = WorkerPool(2, engine.target.facts.name, ["numpy"])
    trials = [trial for (trial,) in members.over(cases) if isinstance(trial, Trial)]
    assert [trial.size for trial in trials] == [case.size for _, case in cases]
    with pytest.raises(RuntimeError, match="after shutdown"):
        next(members.over(cases))


@pytest.mark.divided("processes of bench dispatch")
def test_a_crew_says_that_a_process_ended(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "_FIRST_CASES", (1,))
    monkeypatch.setattr(worker_pool, "_CASES", 1)
    members = WorkerPool(2, engine.target.facts.name, ["numpy"])
    messages = members.over(random_cases(few_rows(engine), 4, 4, on_cpu=True))
    next(messages)
    for process in [*members._members[1]._processes]:
        os.kill(process, signal.SIGKILL)
    with pytest.raises(PortableGPUError, match="one of the 2 processes of the hunt ended"):
        list(messages)


def few_rows(engine: Engine) -> list[HuntRow]:
    """Small cases of one kind that NumPy has."""
    (row,) = (row for row in kinds(engine) if str(row) == "sum, of all, float32")
    return [replace(row, sizes=replace(row.sizes, draw=lambda rng, _: Size((rng.randint(1, 99),))))]


def test_a_hunt_goes_on_where_it_ended(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    compile_fast(monkeypatch, engine)
    monkeypatch.setattr(gemm_cases, "LARGEST", 40)
    report, picture = tmp_path / "hunt.json", tmp_path / "hunt.png"
    peer = "numpy" if engine.maps_host_memory else "torch"
    arguments = ["bench", "hunt", "--rows", "gemm product float32", "--peers", peer]
    arguments += ["--budget", "1h", "--json", str(report)]
    assert main([*arguments, "--shapes", "2"]) == 0
    first = json.loads(report.read_text())["hunt"]["trials"]
    assert {trial["kind"] for trial in first} == {"gemm, product, float32"}
    for trial in first:
        assert trial["seconds"] > 0
        assert trial["peer_seconds"] > 0
        assert trial["first"] > 0
    assert sum(trial["programs"] for trial in first) > 0
    capsys.readouterr()
    assert main([*arguments, "--shapes", "2", "--plot", str(picture)]) == 0
    output = capsys.readouterr()
    assert "2 cases were timed before" in output.err
    assert json.loads(report.read_text())["hunt"]["trials"] == first
    for trial in first:
        assert trial["size"] in output.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main([*arguments, "--shapes", "3"]) == 2
    assert "is not of this hunt" in capsys.readouterr().err


def test_an_interrupted_run_keeps_what_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Bench.run

    def interrupted(bench: Bench, case: Case) -> Iterator[Row | Remark]:
        if case.operation == "dot":
            raise KeyboardInterrupt
        yield from run(bench, case)

    monkeypatch.setattr(Bench, "run", interrupted)
    report = tmp_path / "bench.json"
    arguments = ["bench", "reduce", "--sizes", "100", "--peers", "none", "--json", str(report)]
    assert main(arguments) == 130
    assert capsys.readouterr().err.splitlines() == ["1 rows were timed", "interrupted"]
    assert [row["operation"] for row in json.loads(report.read_text())["rows"]] == ["sum"]


def test_roofline_picture(engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from portable_gpu.bench.plot import plot_roofline
    from portable_gpu.bench.report import BenchReport

    picture = tmp_path / "roofline.png"
    report = BenchReport(engine, [], 9, ["bench"], roofs=measure_roofs(engine, 1))
    for case in (Case("sum", (1000,)), Case("gemm", (20, 20, 20), trans="NN")):
        for result in Bench(engine, [NumPyPeer(engine)]).run(case):
            report.add(result)
    plot_roofline(report, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
