"""The known peers, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from portable_gpu.bench.clblast import CLBlastPeer
from portable_gpu.bench.frameworks import CuPyPeer, TorchPeer
from portable_gpu.bench.peers import NumPyPeer, Peer, PyOpenCLPeer
from portable_gpu.bench.revisions import PREFIX, opened
from portable_gpu.bench.transforms import PyFFTWPeer, PyVkFFTPeer, SciPyPeer
from portable_gpu.errors import UnsupportedError
from portable_gpu.runtime.engine import Engine


def registry() -> dict[str, type[Peer]]:
    """The peers by name."""
    known: tuple[type[Peer], ...] = (
        NumPyPeer, PyOpenCLPeer, CLBlastPeer, TorchPeer, CuPyPeer, SciPyPeer, PyFFTWPeer,
        PyVkFFTPeer,
    )  # fmt: skip
    return {peer.name: peer for peer in known}


def usual_peers(timed: Sequence[str], on_cpu: bool) -> list[str]:
    """The default peers: those that have one of the operations for the kind of device.

    Args:
        timed: The operations.
        on_cpu: Whether the arrays are NumPy arrays.
    """
    elsewhere = {"cupy"} if on_cpu else {"numpy", "scipy", "pyfftw"}
    return [
        name
        for name, kind in registry().items()
        if name not in elsewhere
        if kind.operations is None or not kind.operations.isdisjoint(timed)
    ]


def is_known(name: str) -> bool:
    """Whether there is such a peer, or it names a revision of this library."""
    return name in registry() or name.startswith(PREFIX)


@contextmanager
def open_peers(names: Sequence[str], engine: Engine) -> Iterator[tuple[list[Peer], list[str]]]:
    """The peers that run here, and a line for each that does not.

    Processes of other revisions end with the context.
    """
    peers: list[Peer] = []
    skipped = []
    with ExitStack() as stack:
        for name in names:
            if name.startswith(PREFIX):
                peers.append(stack.enter_context(opened(name, engine)))
                continue
            kind = registry()[name]
            try:
                peers.append(kind(engine))
            except ImportError:
                skipped.append(f"{name} is not installed and left out: {kind.install}")
            except UnsupportedError as error:
                skipped.append(f"{name} is left out: {error}")
        yield peers, skipped
