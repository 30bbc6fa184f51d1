"""SciPy's own tests of transforms and convolutions, run with portable_gpu's.

``python tools/scipy_tests.py [pytest's options]`` makes ``portable_gpu.fft.scipy_backend`` SciPy's
global backend, puts portable_gpu's functions in the place of those that SciPy's tests call past
the backends, and runs the tests of ``scipy/fft``, and those of ``scipy/signal`` that convolve or
correlate.  A call that asks for what portable_gpu does not have goes to SciPy (``not_offered``).
A test is

* passed, if it called portable_gpu and passed;
* not applicable, if portable_gpu offers none of what it asked for, with the reason;
* different, if it failed for a reason that ``DIFFERENT`` gives;
* failed otherwise: then the exit code is 1.

Tests that call none of the functions are not counted.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.fft
import scipy.fft._helper
import scipy.fft._pocketfft
import scipy.signal

import portable_gpu as pg
from portable_gpu.fft.backend import ScipyBackend
from portable_gpu.fft.transforms import TRANSFORMS

#: Functions that are not transforms, by the module whose tests call them.
HELPERS = ("next_fast_len", "prev_fast_len")
FILES = (
    "fft/tests/test_basic.py", "fft/tests/test_backend.py", "fft/tests/test_helper.py",
    "fft/tests/test_multithreading.py", "fft/tests/test_real_transforms.py",
    "fft/tests/test_fftlog.py", "fft/_pocketfft/tests/test_basic.py",
    "fft/_pocketfft/tests/test_real_transforms.py",
)  # fmt: skip
#: Those of convolutions: the file, which of its tests, and the functions.
SIGNAL = "signal/tests/test_signaltools.py"
CONVOLUTIONS = "onvolve or Correlate"
CONVOLVE = ("convolve", "correlate", "fftconvolve", "oaconvolve")

#: Tests that are expected to fail, by a pattern of their names, and why.
DIFFERENT = (
    (
        r"Test(Next|Prev)FastLen",
        "13 is a fast prime too, and the same lengths are fast for real numbers",
    ),
    (
        r"test_multiprocess",
        "another process has SciPy's own backend, with whose zeros portable_gpu's are compared",
    ),
    (
        r"::test_(invalid_norm|invalid_sizes|no_axes|complex_input|shape_argument_more)",
        "the error has the same type and another text",
    ),
)


def not_offered(args: tuple[Any, ...], options: dict[str, Any]) -> str | None:
    """Why a call is beyond what portable_gpu has; ``None`` if it should give SciPy's result."""
    arrays = [*args[:2], *(options[name] for name in ("x", "in1", "in2") if name in options)]
    for x in arrays:
        try:
            dtype = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
        except Exception:
            return None
        if isinstance(dtype, np.dtype) and dtype.char in "gG":
            return "long doubles"
    return None


class Exchanged:
    """One function: portable_gpu's, in the place of SciPy's."""

    def __init__(self, scipys: Any, ours: Callable[..., Any], tally: Tally) -> None:
        self.scipys, self.ours, self.tally = scipys, ours, tally

    def __getattr__(self, attribute: str) -> Any:
        return getattr(self.scipys, attribute)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call portable_gpu's function, or SciPy's where a call is not offered."""
        reason = not_offered(args, options)
        self.tally.called(reason)
        return (self.ours if reason is None else self.scipys)(*args, **options)


class Tally:
    """The outcome of each test that called one of the functions (a plugin of pytest)."""

    def __init__(self) -> None:
        self.reasons: dict[str, set[str | None]] = {}
        self.results: dict[str, str] = {}
        self.texts: dict[str, str] = {}
        self.test = ""

    def called(self, reason: str | None) -> None:
        """A test calls one of the functions, which is done by SciPy for a ``reason``."""
        self.reasons.setdefault(self.test, set()).add(reason)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Give the tests of convolutions portable_gpu's functions, by the names they call."""
        for module in {item.module for item in items if isinstance(item, pytest.Function)}:
            if not module.__name__.endswith("test_signaltools"):
                continue
            for name in CONVOLVE:
                ours = getattr(pg.signal, name)
                setattr(module, name, Exchanged(getattr(scipy.signal, name), ours, self))

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
        for pattern, reason in DIFFERENT:
            if re.search(pattern, test):
                return "different", reason
        return "failed", self.texts[test].strip().rpartition("\n")[2]

    def report(self) -> int:
        """Print the counts, reasons and failures; returns the exit code."""
        verdicts = {test: self.verdict(test) for test in self.reasons if self.results.get(test)}
        counts = Counter(kind for kind, _ in verdicts.values())
        print(f"{len(self.results)} tests of SciPy {scipy.__version__} run, {len(verdicts)} of")
        print("them call a function that portable_gpu has:")
        for kind in ("passed", "not applicable", "different", "failed"):
            print(f"{counts[kind]:6d} {kind}")
            why = Counter(reason for its, reason in verdicts.values() if its == kind and reason)
            if kind != "failed":
                for reason, number in why.most_common():
                    print(f"           {number:5d}  {reason}")
        for test, (kind, reason) in verdicts.items():
            if kind == "failed":
                print(f"FAILED {test}\n       {reason}")
        return 1 if counts["failed"] or not counts["passed"] else 0


class Counted(ScipyBackend):
    """The backend, which notes what it is asked for."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(TRANSFORMS)
        self.tally = tally

    def __ua_function__(
        self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """See the protocol of uarray."""
        if method.__name__ in TRANSFORMS:
            reason = not_offered(args, kwargs)
            self.tally.called(reason)
            if reason is None:  # not by super(), which leaves refused calls to SciPy
                return TRANSFORMS[method.__name__](*args, **kwargs)
        return NotImplemented


def put_in_place(tally: Tally) -> None:
    """Have SciPy's tests call portable_gpu."""
    scipy.fft.set_global_backend(Counted(tally))
    scipy.fft.register_backend("scipy")  # for what that leaves: it is no longer the default
    inner: Any = scipy.fft._pocketfft
    for name, function in TRANSFORMS.items():
        if hasattr(inner, name):
            setattr(inner, name, Exchanged(getattr(inner, name), function, tally))
    for name in HELPERS:
        for module in (scipy.fft, scipy.fft._helper):
            its = getattr(module, name)
            if not isinstance(its, Exchanged):
                setattr(module, name, Exchanged(its, getattr(pg.fft, name), tally))


def main(options: list[str]) -> int:
    """Run the tests; returns the exit code."""
    folder = Path(scipy.__file__).parent
    files = [str(folder / name) for name in FILES if (folder / name).exists()]
    if not files:
        print("this SciPy has no tests")
        return 1
    tally = Tally()
    put_in_place(tally)
    quiet = ["-q", "--no-header", "--no-summary", "--tb=short", "-p", "no:cacheprovider"]
    alone = ["-p", "no:xdist", "-p", "no:randomly", f"--rootdir={folder}", "-c", "/dev/null"]
    common = [*quiet, *alone, f"--confcutdir={folder}", *options]
    pytest.main([*files, *common], [tally])
    pytest.main([str(folder / SIGNAL), "-k", CONVOLUTIONS, *common], [tally])
    return tally.report()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
