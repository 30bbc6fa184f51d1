"""The command ``portable-gpu``: one module for each of its sub-commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from portable_gpu.errors import PortableGPUError

if TYPE_CHECKING:
    import typer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``portable-gpu`` with ``arguments`` (those of the process by default).

    Returns:
        The exit status: 0, 1 where the library refused (one line on stderr says why), 2 where
        the command line was wrong.
    """
    try:
        import rich  # noqa: F401  # here only to know whether it is installed
        import typer.main
    except ImportError as error:
        print(
            f"portable-gpu needs the package {error.name}: pip install 'portable_gpu[cli]'",
            file=sys.stderr,
        )
        return 1
    command = typer.main.get_command(_application())
    try:
        status = command.main(arguments, prog_name="portable-gpu", standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 1
    except PortableGPUError as error:
        print(f"portable-gpu: {error}", file=sys.stderr)
        return 1
    return int(status or 0)


def _application() -> typer.Typer:
    import typer

    from portable_gpu.cli.bench import bench
    from portable_gpu.cli.check_isa import check_isa
    from portable_gpu.cli.demo import demo
    from portable_gpu.cli.explain import explain
    from portable_gpu.cli.info import info
    from portable_gpu.cli.render import render
    from portable_gpu.cli.selftest import selftest
    from portable_gpu.cli.tune import tune
    from portable_gpu.cli.warm_up import warm_up

    application = typer.Typer(
        help="Performance-portable kernels on OpenCL.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for command in (info, explain, render, selftest, bench, tune, check_isa, demo, warm_up):
        application.command()(command)
    return application
