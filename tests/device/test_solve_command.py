"""``portable-gpu solve`` on the device at hand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sparse_matrices import grid, random_definite
from terminal import on_terminal

from portable_gpu.cli import main
from portable_gpu.runtime.engine import Engine


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    path = tmp_path / "grid.mtx"
    scipy.io.mmwrite(path, grid(9, 8), symmetry="symmetric")
    return path


def test_solves_and_reports(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    right, output, report = (tmp_path / name for name in ("b.mtx", "x.mtx", "report.json"))
    B = np.random.default_rng(0).standard_normal((72, 3))
    scipy.io.mmwrite(right, B)
    options = ["--ordering", "amd", "--output", str(output), "--json", str(report)]
    assert main(["solve", str(matrix), str(right), *options]) == 0
    printed = capsys.readouterr().out
    assert "grid.mtx: 72 x 72, 326 elements, float64 factor" in printed
    assert re.search(r"amd: [\d,]+ elements of L", printed)
    assert "3 right sides" in " ".join(printed.split())
    X = scipy.io.mmread(output)
    assert np.allclose(X, np.linalg.solve(grid(9, 8).toarray(), B), rtol=1e-12, atol=1e-12)
    found = json.loads(report.read_text())
    assert found["backward_error"] < 1e-15
    assert found["ordering"] == "amd"
    assert found["nnz_of_factor"] > 199
    assert {"read", "analysis", "factorisation", "solve"} < set(found["seconds"])


def test_without_a_right_side_x_is_ones(matrix: Path, tmp_path: Path) -> None:
    output = tmp_path / "x.mtx"
    assert main(["solve", str(matrix), "--output", str(output), "--dtype", "float32"]) == 0
    assert np.allclose(scipy.io.mmread(output), 1, atol=1e-5)


def test_a_single_factor_refined(
    engine: Engine, matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not engine.target.fp64:
        pytest.skip("the device has no double precision")
    output = tmp_path / "x.mtx"
    options = ["--output", str(output), "--dtype", "float32", "--refine", "auto"]
    assert main(["solve", str(matrix), *options]) == 0
    assert np.allclose(scipy.io.mmread(output), 1, atol=1e-13)
    assert "float32 factor" in capsys.readouterr().out
    assert main(["solve", str(matrix), "--refine", "much"]) == 2
    assert "--refine is 'much'; a number or auto is wanted" in capsys.readouterr().err


def test_out_of_core(tmp_path: Path) -> None:
    matrix, once, again = (tmp_path / name for name in ("a.mtx", "x.mtx", "y.mtx"))
    scipy.io.mmwrite(matrix, grid(30, 29), symmetry="symmetric")
    common = ["solve", str(matrix), "--dtype", "float32", "--ordering", "amd", "--output"]
    assert main([*common, str(once)]) == 0
    limits = ["--memory-limit", "16 KiB", "--spill-dir", str(tmp_path)]
    assert main([*common, str(again), *limits]) == 0
    assert once.read_bytes() == again.read_bytes()


def test_a_bar_on_a_terminal(matrix: Path) -> None:
    arguments = ["solve", str(matrix), "--dtype", "float32"]
    written = on_terminal(
        "import os; os.environ['TERM'] = 'xterm'; os.environ['COLUMNS'] = '120'\n"
        f"from portable_gpu.cli import main; assert main({arguments}) == 0"
    )
    assert "factorisation" in written
    assert "100 %" in written
    assert "flop" in written


def test_a_picture(matrix: Path, tmp_path: Path) -> None:
    picture = tmp_path / "analysis.png"
    assert main(["solve", str(matrix), "--plot", str(picture)]) == 0
    assert picture.stat().st_size > 10_000


def _written(tmp_path: Path, A: Any, name: str = "a.mtx") -> str:
    scipy.io.mmwrite(tmp_path / name, A)
    return str(tmp_path / name)


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = _written(tmp_path, grid(3, 3), "good.mtx")
    unsymmetric = sp.csr_array(np.array([[2.0, 1.0], [0.5, 2.0]]))
    indefinite = sp.csr_array(np.diag([1.0, -4.0, 1.0]))
    (tmp_path / "text.mtx").write_text("no matrix\n")
    for arguments, status, message in (
        ([str(tmp_path / "none.mtx")], 1, "none.mtx cannot be read"),
        ([str(tmp_path / "text.mtx")], 1, "text.mtx is no Matrix Market file"),
        ([_written(tmp_path, unsymmetric, "u.mtx")], 2, "A is not symmetric: A[1, 0] is 0.5"),
        ([_written(tmp_path, sp.csr_array((2, 3)), "w.mtx")], 2, "a square matrix is wanted"),
        ([_written(tmp_path, indefinite, "i.mtx")], 1, "not positive definite"),
        ([good, "--ordering", "sorted"], 2, "--ordering is 'sorted'"),
        ([good, "--dtype", "int32"], 2, "--dtype is 'int32'"),
        ([good, _written(tmp_path, np.ones((4, 1)), "b.mtx")], 2, "has 4 rows and"),
        ([good, "--memory-limit", "much"], 2, "--memory-limit is 'much'; a size is wanted"),
        ([good, "--memory-limit", "7B"], 1, "memory_limit is 7 bytes"),
        ([good, "--spill-dir", good], 2, "there is no folder"),
        ([good, "--output", str(tmp_path)], 2, "is a folder"),
    ):
        assert main(["solve", *arguments]) == status
        error = capsys.readouterr().err
        assert message in error
        assert error.startswith("error: ")
        assert error.count("\n") == 1


def test_complex_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _written(tmp_path, random_definite(30, 0.1, 0, np.complex128))
    output = tmp_path / "x.mtx"
    assert main(["solve", path, "--output", str(output)]) == 0
    assert np.allclose(scipy.io.mmread(output), 1)
    real = _written(tmp_path, grid(5, 6), "r.mtx")
    right = _written(tmp_path, grid(5, 6) @ np.full((30, 1), 1 + 2j), "b.mtx")
    assert main(["solve", real, right, "--output", str(output)]) == 0
    assert np.allclose(scipy.io.mmread(output), 1 + 2j)
    assert "float64 factor" in capsys.readouterr().out
    assert main(["solve", path, "--dtype", "float32"]) == 2
    assert "A is complex128: its factor is complex" in capsys.readouterr().err
