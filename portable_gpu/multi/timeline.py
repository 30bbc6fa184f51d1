"""The kernels and copies of the devices of a group over time: a picture, and a Chrome trace.

Copies and other work that waits are timed by the host.  For kernels, which are enqueued and not
waited for, a marker is enqueued before and after them, and a thread waits for the markers of each
device.  All times are the host's, so the devices have one clock.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import pyopencl as cl

from portable_gpu.arguments import of_kind, one_of, whole
from portable_gpu.errors import ArgumentError
from portable_gpu.multi.member import Member

#: The function of the group that is called, for the names in a timeline.
current_call: ContextVar[str] = ContextVar("current_call", default="call")

KERNELS, COPIES = "kernels", "copies"
_COLOURS = {KERNELS: "C0", COPIES: "C1"}


class Span(NamedTuple):
    """A time in which a device was busy.

    Attributes:
        device: The number of the device.
        kind: ``kernels`` or ``copies``.
        name: The name of the work.
        start, stop: Seconds since the beginning of the timeline.
        nbytes: The bytes that were copied.
    """

    device: int
    kind: str
    name: str
    start: float
    stop: float
    nbytes: int


class Timeline:
    """The kernels and copies of all devices of a group during a ``with`` block.

    Attributes:
        names: The names of the devices.
        spans: The work of the devices, in the order of its ends.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Begin at this moment."""
        self.names, self.spans = tuple(names), list[Span]()
        self._begin = time.perf_counter()

    def add(self, device: int, kind: str, name: str, times: Sequence[float], nbytes: int) -> None:
        """Add a span, whose times are those of ``time.perf_counter``."""
        start, stop = (moment - self._begin for moment in times)
        self.spans.append(Span(device, kind, name, start, stop, nbytes))

    def busy(self, device: int, kind: str) -> float:
        """Return the seconds in which a device ran kernels, or copied.

        Args:
            device: The number of the device.
            kind: ``"kernels"`` or ``"copies"``.

        Raises:
            ArgumentError: There is no such device or kind.
        """
        one_of(kind, (KERNELS, COPIES), "kind")
        return sum(stop - start for start, stop in _union(self._of(device, kind)))

    def overlap(self, device: int) -> float:
        """Return the part of the shorter of kernels and copies that ran at the time of the other.

        It is (kernels + copies - both together) / the shorter of the two; 0 if there is only one.

        Raises:
            ArgumentError: There is no such device.
        """
        kernels, copies = self.busy(device, KERNELS), self.busy(device, COPIES)
        spans = [*self._of(device, KERNELS), *self._of(device, COPIES)]
        either = sum(stop - start for start, stop in _union(spans))
        shorter = min(kernels, copies)
        return (kernels + copies - either) / shorter if shorter else 0.0

    def chrome_trace(self, path: Path | str) -> None:
        """Write the timeline as JSON for ``chrome://tracing`` and Perfetto.

        Raises:
            ArgumentTypeError: ``path`` is no name.
            OSError: The file cannot be written.
        """
        of_kind(path, (str, os.PathLike), "path", "the name of a file")
        kinds = (KERNELS, COPIES)
        events: list[dict[str, Any]] = []
        for device, name in enumerate(self.names):
            arguments = {"name": f"device {device}: {name}"}
            events.append({"ph": "M", "name": "process_name", "pid": device, "args": arguments})
            for thread, kind in enumerate(kinds):
                events.append(
                    {"ph": "M", "name": "thread_name", "pid": device, "tid": thread,
                     "args": {"name": kind}}
                )  # fmt: skip
        for span in self.spans:
            events.append(
                {"ph": "X", "name": span.name, "pid": span.device, "tid": kinds.index(span.kind),
                 "ts": span.start * 1e6, "dur": (span.stop - span.start) * 1e6,
                 "args": {"bytes": span.nbytes}}
            )  # fmt: skip
        Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")

    def plot(self, path: Path | str) -> Any:
        """Draw the timeline, with a row for the kernels and one for the copies of each device.

        Returns:
            The figure of Matplotlib (extra ``bench``), which is also stored as ``path``.

        Raises:
            ArgumentTypeError, ArgumentError: ``path`` is no name, or has no suffix of a picture.
            OSError: The file cannot be written.
        """
        from matplotlib.figure import Figure

        of_kind(path, (str, os.PathLike), "path", "the name of a file")
        kinds = (KERNELS, COPIES)
        rows = [(device, kind) for device in range(len(self.names)) for kind in kinds]
        figure = Figure(figsize=(11, 1.2 + 0.5 * len(rows)), layout="constrained")
        axes = figure.add_subplot()
        for row, (device, kind) in enumerate(rows):
            spans = [(start * 1e3, (stop - start) * 1e3) for start, stop in self._of(device, kind)]
            # Edges of the same colour: short spans have no other visible part.
            shade, edge = (_COLOURS[kind], 0.5), _COLOURS[kind]
            axes.broken_barh(spans, (row - 0.4, 0.8), facecolors=shade, edgecolors=edge)
        axes.set_yticks(range(len(rows)), [f"device {device}: {kind}" for device, kind in rows])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("milliseconds")
        overlaps = [f"device {d}: {self.overlap(d):.0%}" for d in range(len(self.names))]
        axes.set_title(f"overlap of kernels and copies: {', '.join(overlaps)}", loc="left")
        formats = figure.canvas.get_supported_filetypes()
        if Path(path).suffix[1:] not in formats:
            raise ArgumentError(
                f"path is {str(path)!r}; expected a name that ends in one of {', '.join(formats)}"
            )
        figure.savefig(path, dpi=120)
        return figure

    def _of(self, device: int, kind: str) -> list[tuple[float, float]]:
        last = len(self.names) - 1
        if not 0 <= whole(device, "device") <= last:
            raise ArgumentError(f"device is {device}; the timeline has devices 0 to {last}")
        return [(s.start, s.stop) for s in self.spans if (s.device, s.kind) == (device, kind)]


class Recorder:
    """Records the work of one device to a timeline, until it is closed."""

    def __init__(self, timeline: Timeline, member: Member) -> None:
        """Record from now on."""
        self._timeline, self._member = timeline, member
        self._markers: SimpleQueue[tuple[str, cl.Event, cl.Event] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._wait, daemon=True)
        self._thread.start()
        member.recorders.append(self)

    @contextmanager
    def span(self, name: str, queue: cl.CommandQueue | None, nbytes: int) -> Iterator[None]:
        """See :meth:`Member.recorded`."""
        index, begin = self._member.index, time.perf_counter()
        before = None if queue is None else cl.enqueue_marker(queue)
        try:
            yield
        finally:
            if queue is None or before is None:
                kind = COPIES if nbytes else KERNELS
                times = begin, time.perf_counter()
                self._timeline.add(index, kind, name, times, nbytes)
            else:
                with suppress(cl.Error):  # the device failed, which the call reports
                    self._markers.put((name, before, cl.enqueue_marker(queue)))
                    queue.flush()

    def copied(self, name: str, begin: float, nbytes: int) -> None:
        """See :class:`portable_gpu.multi.member.SpanRecorder`."""
        times = begin, time.perf_counter()
        self._timeline.add(self._member.index, COPIES, name, times, nbytes)

    def close(self) -> None:
        """Record no more, and wait for the markers."""
        self._member.recorders.remove(self)
        self._markers.put(None)
        self._thread.join()

    def _wait(self) -> None:
        while (entry := self._markers.get()) is not None:
            name, before, after = entry
            try:
                before.wait()
                begin = time.perf_counter()
                after.wait()
            except cl.Error:  # the device failed
                continue
            times = begin, time.perf_counter()
            self._timeline.add(self._member.index, KERNELS, name, times, 0)


def _union(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return intervals that do not overlap, and that cover the same times."""
    result: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(stop, result[-1][1])
        else:
            result.append((start, stop))
    return result
