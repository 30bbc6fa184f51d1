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
class Ways:
    """Copies of one library.

    Attributes:
        there: Copies an array of NumPy to the device.
        back: Copies what ``there`` returned to an array of NumPy.
        finish: Waits for both.
    """

    there: Callable[[Any], Any]
    back: Callable[[Any], Any]
    finish: Callable[[], Any]


@dataclass(frozen=True)
class TransferRow:
    """One size, direction and peer.

    Attributes:
        nbytes: Of the copy.
        direction: One of :data:`DIRECTIONS`.
        peer: Its name; None where none was timed.
        ours, theirs: Seconds.
        ratio: Their time over ours, turn by turn.
    """

    nbytes: int
    direction: str
    peer: str | None
    ours: Statistic
    theirs: Statistic | None
    ratio: Statistic | None

    def rate(self, seconds: Statistic) -> float:
        """GB/s."""
        return self.nbytes / seconds.median / 1e9


def ours(engine: Engine) -> Ways:
    """``asarray`` and ``asnumpy``."""
    return Ways(partial(asarray, engine=engine), asnumpy, engine.queue.finish)


def _driver(engine: Engine) -> Ways:
    queue = engine.queue

    def there(x: Any) -> Any:
        buffer = cl.Buffer(engine.context, cl.mem_flags.READ_WRITE, x.nbytes)
        cl.enqueue_copy(queue, buffer, x)
        return buffer

    def back(buffer: Any) -> Any:
        x = np.empty(buffer.size, np.uint8)
        cl.enqueue_copy(queue, x, buffer)
        return x

    return Ways(there, back, queue.finish)


def _pinned(engine: Engine) -> Ways:
    """Between memory of the device and pinned memory, both there before: what the bus gives."""
    queue, kept = engine.queue, dict[int, Any]()

    def pair(nbytes: int) -> Any:
        if nbytes not in kept:
            kept.clear()
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
            device, host = (
                cl.Buffer(engine.context, f, nbytes) for f in (cl.mem_flags.READ_WRITE, flags)
            )
            both: Any = cl.map_flags.READ | cl.map_flags.WRITE
            memory, _ = cl.enqueue_map_buffer(queue, host, both, 0, (nbytes,), np.dtype(np.uint8))
            kept[nbytes] = device, memory
        return kept[nbytes]

    def there(x: Any) -> Any:
        is_new = x.nbytes not in kept
        device, memory = pair(x.nbytes)
        if is_new:
            memory[:] = x
        cl.enqueue_copy(queue, device, memory)
        return device

    def back(device: Any) -> Any:
        _, memory = pair(device.size)
        cl.enqueue_copy(queue, memory, device)
        return memory

    return Ways(there, back, queue.finish)


def _torch(_: Engine) -> Ways:
    torch: Any = import_module("torch")
    if not hasattr(torch, "accelerator"):
        raise UnsupportedError("it is older than 2.6")
    if not torch.accelerator.is_available():
        raise UnsupportedError("it finds no GPU")
    device = torch.accelerator.current_accelerator()
    return Ways(
        lambda x: torch.from_numpy(x).to(device),
        lambda x: x.cpu().numpy(),
        torch.accelerator.synchronize,
    )


def _cupy(_: Engine) -> Ways:
    cupy: Any = import_module("cupy")
    if not cupy.is_available():
        raise UnsupportedError("it finds no GPU")
    from cupy.cuda import get_current_stream

    return Ways(cupy.asarray, cupy.asnumpy, lambda: get_current_stream().synchronize())


#: By their names.  All copy pageable memory, except "pinned", which shows the rate of the bus.
TRANSFER_PEERS: dict[str, Callable[[Engine], Ways]] = {
    "driver": _driver,
    "pinned": _pinned,
    "torch": _torch,
    "cupy": _cupy,
}


def transfers(
    engine: Engine, sizes: Sequence[int], peers: Sequence[str], turns: int
) -> Iterator[TransferRow | str]:
    """Time copies of each size, by turns with each peer; a text says why one is left out.

    Raises:
        PortableGPUError: A copy of ours gave other bytes.
    """
    us, rivals = ours(engine), dict[str, Ways]()
    for name in peers:
        try:
            rivals[name] = TRANSFER_PEERS[name](engine)
        except ImportError:
            yield f"{name}: not installed"
        except UnsupportedError as error:
            yield f"{name}: left out: {error}"
    for nbytes in sizes:
        if nbytes > engine.target.facts.max_alloc_size:
            yield f"{nbytes} bytes: the device gives no such buffer"
            continue
        x = np.random.default_rng(nbytes).integers(0, 255, nbytes, np.uint8)
        if not np.array_equal(us.back(us.there(x)), x):
            raise PortableGPUError(f"{nbytes} bytes came back as others")
        sides: list[tuple[str | None, Ways | None]] = [*rivals.items()] or [(None, None)]
        for peer, them in sides:
            try:
                yield from _rows(nbytes, x, peer, us, them, turns)
            except (RuntimeError, MemoryError) as failure:
                if them is None or isinstance(failure, PortableGPUError):
                    raise
                yield f"{peer}: left out: {(str(failure).splitlines() or ['no memory'])[0]}"


def _rows(
    nbytes: int, x: Any, peer: str | None, us: Ways, them: Ways | None, turns: int
) -> Iterator[TransferRow]:
    for direction in DIRECTIONS:
        sides = [_prepared(who, x, direction) for who in (us, them) if who is not None]
        calls = [calls_a_turn(warm_up(side)) for side in sides]
        times = alternate(sides, calls, turns)
        yield TransferRow(
            nbytes,
            direction,
            peer,
            Statistic.of(times[0]),
            None if them is None else Statistic.of(times[1]),
            None if them is None else Statistic.of(ratios(*times)),
        )


def _prepared(who: Ways, x: Any, direction: str) -> Prepared:
    if direction == "to device":
        return Prepared([partial(who.there, x)], who.finish)
    return Prepared([partial(who.back, who.there(x))], who.finish)
