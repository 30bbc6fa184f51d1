"""``portable-gpu solve`` on this machine's device."""

from __future__ import annotations

import bz2
import gzip
import json
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sparse_matrices import grid, random_definite
from terminal import on_terminal

from portable_gpu import host_memory
from portable_gpu.cli import main
from portable_gpu.runtime.engine import Engine
from portable_gpu.sparse import Factor


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
    result = json.loads(report.read_text())
    assert result["backward_error"] < 1e-15
    assert result["ordering"] == "amd"
    assert result["nnz_of_factor"] > 199
    assert {"read", "analysis", "factorisation", "solve"} < set(result["seconds"])


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
    assert "--refine is 'much'; expected a number or auto" in capsys.readouterr().err


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
        ([str(tmp_path / "text.mtx")], 1, "text.mtx is not a Matrix Market file"),
        ([_written(tmp_path, unsymmetric, "u.mtx")], 2, "A is not symmetric: A[1, 0] is 0.5"),
        ([_written(tmp_path, sp.csr_array((2, 3)), "w.mtx")], 2, "expected a square matrix"),
        ([_written(tmp_path, indefinite, "i.mtx")], 1, "not positive definite"),
        ([good, "--ordering", "sorted"], 2, "--ordering is 'sorted'"),
        ([good, "--dtype", "int32"], 2, "--dtype is 'int32'"),
        ([good, _written(tmp_path, np.ones((4, 1)), "b.mtx")], 2, "has 4 rows and"),
        ([good, "--memory-limit", "much"], 2, "--memory-limit is 'much'; expected a size"),
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


def _solution(*arguments: Any, output: Path, status: int = 0) -> Any:
    assert main(["solve", *map(str, arguments), "--output", str(output)]) == status
    return scipy.io.mmread(output)


