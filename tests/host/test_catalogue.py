"""Every operation renders for every class, and explains itself, with no device."""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from choosing import reduce_kernel, render_nothing

import portable_gpu as pg
from portable_gpu import linalg
from portable_gpu.codegen.source import kernel_names
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.errors import ArgumentError, DTypeError, UnsupportedError
from portable_gpu.ops.explanation import Explanation
from portable_gpu.ops.reduce.commands.catalogue import problem
from portable_gpu.ops.registry import CATALOGUE, FAMILY_OF, OPERATIONS
from portable_gpu.targets import class_names, example_target

TARGETS = (*class_names(), "nvidia-sm20", "nvidia-sm60")
#: Targets that have every kernel among them, in these dtypes.
SHOWING = ("cpu", "gcn", "generic", "nvidia")
SHOWN = ("float32", "float64", "float16")
#: The job ``front-end`` has all operations of all recorded devices, in dtypes by turns.
CASES = [
    *product(SHOWING, SHOWN),
    *((target, "float32") for target in TARGETS if target not in SHOWING),
    *((target, ("complex64", "int8")[turn % 2]) for turn, target in enumerate(SHOWING)),
]
#: Sizes that each operation takes.
SIZES = {
    "gemm": (300, 200, 100),
    "matmul": (300, 200, 100),
    "gemv": (300, 200),
    "solve_triangular": (300, 200),
    "embedding": (300, 200),
    "embedding_backward": (300, 200),
    **{name: (8, 64, 56, 56) for name, family in FAMILY_OF.items() if family == "sampling"},
    **dict.fromkeys(("batch_norm", "group_norm"), (8, 64, 56, 56)),
    **dict.fromkeys(("conv2d", "conv2d_input", "conv2d_weight"), (2, 16, 14, 14, 32, 3, 3)),
}


@cache
def texts(operation: str, target: str, dtype: str) -> list[Specialization]:
    return CATALOGUE[operation](example_target(target), np.dtype(dtype))


#: Families of real floating numbers only.
FLOATING = ("attention", "conv", "embedding", "normalize", "optim", "random", "sampling")


@pytest.mark.divided
@pytest.mark.parametrize(("target", "dtype"), CASES)
def test_every_operation_renders(target: str, dtype: str) -> None:
    for name in CATALOGUE:
        if name in ("reduce", "elementwise") and dtype == "complex64":
            continue
        if FAMILY_OF[name] in ("factor", "fft") and dtype in ("float16", "int8"):
            continue
        if FAMILY_OF[name] in FLOATING and name != "pad" and dtype in ("complex64", "int8"):
            continue
        specs = texts(name, target, dtype)
        assert specs, name
        assert len({spec.key for spec in specs}) == len(specs), name
        for spec in specs:
            assert "__kernel" in spec.text
            assert "${" not in spec.text
            assert f"-DWAVEFRONT_SIZE={example_target(target).subgroup_size}" in spec.options


def test_every_kernel_is_in_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    render_nothing(monkeypatch)
    shown = {
        spec.name
        for name in CATALOGUE
        for target, dtype in product(SHOWING, SHOWN)
        if dtype != "float16" or FAMILY_OF[name] not in ("factor", "fft")
        for spec in CATALOGUE[name](example_target(target), np.dtype(dtype))
    }
    assert shown == set(kernel_names())


@pytest.mark.divided
@pytest.mark.parametrize("target", TARGETS)
def test_every_operation_explains_itself(target: str) -> None:
    for name in OPERATIONS:
        result = pg.explain(name, *SIZES.get(name, (100_000,)), target=target)
        assert result.path
        assert result.why
        assert result.kernels
        assert set(result.kernels) <= set(kernel_names()), name
        assert name in str(result)
        assert example_target(target).facts.name in result.operation


def test_every_public_operation_is_known() -> None:
    functions = {name for name in pg.__all__ if name[0].islower() and not name.startswith("_")} - {
        "asarray",
        "asnumpy",
        "default_engine",
        "devices",
        "explain",
        "plan",
    }
    assert functions <= set(OPERATIONS)
    assert set(OPERATIONS) <= functions | set(linalg.__all__) | set(pg.fft.__all__) | set(
        pg.nn.__all__
    )
    assert set(OPERATIONS) - {"matmul"} <= set(CATALOGUE)


