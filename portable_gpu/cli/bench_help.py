"""The help of ``portable-gpu bench``: of each kind of benchmark, the options that it takes."""

from __future__ import annotations

from copy import copy
from typing import Any

from typer.core import TyperCommand

from portable_gpu.bench.cases import GROUPS
from portable_gpu.bench.multi_calls import CALLS
from portable_gpu.cli.sparse import SYNTAX as SPARSE_SYNTAX

_BUDGET = "Time for everything, as 90s or 10m (5m)."
#: For each kind what it does, and its options with their help; None: the help that bench has.
KINDS: dict[str, tuple[str, dict[str, str | None]]] = {
    "dispatch": (
        "Time random products of gemm, transforms or convolutions against every path forced by "
        "hand.\n\n"
        "The command exits with 1 if the library's own choice takes twice the time of the best.",
        {
            "rows": "gemm, fft, conv, or one of conv's directions: conv2d_input (gemm).",
            "dtype": "A name of NumPy, of a floating-point type (float32).",
            "shapes": "Random cases (500).",
            "seed": "Seed of the random sizes (1).",
            "budget": _BUDGET,
            "jobs": "Processes that build the programs of all cases first (1: none).",
            "turns": None, "device": None, "json": None,
        },
    ),
    "hunt": (
        "Time random work of every kind beside a peer, in line and eager.\n\n"
        "With --json FILE the same command goes on where it ended; with --jobs it does in minutes "
        "what takes an hour.\n\n"
        "A row is lost against another revision if the geometric mean of the ratios is below 0.98 "
        "and outside twice the spread that the revision shows against itself; the command then "
        "exits with 1.",
        {
            "rows": "Comma list of words in the rows' names, as 'gemm batch,std'.",
            "peers": "Comma list: torch, numpy, scipy, or portable_gpu@REVISION, another one of "
            "git's revisions (torch; on a CPU numpy).",
            "shapes": "Cases a row (100).",
            "seed": "Seed of the random sizes (1).",
            "budget": _BUDGET,
            "jobs": "On a GPU: processes that build and check; one at a time uses it (1).",
            "device": None, "json": None, "plot": None,
        },
    ),
    "sparse": (
        "Time Cholesky factors of sparse matrices, and solves with them.",
        {
            "dtype": "float32, float64, complex64 or complex128 (float64).",
            "sizes": SPARSE_SYNTAX,
            "peers": "Comma list: scipy, cholmod; 'none' for none.",
            "ordering": "As --ordering of solve (auto).",
            "turns": None, "device": None, "json": None, "plot": None,
        },
    ),
    "transfer": (
        "Time copies of NumPy arrays to the device and back, fresh arrays on both sides.",
        {
            "sizes": "Comma list of bytes (1000 to 1000000000).",
            "peers": "Comma list: driver (pyopencl's copies of pageable memory), pinned (of pinned "
            "memory: what the bus gives), torch, cupy; 'none' for none.",
            "turns": None, "device": None, "json": None,
        },
    ),
    "multi": (
        "Time calls on one device of a group, on two and on all, beside the same call on one "
        "engine.",
        {
            "rows": f"Comma list of calls: {', '.join(CALLS)} (all).",
            "sizes": "Comma list of the extents of matrices and cubes, or numbers of images (by "
            "the call and the device).",
            "dtype": "NumPy's name (float32); of fftn that of the real part.",
            "threads": "As threads= of DeviceGroup: auto, one or each (auto).",
            "turns": None,
            "device": "The devices, separated by commas, as PORTABLE_GPU_DEVICE takes them (those "
            "of DeviceGroup(); of a single CPU two sub-devices).",
            "json": None,
            "plot": "Draw the kernels and copies of the last call over time.",
        },
    ),
    "first-calls": (
        "Time the first call of each function in a process with empty caches, and in a second "
        "process: CPU and wall seconds, and what was compiled.",
        {
            "rows": "Comma list of words in the calls' names; 'nn.' for all layers, each of which "
            "has processes and caches of its own (all calls but layers).",
            "device": None, "json": None,
        },
    ),
}  # fmt: skip
_OTHERS = {
    "shapes",
    "seed",
    "budget",
    "ordering",
    "rows",
    "jobs",
    "threads",
}  # options of these kinds alone
_NAMES = {"report": "json"}  # parameters that their options call otherwise
_KIND = "portable_gpu.cli.bench_help"


class BenchCommand(TyperCommand):
    """The command, whose help depends on the kind of benchmark."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse; note the kind first, as the help is shown before arguments are."""
        ctx.meta[_KIND] = next((arg for arg in args if arg in KINDS), None)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help of the kind, or of the operations."""
        shown = copy(self)
        kind = ctx.meta.get(_KIND)
        if kind is None:
            shown.params = [param for param in self.params if param.name not in _OTHERS]
        else:
            text, options = KINDS[kind]
            shown.help, shown.options_metavar = text, f"{kind} [OPTIONS]"
            shown.params = []
            for param in self.params:
                name = _NAMES.get(str(param.name), str(param.name))
                if name in options:
                    changed: Any = copy(param)
                    changed.help = options[name] or changed.help
                    shown.params.append(changed)
        super(BenchCommand, shown).format_help(ctx, formatter)


def unwrapped(text: str | None) -> str:
    """A docstring with one line a paragraph, as the terminal's width breaks lines."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


#: What the argument of bench may be.
OPERATIONS = f"{', '.join((*GROUPS, *KINDS))}. {', '.join(KINDS)} have a --help of their own."
