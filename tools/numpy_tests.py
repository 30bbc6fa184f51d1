"""NumPy's own tests of the functions that portable_gpu has too, run with portable_gpu's.

``python tools/numpy_tests.py [pytest's options]`` runs the tests of ``numpy/_core/tests`` that may
call ``np.sum``, ``np.matmul`` and so on, with portable_gpu's in their place.  A call that asks for
what portable_gpu does not have goes to NumPy (``not_offered``).  A test is

* passed, if it called portable_gpu and passed;
* not applicable, if portable_gpu offers none of what it asked for, with the reason;
* different, if it failed for a reason that ``DIFFERENT`` gives;
* failed otherwise: then the exit code is 1.

Tests that call none of the functions are not counted.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.dtypes import element
from portable_gpu.errors import DTypeError

NAMES = (
    "sum", "prod", "min", "max", "mean", "std", "var", "any", "all", "argmin", "argmax",
    "count_nonzero", "dot", "vdot", "matmul",
)  # fmt: skip

#: Tests that are expected to fail, by a pattern of their names, and why.
DIFFERENT = (
    (
        r"TestNonarrayArgs::test_(mean|std|var)$|TestUfunc::test_sum$|test_dot_errstate",
        "no floating-point warnings: a kernel cannot tell of NaN and overflow",
    ),
    (
        r"test_dot_out_mem_overlap|TestMethods::test_matmul_out|TestWritebackIfCopy::test_dot_out",
        "out= shares memory with an input: refused, where NumPy makes a copy",
    ),
    (
        r"TestWritebackIfCopy::test_arg(max|min)_with_out",
        "out= has exactly the result's dtype, where NumPy casts",
    ),
    (r"TestMatmul::test_out_arg", "out= is given by its name only"),
    (r"TestMatmul::test_empty_out", "the error's text is another"),
    (
        r"TestMatmul::test_result_types",
        "C's long and long long are one int64, of one scalar type",
    ),
    (
        r"test_(std|var)_with_mean_keyword_keepdims_false",
        "compares the bits of two ways to a variance, of which portable_gpu's is one",
    ),
)

#: Options of NumPy's functions that portable_gpu's do not have (``axis``: of matmul).
NOT_OFFERED = (
    "where", "initial", "casting", "order", "subok", "signature", "axes", "axis", "mean",
    "correction", "extobj",
)  # fmt: skip
PLAIN = (np.ndarray, np.generic, list, tuple, int, float, complex, bool)
FEW_AXES = "dot of scalars, or of more than two axes: matmul, or *"


def not_offered(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> str | None:
    """Why a call is beyond what portable_gpu has; ``None`` if it should give NumPy's result."""
    for option in NOT_OFFERED:
        if option in options and (option != "axis" or name == "matmul"):
            return f"{option}= is not offered"
    count = 2 if name in ("dot", "vdot", "matmul") else 1
    arrays = list(args[:count])
    for value in arrays:
        if type(value) not in PLAIN and not isinstance(value, np.generic):
            return "a subclass of ndarray, or an object with methods of its own"
    if len(args) + len([o for o in options if o in ("a", "a1", "a2", "b", "x1", "x2")]) < count:
        return "the number of arguments"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            arrays = [np.asarray(value) for value in arrays]
        except Exception:
            return None
    out = options.get("out")
    dtypes = [array.dtype for array in arrays]
    if isinstance(out, tuple):
        return "out= as a tuple"
    if out is not None and type(out) is not np.ndarray:
        return "out= of a subclass of ndarray"
    if out is not None:
        dtypes.append(out.dtype)
    if options.get("dtype") is not None:
        try:
            dtypes.append(np.dtype(options["dtype"]))
        except TypeError:
            return None
    for dtype in dtypes:
        try:
            element(dtype)
        except DTypeError:
            return f"dtype {dtype.type.__name__.rstrip('_')}"
    if name == "dot" and any(not 1 <= array.ndim <= 2 for array in arrays):
        return FEW_AXES
    if name == "vdot" and len({array.shape for array in arrays}) > 1:
        return "vdot of two shapes"
    return None


def reaching(path: Path) -> set[str]:
    """The names in a file of tests whose definitions mention one of the functions, or each other.

    Most of NumPy's tests call none of them and would only take their time.
    """
    uses: dict[str, set[str]] = {}
    module = ast.parse(path.read_text())
    shared = [module, *(node for node in ast.walk(module) if isinstance(node, ast.ClassDef))]
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            uses.setdefault(node.name, set()).update(mentioned(node))
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute):  # self.matmul = np.matmul
                    uses.setdefault(target.attr, set()).update(mentioned(node.value))
                elif isinstance(target, ast.Name) and any(node in item.body for item in shared):
                    uses.setdefault(target.id, set()).update(mentioned(node.value))
    result = {f"np.{name}" for name in NAMES}
    while more := {name for name, its in uses.items() if name not in result and its & result}:
        result |= more
    return result


