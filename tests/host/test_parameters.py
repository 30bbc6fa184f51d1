"""Parameters that a family declares: in the text, and as the places of arguments."""

from __future__ import annotations

import re

import numpy as np
import pytest

from portable_gpu.codegen.arguments import arguments
from portable_gpu.codegen.parameters import (
    Parameter,
    buffer,
    head,
    laid_out,
    operand,
    scalars,
    with_structs,
)
from portable_gpu.codegen.source import kernel_folder
from portable_gpu.codegen.specialization import Specialization

WORK = laid_out(
    [
        buffer("float", "x", writes=True, restrict=False),
        *scalars("long", "row"),
        *scalars("float", "alpha"),
        *scalars("uint", "start"),
        *scalars("short", "unused"),
        *scalars("uint", "parts"),
    ]
)
REST = laid_out([buffer("float", "x", writes=True, restrict=False), *scalars("long", "row")])
TEXT = f"""
#define ROW(i) x[(i) * row + START]
#define START start
#define OTHER parts
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void {head("work", WORK)}
{{
    if (row) {{ ROW(1) = alpha; }}
}}

__kernel void {head("rest", REST)}
{{
    ROW(0) = 0;
}}
"""
SPEC = Specialization(
    "test/work", with_structs(TEXT, {"work": WORK, "rest": REST}), (), None, {"work": WORK}
)


def test_families_declare_parameters() -> None:
    heads = re.compile(r"^__kernel\b.*?^{", re.MULTILINE | re.DOTALL)
    undeclared = [
        path.name
        for path in kernel_folder().rglob("*.mako")
        for head in heads.findall(path.read_text())
        if "${kernel(" not in head
    ]
    assert undeclared == []


def test_declarations() -> None:
    shared = buffer("uint", "counters", writes=True, shared=True)
    texts = [str(one) for one in [*operand("f32_t", "x", "x_row"), shared]]
    assert texts == [
        "__global const f32_t *restrict x",
        "long x_offset",
        "long x_row",
        "volatile __global uint *restrict counters",
    ]
    with pytest.raises(KeyError, match="size_t"):
        scalars("size_t", "n")


def test_what_a_body_reads_is_declared_in_it() -> None:
    """By itself or in a macro that it uses; neighbours keep what they are."""
    result = SPEC.text
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
    assert (
        Parameter("x", None, ctype="__global float *"),
        Parameter("alpha", np.float32, ctype="float"),
        Parameter("row", np.int64, True, "long"),
        Parameter("start", np.uint32, True, "uint"),
        Parameter("parts", np.uint32, True, "uint"),
        Parameter("padding_uint", np.uint32, True, "uint"),
        Parameter("unused", np.int16, True, "short"),
        Parameter("padding_ushort", np.uint16, True, "ushort"),
    ) == WORK
    result = arguments(
        SPEC, "work", {"row": 3, "parts": 2, "unused": -1}, ["x"], ["start", "alpha"]
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
        arguments(SPEC, "work", constants, ["x"], ["alpha"])
