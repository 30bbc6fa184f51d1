"""Copies to the device and back: this library, the driver by itself, and other frameworks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pyopencl as cl

from portable_gpu.bench.measure import alternate, ratios
from portable_gpu.bench.statistics import Statistic
from portable_gpu.bench.timing import Prepared, calls_a_turn, warm_up
from portable_gpu.errors import PortableGPUError, UnsupportedError
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.transfer import asarray, asnumpy

#: Bytes that are timed by default.
USUAL = tuple(10**k for k in range(3, 10))
DIRECTIONS = ("to device", "to host")


@dataclass(frozen=True)
class Copier:
    """The calls of one library: copy a NumPy array to the device, copy it back, and wait."""

    there: Callable[[Any], Any]
    back: Callable[[Any], Any]
    finish: Callable[[], Any]


@dataclass(frozen=True)
class TransferRow:
    """One size, direction and peer.

    Attributes:
        nbytes: The size of the copy.
        direction: One of :data:`DIRECTIONS`.
        peer: The name of the peer; None if none was timed.
        ours, theirs: Seconds of a copy by this library and by the peer.
        ratio: Their time over ours, turn by turn.
    """

    nbytes: int
    direction: str
    peer: str | None
    ours: Statistic
    theirs: Statistic | None
    ratio: Statistic | None

    def rate(self, seconds: Statistic) -> float:
        """Return the rate in GB/s of a copy that takes ``seconds``."""
        return self.nbytes / seconds.median / 1e9


def ours(engine: Engine) -> Copier:
    """Return the copier of this library: ``asarray`` and ``asnumpy``."""
    return Copier(partial(asarray, engine=engine), asnumpy, engine.queue.finish)


def _driver(engine: Engine) -> Copier:
    queue = engine.queue

    def there(x: Any) -> Any:
        buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, x.nbytes)
        cl.enqueue_copy(queue, buffer, x)
        return buffer

    def back(buffer: Any) -> Any:
        x = np.empty(buffer.size, np.uint8)
        cl.enqueue_copy(queue, x, buffer)
        return x

    return Copier(there, back, queue.finish)


def _pinned(engine: Engine) -> Copier:
    """Return a copier between a buffer and pinned memory that exist before: the rate of the bus."""
    queue, buffers = engine.queue, dict[int, Any]()

    def pair(nbytes: int) -> Any:
        if nbytes not in buffers:
            buffers.clear()
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
            device, host = (
                cl.Buffer(engine.context, f, nbytes) for f in (cl.mem_flags.READ_WRITE, flags)
            )
            both: Any = cl.map_flags.READ | cl.map_flags.WRITE
            memory, _ = cl.enqueue_map_buffer(queue, host, both, 0, (nbytes,), np.dtype(np.uint8))
            buffers[nbytes] = device, memory
        return buffers[nbytes]

    def there(x: Any) -> Any:
        is_new = x.nbytes not in buffers
        device, memory = pair(x.nbytes)
        if is_new:
            memory[:] = x
        cl.enqueue_copy(queue, device, memory)
        return device

    def back(device: Any) -> Any:
        _, memory = pair(device.size)
        cl.enqueue_copy(queue, memory, device)
        return memory

    return Copier(there, back, queue.finish)


def _torch(_: Engine) -> Copier:
    torch: Any = import_module("torch")
    if not hasattr(torch, "accelerator"):
        raise UnsupportedError("it is older than 2.6")
    if not torch.accelerator.is_available():
        raise UnsupportedError("it finds no GPU")
    device = torch.accelerator.current_accelerator()
    return Copier(
        lambda x: torch.from_numpy(x).to(device),
        lambda x: x.cpu().numpy(),
        torch.accelerator.synchronize,
    )


def _cupy(_: Engine) -> Copier:
    cupy: Any = import_module("cupy")
    if not cupy.is_available():
        raise UnsupportedError("it finds no GPU")
    from cupy.cuda import get_current_stream

    return Copier(cupy.asarray, cupy.asnumpy, lambda: get_current_stream().synchronize())


#: By their names.  All copy pageable memory, except "pinned", which shows the rate of the bus.
TRANSFER_PEERS: dict[str, Callable[[Engine], Copier]] = {
    "driver": _driver,
    "pinned": _pinned,
    "torch": _torch,
    "cupy": _cupy,
}


def transfers(
    engine: Engine, sizes: Sequence[int], peers: Sequence[str], turns: int
) -> Iterator[TransferRow | str]:
    """Time copies of each size, in turns with each peer; yield a text for each that is left out.

    Raises:
        PortableGPUError: A copy by this library returned other bytes, or the device has no memory
            for it.
    """
    our_copier, peers_by_name = ours(engine), dict[str, Copier]()
    for name in peers:
        try:
            peers_by_name[name] = TRANSFER_PEERS[name](engine)
        except ImportError:
            yield f"{name}: not installed"
        except UnsupportedError as error:
            yield f"{name}: left out: {error}"
    for nbytes in sizes:
        if nbytes > engine.target.facts.max_alloc_size:
            yield f"{nbytes} bytes: left out: the device allows no buffer of this size"
            continue
        x = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
        if not np.array_equal(our_copier.back(our_copier.there(x)), x):
            raise PortableGPUError(
                f"a copy of {nbytes} bytes to the device and back changed the data"
            )
        sides: list[tuple[str | None, Copier | None]] = [*peers_by_name.items()] or [(None, None)]
        for peer, peer_copier in sides:
            try:
                yield from _rows(nbytes, x, peer, our_copier, peer_copier, turns)
            except (RuntimeError, MemoryError, cl.Error) as failure:
                if peer_copier is None:
                    raise
                yield f"{peer}: left out: {(str(failure).splitlines() or ['no memory'])[0]}"


def _rows(
    nbytes: int, x: Any, peer: str | None, own: Copier, peer_copier: Copier | None, turns: int
) -> Iterator[TransferRow]:
    for direction in DIRECTIONS:
        sides = [
            _prepared(copier, x, direction) for copier in (own, peer_copier) if copier is not None
        ]
        calls = [calls_a_turn(warm_up(side)) for side in sides]
        times = alternate(sides, calls, turns)
        yield TransferRow(
            nbytes,
            direction,
            peer,
            Statistic.of(times[0]),
            None if peer_copier is None else Statistic.of(times[1]),
            None if peer_copier is None else Statistic.of(ratios(*times)),
        )


def _prepared(copier: Copier, x: Any, direction: str) -> Prepared:
    if direction == "to device":
        return Prepared([partial(copier.there, x)], copier.finish)
    return Prepared([partial(copier.back, copier.there(x))], copier.finish)