def mentioned(node: ast.AST) -> set[str]:
    """The names in a piece of text; NumPy's functions, also in quotes, as ``np.sum``."""
    result = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute):
            of_numpy = isinstance(part.value, ast.Name) and part.value.id in ("np", "numpy")
            result.add(f"np.{part.attr}" if of_numpy else part.attr)
        elif isinstance(part, ast.Name):
            result.add(part.id)
        elif isinstance(part, ast.Constant) and part.value in NAMES:
            result.add(f"np.{part.value}")
    return result


class Exchanged:
    """One function: portable_gpu's where a test of NumPy's calls it, else NumPy's."""

    def __init__(self, name: str, tally: Tally) -> None:
        self.numpys: Any = getattr(np, name)
        self.ours: Callable[..., Any] = getattr(pg, name)
        self.name, self.tally = name, tally

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.numpys, attribute)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call portable_gpu's function, or NumPy's where a call is not offered."""
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if ".tests." not in caller and not caller.startswith("test_"):
            return self.numpys(*args, **options)
        reason = not_offered(self.name, args, options)
        self.tally.called(reason)
        return (self.ours if reason is None else self.numpys)(*args, **options)


class Tally:
    """The outcome of each test that called one of the functions (a plugin of pytest)."""

    def __init__(self) -> None:
        self.reasons: dict[str, set[str | None]] = {}
        self.results: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.test = ""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep the tests that may call one of the functions."""
        known: dict[Path, set[str]] = {}
        for item in items:
            if item.path not in known:
                known[item.path] = reaching(item.path)
        items[:] = [item for item in items if item.originalname in known[item.path]]

    def called(self, reason: str | None) -> None:
        """A test calls one of the functions, which is done by NumPy for a ``reason``."""
        self.reasons.setdefault(self.test, set()).add(reason)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note which test runs."""
        self.test = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test."""
        if report.when == "call" or report.failed:
            self.results[report.nodeid] = report.outcome
            if report.failed:
                self.texts[report.nodeid] = report.longreprtext

    def verdict(self, test: str) -> tuple[str, str]:
        """``passed``, ``not applicable``, ``different`` or ``failed``, and why."""
        reasons = self.reasons[test]
        if None not in reasons:
            return "not applicable", min(reason for reason in reasons if reason)
        if self.results.get(test) != "failed":
            return "passed", ""
        name = test.rpartition("/")[2]
        for pattern, reason in DIFFERENT:
            if re.search(pattern, name):
                return "different", reason
        return "failed", self.texts[test].strip().rpartition("\n")[2]

    def report(self) -> int:
        """Print the counts, reasons and failures; returns the exit code."""
        verdicts = {test: self.verdict(test) for test in self.reasons if self.results.get(test)}
        counts = Counter(kind for kind, _ in verdicts.values())
        print(f"{len(self.results)} tests of NumPy {np.__version__} run, {len(verdicts)} of them")
        print("call a function that portable_gpu has:")
        for kind in ("passed", "not applicable", "different", "failed"):
            print(f"{counts[kind]:6d} {kind}")
            why = Counter(reason for its, reason in verdicts.values() if its == kind and reason)
            if kind != "failed":
                for reason, number in why.most_common():
                    print(f"           {number:5d}  {reason}")
        for test, (kind, reason) in verdicts.items():
            if kind == "failed":
                print(f"FAILED {test.rpartition('/')[2]}\n       {reason}")
        return 1 if counts["failed"] else 0


def main(options: list[str]) -> int:
    """Run the tests; returns the exit code."""
    tally = Tally()
    for name in NAMES:
        setattr(np, name, Exchanged(name, tally))
    folder = Path(np.__file__).parent / "_core" / "tests"
    files = [str(path) for path in sorted(folder.glob("test_*.py"))]
    quiet = ["-q", "--no-header", "--no-summary", "--tb=short", "-p", "no:cacheprovider"]
    alone = ["-p", "no:xdist", "-p", "no:randomly", f"--rootdir={folder}", "-c", "/dev/null"]
    pytest.main([*files, *quiet, *alone, "-W", "ignore::pytest.PytestWarning", *options], [tally])
    return tally.report()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