def test_explanation_says_where_the_policy_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = pg.explain("sum", 1 << 20, target="gcn")
    assert plain.origin == "ReducePolicy.default"
    row = {"kernel": "reduce", "device": "class:gcn", "element": "f32", "shape_class": "any"}
    table = tmp_path / "tuning.json"
    policy = dict(plain.policy) | {"groups_per_unit": 2}
    content = {"format": 1, "rows": [row | {"policy": policy, "evidence": {}}]}
    table.write_text(__import__("json").dumps(content))
    monkeypatch.setenv("PORTABLE_GPU_TUNING", str(table))
    tuned = pg.explain("sum", 1 << 20, target="gcn")
    assert tuned.origin == f"row class:gcn of {table}"
    assert tuned.policy["groups_per_unit"] == 2


def test_several_sums_of_a_value_take_more_vectors_to_a_lift() -> None:
    def unroll(operation: str, *shape: int, target: str = "nvidia", **options: Any) -> object:
        return pg.explain(operation, *shape, target=target, **options).details["unroll"]

    for operation in ("sum", "max", "nrm2", "dot"):
        assert unroll(operation, 1 << 24) == 2
    assert unroll("argmax", 1 << 24) == unroll("sum", 1 << 16, 100, axis=1) == 1
    for dtype in ("float16", "float32", "float64"):  # in one pass, whose sums are not lifted
        assert unroll("var", 1 << 24, dtype=dtype) == 2
    two_passes = {"dtype": "float64", "target": "nvidia-sm86"}
    assert unroll("var", 1 << 24, **two_passes) == 4
    assert unroll("var", 200, 20000, axis=1, **two_passes) == 4
    assert unroll("var", 4096, 4096, axis=1, **two_passes) == 2  # rows share a group
    assert unroll("var", 1 << 16, 32, axis=1, **two_passes) == 2  # a row has few steps
    assert unroll("sum", 1 << 24, dtype="complex64") == 2  # one sum for each real number
    assert unroll("var", 1 << 24, target="generic") == 2  # four would not fit
    assert unroll("var", 1 << 24, target="cpu") == unroll("sum", 1 << 24, target="cpu")


def test_transforms_are_of_all_sizes_or_of_one_axis() -> None:
    both = pg.explain("fft", 64, 96, dtype="complex64", target="cpu")
    assert both.details["lengths"] == [64, 96]
    item = pg.explain("fft", 64, 96, dtype="complex64", target="cpu", axis=0)
    assert item.details["lengths"] == [64]
    stack = pg.explain("rfft", 96, target="cpu", batch=(5, 64))
    assert "5 x 64 x (96)" in stack.operation
    with pytest.raises(DTypeError, match="rfft takes float32, float64; dtype is complex64"):
        pg.explain("rfft", 96, dtype="complex64", target="cpu")


def test_axes_take_different_kernels() -> None:
    def of(axis: int | None) -> Explanation:
        return pg.explain("sum", 4096, 4096, axis=axis, target="nvidia")

    assert of(0).kernels == ("reduce/columns",)
    assert of(1).kernels == ("reduce/rows",)
    assert "parts" in of(None).why
    for target, dtype, passes in (
        ("gcn", "float64", 1), ("rdna", "float64", 2), ("rdna", "float32", 1), ("cpu", "float32", 2)
    ):  # fmt: skip
        result = pg.explain("std", 100, 100, target=target, dtype=dtype)
        assert len(result.kernels) == passes
        assert result.path.endswith("one pass") == (passes == 1)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("sin", 4), {}, r"no operation 'sin'; there are: .*all, any"),
        (("gemm", 4, 4), {}, "takes the sizes m, k and n"),
        (("gemv", 4), {}, "takes the sizes m and n"),
        (("gemv", 4, 4), {"axis": 1}, "gemv takes no option 'axis'"),
        (("gemv", 4, 4), {"trans": "X"}, "trans is 'X'"),
        (("sum", -1), {}, "at least 0"),
        (("cholesky", 4, 4), {}, "takes the size n"),
        (("cholesky", 4), {"batch": (0,)}, "extents of at least 1"),
        (("solve_triangular", 4, 4, 4), {}, "takes the sizes n and m"),
        (("solve_triangular", 4, 4), {"trans": "X"}, "trans is 'X'"),
        (("solve_triangular", 4, 4), {"side": "top"}, "side is 'top'"),
        (("fft", 4, 0), {}, "takes sizes of at least 1"),
        (("fft", 4, 4), {"axis": 2}, "expected -2 to 1"),
        (("rfft", 4), {"batch": (0,)}, "extents of at least 1"),
        (("dot", 4, 4), {}, "dot takes one size"),
        (("argmin", 4, 4), {"axis": (0, 1)}, "argmin takes one axis"),
        (("sum", 4), {"target": "vax"}, "target is 'vax'; known are"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], options: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        pg.explain(*arguments, **{"target": "gcn"} | options)


