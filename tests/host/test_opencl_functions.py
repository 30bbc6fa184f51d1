"""Declarations of OpenCL functions, compared with those of PoCL's header."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from portable_gpu.codegen import names
from portable_gpu.runtime import opencl_functions
from portable_gpu.runtime.opencl_functions import declaring

_ATTRIBUTES = {
    "__cnfn": "const",
    "__purefn": "pure",
    "__conv": "convergent",
    "__ovld": "overloadable",
}
_DECLARATION = re.compile(r"\s*(.*?)\b(\w+)\s*\(([^()]*)\)\s*", re.DOTALL)
_PARAMETER_NAME = re.compile(r"^(.*[\s*])(?!(?:int|uint|long|float|half|double|char)\b)[a-z]\w*$")
_OF_VENDORS = ("amd_", "arm_", "intel_")  # functions that PoCL does not have on CPUs
Overload = tuple[frozenset[str], str, frozenset[str], tuple[str, ...]]


def parsed(text: str) -> dict[str, Counter[Overload]]:
    """The overloads of each function: conditions, result, attributes, types of parameters."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL).replace("\\\n", " ")
    conditions, rest = list[str](), ""
    result: dict[str, Counter[Overload]] = {}
    for line in text.splitlines():
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if directive is None:
            rest += f" {line}"
        elif directive[1] in ("if", "ifdef", "ifndef"):
            conditions.append(f"{directive[1]} {directive[2]}")
        elif directive[1] in ("else", "elif"):
            conditions[-1] += f" {directive[1]} {directive[2]}"
        elif directive[1] == "endif":
            conditions.pop()
        *whole, rest = rest.split(";")
        for item in whole:
            declared(item, conditions, result)
    return result


def declared(text: str, conditions: list[str], found: dict[str, Counter[Overload]]) -> None:
    """Add an overload."""
    attributes = {value for key, value in _ATTRIBUTES.items() if re.search(rf"\b{key}\b", text)}
    for listed in re.findall(r"__attribute__\(\(([^()]*)\)\)", text):
        attributes |= set(listed.split(", "))
    text = re.sub(r"\b__(?:ovld|cnfn|purefn|conv)\b|__attribute__\(\([^()]*\)\)", "", text)
    match = _DECLARATION.fullmatch(text)
    if match is None or any("ifdef __OPENCL_CPP_VERSION__" in item for item in conditions):
        return
    needs = set[str]()
    for item in conditions:
        if item.startswith("ifdef "):
            needs.add(item.removeprefix("ifdef ").strip())
        elif item.startswith("if ") and "||" not in item:
            needs |= set(re.findall(r"\bdefined\((\w+)\)", item))
        elif item != "ifndef _OPENCL_H_" and "CL_VERSION_1_2" not in item:
            needs.add(item)
    overload = (
        frozenset(needs), spelled(match[1]), frozenset(attributes),
        tuple(spelled(_PARAMETER_NAME.sub(r"\1", item.strip())) for item in match[3].split(",")),
    )  # fmt: skip
    found.setdefault(match[2], Counter())[overload] += 1


def spelled(text: str) -> str:
    """A type in one spelling."""
    text = re.sub(r"\bunsigned (int|long)\b", r"u\1", text).replace("*", " * ")
    return " ".join(sorted(text.split()))


@cache
def header() -> dict[str, Counter[Overload]]:
    """The functions of the header of PoCL 3.0."""
    result = importlib.util.find_spec("pocl_binary_distribution")
    if result is None or result.origin is None:
        pytest.skip("PoCL's files are not installed")
    file = Path(result.origin).parent / ".libs" / "share" / "pocl" / "include" / "opencl-c.h"
    if not file.exists():
        pytest.skip("this PoCL has no opencl-c.h")
    return parsed(file.read_text())


def test_overloads_are_those_of_the_header() -> None:
    functions = header()
    known = {name for name in functions if opencl_functions._forms(name)}
    assert known >= set(opencl_functions._FORMS)
    declared = parsed(declaring(" ".join(known)) or "")
    assert declared.keys() == known
    different = [name for name in known if declared[name] != functions[name]]
    assert not different
    assert len(known) > 800
    others = {name for name in functions.keys() - known if not name.startswith(_OF_VENDORS)}
    assert [name for name in others if declaring(f"{name} (x)") is not None] == []
    assert others >= opencl_functions._OTHERS


@pytest.mark.parametrize(
    "text", ["int4 y = shuffle(x, m);", "#define LANE get_sub_group_local_id ()", "y = any(x);"]
)
def test_other_functions_need_the_header(text: str) -> None:
    assert declaring(text) is None


def test_names_of_other_functions_are_free() -> None:
    text = "int length = 3; float all[2]; // shuffle(x, m)"
    assert declaring(text) == f"#line 1\n{text}"


def test_what_the_header_does_not_have_is_unknown() -> None:
    unknown = (
        "convert_float_sat vloada_half vstorea_half_rte vload_half_rte vload5 convert_int5 foo"
    )
    assert declaring(unknown) == f"#line 1\n{unknown}"


def test_functions_of_expressions_are_known() -> None:
    used = names.OF_FLOATS | names.OF_FLOATS_BY_INTEGERS | names.INTEGER_FUNCTIONS | names.TESTS
    assert [name for name in used if name != "ctz" and not opencl_functions._forms(name)] == []


def test_only_what_a_text_names() -> None:
    operand = "// sin(x), in a comment\n#define ROOT sqrt\nfloat f(float x) { return ROOT(x); }\n"
    text = declaring(operand) or ""
    assert set(parsed(text.partition("#line 1\n")[0])) == {"sqrt"}
    assert text.endswith(f"#line 1\n{operand}")
    assert text.count("sqrt(") == 18
