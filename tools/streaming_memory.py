"""Multiply large matrices in files, and compare the memory of the process with the stated formula.

    python tools/streaming_memory.py [--size 8000] [--limit 64] [--folder /tmp]

Writes two random float32 matrices into files, multiplies them by ``streaming.gemm`` with a limit of
that many MiB, and samples the anonymous memory of the process (RssAnon of Linux) every 20 ms.
Products with four random vectors of signs are compared with float64.  Prints bytes, CPU seconds and
the error as a share of its bound.  The exit status is 1 if the memory is above the limit and 200
MiB, or the error above its bound.  The folder needs 12 bytes for each element of a matrix.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import portable_gpu as pg
from portable_gpu.multi import streaming

#: Bytes that a process takes in addition to the tiles: the interpreter, the compiler, the device.
_PROCESS = 200 << 20
_ROWS = 256


def anonymous() -> int:
    """Return the bytes of anonymous memory of this process."""
    match = re.search(r"RssAnon:\s*(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    if match is None:
        raise SystemExit("the system does not report anonymous memory (RssAnon)")
    return int(match[1]) * 1024


class Peak:
    """Samples the anonymous memory in a thread, while it is entered."""

    def __init__(self) -> None:
        self.nbytes = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def _sample(self) -> None:
        while not self._end.wait(0.02):
            self.nbytes = max(self.nbytes, anonymous())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()


def rows(x: Any) -> Iterator[tuple[slice, Any]]:
    """Yield groups of rows of a matrix in float64."""
    for first in range(0, len(x), _ROWS):
        part = slice(first, first + _ROWS)
        yield part, np.asarray(x[part], np.float64)


def times(x: Any, v: Any, magnitude: bool = False) -> Any:
    """Return the product of a matrix, or of its absolute values, and vectors in float64."""
    result = np.empty((len(x), v.shape[1]))
    for part, values in rows(x):
        result[part] = (np.abs(values) if magnitude else values) @ v
    return result


def random_matrix(path: Path, n: int, seed: int) -> Any:
    """Write a random matrix into a file, and return a memmap of it."""
    rng = np.random.default_rng(seed)
    x = np.lib.format.open_memmap(path, "w+", np.float32, (n, n))
    for first in range(0, n, _ROWS):
        x[first : first + _ROWS] = rng.standard_normal(x[first : first + _ROWS].shape, np.float32)
    del x
    return np.load(path, mmap_mode="r")


def main() -> int:
    """Multiply, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=8000, help="extent of the square matrices")
    parser.add_argument("--limit", type=int, default=64, help="memory_limit in MiB")
    parser.add_argument("--folder", default=None, help="where the files are written")
    options = parser.parse_args()
    n, limit = options.size, options.limit << 20
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        a, b = (random_matrix(folder / f"{seed}.npy", n, seed) for seed in (1, 2))
        print(f"device: {pg.default_engine().target.facts.name}")
        before, cpu, start = anonymous(), time.process_time(), time.perf_counter()
        with Peak() as peak:
            c = streaming.gemm(a, b, out=folder / "c.npy", memory_limit=limit, progress=True)
        cpu, seconds = time.process_time() - cpu, time.perf_counter() - start
        signs = np.random.default_rng(3).choice([-1.0, 1.0], (n, 4))
        difference = np.abs(times(c, signs) - times(a, times(b, signs)))
        bound = n * 2.0**-24 * times(a, times(b, np.ones((n, 1)), True), True)
        share = float(np.max(difference / bound))
        del a, b, c
    most = limit + _PROCESS
    print(f"product of {n}: {seconds:.1f} s, {cpu:.1f} CPU s, {2e-9 * n**3 / cpu:.1f} Gflop/CPU s")
    print(
        f"RssAnon: {before >> 20} MiB before, at most {peak.nbytes >> 20} MiB; "
        f"limit + 200 MiB: {most >> 20} MiB"
    )
    print(f"largest error: {share:.2g} of the bound")
    return int(peak.nbytes > most or share > 1)


if __name__ == "__main__":
    sys.exit(main())
