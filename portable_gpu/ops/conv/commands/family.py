"""The record of convolutions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from portable_gpu.dtypes import PRECISIONS
from portable_gpu.ops.conv import functions
from portable_gpu.ops.conv.commands import cases
from portable_gpu.ops.conv.commands.cases import RANDOM, any_kind
from portable_gpu.ops.conv.commands.catalogue import explain, specializations
from portable_gpu.ops.conv.commands.checks import checks
from portable_gpu.ops.conv.variants import seconds_alone, variants
from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Contested,
    Family,
    OperationRecord,
    Sizes,
)

_CONV2D = OperationRecord(
    name="conv2d",
    function=functions.conv2d,
    explain=explain,
    specializations=partial(specializations, "forward"),
    shapes=cases.shapes,
    options=cases.options,
)
_INPUT = replace(
    _CONV2D,
    name="conv2d_input",
    function=functions.conv2d_input,
    specializations=partial(specializations, "input"),
)
_WEIGHT = replace(
    _CONV2D,
    name="conv2d_weight",
    function=functions.conv2d_weight,
    specializations=partial(specializations, "weight"),
)
_NETWORKS = "{0}:resnet50/b,{0}:resnet50/bl,{0}:mobilenet_v2,{0}:mobilenet_v2/l"
# Layers like ResNet-50's and, depthwise, MobileNet-V2's; the family's name takes all of them.
_BENCHMARK = Benchmark(
    sizes=Sizes(
        cpu="1x3x96x96x64x7x7/s2,4x64x56x56x64x3x3,4x256x56x56x64x1x1,4x256x14x14x256x3x3,"
        "4x96x56x56x96x3x3/w",
        gpu="8x3x96x96x64x7x7/s2,32x64x56x56x64x3x3,8x256x56x56x64x1x1,8x256x14x14x256x3x3,"
        "8x96x56x56x96x3x3/w",
    ),
    more_sizes=Sizes(
        cpu=_NETWORKS.format(8), gpu=",".join(_NETWORKS.format(n) for n in (1, 8, 64))
    ),
    named=cases.NAMED,
    section=cases.section,
    roofline=Sizes(cpu="4x64x56x56x64x3x3", gpu="32x64x56x56x64x3x3"),
    flop=lambda case: cases.problem_of(case).flop,
    bytes=cases.moved_bytes,
    oracle=cases.oracle,
    like_numpy=cases.like_numpy,
    form="N x C x H x W x K x R x S",
    label="images x channels x extents x filters / options",
    by_flop=True,
    variants=cases.variants,
    manners={"float32": PRECISIONS},
    call=cases.call,
    on_matrix_units=True,
    random=RANDOM,
    contested=Contested(
        draw=any_kind,
        problem=cases.problem_of,
        variants=variants,
        nbytes=cases.nbytes,
        scalars=(),
        alone=seconds_alone,
    ),
)
CONV = Family(
    name="conv",
    operations=(_CONV2D, _INPUT, _WEIGHT),
    checks=checks,
    benchmarks=dict.fromkeys(cases.DIRECTIONS, _BENCHMARK),
    kernels={
        "conv/direct": Compiled(shown="conv2d", strided=True),
        "conv/image": Compiled(strided=True),
        "conv/sliding": Compiled(strided=True),
        "conv/sliding_weight": Compiled(strided=True),
        "conv/weight": Compiled(shown="conv2d_weight", strided=True),
    },
)
