"""Compare random attention on NVIDIA's matrix units, run from its PTX, with NumPy.

    python tools/random_attention.py SEED COUNT [--seconds 600] [--backward]

Extents, heads, masks, dtypes, distances of rows and policies are drawn; the kernels are compiled
for SM 80 and 90 and emulated.  With --backward these are gradients.  It prints
each case that is wrong, and exits with 1 if there is one.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "emulated")]

from emulator.device import Emulator  # noqa: E402
from emulator.memory import Fault  # noqa: E402
from test_attention import check, drawn_case  # noqa: E402
from test_attention_backward import check as check_gradients  # noqa: E402
from test_attention_backward import drawn_case as drawn_gradients  # noqa: E402


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="Compare random attention with NumPy's.")
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--seconds", type=float, default=1e9, help="end after so many")
    parser.add_argument("--backward", action="store_true", help="the gradients")
    options = parser.parse_args()
    end, wrong, right = time.monotonic() + options.seconds, 0, 0
    for number in range(options.count):
        if time.monotonic() > end:
            break
        draw = random.Random(f"{options.seed} {number}")
        drawn: tuple[Any, ...] = (drawn_gradients(draw),) if options.backward else drawn_case(draw)
        by_warps = options.backward or hasattr(drawn[1], "warps")
        sm = draw.choice(("sm_80", "sm_90")) if by_warps else "sm_90"
        gpu = replace(Emulator.of(sm, late=draw.random() < 0.5), races=by_warps)
        try:
            (check_gradients if options.backward else check)(gpu, *drawn)
            right += 1
        except (AssertionError, Fault) as error:
            wrong += 1
            print(f"wrong: {number}: {drawn} {sm}: {str(error)[:300]}", flush=True)
    print(f"{right} right, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
