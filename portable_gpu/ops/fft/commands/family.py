"""The record of Fourier transforms."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from portable_gpu.ops.family import Benchmark, Compiled, Family, OperationRecord, Sizes, Typical
from portable_gpu.ops.fft.api import fft, rfft
from portable_gpu.ops.fft.commands import cases
from portable_gpu.ops.fft.commands.cases import COMPLEX, CONTESTED, REAL
from portable_gpu.ops.fft.commands.catalogue import (
    explain,
    fft_specializations,
    rfft_specializations,
)
from portable_gpu.ops.fft.commands.checks import checks

_CALLS = Typical(((1024,), (1000, 64)), options=cases.each_axis)
_FFT = OperationRecord(
    name="fft",
    function=fft,
    explain=explain,
    specializations=fft_specializations,
    compiled=("complex64", "complex128"),
    shapes=cases.shapes,
    options=cases.options,
    typical=replace(_CALLS, function=partial(cases.warmed, "fft")),
)
_RFFT = replace(
    _FFT,
    name="rfft",
    function=rfft,
    specializations=rfft_specializations,
    compiled=("float32", "float64"),
    typical=replace(_CALLS, function=partial(cases.warmed, "rfft")),
)
_TIMED = Benchmark(
    # Many lines of lengths with and without larger primes, single ones, axes together and strided.
    sizes=Sizes(
        cpu="10000:64,1000:1000,1000:1024,1000:1009,250:4096,2^16,1000000,2^20,2^22,"
        "512x512,1024x1024/0,1024x1024,128x128x128",
        gpu="2^20:64,65536:1000,65536:1024,65536:1009,16384:4096,2^16,1000000,2^20,2^24,2^26,"
        "1024x1024,4096x4096/0,4096x4096,256x256x256",
    ),
    roofline=Sizes(cpu="1000:1024,2^20", gpu="65536:1024,2^24"),
    flop=lambda case: cases.fft_of(case).flop,
    bytes=lambda case: cases.fft_of(case).bytes,
    oracle=cases.oracle,
    like_numpy=cases.like_numpy,
    form="n, or the extents of several axes, perhaps with a batch",
    label="extents / axis",
    by_flop=True,
    variants=cases.variants,
    batched=True,
    call=cases.call,
    random=COMPLEX,
    contested=CONTESTED,
)
_TIMED_REAL = replace(
    _TIMED,
    sizes=Sizes(
        cpu="10000:64,1000:1000,1000:1024,1000:1009,250:4096,2^16,1000000,2^20,2^22,1024x1024",
        gpu="2^20:64,65536:1000,65536:1024,65536:1009,16384:4096,2^20,2^24,4096x4096",
    ),
    roofline=Sizes(cpu="1000:1024", gpu="65536:1024"),
    random=REAL,
    contested=None,
)
FFT = Family(
    name="fft",
    operations=(_FFT, _RFFT),
    checks=checks,
    benchmarks={"fft": _TIMED, "rfft": _TIMED_REAL},
    kernels={
        "fft/group": Compiled(shown="fft", strided=True),
        "fft/cosine": Compiled(strided=True),
        "fft/direct": Compiled(strided=True),
    },
)
