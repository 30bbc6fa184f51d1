"""Lane exchange by itself: each mechanism that runs here, at every width and size of value."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from mako.template import Template
from sampling import compile_fast, needs_fp64

from portable_gpu.codegen.operators import Accumulator, Field, sum_accumulator
from portable_gpu.codegen.source import _templates
from portable_gpu.errors import UnsupportedError
from portable_gpu.runtime.engine import Engine
from portable_gpu.targets import Target, detect

_KERNEL = """
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${accumulator.define(acc)}
% if width:
${group.define_subgroup(acc, width)}
% else:
${group.define(acc, G, S)}
% endif
__kernel __attribute__((reqd_work_group_size(${G}, 1, 1))) SUBGROUP_KERNEL
void fold(
% for field in acc.fields:
    __global ${field.ctype} *${field.name},
% endfor
    int repeats)
{
    SUBGROUP_SCRATCH(${acc.name}, scratch, ${G});
    __local ${acc.name} wave[${max(1, G // S)}];
    const size_t i = get_global_id(0);
    ${acc.name} v = {${", ".join(f"{field.name}[i]" for field in acc.fields)}};
    // Twice on end: nothing of the first fold may be in the way of the second.
    for (int k = 0; k < repeats; ++k) {
% if width:
        v = ${acc.name}_subgroup${width}(v, SUBGROUP_SLOT(scratch));
        const bool first = get_local_id(0) % ${width}u == 0;
% else:
        v = ${acc.name}_group(v, SUBGROUP_SLOT(scratch), LOCAL_ARRAY(wave));
        barrier(CLK_LOCAL_MEM_FENCE);
        const bool first = get_local_id(0) == 0;
% endif
        if (!first) {
            v.${acc.fields[0].name} = k + 1;
% for field in acc.fields[1:]:
            v.${field.name} = get_local_id(0) % 5;
% endfor
        }
    }
% for field in acc.fields:
    ${field.name}[i] = v.${field.name};
% endfor
}
"""

_TYPES = {"int": np.int32, "uint": np.uint32, "float": np.float32, "long": np.int64,
          "ulong": np.uint64, "double": np.float64}  # fmt: skip


def lexical(ctype: str) -> Accumulator:
    """The larger of pairs (value, index), as argmax folds: fields of two sizes."""
    text = (
        "const bool better = b.value > a.value || (b.value == a.value && b.index < a.index); "
        "a.value = better ? b.value : a.value; a.index = better ? b.index : a.index;"
    )
    fields = (Field("value", ctype, "-1"), Field("index", "long", "LONG_MAX"))
    return Accumulator("acc_t", fields, lambda width: text)


ACCUMULATORS = {
    "float": sum_accumulator("float"),
    "ulong": sum_accumulator("ulong"),
    "complex double": sum_accumulator("double", is_complex=True),
    "float and long": lexical("float"),
}


@pytest.fixture(autouse=True)
def _quick(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL's optimiser takes seconds for these barriers; nothing here is built by ``engine``."""
    compile_fast(monkeypatch, engine)


def require(engine: Engine, kind: str) -> None:
    if kind == "complex double":
        needs_fp64(engine)


def targets(engine: Engine) -> dict[str, Target]:
    """The device's own mechanism, and each that can be forced on it."""
    facts = engine.target.facts
    result = {engine.target.exchange: engine.target}
    for name in ("gcn", "nvidia-sm20", "intel_gpu", "rdna"):
        try:
            target = detect(facts, name)
        except UnsupportedError:
            continue
        result.setdefault(f"{target.exchange}{target.subgroup_size}", target)
    return result


def fold(
    engine: Engine,
    target: Target,
    acc: Accumulator,
    data: list[Any],
    group: int,
    width: int,
    before: str = "",
) -> list[Any]:
    """Run the fold twice over copies of ``data``; returns what the fields end with.

    ``before`` stands before the text of the kernel.
    """
    text = Template(
        _KERNEL,
        lookup=_templates,
        strict_undefined=True,
        imports=["from portable_gpu.codegen.operators import vector"],
    ).render(acc=acc, G=group, S=target.subgroup_size, width=width, target=target)
    program = cl.Program(engine.context, before + text).build(list(target.options), cache_dir=False)
    buffers = [
        cl.Buffer(
            engine.context,
            cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR,
            hostbuf=np.ascontiguousarray(part),
        )
        for part in data
    ]
    kernel = cl.Kernel(program, "fold")
    kernel(engine.queue, (data[0].size,), (group,), *buffers, np.int32(2))
    results = [np.empty_like(part) for part in data]
    for result, buffer in zip(results, buffers, strict=True):
        cl.enqueue_copy(engine.queue, result, buffer)
    return results


def check(
    engine: Engine, target: Target, kind: str, group: int, width: int, before: str = ""
) -> None:
    acc = ACCUMULATORS[kind]
    rng = np.random.default_rng(width + group)
    lanes = width or group
    data = [rng.integers(0, 50, 2 * group).astype(_TYPES[field.ctype]) for field in acc.fields]
    if kind == "ulong":
        data[0] += np.uint64(1 << 40)  # both halves of a value must arrive
    folded = fold(engine, target, acc, data, group, width, before)
    got = [part.reshape(-1, lanes)[:, 0] for part in folded]
    rows = [part.reshape(-1, lanes) for part in data]
    lane = np.arange(group).reshape(-1, lanes)[:, 1:] % 5
    extra = np.tile(lane, (2, 1))
    if kind == "float and long":
        for row in range(len(rows[0])):
            pairs = list(zip(-rows[0][row], rows[1][row], strict=True))
            once = min(pairs)
            others = [(-1.0, int(e)) for e in extra[row]]
            value, index = min([once, *others])
            assert (got[0][row], got[1][row]) == (-value, index)
        return
    np.testing.assert_array_equal(got[0], rows[0].sum(axis=1) + rows[0].dtype.type(lanes - 1))
    if len(rows) > 1:
        np.testing.assert_array_equal(got[1], rows[1].sum(axis=1) + extra.sum(axis=1))


@pytest.mark.tiny
@pytest.mark.parametrize("kind", ACCUMULATORS)
def test_widths_of_the_devices_own_mechanism(engine: Engine, kind: str) -> None:
    require(engine, kind)
    size = engine.target.subgroup_size
    group = 2 * size if size > 1 else 1
    widths = [1 << k for k in range(size.bit_length())]
    for width in widths if kind == "float" else widths[-1:]:
        check(engine, engine.target, kind, group, width)


@pytest.mark.tiny
@pytest.mark.parametrize("kind", ["ulong", "complex double"])
def test_whole_groups(engine: Engine, kind: str) -> None:
    require(engine, kind)
    size = engine.target.subgroup_size
    for group in (1,) if size == 1 else (size, 4 * size, size * size if size <= 16 else 8 * size):
        check(engine, engine.target, kind, group, 0)


@pytest.mark.path
def test_mechanisms_that_can_be_forced(engine: Engine) -> None:
    for name, target in targets(engine).items():
        if target.subgroup_size == 1 or target is engine.target:
            continue
        size = target.subgroup_size
        wide = "complex double" if engine.target.fp64 else "ulong"
        for kind, width in (("float", size), ("float and long", size // 2), (wide, 0)):
            check(engine, target, kind, 2 * size, width), name


@pytest.mark.path
def test_more_waves_than_lanes(engine: Engine) -> None:
    """Sub-groups of 8 in a group of 256: the first must fold 32 values."""
    if engine.target.exchange not in ("wavefront_lds", "warp_volatile"):
        pytest.skip("a width that this mechanism does not have")
    narrow = replace(engine.target, subgroup_size=8)
    check(engine, narrow, "ulong", 256, 0)


# -- sub-group functions, whatever the device's class


def with_subgroups(engine: Engine) -> Target:
    """A target that exchanges lanes by sub-group functions; skips where there are none."""
    try:
        return detect(engine.target.facts, "intel_gpu")
    except UnsupportedError:
        pytest.skip("the device has no sub-group shuffles")


@pytest.mark.path
def test_widths_that_kernels_ask_for(engine: Engine) -> None:
    target = with_subgroups(engine)
    if not target.requires_subgroup_size or "PORTABLE_GPU_TEST_SUBGROUP_SIZE" in os.environ:
        pytest.skip("the device, or the job, has one width")
    for size in (8, 16, 32, 64) if target.facts.type == "cpu" else (8, 16, 32):
        asked = replace(target, subgroup_size=size)
        for kind, width in (("float", size), ("float and long", size // 2), ("ulong", 0)):
            check(engine, asked, kind, 4 * size, width)


@pytest.mark.path
def test_intels_own_shuffle(engine: Engine) -> None:
    target = with_subgroups(engine)
    if "cl_intel_subgroups" not in target.facts.extensions:
        pytest.skip("the device has no cl_intel_subgroups")
    for kind in ("float", "float and long"):
        check(engine, target, kind, 128, target.subgroup_size, "#undef cl_khr_subgroup_shuffle\n")


@pytest.mark.path
def test_only_the_number_of_subgroups_tells(engine: Engine) -> None:
    """As on Mesa, which lists their shuffles and not cl_khr_subgroups."""
    facts = with_subgroups(engine).facts
    listed = facts.extensions - {"cl_khr_subgroups", "cl_intel_subgroups"}
    target = detect(replace(facts, extensions=listed), "generic")
    assert target.exchange == "khr_subgroup"
    check(engine, target, "float and long", 4 * target.subgroup_size, 0)