def test_double_precision_is_needed() -> None:
    with pytest.raises(UnsupportedError, match="double precision"):
        pg.explain("mean", 100, dtype="int32", target="generic")


@pytest.mark.parametrize(
    ("rows", "length", "lanes", "parts"),
    [
        (100_000, 339, 32, 1),
        (2_000, 3_000, 32, 1),
        (1_500, 3_000, 64, 1),
        (200, 9_232, 256, 1),
        (200, 1 << 20, 256, 6),
        (20, 1 << 20, 256, 20),
        (1 << 20, 100, 8, 1),
    ],
)
def test_rows_have_a_sub_group_each_where_there_are_many(
    rows: int, length: int, lanes: int, parts: int
) -> None:
    target = example_target("nvidia-sm90")
    assert target.compute_units == 132
    dtype = np.dtype(np.float32)
    kernel = reduce_kernel(problem("sum", (rows, length), 1, dtype, target), target)
    assert (kernel.form.lanes, kernel.parts) == (lanes, parts)


@pytest.mark.parametrize(
    ("dtype", "columns", "lanes"),
    [("float64", 437, 128), ("float64", 436, 32), ("float64", 3, 4), ("float32", 437, 64),
     ("float32", 436, 32), ("float16", 437, 32), ("complex128", 437, 32)],
)  # fmt: skip
def test_lanes_of_columns_off_the_grid(dtype: str, columns: int, lanes: int) -> None:
    target = example_target("nvidia-sm90")
    kernel = reduce_kernel(problem("sum", (29638, columns), 0, np.dtype(dtype), target), target)
    assert kernel.form.lanes == lanes


@pytest.mark.parametrize(
    ("rows", "columns", "lanes", "parts"),
    [(3, 1 << 20, 256, 1), (8, 154_280, 256, 1), (24, 170_832, 128, 1), (8, 2360, 32, 1),
     (104, 2672, 32, 1), (8192, 8192, 32, 5)],
)  # fmt: skip
def test_columns_of_few_rows_are_not_shared(
    rows: int, columns: int, lanes: int, parts: int
) -> None:
    dtype = np.dtype(np.float32)
    target = example_target("nvidia-sm90")
    kernel = reduce_kernel(problem("sum", (rows, columns), 0, dtype, target), target)
    assert (kernel.form.lanes, kernel.parts) == (lanes, parts)


@pytest.mark.parametrize("operation", ["conv2d", "conv2d_input", "conv2d_weight"])
@pytest.mark.parametrize("channels_last", [False, True])
def test_matrix_units_read_windows_in_pieces(operation: str, channels_last: bool) -> None:
    """Large layers of 3 x 3; other precisions, and filters of one tap, take other variants."""
    sizes, name = (64, 256, 14, 14, 256, 3, 3), "implicit_gemm, in pieces"
    asked = {"padding": 1, "channels_last": channels_last, "target": "nvidia-sm90"}
    chosen = pg.explain(operation, *sizes, **asked, precision="bf16x6")
    assert next(iter(chosen.estimates)) == name
    # Three pieces of two bytes of each element of the two arrays that are read, at least.
    assert chosen.memory[name]["workspace"] >= 6 * (256 * 256 * 9 + 64 * 256 * 14 * 14)
    assert name not in pg.explain(operation, *sizes, **asked).estimates
    few = pg.explain(operation, 8, 256, 14, 14, 256, 1, 1, precision="bf16x6", target="nvidia-sm90")
    assert next(iter(few.estimates)) != name


@pytest.mark.parametrize("target", ["cpu", "nvidia-sm90", "gcn"])
def test_convolutions_explain_workspace_and_bytes_of_all_variants(target: str) -> None:
    """Each has an estimate, those above the limit are left out, and a name stands alone."""
    sizes = 8, 64, 56, 56, 64, 3, 3
    every = pg.explain("conv2d", *sizes, padding=1, target=target)
    assert {"direct", "im2col", "winograd", "fft"} <= every.estimates.keys() == every.memory.keys()
    assert every.memory["direct"]["workspace"] == 0
    minimum = every.details["bytes"]
    assert all(item["moved"] >= minimum for item in every.memory.values())
    text = str(every)
    for name, item in every.memory.items():
        assert f"{name}: estimate" in text
        assert f"workspace {item['workspace']}, moved {item['moved']}" in text
    none = pg.explain("conv2d", *sizes, padding=1, target=target, workspace_limit=0)
    assert "winograd" not in none.estimates
    only = pg.explain("conv2d", *sizes, padding=1, target=target, algo="fft")
    assert list(only.estimates) == ["fft"]
    assert not pg.explain("gemm", 8, 8, 8, target=target).memory
