"""Options that several commands have; a wrong value is refused before any work."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from portable_gpu.bench.known_peers import is_known, registry
from portable_gpu.bench.revisions import PREFIX
from portable_gpu.cli.files import check_writable
from portable_gpu.errors import (
    ArgumentError,
    DeviceNotFoundError,
    PortableGPUError,
    how_to_install,
)
from portable_gpu.runtime.devices import choose_device, requests_of


def _device(request: str | None) -> str | None:
    if request is not None:
        try:
            for part in requests_of(request):
                choose_device(part)
        except DeviceNotFoundError as error:
            raise typer.BadParameter(str(error)) from None
    return request


def _file(path: Path | None) -> Path | None:
    if path is not None:
        try:
            check_writable(path)
        except ArgumentError as error:
            raise typer.BadParameter(str(error)) from None
    return path


def _picture(path: Path | None) -> Path | None:
    if path is None or find_spec("matplotlib") is None:  # the command says what to install
        return path
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    if path.suffix.removeprefix(".").lower() not in FigureCanvasAgg.get_supported_filetypes():
        raise typer.BadParameter(f"{path} should end in .png, .pdf or .svg")
    return _file(path)


def _plot(path: Path | None) -> Path | None:
    if path is not None and find_spec("matplotlib") is None:
        raise PortableGPUError(f"--plot needs the package matplotlib: {how_to_install('bench')}")
    return _picture(path)


DeviceOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--device", help="Device, as PORTABLE_GPU_DEVICE takes it.", callback=_device),
]
DevicesOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="The devices, separated by commas, as PORTABLE_GPU_DEVICE takes them (those of "
        "DeviceGroup(); of a single CPU two sub-devices).",
        callback=_device,
    ),
]
JSONOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--json", help="Write every figure to a file.", metavar="FILE", callback=_file),
]
PlotOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--plot", help="Draw the figures.", metavar="FILE.png", callback=_plot),
]
TurnsOption: TypeAlias = Annotated[int, typer.Option(help="Turns of each side.", min=9)]
ShapesOption: TypeAlias = Annotated[int, typer.Option(help="Random cases (of each row).", min=1)]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Seed of the random sizes.")]
BudgetOption: TypeAlias = Annotated[
    str, typer.Option(help="Time for everything: 90s, 10m, 1h30m.", metavar="TIME")
]
PictureOption: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--picture", help="Where the picture goes.", metavar="FILE.png", callback=_picture
    ),
]


def peers_of(text: str | None) -> list[str] | None:
    """The peers of benchmarks that ``--peers`` names; ``None`` without it."""
    if text is None:
        return None
    return names_of_peers(text, (*registry(), f"{PREFIX}REVISION"), is_known=is_known)


def words(**options: object) -> list[str]:
    """The words of a command line for the options that are not ``None``."""
    chosen = {name: value for name, value in options.items() if value is not None}
    return [word for name, value in chosen.items() for word in (f"--{name}", str(value))]


def names_of_peers(
    text: str | None,
    known: Sequence[str],
    of: str = "",
    is_known: Callable[[str], bool] | None = None,
) -> list[str]:
    """Return the peers that ``--peers`` names; all of them without it.

    Args:
        text: A comma list of names, or ``none``.
        known: The names of all peers.
        of: ``"of sparse "``: the words before ``there are`` in the message.
        is_known: Whether a name is one; by default, whether it is among ``known``.

    Raises:
        ArgumentError: A name is unknown.
    """
    if text == "none":
        return []
    names = list(known) if text is None else [name.strip() for name in text.split(",")]
    if unknown := [n for n in names if not (n in known if is_known is None else is_known(n))]:
        raise ArgumentError(
            f"--peers has {', '.join(map(repr, unknown))}; {of}there are: {', '.join(known)}; "
            "or none"
        )
    return names


_BUDGET = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds_of(budget: str) -> float:
    """The seconds of ``1h30m``.

    Raises:
        ArgumentError: It is not a time, or 0.
    """
    match = _BUDGET.fullmatch(budget)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()) if match else (0, 0, 0)
    total = 3600 * hours + 60 * minutes + seconds
    if not total:
        raise ArgumentError(f"--budget has {budget!r}; a time is like 90s, 10m or 1h30m")
    return total