def test_one_triangle_under_general(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The residual is that of the whole matrix, and so is the default right side."""
    output = tmp_path / "x.mtx"
    A = random_definite(30, 0.1, 0, np.complex128)
    half = _written(tmp_path, sp.tril(A), "half.mtx")
    assert "general" in Path(half).read_text().splitlines()[0]
    assert np.allclose(_solution(half, output=output), 1)
    b = np.arange(1.0, 31)[:, None]
    X = _solution(half, _written(tmp_path, b, "b.mtx"), output=output)
    assert np.allclose(A @ X, b, atol=1e-12)
    assert re.findall(r"\|B\|\) = (\S+)e-1[5-9]", capsys.readouterr().out)


def test_triangles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    A = grid(4, 5)
    path = _written(tmp_path, sp.csr_array(sp.tril(A) + 2 * sp.triu(A, 1)), "two.mtx")
    output = tmp_path / "x.mtx"
    assert main(["solve", path]) == 2
    assert "triangle='lower' or 'upper' takes one" in capsys.readouterr().err
    right = _written(tmp_path, A @ np.ones((20, 1)), "b.mtx")
    assert np.allclose(_solution(path, right, "--triangle", "lower", output=output), 1)
    assert main(["solve", path, "--triangle", "both"]) == 2
    assert "--triangle is 'both'; known are lower, upper" in capsys.readouterr().err


def test_integers_and_sparse_right_sides(tmp_path: Path) -> None:
    A, output = grid(4, 5).astype(np.int64), tmp_path / "x.mtx"
    path = _written(tmp_path, A, "whole.mtx")
    assert "integer" in Path(path).read_text().splitlines()[0]
    assert np.allclose(_solution(path, output=output), 1)
    for B in (A @ np.ones((20, 1), np.int64), sp.coo_array(A[:, [3]]), sp.coo_array((20, 2))):
        X = _solution(path, _written(tmp_path, B, "b.mtx"), output=output)
        assert np.allclose(A @ X, B.toarray() if sp.issparse(B) else B, atol=1e-12)


def test_a_complex_factor_of_a_real_matrix(engine: Engine, matrix: Path, tmp_path: Path) -> None:
    assert np.allclose(_solution(matrix, "--dtype", "complex64", output=tmp_path / "x.mtx"), 1,
                       atol=1e-5)  # fmt: skip


def test_a_precision_that_fails(
    engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not engine.target.fp64:
        pytest.skip("the device has no double precision")
    A = _written(tmp_path, sp.csr_array([[1.0, 1.0], [1.0, 1.0 + 1e-10]]), "near.mtx")
    assert main(["solve", A, "--dtype", "float32"]) == 1
    assert "in float32; the values are float64" in capsys.readouterr().err
    assert main(["solve", A, "--dtype", "float32", "--refine", "auto"]) == 0
    assert "float64 factor" in capsys.readouterr().out


def test_wrong_solutions_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    A = _written(tmp_path, grid(3, 3), "a.mtx")
    output = tmp_path / "x.mtx"
    right = np.ones((9, 2))
    right[4, 1] = np.nan
    assert main(["solve", A, _written(tmp_path, right, "b.mtx"), "--output", str(output)]) == 2
    assert "b.mtx has nan in row 5, column 2" in capsys.readouterr().err
    plain = Factor.solve
    for wrong, shown in ((1e-3, "2.0e-04, above"), (np.nan, "nan, above")):
        with monkeypatch.context() as patch:
            patch.setattr(Factor, "solve", lambda *a, w=wrong, **o: plain(*a, **o) + w)
            assert main(["solve", A, "--output", str(output)]) == 1
        error = capsys.readouterr().err
        assert f"the solution is wrong: |A X - B| / (|A| |X| + |B|) = {shown}" in error
        assert error.count("\n") == 1
        assert not output.exists()


HEADER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "2000000000 2000000000 1\n1 1 1\n", "2,000,000,000 rows and 1 elements, so"),
        (HEADER + "2000000000 2000000000 2000000000\n1 1 1\n", "GiB of the host's memory"),
        (HEADER.replace("coordinate", "array") + "300000000 300000000\n1\n", "GiB of the host's"),
        (HEADER + "2 3 4\n", "is 2 x 3; expected a square matrix"),
        (HEADER + "9 9 9\n1 1 1\n", "is not a Matrix Market file: "),
        (HEADER + "9 9\n", "is not a Matrix Market file: "),
        (HEADER.replace("real", "integer") + f"1 1 1\n1 1 {10**25}\n", "is not a Matrix Market"),
    ],
)  # fmt: skip
def test_headers_that_promise_too_much(
    text: str,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_memory, "available", lambda: 32 << 30)
    path = tmp_path / "a.mtx"
    path.write_text(text)
    tracemalloc.start()
    assert main(["solve", str(path)]) != 0
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    good = _written(tmp_path, grid(3, 3), "good.mtx")
    right = tmp_path / "b.mtx"
    right.write_text(HEADER + "9 2000000000 1\n1 1 1\n")
    assert main(["solve", good, str(right)]) == 1
    assert "b.mtx of 9 x 2,000,000,000 takes" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["gz", "bz2"])
def test_truncated_files(suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = gzip.compress if suffix == "gz" else bz2.compress
    text = Path(_written(tmp_path, grid(20, 20), "a.mtx")).read_bytes()
    path = tmp_path / f"a.mtx.{suffix}"
    path.write_bytes(packed(text))
    assert main(["solve", str(path)]) == 0
    for whole, length in ((packed(text), 20), (packed(text), 0.5), (packed(text), 0.99)):
        path.write_bytes(whole[: length if length > 1 else int(length * len(whole))])
        assert main(["solve", str(path)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("error: ")
        assert f"a.mtx.{suffix} " in error
        assert error.count("\n") == 1
    damaged = bytearray(packed(text))
    damaged[len(damaged) // 2] ^= 255
    path.write_bytes(damaged)
    assert main(["solve", str(path)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
