"""Imports of calls: no modules of the commands, and few modules of the call's family."""

from __future__ import annotations

import subprocess
import sys

#: Calls each family, as users do, and prints the modules that only commands should import.
CALLS = """
import re, sys
import numpy as np
import portable_gpu as pg

COMMANDS = re.compile(
    r"portable_gpu\\.(ops\\.(\\w+\\.)*commands\\b|ops\\.(case|family|ladder|registry|sizes)$"
    r"|(bench|checking|cli|isa|selftest|tuner)\\b)"
)

def imported():
    return sorted(filter(COMMANDS.match, sys.modules))

print(imported())
a = np.eye(8, dtype=np.float32)
modules = set()
sys.setprofile(lambda frame, event, value: modules.add(str(frame.f_globals.get("__name__"))))
pg.sum(a)
sys.setprofile(None)
print(*sorted(name for name in modules if name.startswith("portable_gpu.ops.reduce")))
pg.gemv(a, a[0])
pg.matmul(a, a)
pg.elementwise("x + x", x=a)
pg.linalg.cholesky(a)
pg.fft.fft(a[0])
print(imported())
pg.explain("sum", 8)
print(len(imported()) > 9)
"""


def test_calls_import_nothing_of_the_commands() -> None:
    done = subprocess.run([sys.executable, "-c", CALLS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, reduce, *others = done.stdout.splitlines()
    assert [first, *others] == ["[]", "[]", "True"]
    # From the public function to the text: api, call, problem, variants, policy, kernels, plan.
    assert 0 < len(reduce.split()) <= 7, reduce
