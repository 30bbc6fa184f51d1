"""The choice of a convolution's variant against times measured on two devices.  No device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_devices import H200, POCL

from portable_gpu.bench.cases import cases
from portable_gpu.ops.conv.commands.cases import problem_of
from portable_gpu.ops.conv.variants import seconds_alone, variants
from portable_gpu.ops.sizes import parse_sizes
from portable_gpu.ops.variant import best_of
from portable_gpu.targets import detect
from portable_gpu.tuning.table import TuningTable

GPU, CPU = detect(H200), detect(replace(POCL, compute_units=1))
TABLE = TuningTable.shipped()
#: Microseconds of variants on an H200 (driver 580.159.04, bench dispatch --rows conv, 2026-11-27).
#: Few work-items with long sums, results between which there are elements, transposed copies of
#: windows, channels that each have a filter, and transforms of few places of many channels.
TIMES: dict[str, dict[str, dict[str, float]]] = {
    "conv2d": {
        "1x311x3x3x9x91x3x3x3/s2d1g1": {"direct": 1080, "im2col": 25.6, "implicit_gemm": 21.5},
        "1x509x70x94x1/s1d2g1l": {"direct": 182, "im2col": 6.55, "implicit_gemm": 6.64},
        "10x182x6x34x1/s2d2g1l": {"direct": 52.5, "im2col": 6.21, "implicit_gemm": 3.07},
        "4x156x72x19x3x7x7/s3d1g1": {"direct": 643, "im2col": 36.8, "implicit_gemm": 41.9},
        "29x291x10x17x291x5x5/s1d2g291l": {"direct": 24.6, "im2col": 670, "implicit_gemm": 158},
        "20x230x5x141x230x3x3/s3d2g230l": {"direct": 8.79, "im2col": 69.5, "implicit_gemm": 33.5},
        "2x448x8x4x3x12x7x3x3/s1d1g1": {
            "direct": 1737,
            "im2col": 55.8,
            "implicit_gemm": 47.2,
            "fft": 186,
        },
    },
    "conv2d_input": {
        "11x1x19x96x470x5x5/s3d2g1l": {"direct": 2540, "im2col": 17.8, "implicit_gemm": 145},
        "6x6x1x13x233x1x1/s1d1g1": {"direct": 83.2, "im2col": 3.28, "implicit_gemm": 11},
        "14x10x1x14x368x1x3/s3d1g2l": {"direct": 223, "im2col": 9.41, "implicit_gemm": 33.3},
        "1x5x3x79x228x3x5/s1d1g1l": {"direct": 313, "im2col": 17.7, "implicit_gemm": 15.4},
        "29x291x10x17x291x5x5/s1d2g291l": {"direct": 27.1, "im2col": 295, "implicit_gemm": 160},
        "25x142x37x7x142x3x1/s1d1g142": {"direct": 5.81, "im2col": 51.9, "implicit_gemm": 66.8},
        "1x1x46x8x496x5x5/s1d1g1": {
            "direct": 900,
            "im2col": 20.2,
            "implicit_gemm": 53.7,
            "fft": 69.4,
        },
    },
    "conv2d_weight": {
        "1x152x5x13x1/s3d1g1": {"direct": 8.3, "im2col": 4.74, "implicit_gemm": 2.29},
        "11x68x3x27x18x3x7/s1d1g1l": {"direct": 30.2, "im2col": 36.6, "implicit_gemm": 11.2},
        "27x12x15x41x60x3x3/s3d1g1l": {"direct": 25.1, "im2col": 18.8, "implicit_gemm": 11.2},
        "29x291x10x17x291x5x5/s1d2g291l": {"direct": 33.9, "im2col": 709, "implicit_gemm": 680},
        "26x32x3897x32x5/s3d1g32l": {"direct": 12.1, "im2col": 249, "implicit_gemm": 210},
    },
}


@pytest.mark.parametrize("operation", TIMES)
def test_the_choice_is_close_to_the_fastest(operation: str) -> None:
    for size, times in TIMES[operation].items():
        (case,) = cases(operation, ["float32"], parse_sizes(size), False)
        choice = best_of(variants(problem_of(case), GPU, TABLE), GPU).name
        assert times.get(choice, 1e9) <= 1.25 * min(times.values()), (size, choice)


#: Microseconds of variants by PoCL on one core of a Xeon with AVX-512 (2026-11-28, CPU time): rows
#: of few places, products of few rows, results between which there are elements.
CPU_TIMES = {
    "conv2d": {
        "3x64x7x27x9x32x5x3x7/s3d1g32": {"direct": 1233, "im2col": 6980},
        "27x478x1x11x2x1x5/s3d1g1": {"direct": 511, "im2col": 1682},
        "2x350x73x7x2x7x3/s3d1g2": {"direct": 1092, "im2col": 6550},
        "14x32x33x160x1/s1d1g32": {"direct": 85, "im2col": 78, "fft": 763},
        "2x64x6x4x256x1x1/s1d2g32l": {"direct": 138, "im2col": 27, "fft": 467},
        "26x52x11x8x17x2x5x3x1/s2d1g2": {"direct": 5304, "im2col": 18656},
        "1x8x10x9x3x24x5x7x3/s1d1g8l": {"direct": 488, "im2col": 1059, "fft": 427},
        "1x62x16x73x310x3x1/s3d1g62l": {"direct": 479, "im2col": 178},
    },
    "conv2d_input": {
        "10x160x2x32x1/s1d1g32": {"direct": 166, "im2col": 34, "fft": 382},
        "26x32x11x32x5/s3d1g32": {"direct": 374, "im2col": 165},
        "18x128x9x32x7/s1d1g32": {"direct": 433, "im2col": 444, "fft": 198},
        "6x4x102x66x1x3x3/s2d2g1l": {"direct": 630, "im2col": 2458},
        "4x11x139x462x3/s1d1g11l": {"direct": 717, "im2col": 192, "fft": 987},
    },
    "conv2d_weight": {
        "1x4x84x41x4x7x1/s1d1g4l": {"direct": 165, "im2col": 586, "fft": 406},
        "3x64x7x27x9x32x5x3x7/s3d1g32": {"direct": 3273, "im2col": 7377},
        "4x121x97x4x2x3x3/s1d1g1": {"direct": 4072, "im2col": 6968, "fft": 3368},
    },
}


#: The same on a core of an EPYC with AVX-512: gradients of many weights by few places, planes of
#: few places, also of stride 2; then float16, whose results are converted singly, and windows with
#: a stride of 3.
EPYC_TIMES = {
    ("conv2d", "float32"): {
        "1x8x40x4x272x3x1/s2d1g8": {"direct": 75, "im2col": 15},
        "7x32x33x7x32x3x1/s1d1g32": {"direct": 24, "im2col": 230},
        "3x32x33x7x320x3x3/s2d1g32": {"direct": 142, "im2col": 91},
    },
    ("conv2d_weight", "float32"): {
        "3x11x1x3x56x1x3/s1d1g1": {"direct": 23.5, "im2col": 14.7},
        "7x2x12x333x3/s1d1g1l": {"direct": 15.1, "im2col": 11.9},
    },
    ("conv2d", "float16"): {
        "8x1x87x43x22x1x3/s1d1g1": {"direct": 148, "im2col": 561},
        "4x2x58x146x3/s1d1g2": {"direct": 15.8, "im2col": 33.9},
        "32x48x86x63x2x3x5/s3d2g2": {"direct": 14520, "im2col": 9150},
    },
    ("conv2d_input", "float16"): {"4x2x58x146x3/s1d1g2": {"direct": 45.8, "im2col": 26.2}},
}
#: The same on a core of a Zen 5 (2026-11-29): Winograd's tiles of few channels of a group, or of
#: channels far from each other, rows of one tap, many products of few elements.
ZEN5_TIMES = {
    ("conv2d", "float32"): {
        "22x24x9x7x8x3x3/s1d1g8": {"direct": 85, "im2col": 289, "winograd": 252, "fft": 207},
        "9x408x3x7x8x3x3/s1d1g8": {"direct": 156, "im2col": 700, "winograd": 233, "fft": 324},
        "7x310x102x27x1x3x3/s1d1g1l": {"direct": 7901, "im2col": 7882, "winograd": 22776},
        "2x264x124x2x7/s1d1g2": {"direct": 118, "im2col": 81, "fft": 58},
        "1x32x119x122x96x3x3/s3d1g32l": {"direct": 1278, "im2col": 413},
    },
    ("conv2d_input", "float32"): {
        "14x2x6x31x6x3x3/s1d1g1l": {"direct": 41, "im2col": 73, "winograd": 124, "fft": 89},
        "28x4x3152x4x3/s1d1g4l": {"direct": 254, "im2col": 508},
        "9x218x4x3x218x1x1/s1d1g218l": {"direct": 11, "im2col": 71},
    },
    ("conv2d_weight", "float32"): {
        "24x70x46x3x28x3x3/s1d1g2": {"direct": 1253, "im2col": 4075, "winograd": 1670},
    },
}


@pytest.mark.parametrize(
    ("operation", "dtype", "every"),
    [
        *((operation, "float32", every) for operation, every in CPU_TIMES.items()),
        *((*key, every) for key, every in EPYC_TIMES.items()),
        *((*key, every) for key, every in ZEN5_TIMES.items()),
    ],
)
def test_the_choice_of_a_cpu_is_close_to_the_fastest(
    operation: str, dtype: str, every: dict[str, dict[str, float]]
) -> None:
    for size, times in every.items():
        (case,) = cases(operation, [dtype], parse_sizes(size), True)
        choice = best_of(variants(problem_of(case), CPU, TABLE), CPU).name
        assert times.get(choice, 1e9) <= 1.25 * min(times.values()), (size, choice)


@pytest.mark.parametrize(
    ("operation", "size", "products"),
    [
        ("conv2d_input", "64x512x14x14x512x3x3/s2l", "wgmma, large, by work-items"),
        ("conv2d_input", "64x256x56x56x512x1x1/s2l", "wgmma, large, by work-items"),
        (
            "conv2d_weight", "64x64x56x56x64x3x3/l",
            "wgmma, split-k, 64x192, by work-items, 44 parts added",
        ),
    ],
)  # fmt: skip
def test_gradients_by_warpgroups(operation: str, size: str, products: str) -> None:
    """Residues of the stride take one launch, with and without taps; parts of sums are added."""
    (case,) = cases(operation, ["float16"], parse_sizes(size), False)
    choice = best_of(variants(problem_of(case), GPU, TABLE), GPU)
    assert (choice.name, choice.why.rpartition(": ")[2]) == ("implicit_gemm", products)
    assert choice.launches == 1 + ("added" in products)


@pytest.mark.parametrize("operation", ["conv2d", "conv2d_input", "conv2d_weight"])
def test_a_convolution_of_much_work_needs_no_list_for_its_place(operation: str) -> None:
    """The bound that says so is below the estimates of all variants."""
    engine: Any = SimpleNamespace(target=CPU, table=TABLE)  # and no plan, which would list them
    for size in (
        "8x64x56x56x64x1x1",
        "8x64x56x56x64x3x3",
        "8x256x56x56x8x5x5",
        "8x192x231x233x192x31x31/s1d1g192",
    ):
        (case,) = cases(operation, ["float32"], parse_sizes(size), False)
        problem = problem_of(case)
        bound, _ = seconds_alone(problem, engine)
        assert all(bound < one.estimate for one in variants(problem, CPU, TABLE)), size
