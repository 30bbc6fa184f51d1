"""``portable-gpu solve``: a sparse positive definite system in Matrix Market files, solved."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
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
from portable_gpu.errors import ArgumentError, PortableGPUError, ShapeError
from portable_gpu.runtime.engine import Engine
from portable_gpu.version import __version__

if TYPE_CHECKING:
    from portable_gpu.sparse import Symbolic

_UNITS = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_DTYPES = ("float32", "float64", "complex64", "complex128")


def solve(
    matrix: Annotated[Path, typer.Argument(help="A, a Matrix Market file.", metavar="MATRIX.mtx")],
    right_side: Annotated[
        Path | None,
        typer.Argument(help="B; without it, A times ones.", metavar="B.mtx", show_default=False),
    ] = None,
    ordering: Annotated[
        str, typer.Option(help="auto, amd, nd, mmd, md, rcm, metis or natural.")
    ] = "auto",
    dtype: Annotated[
        str | None, typer.Option(help=f"Of the factor: {', '.join(_DTYPES)}; A's by default.")
    ] = None,
    refine: Annotated[
        str | None,
        typer.Option(help="Correct X by its residual: so many times, or auto.", metavar="N|auto"),
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
    """Solve A X = B by a sparse Cholesky factor; A is symmetric (Hermitian), positive definite."""
    for package in ("numba", "scipy", *(["matplotlib"] if plot else [])):
        if find_spec(package) is None:
            extra = "bench" if package == "matplotlib" else "sparse"
            raise PortableGPUError(
                f"solve needs the package {package}: pip install 'portable_gpu[{extra}]'"
            )
    if dtype is not None and dtype not in _DTYPES:
        raise ArgumentError(f"--dtype is {dtype!r}; {', '.join(_DTYPES)} are factorised")
    if refine not in (None, "auto") and not str(refine).isdigit():
        raise ArgumentError(f"--refine is {refine!r}; a number or auto is wanted")
    corrections = int(refine) if refine is not None and refine.isdigit() else refine
    limit = None if memory_limit is None else _bytes(memory_limit)
    if spill_dir is not None and not spill_dir.is_dir():
        raise ArgumentError(f"there is no folder {spill_dir}")
    if output is not None:
        check_writable(output)
    import scipy.sparse

    from portable_gpu.sparse import analyze, cholesky, plot_symbolic
    from portable_gpu.sparse.ordering.choice import METHODS

    one_of(ordering, ("auto", *METHODS), "--ordering")
    engine = Engine(device)
    clock = _Clock(Console(stderr=True))
    with clock.phase("read"):
        A = scipy.sparse.csr_array(_read(matrix))
        B = None if right_side is None else _dense(_read(right_side))
    if B is not None and B.shape[0] != A.shape[0]:
        raise ShapeError(f"{right_side} has {B.shape[0]} rows and {matrix} {A.shape[0]}")
    with clock.phase("analysis"):
        symbolic = analyze(A, ordering, engine=engine)
    if B is None:
        B = A @ np.ones((A.shape[0], 1), A.dtype)
    with clock.phase("factorisation", shown=False):
        factor = cholesky(
            A,
            symbolic=symbolic,
            dtype=dtype,
            memory_limit=limit,
            spill_dir=spill_dir,
            progress=True,
            engine=engine,
        )
    with clock.phase("solve"):
        X = factor.solve(B, refine=corrections)
    error = _backward_error(A, X, B)
    if output is not None:
        _write(output, X)
    if plot is not None:
        with replacing(plot) as file:
            plot_symbolic(symbolic, file)
    found = _figures(A, B, symbolic, engine, factor.dtype, limit, clock.seconds, error)
    if report is not None:
        write_json(report, {"portable_gpu": __version__, "matrix": str(matrix), **found})
    _print(Console(), matrix, found)


@dataclass
class _Clock:
    """Seconds of phases; on a terminal the one at work is shown, if it does not do so itself."""

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
    found = re.fullmatch(r"([0-9.]+) ?(|B|kB|MB|GB|KiB|MiB|GiB)", text)
    if found is None or found[1].count(".") > 1 or found[1] == ".":
        raise ArgumentError(f"--memory-limit is {text!r}; a size is wanted, as 500MB or 4GiB")
    return int(float(found[1]) * _UNITS[found[2]])


def _read(path: Path) -> Any:
    import scipy.io

    try:
        return scipy.io.mmread(path)
    except OSError as error:
        raise PortableGPUError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, OverflowError, MemoryError) as error:
        raise PortableGPUError(f"{path} is no Matrix Market file: {error}") from None


def _write(path: Path, X: Any) -> None:
    import scipy.io

    with replacing(path) as file, file.open("wb") as stream:
        scipy.io.mmwrite(stream, X)


def _dense(B: Any) -> Any:
    return B.toarray() if hasattr(B, "toarray") else B


def _backward_error(A: Any, X: Any, B: Any) -> float:
    """``|A X - B| / (|A| |X| + |B|)`` in the maximum norm, the worst of all columns."""
    if not B.size:
        return 0.0
    norm = float(abs(A).sum(axis=1).max())
    residual = np.abs(A @ X.astype(B.dtype) - B).max(axis=0)
    scale = norm * np.abs(X).max(axis=0) + np.abs(B).max(axis=0)
    return float(np.max(residual / np.where(scale == 0, 1, scale)))


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
