"""Shapes of a GPU's passes: where numbers are stored in local memory, and lengths of chirps."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from portable_gpu.dtypes import dtype_of, element
from portable_gpu.ops.fft.commands.catalogue import problem
from portable_gpu.ops.fft.decompositions import PassStep, decompositions
from portable_gpu.ops.fft.group import stages_twiddles_in_local_memory
from portable_gpu.ops.fft.grouping import group_shape, group_shapes, real_as_complex
from portable_gpu.ops.fft.kernels import pass_kernels
from portable_gpu.ops.fft.passes import Pass, PassOperand
from portable_gpu.ops.fft.policy import GroupFftPolicy
from portable_gpu.ops.fft.shape import GroupShape, LocalLayout
from portable_gpu.ops.fft.tables import chirp_length
from portable_gpu.ops.fft.variants import lines
from portable_gpu.targets import Target, example_target

WARP, BANKS = 32, 32
LINES = 1 << 18  # more than few
H200 = example_target("nvidia")
PAIRED = {"float32": "complex64", "float64": "complex128"}
POLICY = GroupFftPolicy.default(H200, element(dtype_of("complex64")))


def shape(n: int, real: bool = False, turned: bool = False) -> GroupShape:
    """Lines of complex64, or of float32, one after the other; results perhaps side by side."""
    along = PassOperand("complex", n, 1, n)
    rows = along, PassOperand("complex", n, LINES, 1) if turned else along
    if real:
        rows = PassOperand("real", n, 1, n), PassOperand("half", n // 2 + 1, 1, n // 2 + 1)
    pass_ = Pass(n, False, element(dtype_of("float32")), LINES, (), *rows)
    return group_shape(real_as_complex(pass_, POLICY, H200), POLICY, H200)


def accesses(plan: GroupShape) -> Iterator[tuple[LocalLayout, list[int], list[int]]]:
    """PassOperand and slots that a warp's work-items write, or read, at once: of the first warp."""
    warp = range(min(WARP, plan.group))
    for before, after in zip(plan.stages, plan.stages[1:], strict=False):
        for stage, written in ((before, True), (after, False)):
            across = plan.after if stage.number else plan.before
            local = [
                (item % plan.slots, item // plan.slots) if across else divmod(item, plan.items)
                for item in warp
            ]
            for b in range(stage.butterflies):
                scope = [{stage.item: t} for _, t in local]
                numbers = [
                    eval(
                        stage.butterfly(b, plan.items).replace("?", "and").replace(":", "or"), entry
                    )
                    for entry in scope
                ]
                some = [(j, slot) for j, (slot, _) in zip(numbers, local, strict=True)]
                some = [(j, slot) for j, slot in some if j < stage.count]
                N, R = stage.before, stage.radix
                for r in range(R):
                    rows = [
                        j // N * N * R + j % N + r * N if written else j + r * stage.count
                        for j, _ in some
                    ]
                    yield after.layout, rows, [slot for _, slot in some]


def in_one_bank(layout: LocalLayout, rows: list[int], slots: list[int]) -> int:
    """The maximum of addresses in one bank."""
    result = defaultdict(set)
    for row, slot in zip(rows, slots, strict=True):
        place = eval(layout.place("row", "slot").replace("/", "//"), {"row": row, "slot": slot})
        result[place % BANKS].add(place)
    return max(map(len, result.values()), default=0)


@pytest.mark.parametrize(
    ("n", "real", "most"),
    [
        (64, False, 1), (128, False, 1), (256, False, 1), (1024, False, 1), (4096, False, 1),
        (16384, False, 1), (4093, False, 1),
        (1000, False, 2), (3000, False, 2), (100, False, 3), (27, False, 3),
        (512, True, 1), (8192, True, 1),
    ],
)  # fmt: skip
def test_neighbours_find_different_banks(n: int, real: bool, most: int) -> None:
    assert max(in_one_bank(*access) for access in accesses(shape(n, real))) <= most


@pytest.mark.parametrize("n", [256, 512])
def test_so_they_do_where_lanes_are_side_by_side_from_the_exchange_on(n: int) -> None:
    plan = shape(n, turned=True)
    assert (plan.before, plan.after) == (False, True)
    assert max(in_one_bank(*access) for access in accesses(plan)) <= 2


def test_gaps_take_little_room() -> None:
    """Two parts of each number, and gaps of up to half: slots of 48 rows are 72 apart."""
    for n in (12, 24, 48, 96, 360, 1000, 3072):
        assert shape(n).local_numbers <= 3 * shape(n).slots * n, n


@pytest.mark.parametrize(("n", "real", "form"), [(8192, True, "packed"), (512, True, "real")])
def test_real_lines_are_packed_where_runs_are_long(n: int, real: bool, form: str) -> None:
    assert shape(n, real).n == (n // 2 if form == "packed" else n)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_packed_lines_are_not_staged(name: str) -> None:
    """Their text has no way through local memory at the ends."""
    real = element(dtype_of(name))
    policy = GroupFftPolicy.default(H200, element(dtype_of(PAIRED[name])))
    seen = set()
    for n in (6, 8, 16, 32, 64, 100, 128, 256, 1000, 2048, 4096, 8192):
        for batch in (1, 100, 1000, 10_000, 100_000):
            rows = PassOperand("real", n, 1, n), PassOperand("half", n // 2 + 1, 1, n // 2 + 1)
            pass_ = real_as_complex(Pass(n, False, real, batch, (), *rows), policy, H200)
            plan = group_shape(pass_, policy, H200)
            seen.add(pass_.n < n)
            assert pass_.n == n or not (plan.staged_source or plan.staged_target), (n, batch)
    assert seen == {False, True}


@pytest.mark.parametrize(
    ("n", "length"), [(3107, 8192), (4093, 8192), (1531, 4096), (257, 576), (101, 256)]
)
def test_chirps_have_lengths_that_were_fast(n: int, length: int) -> None:
    assert chirp_length(n) == length


@pytest.mark.parametrize(
    ("n", "items", "slots"),
    [(125, 25, 8), (360, 36, 4), (101, 10, 16), (257, 16, 4), (64, 8, 8), (1000, 100, 1)],
)
def test_groups_leave_few_lanes_idle(n: int, items: int, slots: int) -> None:
    assert (shape(n).items, shape(n).slots) == (items, slots)


@pytest.mark.parametrize(("n", "items", "held"), [(4093, 132, 36), (1531, 90, 20)])
def test_work_items_of_large_primes_hold_what_was_fast(n: int, items: int, held: int) -> None:
    assert (shape(n).cyclic, shape(n).items, shape(n).numbers_per_item) == (True, items, held)


@pytest.mark.parametrize("n", [100, 125, 360, 500, 900, 1000, 1009, 2000, 3000, 4093, 16384])
def test_butterflies_step_over_whole_blocks(n: int) -> None:
    plan = shape(n)
    for stage in (*plan.stages[1:], *plan.back[1:]):
        assert stage.layout.even(stage.count), stage


def test_the_way_back_begins_where_the_way_there_ends() -> None:
    for n in (101, 103, 1009, 3107, 4093):
        plan = shape(n)
        assert [s.radix for s in plan.back] == [s.radix for s in reversed(plan.stages)]
        tables = [(s.table, s.roots) for s in (*plan.stages, *plan.back) if s.roots]
        ends = [0, *(at + count for at, count in tables)]
        assert [at for at, _ in tables] == ends[:-1]


@pytest.mark.parametrize(
    ("n", "across", "length"),
    [(23, True, 23), (23, False, 23), (92, False, 92), (391, False, 391), (47, False, 96)],
)
def test_stages_of_primes_in_double_precision(n: int, across: bool, length: int) -> None:
    """Butterflies of primes to 23, but not in convolutions: 46 = 2 x 23."""
    policy = GroupFftPolicy.default(H200, element(dtype_of("complex128")))
    rows = PassOperand("complex", n, LINES, 1) if across else PassOperand("complex", n, 1, n)
    pass_ = Pass(n, False, element(dtype_of("float64")), LINES, (), rows, rows)
    assert group_shape(pass_, policy, H200).length == length


@pytest.mark.parametrize(
    ("n", "lanes", "slots"),
    [(1873, 14, 1), (584, 105, 2), (2048, 287, 4), (1000, 150, 2), (512, 4096, 16)],
)
def test_few_columns_are_few_in_a_group(n: int, lanes: int, slots: int) -> None:
    """So that compute units have some; the first of two passes keeps whole sectors."""
    rows = PassOperand("complex", n, lanes, 1)
    pass_ = Pass(n, False, element(dtype_of("float32")), lanes, (), rows, rows)
    assert group_shape(pass_, POLICY, H200).slots == slots
    first = replace(pass_, twiddle_length=n * lanes)
    assert group_shape(first, POLICY, H200).slots == max(slots, 4)


@pytest.mark.parametrize(
    ("n", "lines", "length"),
    [(239, 1, 512), (239, 200, 512), (239, 4000, 238), (4093, 20, 4092), (101, 1, 100)],
)
def test_few_lines_have_no_large_primes_in_convolutions(n: int, lines: int, length: int) -> None:
    rows = PassOperand("complex", n, 1, n)
    pass_ = Pass(n, False, element(dtype_of("float32")), lines, (), rows, rows)
    assert group_shape(pass_, POLICY, H200).length == length


@pytest.mark.divided
@pytest.mark.parametrize("name", ["complex64", "complex128", "float32", "float64"])
@pytest.mark.parametrize("device", ["nvidia", "nvidia-sm20", "gcn", "rdna", "intel_gpu", "generic"])
def test_groups_are_within_the_limits_of_devices(device: str, name: str) -> None:
    """Work-items and local memory, of any length, and with less of both than the device has.

    Lengths that were beyond them: 9801, 13750 and 15731 in single precision on an H200; 2572
    (real), 7547 and (in double precision) 3697 on AMD's.
    """
    rng, typical = random.Random(f"{device} {name}"), example_target(device)
    dtype = np.dtype(name)
    lengths = {9801, 13750, 15731, 2572, 7547, 3697}
    lengths |= {round(2 ** rng.uniform(1, limit)) for limit in (14.3, 23) for _ in range(16)}
    lengths |= {6714660, 7167273}  # of several passes
    for n in sorted(lengths):
        group, local = rng.choice(((1024, 1.0), (256, 1.0), (128, 0.5), (64, 0.25)))
        target = replace(
            typical,
            max_work_group_size=min(group, typical.max_work_group_size),
            static_local_mem=int(local * typical.static_local_mem),
            local_mem_per_unit=int(local * typical.local_mem_per_unit),
            fp64=True,
        )
        layouts = ((n,), (), None), ((n,), (1000,), None), ((n, 1000), (), 0), ((n, 3), (), 0)
        extents, batch, axis = rng.choice(layouts)
        kind = "c2c" if dtype.kind == "c" else "r2c"
        asked = problem(kind, extents, dtype, batch, axis)
        elem = element(np.dtype("complex128" if asked.real.needs_fp64 else "complex64"))
        policy = GroupFftPolicy.default(target, elem)
        for line, _ in lines(asked):
            result = pass_kernels(target).with_fused_passes(
                decompositions(line, policy.pass_limits, map(str, count())), line, policy, target
            )
            for variant in result:
                assert all(
                    launch_is_possible(pass_steps, policy, target)
                    for pass_steps in variant.launches
                ), f"{n} of {extents} x {batch}: {variant.path}"


def launch_is_possible(
    pass_steps: Sequence[PassStep], policy: GroupFftPolicy, target: Target
) -> bool:
    passes = [pass_step.pass_ for pass_step in pass_steps]
    plans = group_shapes(passes, policy, target)
    return all(
        plan.group <= target.max_work_group_size
        and local_bytes(pass_, plan, target) <= target.static_local_mem
        for pass_, plan in zip(passes, plans, strict=True)
    )


def local_bytes(pass_: Pass, plan: GroupShape, target: Target) -> int:
    """With the roots between two passes."""
    uploaded = stages_twiddles_in_local_memory(pass_, plan, target)
    twists = 2 * plan.twiddles_in_local(pass_.target.form) if uploaded else 0
    return (plan.local_numbers + twists) * pass_.real.itemsize
