"""``portable-gpu bench sparse``: sparse Cholesky factors and solves, compared with peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from portable_gpu.arguments import one_of
from portable_gpu.bench.noise import Listener
from portable_gpu.bench.report import BenchReport
from portable_gpu.bench.statistics import Statistic
from portable_gpu.cli.console import Console, plain_table
from portable_gpu.cli.files import replacing, write_json
from portable_gpu.cli.options import (
    DeviceOption,
    JSONOption,
    PlotOption,
    TurnsOption,
    names_of_peers,
    words,
)
from portable_gpu.cli.progress import with_progress
from portable_gpu.dtypes import dtype_of
from portable_gpu.errors import PortableGPUError, how_to_install
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.bench.sparse import SparseContest, SparseRemark, SparseRow
    from portable_gpu.sparse import Symbolic

_SYNTAX = "Comma list of poisson2d:N (N^2 points), poisson3d:N, elasticity:N (N^3 cubes), FILE.mtx."
#: The time limit for the turns of each row if no sizes are given, in seconds.
_BUDGET = 20.0


@dataclass
class _Results:
    """The results of a run so far; the analyses by the name of the matrix."""

    analyses: dict[str, Symbolic] = field(default_factory=dict)
    rows: list[SparseRow] = field(default_factory=list)
    remarks: list[SparseRemark] = field(default_factory=list)


def sparse(
    dtype: Annotated[
        str, typer.Option(help="float32, float64, complex64 or complex128.")
    ] = "float64",
    sizes: Annotated[str | None, typer.Option(help=_SYNTAX)] = None,
    peers: Annotated[
        str | None, typer.Option(help="Comma list: scipy, cholmod; 'none' for none.")
    ] = None,
    ordering: Annotated[str, typer.Option(help="As --ordering of solve.")] = "auto",
    turns: TurnsOption = 9,
    device: DeviceOption = None,
    report: JSONOption = None,
    plot: PlotOption = None,
) -> None:
    """Time Cholesky factors of sparse matrices, and solves with them."""
    output, status = Console(), Console(stderr=True)
    for package in ("llvmlite", "scipy"):
        if find_spec(package) is None:
            raise PortableGPUError(
                f"sparse needs the package {package}: {how_to_install('sparse')}"
            )
    from portable_gpu.bench.sparse import SparseContest
    from portable_gpu.bench.sparse_peers import SPARSE_PEERS
    from portable_gpu.bench.sparse_problems import USUAL, problem
    from portable_gpu.sparse.formats import factor_dtype
    from portable_gpu.sparse.ordering.choice import METHODS

    one_of(ordering, ("auto", *METHODS), "--ordering")
    names = USUAL if sizes is None else tuple(name.strip() for name in sizes.split(","))
    values_dtype = factor_dtype(dtype_of(dtype))
    requested = names_of_peers(peers, [*SPARSE_PEERS], "of sparse ")
    matrices = {name: problem(name).astype(values_dtype) for name in names}
    listener, engine = Listener(), Engine(device)
    chosen_peers = [SPARSE_PEERS[name] for name in requested]
    contest = SparseContest(engine, chosen_peers, ordering, turns, None if sizes else _BUDGET)
    options = words(
        dtype=dtype, sizes=",".join(names), ordering=ordering, peers=",".join(requested) or "none",
        turns=turns, device=device,
    )  # fmt: skip
    results = _Results()
    complete = _run(contest, matrices, results, status)
    head = BenchReport(engine, [], turns, ["bench", "sparse", *options], device)
    head.noise = listener.noise([row.ours for row in results.rows], engine.maps_host_memory)
    if report is not None:
        write_json(report, _content(head, contest, results))
    if plot is not None and results.rows:
        from portable_gpu.bench.sparse_plot import plot_sparse

        with replacing(plot) as file:
            plot_sparse(results.rows, engine.target.facts.name, file, head.noise)
    output.write(engine.target.facts.name)
    for name, symbolic in results.analyses.items():
        output.print(_table(name, symbolic, [row for row in results.rows if row.problem == name]))
    for remark in results.remarks:
        text = f"{remark.problem}: {remark.who}: {remark.text}"
        status.print(Text(text), soft_wrap=True)
    if head.noise.warning:
        output.write(head.noise.warning, indent=0)
    if not complete:
        raise KeyboardInterrupt
    if any(remark.wrong for remark in results.remarks):
        raise typer.Exit(1)


def _run(
    contest: SparseContest, matrices: dict[str, Any], results: _Results, status: Console
) -> bool:
    """Time every system.  After Ctrl-C, print how many rows were timed, and return False."""
    from portable_gpu.bench.sparse import SparseRemark, SparseRow

    try:
        for name in with_progress(tuple(matrices), status):
            for item in contest.run(name, matrices[name]):
                if isinstance(item, SparseRow):
                    results.rows.append(item)
                elif isinstance(item, SparseRemark):
                    results.remarks.append(item)
                else:
                    results.analyses[name] = item
    except KeyboardInterrupt:
        status.print(f"{len(results.rows)} rows were timed")
        return False
    return True


def _content(head: BenchReport, contest: SparseContest, results: _Results) -> dict[str, Any]:
    content = head.to_dict()
    content["versions"] |= contest.versions
    content["sparse"] = {
        "analyses": {
            name: {
                "n": symbolic.n,
                "elements": symbolic.pattern.nnz,
                "ordering": symbolic.ordering,
                "nnz_of_factor": symbolic.nnz,
                "flops": symbolic.flops,
                "supernodes": len(symbolic.fronts),
                "levels": symbolic.levels,
                "seconds": dict(symbolic.times),
            }
            for name, symbolic in results.analyses.items()
        },
        "rows": [asdict(row) for row in results.rows],
        "remarks": [asdict(remark) for remark in results.remarks],
    }
    return content


def _table(name: str, symbolic: Symbolic, rows: Sequence[SparseRow]) -> Table:
    """Return the table of one matrix, at most 80 columns wide."""
    title = (
        f"{name}: n {symbolic.n:,}, {symbolic.ordering}, nnz(L) {symbolic.nnz:,}, "
        f"{symbolic.flops:.3g} flop, analysis {sum(symbolic.times.values()):.3g} s"
    )
    headings = "phase", ">ours ms", ">GFLOP/s", "peer", ">peer ms", ">peer / ours"
    table = plain_table(*headings, title=Text(title))
    for row in rows:
        table.add_row(
            row.phase,
            _with_spread(row.ours, 1e3),
            f"{row.gflops:.3g}",
            row.peer or "",
            "" if row.theirs is None else f"{row.theirs.median * 1e3:.3g}",
            "" if row.ratio is None else _with_spread(row.ratio),
        )
    return table


def _with_spread(statistic: Statistic, factor: float = 1.0) -> str:
    return f"{statistic.median * factor:.3g} ±{statistic.spread:.0%}"
