"""Commands know operations by their records alone, and modules import each other in no circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import portable_gpu as pg
from portable_gpu import linalg
from portable_gpu.bench.cases import cases
from portable_gpu.bench.explained import explained
from portable_gpu.ops.registry import BENCHMARKS, FAMILIES, KERNELS, OPERATIONS
from portable_gpu.targets import example_target
from portable_gpu.tuner.jobs import TUNED
from portable_gpu.tuning.table import TuningTable

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = ("bench", "tuner", "cli", "isa", "selftest", "checking")
KINDS = {family.name for family in FAMILIES}
#: Except for "all": what asks for every operation is called as one of them is.
NAMES = {*OPERATIONS, *KINDS} - {"all"}
#: The operations that a file may name: tables of what other libraries have.
MAY_NAME = {
    "bench/peers.py": {"sum", "dot", "max"},
    "bench/clblast.py": {"sum", "dot", "nrm2", "argmax", "gemv", "gemm"},
    "bench/first_calls_process.py": {"sum", "elementwise", "gemv", "matmul"},
    "bench/frameworks.py": {"gemm"},
    "bench/multi_calls.py": {"cholesky"},  # the name of a row
    "bench/plot.py": {"pad"},  # an option of pictures
    "bench/transforms.py": {"fft", "rfft"},
}
#: Files that call each public function once, so that every name is one of theirs.
_CALLS_OF_ALL = {"bench/first_calls_layers.py"}


# -- names


def named(node: ast.AST) -> Iterator[str]:
    """The operations, families and kernels of families that a constant or a display names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if node.value in NAMES or re.split("[/_]", node.value)[0] in KINDS:
            yield node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for item in node.elts:
            yield from named(item)


_ASKING = ("startswith", "endswith", "removeprefix", "get")


def branches(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines where code depends on a name: comparisons, displays, keys, patterns, prefixes."""
    for node in ast.walk(tree):
        asked: list[ast.AST | None] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            asked = [*node.keys]
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            asked = [node]
        elif isinstance(node, ast.Subscript):
            asked = [node.slice]
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            asked = [*node.args] if node.func.attr in _ASKING else []
        for item in filter(None, asked):
            yield from ((node.lineno, name) for name in named(item))  # type: ignore[attr-defined]


def files_of_commands() -> list[Path]:
    package = ROOT / "portable_gpu"
    commands = [path for folder in COMMANDS for path in sorted((package / folder).rglob("*.py"))]
    return [*commands, *sorted((package / "ops").glob("*.py"))]


@pytest.mark.parametrize("path", files_of_commands(), ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_command_goes_by_an_operations_name(path: Path) -> None:
    name = f"{path.parent.name}/{path.name}"
    if name in _CALLS_OF_ALL:
        pytest.skip("calls every function once")
    result = {name for _, name in branches(ast.parse(path.read_text(encoding="utf-8")))}
    allowed = MAY_NAME.get(name, set())
    assert result == allowed, "say it in the family's record instead (portable_gpu/ops/family.py)"


@pytest.mark.parametrize(
    "text",
    [
        "if case.operation == 'gemm': pass",
        "if operation in ('sum', 'max'): pass",
        "ORDERED = ('max', 'argmax')",
        "form = {'gemv': 1}",
        "sizes = known['reduce']",
        "if name.startswith('gemm/'): pass",
        "match name:\n  case 'dot': pass",
    ],
)
def test_a_branch_is_seen(text: str) -> None:
    assert list(branches(ast.parse(text)))


# -- circles


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted((ROOT / "portable_gpu").rglob("*.py"))}


def imports(tree: ast.AST) -> Iterator[str]:
    """The package's modules that a module imports, except for the sake of types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module
        else:
            yield from imports(node)


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module (Tarjan, 1972)."""
    result: list[set[str]] = []
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            place = stack.index(name)
            component, stack[place:] = set(stack[place:]), []
            if len(component) > 1:
                result.append(component)

    for name in graph:
        if name not in number:
            visit(name)
    return result


def test_no_circle_of_imports() -> None:
    graph = {
        name: set(imports(ast.parse(path.read_text(encoding="utf-8")))) - {name}
        for name, path in MODULES.items()
    }
    assert circles(graph) == []


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == [{"b", "c"}]


# -- files

#: Modules of the folder ``commands`` of a family.
COMMANDS_FILES = (
    "cases", "catalogue", "checks", "edges", "family", "isa", "ladder", "oracle", "random_sizes",
)  # fmt: skip
#: Other names for what is in api, call, problem, policy, kernels and plan of every family.
OTHER_NAMES = ("run", "product", "problems", "policies", "kernel", "plans")


@pytest.mark.parametrize("name", sorted(KINDS))
def test_families_have_the_same_files(name: str) -> None:
    folder = ROOT / "portable_gpu" / "ops" / name
    assert (folder / "commands" / "family.py").exists()
    modules = {path.stem for path in folder.glob("*.py")}
    assert modules & {*COMMANDS_FILES, *OTHER_NAMES} == set()


# -- records


def test_names_are_unique() -> None:
    every = [operation.name for family in FAMILIES for operation in family.operations]
    assert len(set(every)) == len(every)
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_record_agrees_with_itself(family: object) -> None:
    from portable_gpu.codegen.source import kernel_names
    from portable_gpu.ops.family import Family

    assert isinstance(family, Family)
    operation_names = {operation.name for operation in family.operations}
    assert set(family.benchmarks) <= operation_names
    assert set(family.kernels) <= set(kernel_names())
    others = {item.name for item in FAMILIES} - {
        family.name
    }  # fronts have no record: factor's names them
    assert not {name.partition("/")[0] for name in family.kernels} & others
    for operation in family.operations:
        public = next(
            item for item in (pg.fft, pg.nn, linalg, pg) if operation.name in item.__all__
        )
        assert operation.function is getattr(public, operation.name)
    if family.tuning is not None:
        assert {family.tuning.operation, *family.tuning.grid} <= set(family.benchmarks)
        assert TUNED[family.name] is family.tuning
    shown = {KERNELS[name].shown for name in family.kernels} - {""}
    assert shown <= operation_names
    assert all(BENCHMARKS[name] is benchmark for name, benchmark in family.benchmarks.items())


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name in BENCHMARKS])
def test_the_cases_of_a_benchmark_are_explained(name: str) -> None:
    """``bench --policy`` explains each case with the options of its call."""
    target, table = example_target("nvidia"), TuningTable([])
    explanations = [
        explained(case, target, table) for case in cases(name, ["float32"], None, False)[:2]
    ]
    assert all(item.kernels for item in explanations)
