"""The emulator's results of single instructions, and of groups that wait for groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator.device import decode
from emulator.machine import Grid, Group
from emulator.memory import Fault, Memory
from emulator.text import read

HEAD = """
.entry k(.param .u64 out)
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
    .shared .align 4 .b32 least[1];
    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u64 %rd1, least;
"""
#: Thread 0 puts %r2 into element %r1, the group's own.
TAIL = """
    setp.ne.s32 %p0, %r0, 0;
    @%p0 ret;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd0, %rd2;
    st.global.u32 [%rd3], %r2;
    ret;
}
"""


def run(body: str, out: Any, groups: int = 1, size: int = 64) -> None:
    kernel, memory = read(HEAD + body + TAIL, "k"), Memory()
    address = np.array([memory.map(out.view(np.uint8))], np.uint64).view(np.uint8)
    steps, races = decode(kernel), True
    grid = Grid(kernel, steps, memory, {"out": address}, (groups, 1), size, False, races)
    for x in range(groups):
        Group(grid, (x, 0)).run()


FIRST = """
    setp.ne.s32 %p0, %r0, 0;
    @%p0 bra $after;
    mov.u32 %r3, 1000;
    st.shared.u32 [%rd1], %r3;
$after:
"""
ATOMIC = """
    add.s32 %r4, %r0, 5;
    atom.shared.min.s32 %r5, [%rd1], %r4;
"""


def test_atomics_in_shared_memory() -> None:
    out = np.zeros(2, np.uint32)
    run(FIRST + "bar.sync 0;" + ATOMIC + "bar.sync 0; ld.shared.u32 %r2, [%rd1];", out)
    assert out[0] == 5


def test_an_atomic_that_races_with_a_store_is_seen() -> None:
    with pytest.raises(Fault, match="no barrier between them"):
        run(FIRST + ATOMIC, np.zeros(2, np.uint32))


def test_a_predicate_is_turned_and_turned_back() -> None:
    out = np.zeros(2, np.uint32)
    turns = "xor.pred %p1, %p1, -1; selp.u32 %r3, 1, 0, %p1; add.s32 %r2, %r2, %r3;"
    run("mov.pred %p1, 0; mov.u32 %r2, 0;" + 4 * turns, out)
    assert out[0] == 2


WAIT = """
$again:
    ld.volatile.global.u32 %r3, [%rd0];
    setp.eq.s32 %p1, %r3, 0;
    @%p1 bra $again;
    mov.u32 %r2, 7;
"""


def test_waiting_for_an_earlier_group() -> None:
    """Group 0 does not wait, and puts 7 into the element that group 1 waits for."""
    out = np.zeros(2, np.uint32)
    local = "setp.eq.s32 %p2, %r1, 0; mov.u32 %r2, 7; @%p2 bra $done;"
    run(local + WAIT + "$done:", out, groups=2)
    assert out.tolist() == [7, 7]


def test_waiting_for_ever_is_seen() -> None:
    with pytest.raises(Fault, match="waits for ever for another one"):
        run(WAIT, np.zeros(2, np.uint32))
