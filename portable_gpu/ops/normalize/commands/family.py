"""The record of functions on rows."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

from portable_gpu.ops.family import (
    Benchmark,
    Compiled,
    Family,
    OperationRecord,
    Sizes,
    Typical,
    forward_or_backward,
)
from portable_gpu.ops.normalize.batch import batch_norm
from portable_gpu.ops.normalize.commands import cases, norms
from portable_gpu.ops.normalize.commands.cases import IMAGES, ROWS
from portable_gpu.ops.normalize.commands.catalogue import (
    builder,
    explainer,
    with_channels,
)
from portable_gpu.ops.normalize.functions import group_norm, layer_norm, rms_norm
from portable_gpu.ops.normalize.losses import cross_entropy, mse_loss
from portable_gpu.ops.normalize.norms import batch_geometry, group_geometry, layer_geometry
from portable_gpu.ops.normalize.softmax import log_softmax, softmax
from portable_gpu.runtime.views import Shape

if TYPE_CHECKING:
    from portable_gpu.ops.case import Case

_STATISTICS = frozenset(("stats",))
_SOFTMAX = OperationRecord(
    name="softmax",
    function=softmax,
    explain=explainer("softmax"),
    specializations=builder("softmax"),
    compiled=("float32", "float16"),  # float64 spills 44 bytes on SM 90
    shapes=cases.shapes,
    typical=Typical(((64, 1000),)),
)
_LOG_SOFTMAX = replace(
    _SOFTMAX,
    name="log_softmax",
    function=log_softmax,
    explain=explainer("log_softmax"),
    specializations=builder("log_softmax"),
    compiled=("float32",),
)


def _rows_of_layers(shape: Shape, normalized_shape: Any = None) -> tuple[Shape, frozenset[int]]:
    """Return the shape, and the last axes, by default one, that are normalised together."""
    asked = shape[-1] if normalized_shape is None else normalized_shape
    return shape, layer_geometry(shape, asked).row_axes


def _normalized_shape(case: Case) -> dict[str, int]:
    return {"normalized_shape": case.extents[-1]}


_LAYER_NORM = OperationRecord(
    name="layer_norm",
    function=layer_norm,
    explain=explainer("norm", _STATISTICS, _rows_of_layers),
    specializations=builder("norm", _STATISTICS),
    shapes=norms.shapes,
    options=_normalized_shape,
)
_RMS_NORM = replace(
    _LAYER_NORM,
    name="rms_norm",
    function=rms_norm,
    explain=explainer("norm", frozenset(("rms",)), _rows_of_layers),
)


def _rows_of_channels(shape: Shape, **_options: Any) -> tuple[Shape, frozenset[int]]:
    """Return the shape of images, and the axes that are normalised together: all but channels."""
    return shape, batch_geometry(shape).row_axes


def _rows_of_groups(shape: Shape, num_groups: int | None = None) -> tuple[Shape, frozenset[int]]:
    """Return the shape with an axis of groups of channels, and the axes within each group."""
    geometry = group_geometry(shape, norms.groups_of(shape) if num_groups is None else num_groups)
    return geometry.shape, geometry.row_axes


_BATCH_NORM = OperationRecord(
    name="batch_norm",
    function=batch_norm,
    explain=explainer("norm", _STATISTICS, _rows_of_channels),
    specializations=builder("norm", _STATISTICS),
    extents=4,
    shapes=norms.shapes,
    options=lambda case: {"running_mean": None, "running_var": None, "training": True},
)
_GROUP_NORM = replace(
    _BATCH_NORM,
    name="group_norm",
    function=group_norm,
    explain=explainer("norm", _STATISTICS, _rows_of_groups),
    specializations=with_channels(builder("norm", _STATISTICS)),
    options=lambda case: {"num_groups": norms.groups_of(case.extents)},
)
_CROSS_ENTROPY = OperationRecord(
    name="cross_entropy",
    function=cross_entropy,
    explain=explainer("entropy"),
    specializations=builder("entropy"),
    extents=2,
    shapes=cases.entropy_shapes,
)
_MSE_LOSS = OperationRecord(
    name="mse_loss",
    function=mse_loss,
    explain=explainer("total", frozenset("y"), lambda shape: (shape, frozenset(range(len(shape))))),
    specializations=builder("total", frozenset("y")),
    shapes=lambda case: (case.extents,) * 2,
)
_BENCHMARK = Benchmark(
    sizes=Sizes(cpu="4096x10,1024x1000,64x32768", gpu="2^20x16,8192x4096,2048x32768"),
    layers=Sizes(cpu="2048x1000,2048x1000/backward", gpu="2^14x4096,2^14x4096/backward"),
    flop=lambda case: 5 * prod(case.extents),
    bytes=norms.traffic(2, 3),
    oracle=cases.oracle,
    operands=cases.operands,
    like_numpy=cases.like_numpy,
    form="a shape; along its last axis",
    label="shape",
    variants=forward_or_backward,
    section=lambda case: case.trans,
    call=cases.call,
    random=ROWS,
)
_NORM = replace(
    _BENCHMARK,
    oracle=norms.oracle,
    operands=norms.operands,
    like_numpy=norms.like_numpy,
    call=norms.call,
)
# A row of an image is larger than a cache: it is read for its statistics, and again for the result.
_OF_IMAGES = replace(
    _NORM,
    sizes=Sizes(cpu="8x64x56x56,8x512x7x7", gpu="64x256x56x56,64x2048x7x7"),
    layers=Sizes(cpu="8x64x56x56,8x64x56x56/backward", gpu="64x256x56x56,64x256x56x56/backward"),
    bytes=norms.traffic(3, 5),
    form="batch x channels x height x width",
    label="batch x channels x height x width",
    random=IMAGES,
)
_ENTROPY = replace(
    _BENCHMARK,
    bytes=norms.traffic(1, 2),
    operands=cases.entropy_operands,
    oracle=cases.entropy_oracle,
    like_numpy=cases.entropy_like_numpy,
    form="places x classes",
    label="places x classes",
)
_SQUARES = replace(
    _BENCHMARK,
    flop=lambda case: 3 * prod(case.extents),
    bytes=norms.traffic(2, 3),
    operands=norms.squares_operands,
    oracle=norms.squares_oracle,
    like_numpy=norms.squares_like_numpy,
    form="a shape",
    call=norms.squares_call,
)
NORMALIZE = Family(
    name="normalize",
    operations=(
        _SOFTMAX,
        _LOG_SOFTMAX,
        _LAYER_NORM,
        _RMS_NORM,
        _GROUP_NORM,
        _BATCH_NORM,
        _CROSS_ENTROPY,
        _MSE_LOSS,
    ),
    checks=cases.checks,
    benchmarks={
        "softmax": _BENCHMARK,
        "log_softmax": _BENCHMARK,
        "layer_norm": _NORM,
        "rms_norm": _NORM,
        "group_norm": replace(_OF_IMAGES, bytes=norms.traffic(2, 3)),
        "batch_norm": _OF_IMAGES,
        "cross_entropy": _ENTROPY,
        "mse_loss": _SQUARES,
    },
    kernels={"normalize/rows": Compiled(shown="softmax", folds=True, strided=True)},
)
