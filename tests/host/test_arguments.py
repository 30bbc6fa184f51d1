"""The places of arguments, and parameters that a host can pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from recorded_devices import RECORDED
from sampling import dealt
from signatures import assert_passable

from portable_gpu.codegen.arguments import Arguments, arguments
from portable_gpu.codegen.parameters import buffer, scalars
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import DTypeError, UnsupportedError
from portable_gpu.ops.registry import CATALOGUE
from portable_gpu.targets import Target, detect

SPEC = Specialization(
    "test/work",
    "",
    (),
    kernels={
        "work": [
            buffer("ushort", "x_in"),
            *scalars("const long", "x_offset"),
            buffer("uint", "counters", writes=True, shared=True, restrict=False),
            *scalars("float2", "alpha", alias="value_t"),
            *scalars("const uint", "parts"),
        ]
    },
)


@pytest.mark.parametrize("kernel", ["play", "wor", "ork"])
def test_a_kernel_that_is_not_there(kernel: str) -> None:
    with pytest.raises(LookupError, match=f"declares no kernel {kernel}"):
        SPEC.parameters(kernel)


def test_arguments_go_by_name() -> None:
    result = arguments(
        SPEC, "work", {"parts": 3}, ["counters", "x_in"], ["alpha", "x_offset"], ["x_offset"]
    )
    scalars = ((3, np.complex64), (1, np.uint64))
    assert result == Arguments(((4, np.uint32(3)),), (2, 0), scalars)


def test_buffers_that_stay() -> None:
    counters = object()
    result = arguments(
        SPEC, "work", {"parts": 3}, ["x_in"], ["alpha", "x_offset"], bound={"counters": counters}
    )
    assert (result.buffers, result.bound) == ((0,), ((2, counters),))


@pytest.mark.parametrize(
    ("constants", "buffers", "scalars"),
    [
        ({}, ["counters", "x_in"], ["alpha", "x_offset"]),
        ({"parts": 3, "more": 1}, ["counters", "x_in"], ["alpha", "x_offset"]),
        ({"parts": 3, "x_in": 1}, ["counters"], ["alpha", "x_offset"]),
        ({}, ["counters", "x_in", "parts"], ["alpha", "x_offset"]),
        ({"parts": 3}, ["counters", "x_in"], ["alpha", "x_offset", "alpha"]),
    ],
)
def test_arguments_that_do_not_fit(
    constants: dict[str, int], buffers: list[str], scalars: list[str]
) -> None:
    with pytest.raises(LookupError, match="kernel work takes x_in, x_offset, counters, alpha"):
        arguments(SPEC, "work", constants, buffers, scalars)


@pytest.mark.divided
@pytest.mark.parametrize("turn", range(4))
def test_texts_declare_what_a_host_can_pass(turn: int) -> None:
    """A quarter of the operations on a device, in a dtype; ``front-end`` does it for all."""
    dtypes = ("float32", "complex128", "int8", "float16")
    for place, (facts, _) in enumerate(RECORDED.values()):
        if place % 4 == turn:
            for spec in texts(detect(facts), *dealt(dtypes, place // 4 + place, 1), place // 4 % 4):
                assert_passable(spec)


def texts(target: Target, dtype: str, first: int) -> Iterator[Specialization]:
    for build in list(CATALOGUE.values())[first::4]:
        with suppress(DTypeError, UnsupportedError):  # float functions; no double precision
            yield from build(target, np.dtype(dtype))
