"""``portable-gpu bench sparse`` on this machine's device: figures, pictures, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from sparse_matrices import grid

import portable_gpu as pg
from portable_gpu.bench import sparse as bench_sparse
from portable_gpu.bench.sparse_peers import SuperLUPeer
from portable_gpu.bench.sparse_problems import elasticity, poisson, problem
from portable_gpu.cli import main
from portable_gpu.errors import ArgumentError


def test_a_table_a_file_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matrix, report, picture = (tmp_path / name for name in ("a:100:.mtx", "r.json", "p.png"))
    scipy.io.mmwrite(matrix, grid(7, 6), symmetry="symmetric")
    sizes = f"poisson2d:8,{matrix}"
    options = ["--peers", "scipy", "--ordering", "amd", "--json", str(report)]
    assert main(["bench", "sparse", "--sizes", sizes, *options, "--plot", str(picture)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "poisson2d:8: n 64, amd" in printed
    # Rich would make a picture of it; the path may be broken anywhere.
    assert "a:100:.mtx" in printed.replace(" ", "")
    content = json.loads(report.read_text())
    result = content["sparse"]
    assert result["analyses"]["poisson2d:8"]["nnz_of_factor"] > 64
    rows = result["rows"]
    phases = ["factorise", "solve 1", "solve 64", "refactorise"]
    assert [(row["problem"], row["phase"]) for row in rows] == [
        (name, phase) for name in ("poisson2d:8", str(matrix)) for phase in phases
    ]
    assert all(row["ratio"]["median"] > 0 for row in rows)
    assert [row["peer"] for row in rows] == [*["scipy"] * 3, "device alone"] * 2
    assert all(0 <= error < 1e-15 for row in rows for error in row["errors"])
    assert "scipy" in content["versions"]
    assert picture.stat().st_size > 10_000


def test_values_are_on_the_device_where_it_has_memory_of_its_own(
    engine: pg.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "maps_host_memory", False)
    A = problem("poisson2d:6")
    result = list(bench_sparse.SparseContest(engine, (), "amd", 1, None).run("grid", A))
    rows = [row for row in result if isinstance(row, bench_sparse.SparseRow)]
    assert [row.phase for row in rows] == ["factorise", "solve 1", "solve 64", "refactorise"]


def test_nothing_wrong_is_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(SuperLUPeer, "solve", lambda self, b: np.zeros_like(b))
    arguments = ["bench", "sparse", "--sizes", "poisson2d:5", "--peers", "scipy"]
    assert main(arguments) == 1
    captured = capsys.readouterr()
    assert "scipy: its backward error is 1.0e+00, and 1e-14 is allowed" in captured.err
    assert "solve 64" in captured.out  # we alone


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sizes", "poisson4d:3"], "--sizes has 'poisson4d:3'"),
        (["--sizes", "poisson2d:0"], "--sizes has 'poisson2d:0'"),
        (["--peers", "numpy"], "of sparse there are: scipy, cholmod"),
        (["--dtype", "float16"], "float16"),
        (["--budget", "1m"], "No such option: --budget"),
    ],
)
def test_what_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "sparse", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert main(["bench", "sum", "--ordering", "amd"]) == 2
    assert "No such option: --ordering" in capsys.readouterr().err


def test_problems() -> None:
    """Rigid movements of a body cost no energy where nothing holds it; a grid's sums are known."""
    A: Any = elasticity(3)
    assert A.shape == (3 * 3 * 16, 3 * 3 * 16)
    assert abs(A - A.T).max() < 1e-14
    eigenvalues = np.linalg.eigvalsh(A.toarray())
    assert eigenvalues[0] > 1e-3
    shifted = np.tile([1.0, 0, 0], 48)  # zero far from the fixed face, where nodes pull
    assert np.abs((A @ shifted)[3 * 16 :]).max() < 1e-14
    assert np.array_equal(poisson(4, 3).toarray(), grid(4, 3).toarray())
    assert problem("poisson3d:3").shape == (27, 27)
    with pytest.raises(ArgumentError, match="poisson"):
        problem("nothing")


def test_the_backward_error() -> None:
    A, x = grid(3), np.array([1.0, 2.0, 3.0])
    assert bench_sparse.backward_error(A, x, A @ x) == 0
    b = A @ x + np.array([0, 0.5, 0])
    assert bench_sparse.backward_error(A, x, b) == 0.5 / (4 * 3 + 4)
