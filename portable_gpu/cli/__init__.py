"""The command ``portable-gpu``: one module for each of its sub-commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from portable_gpu.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    PortableGPUError,
    how_to_install,
)

if TYPE_CHECKING:
    import typer

#: 128 and the signal's number, as shells have it: of SIGINT (Ctrl-C), and of SIGPIPE.
_INTERRUPTED, _PIPE_CLOSED = 130, 141


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``portable-gpu`` with ``arguments`` (those of the process by default).

    Returns:
        The exit status: 0; 1 where the library refused or found faults; 2 where an argument was
        wrong; 130 after Ctrl-C; 141 if the reader of the output has closed the pipe.  One line on
        stderr says why.
    """
    try:
        status = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:  # as in `portable-gpu info | head`
        with suppress(OSError, ValueError):  # else Python complains of what was not written
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    return status


def _run(arguments: list[str]) -> int:
    try:
        import rich  # noqa: F401  # here only to know whether it is installed
        import typer.main
    except ImportError as error:
        needed = f"portable-gpu needs the package {error.name}"
        print(f"error: {needed}: {how_to_install('cli')}", file=sys.stderr)
        return 1
    command = typer.main.get_command(_application())
    usage_error: type[Any] = typer.BadParameter.__bases__[0]  # typer does not export it
    try:
        with command.make_context("portable-gpu", arguments or ["--help"]) as context:
            command.invoke(context)
    except typer.Exit as stop:
        return stop.exit_code
    except usage_error as error:
        print(f"error: {error.format_message()}", file=sys.stderr)
        return 2
    except PortableGPUError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, (ArgumentError, ArgumentTypeError, DTypeError)) else 1
    return 0


def _application() -> typer.Typer:
    import typer

    from portable_gpu.cli.bench import bench_commands
    from portable_gpu.cli.calibrate import calibrate
    from portable_gpu.cli.check_isa import check_isa
    from portable_gpu.cli.demo import demo
    from portable_gpu.cli.explain import explain
    from portable_gpu.cli.info import info
    from portable_gpu.cli.render import render
    from portable_gpu.cli.selftest import selftest
    from portable_gpu.cli.solve import solve
    from portable_gpu.cli.tune import tune
    from portable_gpu.cli.version import version
    from portable_gpu.cli.warm_up import warm_up

    application = typer.Typer(
        help="Performance-portable kernels on OpenCL.",
        add_completion=False,
        pretty_exceptions_enable=False,
        callback=version,
    )
    commands = (
        info, explain, render, selftest, tune, calibrate, check_isa, demo, solve, warm_up
    )  # fmt: skip
    for command in commands:
        application.command(help=unwrapped(command.__doc__))(command)
    application.add_typer(bench_commands(unwrapped), name="bench")
    return application


def unwrapped(text: str | None) -> str:
    """A docstring with one line a paragraph, as the terminal's width breaks lines."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))
