"""A kernel's integers, packed in a struct."""

from __future__ import annotations

import numpy as np
import pytest

from portable_gpu.codegen.integers import pack_integers
from portable_gpu.codegen.signature import Parameter, arguments, parameters

TEXT = """
#define ROW(i) x[(i) * row + START]
#define START start
#define OTHER parts
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void work(__global float *x, const long row, float alpha, uint start, short unused, uint parts)
{
    if (row) { ROW(1) = alpha; }
}

__kernel void rest(__global float *x, long row)
{
    ROW(0) = 0;
}
"""


def test_what_a_body_reads_is_declared_in_it() -> None:
    """By itself or in a macro that it uses; neighbours keep what they are."""
    result = pack_integers(TEXT)
    head = result.index("void work(")
    assert result.index("typedef struct {") < result.index("__kernel") < head
    body = result[head : result.index("__kernel void rest")]
    assert "(__global float *x, float alpha, const work_integers_t integers)\n{\n" in body
    assert [line.strip() for line in body.splitlines()[2:4]] == [
        "long row = integers.row; (void)row;",
        "uint start = integers.start; (void)start;",
    ]
    assert body.count("integers.") == 2
    assert result.endswith(TEXT[TEXT.index("__kernel void rest") :])


def test_their_places_are_names() -> None:
    text = pack_integers(TEXT)
    assert parameters(text, "work") == (
        Parameter("x", None),
        Parameter("alpha", np.float32),
        Parameter("row", np.int64, True),
        Parameter("start", np.uint32, True),
        Parameter("parts", np.uint32, True),
        Parameter("padding_uint", np.uint32, True),
        Parameter("unused", np.int16, True),
        Parameter("padding_ushort", np.uint16, True),
    )
    result = arguments(
        text, "work", {"row": 3, "parts": 2, "unused": -1}, ["x"], ["start", "alpha"]
    )
    assert result.buffers == (0,)
    assert result.scalars == (("start", np.uint32), (1, np.float32))
    place, dtype = result.integers or (0, np.dtype([]))
    assert (place, dtype.itemsize) == (2, 24)  # as a compiler lays them out
    passed = result.passed((7, 0.5))
    assert passed[1] == np.float32(0.5)
    assert passed[2].tolist() == (3, 7, 2, 0, -1, 0)
    assert sorted(passed) == [1, 2]


@pytest.mark.parametrize("missing", ["row", "parts"])
def test_all_of_them_are_to_be_given(missing: str) -> None:
    constants = {"row": 3, "parts": 2, "unused": 0, "start": 1}
    del constants[missing]
    with pytest.raises(LookupError, match="kernel work takes"):
        arguments(pack_integers(TEXT), "work", constants, ["x"], ["alpha"])
