"""Compare random transforms with SciPy's, on the default device, for some seconds.

    python tools/random_transforms.py SEED SECONDS

Kinds, dtypes, lengths with and without large primes, axes, strides of any sign, norms, padding and
cropping are drawn.  It prints each call that differs, and fails if there is one.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np
import scipy.fft

import portable_gpu.fft

PRIMES = [n for n in range(2, 340) if all(n % d for d in range(2, n))]
USUAL = (16, 17, 32, 48, 60, 64, 96, 100, 125, 128, 200, 256, 360, 500, 512, 1000, 1024)
COSINES = ("dct", "dst", "idct", "idst")
MOST = 60_000  # numbers of an array


def drawn_array(rng: np.random.Generator) -> tuple[Any, int]:
    """An array that is perhaps a part of another one, with its axes in any order, and an axis."""
    dtype = np.dtype(rng.choice(["complex64", "complex128", "float32", "float64"]))
    rank = int(rng.integers(1, 4))
    axis = int(rng.integers(0, rank))
    n = int(rng.choice((rng.choice(PRIMES), rng.integers(1, 400), rng.choice(USUAL))))
    shape = [int(rng.choice((1, 2, 3, 5, 7, 17, 33))) for _ in range(rank)]
    shape[axis] = n
    if np.prod(shape) > MOST:
        shape = [n if k == axis else min(extent, 3) for k, extent in enumerate(shape)]
    room = [extent * int(rng.integers(1, 3)) for extent in shape]
    x = rng.standard_normal(room)
    if dtype.kind == "c":
        x = x + 1j * rng.standard_normal(room)
    first = [int(rng.integers(0, a - b + 1)) for a, b in zip(room, shape, strict=True)]
    x = x.astype(dtype)[tuple(slice(a, a + b) for a, b in zip(first, shape, strict=True))]
    order = list(rng.permutation(rank))
    x, axis = np.transpose(x, order), order.index(axis)
    return (np.flip(x, int(rng.integers(0, rank))) if rng.random() < 0.2 else x), axis


def drawn_call(rng: np.random.Generator, x: Any, axis: int) -> tuple[str, tuple[Any, ...]] | None:
    """A function and its first arguments; none where it takes no such length."""
    n = x.shape[axis]
    length = max(1, int(n + rng.integers(-n // 2, n))) if rng.random() < 0.3 else None
    kinds = ("fft", "ifft", "irfft") if x.dtype.kind == "c" else ("rfft", "fft", *COSINES)
    name = str(rng.choice(kinds))
    if name in COSINES:
        return (name, (int(rng.integers(1, 5)), length)) if min(n, length or n) > 2 else None
    return None if name == "irfft" and (length or n) == 1 else (name, (length,))


def differs(name: str, got: Any, want: Any) -> bool:
    """Whether a result is off by more than the documented bound, three times that for cosines."""
    if got.shape != want.shape:
        return True
    each = 4e-6 if got.real.dtype == np.float32 else 1e-14
    off = np.linalg.norm((got - want).ravel())
    return not off <= each * (3 if name in COSINES else 1) * np.linalg.norm(want.ravel())


def main() -> None:
    """See the module."""
    rng, end = np.random.default_rng(int(sys.argv[1])), time.time() + float(sys.argv[2])
    count = wrong = 0
    while time.time() < end:
        x, axis = drawn_array(rng)
        call = drawn_call(rng, x, axis)
        if call is None:
            continue
        name, given = call
        options = {"axis": axis, "norm": rng.choice([None, "ortho", "forward", "backward"])}
        wide = x.astype(np.result_type(x.dtype, np.float64))
        got = getattr(portable_gpu.fft, name)(x, *given, **options)
        count += 1
        if differs(name, got, getattr(scipy.fft, name)(wide, *given, **options)):
            wrong += 1
            print(f"{name}{given} {options} of {x.dtype} {x.shape}, strides {x.strides}")
    print(f"{count} calls, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
