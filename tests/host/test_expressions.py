"""Users' OpenCL C is checked before it goes into a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from portable_gpu import BinaryOp, Epilogue, Map
from portable_gpu.codegen.epilogue import Stage
from portable_gpu.errors import ArgumentError, ArgumentTypeError

#: Everywhere that an expression is taken.
TAKERS: dict[str, Callable[[Any], object]] = {
    "combine": lambda text: BinaryOp("f", "0", text),
    "identity": lambda text: BinaryOp("f", text, "a + b"),
    "map": Map,
    "expression": lambda text: Epilogue().apply(text),
    "stage": lambda text: Stage("own", text),
}
NO_EXPRESSIONS = [
    "", "  \n", "a; b", "a;", "a) + (b", "(a", "a]", "(a]", "a // b", "a /* b */", "a \\",
    "a \\\n b", "\n#define a 1\n a", "\n%:define a 1\n a", "a ??/\n b", "'a'", 'asm("nop")',
    "a @ b", "a` b", "größe", "a <% b %>", "a\0",
]  # fmt: skip


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("text", NO_EXPRESSIONS)
def test_no_expression(taker: str, text: str) -> None:
    name = {"stage": "expression", "map": "the expression of map"}.get(taker, taker)
    with pytest.raises(ArgumentError, match=rf"^{name} is "):
        TAKERS[taker](text)


@pytest.mark.parametrize("taker", TAKERS)
@pytest.mark.parametrize("value", [None, 3, b"a", ["a"], lambda a: a])
def test_no_text(taker: str, value: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="expected a string"):
        TAKERS[taker](value)


@pytest.mark.parametrize("taker", TAKERS)
def test_expressions(taker: str) -> None:
    for text in ("a", "(a > b) ? a : b", "max(a, b)\n + 1", "a[(int){0}]", "(a, b)", "a % b != c"):
        TAKERS[taker](text)


@pytest.mark.parametrize("name", ["", "two words", "3d", "a-b", "a\\", "größe", "a;b"])
def test_no_identifier(name: str) -> None:
    with pytest.raises(ArgumentError, match="name is"):
        BinaryOp(name, "0", "a + b")


@pytest.mark.parametrize("name", ["x\\", "two\nlines", "a ??/", "a\0"])
def test_no_label(name: str) -> None:
    with pytest.raises(ArgumentError, match="name is"):
        Epilogue().apply("v + 1", name=name)


@pytest.mark.parametrize(
    ("stages", "arrays"),
    [("relu", ()), ((), [1]), (("relu",), ()), ((Stage("a", "v + e", "row"),), ()), ((), (1,))],
)
def test_an_epilogue_made_by_hand(stages: Any, arrays: Any) -> None:
    with pytest.raises((ArgumentError, ArgumentTypeError)):
        Epilogue(stages, arrays)


def test_spreads() -> None:
    for wrong, error in (
        ("diagonal", ArgumentError), (None, ArgumentTypeError), (1, ArgumentTypeError),
        (["row"], ArgumentTypeError),
    ):  # fmt: skip
        with pytest.raises(error, match="per is"):
            Epilogue().bias([1.0], per=wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="bias: array is None"):
        Epilogue().bias(None)


def test_names_of_arrays() -> None:
    stages = Epilogue().apply("(v - mean) * scale", mean=1.0, scale=2.0).relu()
    assert stages.stages[0].reads == ("mean", "scale")
    assert stages.arrays == (1.0, 2.0)
    for name in ("v", "row", "e", "e0", "e0_row", "R", "exp", "value_t", "a b", "float4"):
        with pytest.raises(ArgumentError, match="the name of an array is"):
            Epilogue().apply("v", **{name: 1.0})
    with pytest.raises(ArgumentError, match="give all by name"):
        Epilogue().apply("v + e + a", 1.0, a=2.0)
    with pytest.raises(ArgumentTypeError, match="a is None"):
        Epilogue().apply("v + a", a=None)
