"""Some of the random calls that tools/random_calls.py makes by the thousand.

Those of linalg and of sparse matrices have tests of their own.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import random_functions
from sampling import FORCED

from portable_gpu.runtime.engine import Engine

_FAMILIES = [name for name in random_functions.FAMILIES if name not in ("linalg", "sparse")]


@pytest.mark.parametrize("family", _FAMILIES)
def test_random_calls(family: str, unoptimised: Engine) -> None:
    if missing := random_functions.lacking(family):
        pytest.skip(f"no {missing[0]}")
    few = FORCED or family in random_functions.LAYERS
    for number in range(4 if few else 6):
        call = random_functions.drawn(family, 1, number, 2 if few else 4, unoptimised)
        try:
            random_functions.check(family, call)
        except BaseException as error:
            error.add_note(f"call {number}: {'; '.join(call.descriptions)}")
            raise


def _spoiled(x: Any) -> Any:
    x = np.asarray(x)
    return ~x if x.dtype == bool else (x + x.dtype.type(1)).astype(x.dtype)


@pytest.mark.parametrize("family", ["elementwise", "dot"])
def test_a_wrong_result_is_seen(
    family: str, unoptimised: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = random_functions.values
    monkeypatch.setattr(random_functions, "values", lambda result: _spoiled(values(result)))
    # Some are empty.
    calls = [random_functions.drawn(family, 1, number, 1, unoptimised) for number in range(5)]
    with pytest.raises(AssertionError):
        list(map(partial(random_functions.check, family), calls))
