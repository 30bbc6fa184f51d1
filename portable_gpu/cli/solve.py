"""``portable-gpu solve``: a sparse positive definite system in Matrix Market files, solved."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from portable_gpu.arguments import one_of
from portable_gpu.cli.console import Console
from portable_gpu.cli.files import check_writable, replacing, write_json
from portable_gpu.cli.options import DeviceOption, JSONOption, PlotOption
from portable_gpu.errors import ArgumentError, PortableGPUError, ShapeError, how_to_install
from portable_gpu.host_memory import check_host
from portable_gpu.linalg.refinement import corrections
from portable_gpu.runtime.engine import Engine
from portable_gpu.version import __version__

if TYPE_CHECKING:
    from portable_gpu.sparse import Symbolic

_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DTYPES = ("float32", "float64", "complex64", "complex128")
#: The largest residual that is not an error, in ``sqrt(n)`` units of rounding.  Backward errors of
#: Cholesky solves grow more slowly: they are a few units on matrices of a million rows.
_BOUND = 16
#: Bytes of the host that reading takes for an element of a file: two indices, and a value that may
#: be complex.
_ELEMENT_BYTES = 32


def solve(
    matrix: Annotated[Path, typer.Argument(help="A, a Matrix Market file.", metavar="MATRIX.mtx")],
    right_side: Annotated[
        Path | None,
        typer.Argument(help="B; without it, A times ones.", metavar="B.mtx", show_default=False),
    ] = None,
    ordering: Annotated[
        str, typer.Option(help="auto, amd, nd, mmd, md, rcm, metis or natural.")
    ] = "auto",
    triangle: Annotated[
        str | None,
        typer.Option(
            help="The triangle of A that counts: lower or upper; both, if both are there.",
            metavar="lower|upper",
        ),
    ] = None,
    dtype: Annotated[
        str | None, typer.Option(help=f"Of the factor: {', '.join(_DTYPES)}; A's by default.")
    ] = None,
    refine: Annotated[
        str | None,
        typer.Option(
            help="Correct X by its residual: so many times, or auto, which takes a factor of A's "
            "precision where one of --dtype does not exist.",
            metavar="N|auto",
        ),
    ] = None,
    memory_limit: Annotated[
        str | None,
        typer.Option(
            help="Of the device's memory for the factor, as 500MB or 4GiB; what is beyond goes to "
            "the disk.",
            metavar="SIZE",
        ),
    ] = None,
    spill_dir: Annotated[
        Path | None, typer.Option(help="The folder for that.", metavar="FOLDER")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write X as a Matrix Market file.", metavar="X.mtx")
    ] = None,
    device: DeviceOption = None,
    report: JSONOption = None,
    plot: PlotOption = None,
) -> None:
    """Solve A X = B by a sparse Cholesky factor; A is symmetric (Hermitian), positive definite.

    A residual above 16 sqrt(n) units of rounding is an error.
    """
    for package in ("llvmlite", "scipy"):
        if find_spec(package) is None:
            raise PortableGPUError(f"solve needs the package {package}: {how_to_install('sparse')}")
    if dtype is not None and dtype not in _DTYPES:
        raise ArgumentError(f"--dtype is {dtype!r}; {', '.join(_DTYPES)} are factorised")
    if refine not in (None, "auto") and not str(refine).isdigit():
        raise ArgumentError(f"--refine is {refine!r}; expected a number or auto")
    steps = corrections(int(refine) if refine is not None and refine.isdigit() else refine)
    limit = None if memory_limit is None else _bytes(memory_limit)
    if triangle is not None:
        one_of(triangle, ("lower", "upper"), "--triangle")
    if spill_dir is not None and not spill_dir.is_dir():
        raise ArgumentError(f"there is no folder {spill_dir}")
    if output is not None:
        check_writable(output)
    from portable_gpu.sparse import analyze, plot_symbolic
    from portable_gpu.sparse.functions import factor_for
    from portable_gpu.sparse.ordering.choice import METHODS

    one_of(ordering, ("auto", *METHODS), "--ordering")
    engine = Engine(device)
    timer = _PhaseTimer(Console(stderr=True))
    with timer.phase("read"):
        rows = _rows_of(matrix, right_side)
        A = _matrix(matrix)
        B = None if right_side is None else _right_side(right_side)
    with timer.phase("analysis"):
        symbolic = analyze(A, ordering, triangle=triangle, engine=engine)
        whole = symbolic.pattern.whole(symbolic.pattern.values(A))
    if B is None:
        B = whole @ np.ones((rows, 1), whole.dtype)
    with timer.phase("factorisation", shown=False):
        factor = factor_for(
            A,
            dtype,
            steps,
            symbolic=symbolic,
            memory_limit=limit,
            spill_dir=spill_dir,
            progress=True,
            engine=engine,
        )
    with timer.phase("solve"):
        X = factor.solve(B, refine=steps)
    error = _backward_error(whole, X, B)
    _check(error, rows, X.dtype if steps == "auto" else factor.dtype)
    if output is not None:
        _write(output, X)
    if plot is not None:
        with replacing(plot) as file:
            plot_symbolic(symbolic, file)
    result = _figures(whole, B, symbolic, engine, factor.dtype, limit, timer.seconds, error)
    if report is not None:
        write_json(report, {"portable_gpu": __version__, "matrix": str(matrix), **result})
    _print(Console(), matrix, result)


@dataclass
class _PhaseTimer:
    """Measures the seconds of phases, and shows the current one on a terminal.

    A phase that shows its own progress is not shown here (``shown=False``).
    """

    status: Console
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str, shown: bool = True) -> Iterator[None]:
        begin = time.perf_counter()
        with self.status.status(f"{name} ...") if shown else nullcontext():
            yield
        self.seconds[name] = time.perf_counter() - begin


def _bytes(text: str) -> int:
    """A number with a unit: B, kB, MB, GB, KiB, MiB or GiB."""
    result = re.fullmatch(r"([0-9.]+) ?(|B|kB|MB|GB|KiB|MiB|GiB)", text)
    if result is None or result[1].count(".") > 1 or result[1] == ".":
        raise ArgumentError(f"--memory-limit is {text!r}; expected a size, such as 500MB or 4GiB")
    return int(float(result[1]) * _UNITS[result[2]])


def _rows_of(matrix: Path, right_side: Path | None) -> int:
    """The number of equations; only the first lines of the files are read.

    Raises:
        PortableGPUError: A file cannot be read, or the host has not the memory for what it says.
        ArgumentError: The matrix is not square, or the files do not fit each other.
    """
    rows, columns, stored, layout, _, symmetry = _header(matrix)
    if rows != columns:
        raise ShapeError(f"{matrix} is {rows} x {columns}; expected a square matrix")
    if layout == "coordinate" and rows > stored:
        raise PortableGPUError(
            f"{matrix} has {rows:,} rows and {stored:,} elements, so elements of the diagonal are "
            "missing: the matrix is not positive definite"
        )
    sides = 1 if symmetry == "general" else 2
    check_host(stored * sides * _ELEMENT_BYTES, f"{matrix} of {stored:,} elements")
    if right_side is not None:
        height, width, *_ = _header(right_side)
        if height != rows:
            raise ShapeError(f"{right_side} has {height} rows and {matrix} {rows}")
        check_host(height * width * _ELEMENT_BYTES, f"{right_side} of {height:,} x {width:,}")
    return int(rows)


def _header(path: Path) -> Any:
    """Rows, columns, elements, and three words of a Matrix Market file."""
    import scipy.io

    return _from_file(path, scipy.io.mminfo)


def _matrix(path: Path) -> Any:
    import scipy.io
    import scipy.sparse

    return scipy.sparse.csr_array(_from_file(path, scipy.io.mmread))


def _right_side(path: Path) -> Any:
    """B as an array of two axes.

    Raises:
        ArgumentError: A number of it is not finite.
    """
    import scipy.io

    B = _from_file(path, scipy.io.mmread)
    B = B.toarray() if hasattr(B, "toarray") else B
    if not np.isfinite(B).all():
        row, column = np.argwhere(~np.isfinite(B))[0]
        raise ArgumentError(f"{path} has {B[row, column]} in row {row + 1}, column {column + 1}")
    return B


def _from_file(path: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(path)
    except OSError as error:
        raise PortableGPUError(f"{path} cannot be read: {error.strerror or error}") from None
    except Exception as error:  # of SciPy's readers, zlib's and bz2's, whatever they raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PortableGPUError(f"{path} is not a Matrix Market file: {reason}") from None


def _write(path: Path, X: Any) -> None:
    import scipy.io

    with replacing(path) as file, file.open("wb") as stream:
        scipy.io.mmwrite(stream, X)


def _backward_error(A: Any, X: Any, B: Any) -> float:
    """``|A X - B| / (|A| |X| + |B|)`` in the maximum norm, the worst of all columns."""
    if not B.size:
        return 0.0
    norm = float(abs(A).sum(axis=1).max())
    with np.errstate(all="ignore"):  # what is not finite makes the error NaN
        residual = np.abs(A @ X - B).max(axis=0)
        scale = norm * np.abs(X).max(axis=0) + np.abs(B).max(axis=0)
        return float(np.max(residual / np.where(scale == 0, 1, scale)))


def _check(error: float, rows: int, dtype: Any) -> None:
    """Refuse a solution whose residual is above the bound of a dtype, or is not finite."""
    bound = _BOUND * max(rows, 1) ** 0.5 * float(np.finfo(dtype).eps)
    if not error <= bound:  # NaN is not
        raise PortableGPUError(
            f"the solution is wrong: |A X - B| / (|A| |X| + |B|) = {error:.1e}, above 16 sqrt(n) "
            f"units of rounding of {dtype}, {bound:.1e}; nothing was written"
        )


def _figures(
    A: Any,
    B: Any,
    symbolic: Symbolic,
    engine: Engine,
    kind: Any,
    limit: int | None,
    seconds: Any,
    error: float,
) -> dict[str, Any]:
    [memory] = symbolic.memory_estimate(kind, engine, limit).devices
    return {
        "device": engine.target.facts.name,
        "driver": engine.target.facts.driver_version,
        "rows": symbolic.n,
        "elements": int(A.nnz),
        "dtype": str(kind),
        "right_sides": int(B.shape[1]),
        "ordering": symbolic.ordering,
        "nnz_of_factor": symbolic.nnz,
        "fill": symbolic.nnz / max(symbolic.pattern.nnz, 1),
        "flops": symbolic.flops,
        "supernodes": len(symbolic.fronts),
        "levels": symbolic.levels,
        "bytes": {"total": memory.total, **asdict(memory)},
        "seconds": {**seconds, **{f"analysis: {k}": v for k, v in symbolic.times.items()}},
        "backward_error": error,
    }


def _print(console: Console, matrix: Path, found: dict[str, Any]) -> None:
    seconds = found["seconds"]
    columns = found["right_sides"]
    console.write(
        f"{matrix.name}: {found['rows']:,} x {found['rows']:,}, {found['elements']:,} elements, "
        f"{found['dtype']} factor; {found['device']}"
    )
    console.write(
        f"ordering  {found['ordering']}: {found['nnz_of_factor']:,} elements of L, "
        f"{found['fill']:.1f} times as many as the triangle has; {found['flops']:.3g} flop; "
        f"{found['supernodes']:,} supernodes in {found['levels']} levels",
        indent=10,
    )
    console.write(
        f"memory    {found['bytes']['total'] / 2**20:,.1f} MiB, of which L "
        f"{found['bytes']['panels'] / 2**20:,.1f}, update matrices "
        f"{found['bytes']['updates'] / 2**20:,.1f}",
        indent=10,
    )
    console.write(
        f"time      read {_time(seconds['read'])}, analysis {_time(seconds['analysis'])} (ordering "
        f"{_time(seconds['analysis: ordering'])}), factor {_time(seconds['factorisation'])}, solve "
        f"{_time(seconds['solve'])} for {columns} right side{'s' if columns > 1 else ''}",
        indent=10,
    )
    console.write(
        f"residual  |A X - B| / (|A| |X| + |B|) = {found['backward_error']:.1e}", indent=10
    )


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"
