"""Kernels of GPUs, forced on PoCL, as its optimiser makes them.

The device tests leave the optimiser out, which takes seconds for a kernel with barriers.  PoCL runs
the work-items of a group one after the other between barriers, and LLVM may have joined a branch
that has barriers with one that follows: then some work-items take the wrong way, in optimised
kernels only.  The job ``pocl-optimised`` of tools/test_matrix.py runs this.

Random calls are those of the number PORTABLE_GPU_TEST_TURN, by default that of the day.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache

import numpy as np
import pyopencl as cl
import pytest
import random_functions
from reference import assert_within, product_bound, wider

from portable_gpu.ops.gemm.commands.catalogue import contiguous
from portable_gpu.ops.gemm.variants import variants
from portable_gpu.ops.variant import Variant
from portable_gpu.runtime.engine import Engine
from portable_gpu.runtime.registry import default_engine

CLASSES = ("gcn", "generic", "nvidia-sm20")
#: Those whose kernels have barriers.  A turn has each once, in one of the classes.
FAMILIES = (
    "reduce", "norm", "sparse", "products", "embedding", "linalg", "attention", "fft",
    "softmax", "conv", "dot", "signal",
)  # fmt: skip
#: m, n, k, operands and templates; sums of k are divided among groups.
PRODUCTS = [
    ((3, 1, 9000), "TT", "gemv/"), ((1, 5, 9000), "NN", "gemv/"), ((40, 24, 2100), "NT", "gemm/"),
]  # fmt: skip


@cache
def forced(device_class: str) -> Engine:
    """Return an engine of a class that shares sums among more groups than PoCL has threads."""
    assert "PYOPENCL_BUILD_OPTIONS" not in os.environ
    engine = Engine(queue=default_engine().queue, device_class=device_class)
    engine.target = replace(engine.target, compute_units=16)
    return engine


def of_each_text(every: list[Variant], templates: str) -> list[Variant]:
    """A variant of each template, without and with a divided sum."""
    kinds: dict[tuple[str, bool, bool], Variant] = {}
    for item in every:
        (name, *_) = (spec.name for spec in item.texts())
        if re.match(templates, name):
            kinds.setdefault((name, "splits" in item.name, "last" in item.name), item)
    return list(kinds.values())


@pytest.mark.parametrize("device_class", CLASSES)
@pytest.mark.parametrize(("shape", "trans", "templates"), PRODUCTS, ids=str)
def test_products(
    shape: tuple[int, int, int], trans: str, templates: str, device_class: str
) -> None:
    gpu, (m, n, k) = forced(device_class), shape
    rng = np.random.default_rng(k)
    a, b = (rng.uniform(-1, 1, extents).astype(np.float32) for extents in ((m, k), (k, n)))
    stored = [
        x if t == "N" else np.ascontiguousarray(x.T) for x, t in zip((a, b), trans, strict=True)
    ]
    expected, bound = wider(a) @ wider(b), product_bound(a, b, np.float32)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    problem = contiguous(m, n, k, "float32", (), *trans)
    for variant in of_each_text(variants(problem, gpu.target, gpu.table), templates):
        if variant.works is not None and not variant.works(gpu):
            continue
        plan, c = variant.bind(gpu), np.full((m, n), np.nan, np.float32)
        buffers = [cl.Buffer(gpu.context, flags, hostbuf=x) for x in (*stored, c)]
        plan.enqueue(gpu.state(), buffers, (0, 0, 0), (1.0, 0.0))
        cl.enqueue_copy(gpu.queue, c, buffers[2])
        try:
            assert_within(c, expected, bound)
        except AssertionError as error:
            error.add_note(variant.name)
            raise


@pytest.mark.parametrize("device_class", CLASSES)
@pytest.mark.parametrize("place", range(len(FAMILIES) // len(CLASSES)))
def test_random_calls(place: int, device_class: str) -> None:
    turn, gpu = int(os.environ["PORTABLE_GPU_TEST_TURN"]), forced(device_class)
    family = FAMILIES[(place * len(CLASSES) + CLASSES.index(device_class) + turn) % len(FAMILIES)]
    if missing := random_functions.lacking(family):
        pytest.skip(f"no {missing[0]}")
    for number in range(2):
        call = random_functions.drawn(family, turn, number, 2, gpu)
        try:
            random_functions.check(family, call)
        except BaseException as error:
            error.add_note(f"call {number} of seed {turn}: {'; '.join(call.descriptions)}")
            raise
