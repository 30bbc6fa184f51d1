"""The peers that there are."""

from __future__ import annotations

from collections.abc import Sequence

from portable_gpu.bench.clblast import CLBlastPeer
from portable_gpu.bench.frameworks import CuPyPeer, TorchPeer
from portable_gpu.bench.peers import NumPyPeer, Peer, PyOpenCLPeer
from portable_gpu.errors import UnsupportedError
from portable_gpu.runtime.engine import Engine


def registry() -> dict[str, type[Peer]]:
    """The peers by name."""
    known: tuple[type[Peer], ...] = (NumPyPeer, PyOpenCLPeer, CLBlastPeer, TorchPeer, CuPyPeer)
    return {peer.name: peer for peer in known}


def open_peers(names: Sequence[str], engine: Engine) -> tuple[list[Peer], list[str]]:
    """The peers that run here, and a line for each that does not."""
    peers: list[Peer] = []
    skipped = []
    for name in names:
        kind = registry()[name]
        try:
            peers.append(kind(engine))
        except ImportError:
            skipped.append(f"{name} is not installed and left out: {kind.install}")
        except UnsupportedError as error:
            skipped.append(f"{name} is left out: {error}")
    return peers, skipped
