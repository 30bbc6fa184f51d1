"""``portable_gpu.fft`` takes what ``scipy.fft`` takes, in the same order."""

from __future__ import annotations

from inspect import Parameter, signature

import numpy as np
import pytest

import portable_gpu as pg

FUNCTIONS = [
    f"{real}{way}fft{axes}"
    for real in ("", "r", "h")
    for way in ("", "i")
    for axes in ("", "2", "n")
]
#: As SciPy spells those of real numbers: the way stands before what is transformed.
NAMES = sorted(name.replace("ri", "ir").replace("hi", "ih") for name in FUNCTIONS)
OURS = {"out", "engine", "queue", "wait_for"}


def positional(function: object) -> list[tuple[str, object]]:
    result = signature(function).parameters.values()  # type: ignore[arg-type]
    return [(item.name, item.default) for item in result if item.kind is not Parameter.KEYWORD_ONLY]


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_scipys(name: str) -> None:
    theirs = pytest.importorskip("scipy.fft")
    assert name in pg.fft.__all__
    ours = getattr(pg.fft, name)
    assert positional(ours) == positional(getattr(theirs, name))
    more = {
        item.name: item.default
        for item in signature(ours).parameters.values()
        if item.kind is Parameter.KEYWORD_ONLY
    }
    assert more == {"plan": None, **dict.fromkeys(OURS)}


@pytest.mark.parametrize("name", NAMES)
def test_arguments_say_axes(name: str) -> None:
    """``n``, ``axis`` of one axis; ``s``, ``axes`` of several: known without SciPy."""
    length, axes = ("s", "axes") if name[-1] in "2n" else ("n", "axis")
    default = {"2": (-2, -1), "n": None}.get(name[-1], -1)
    assert positional(getattr(pg.fft, name))[:4] == [
        ("x", Parameter.empty), (length, None), (axes, default), ("norm", None)
    ]  # fmt: skip


def test_helpers_are_numpys() -> None:
    for name in ("fftfreq", "rfftfreq", "fftshift", "ifftshift"):
        assert getattr(pg.fft, name) is getattr(np.fft, name)


@pytest.mark.parametrize("wanted", [1, 7, 17, 97, 1009, 4097, 99_991])
def test_fast_lengths_have_small_primes(wanted: int) -> None:
    result = pg.fft.next_fast_len(wanted)
    rest = result
    for prime in (2, 3, 5, 7, 11, 13):
        while rest % prime == 0:
            rest //= prime
    assert result >= wanted
    assert rest == 1
