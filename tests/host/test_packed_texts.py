"""Kernels of packed triangles and of matrices of different sizes, for recorded devices."""

from __future__ import annotations

import pytest

from portable_gpu.dtypes import element
from portable_gpu.ops.factor import packed, ragged
from portable_gpu.ops.factor.packed import block_rows, packed_size, rows_of
from portable_gpu.targets import DEVICE_CLASSES, example_target


@pytest.mark.parametrize("target", [item.name for item in DEVICE_CLASSES])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_texts(target: str, dtype: str) -> None:
    result = example_target(target)
    for module in (packed, ragged):
        for text in module.typical_texts(result, element(dtype)):
            kernel = text.name.split("/")[1].removeprefix("cpu_").removeprefix("ragged_")
            names = [item.name for item in text.parameters(kernel)]
            assert ("table" in names) == (module is ragged)


def test_sizes() -> None:
    assert [rows_of(size) for size in (0, 1, 2, 3, 6)] == [0, 1, None, 2, 3]
    huge = 3_000_000_001
    assert rows_of(packed_size(huge)) == huge
    assert rows_of(packed_size(huge) + 1) is None
    assert block_rows(300) == [(0, 128), (128, 256), (256, 300)]
