"""Reports of factors that failed late, carried by results that are computed from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import portable_gpu as pg
from portable_gpu.errors import NotPositiveDefiniteError

#: Results that depend on an array, given another one of its shape that has no reports.
DEPENDENT: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda bad, good: pg.sum(bad),
    "product": lambda bad, good: pg.matmul(good, bad),
    "matrix and vector": lambda bad, good: pg.gemv(good, bad[0]),
    "expression": lambda bad, good: pg.elementwise("a + b", a=good, b=bad),
    "operator": lambda bad, good: good - bad,
    "in place": lambda bad, good: good.__iadd__(bad),
    "number": lambda bad, good: 2 * bad,
    "copy": lambda bad, good: bad.astype(np.float64),
    "transform": lambda bad, good: pg.fft.rfft(bad),
    "output": lambda bad, good: pg.sum(bad, axis=0, out=good[0]),
    "packed": lambda bad, good: pg.linalg.packed.pack(bad),
    "update": lambda bad, good: pg.linalg.syrk(bad),
}


def _arrays() -> tuple[Any, Any]:
    bad = pg.linalg.cholesky(pg.asarray(-np.eye(8, dtype=np.float32)))
    return bad, pg.asarray(np.ones((8, 8), np.float32))


@pytest.mark.parametrize("name", DEPENDENT)
def test_results_carry_the_reports_of_inputs(name: str) -> None:
    for _ in range(3):  # the first call, and repeated ones
        with pytest.raises(NotPositiveDefiniteError):
            pg.asnumpy(DEPENDENT[name](*_arrays()))


def test_a_part_that_is_written_leaves_the_report_of_the_whole() -> None:
    for _ in range(2):
        bad, good = _arrays()
        bad[:2] = good[:2]
        with pytest.raises(NotPositiveDefiniteError):
            bad.get()
        pg.asnumpy(good)


def test_a_copy_that_has_begun_is_what_a_check_reads() -> None:
    """Commands that are enqueued after the copy of a report do not count."""
    bad, _ = _arrays()
    (report,) = bad.reports
    report.begin_copy()
    report.values.fill(-1)  # no column has failed
    with pytest.raises(NotPositiveDefiniteError):
        report.check()
