"""Random calls of linalg, in random order: within the bounds of the other tests, no input changed.

PORTABLE_GPU_TEST_CALLS=300 makes so many, of every dtype; PORTABLE_GPU_TEST_SEED=1 others.
"""

from __future__ import annotations

import os
import random

import numpy as np
import pytest
from random_linalg import CALLS, Drawn
from sampling import FORCED, computes

from portable_gpu.runtime.engine import Engine

_MANY = int(os.environ.get("PORTABLE_GPU_TEST_CALLS", "0"))
_SEED = os.environ.get("PORTABLE_GPU_TEST_SEED", "0")
_DTYPES = ("float32", "float64", "complex64", "complex128")


@pytest.fixture(params=["workers", "calling thread"] if _MANY else ["workers"])
def chosen(request: pytest.FixtureRequest, engine: Engine, unoptimised: Engine) -> Engine:
    """Return an engine that runs small calls on worker threads, or on the calling thread."""
    if not engine.target.is_cpu or request.param == "workers":
        return unoptimised
    return Engine(engine.device)


def test_random_calls(chosen: Engine) -> None:
    """Half of the calls are like an earlier one, with other values: as loops make them."""
    dtypes = [name for name in _DTYPES if computes(chosen, name)]
    draw = random.Random(_SEED)
    met: list[tuple[int, str]] = []
    for turn in range(_MANY or (3 if FORCED else 5)):
        if met and draw.random() < 0.5:
            which, seed = draw.choice(met[-8:])
        else:
            which, seed = draw.randrange(len(CALLS)), f"{_SEED} {turn}"
            met.append((which, seed))
        call, some = CALLS[which], dtypes if _MANY else [dtypes[which % len(dtypes)]]
        drawn = Drawn(random.Random(seed), np.random.default_rng(turn), chosen, some)
        try:
            call(drawn)
            drawn.check_given()
        except BaseException as error:
            error.add_note(f"call {turn}: {call.__name__}, options of seed {seed!r}")
            raise
