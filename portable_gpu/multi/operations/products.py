"""Products on a group: gemm, gemv and matmul.

Each axis of the operands has a letter, as in ``numpy.einsum``.  An axis of the result (``m``, ``n``
or an axis of a batch) is cut into blocks, which the devices compute by themselves::

    | A 0 |         | C 0 |        blocks of rows; each device has B
    | A 1 |  x  B = | C 1 |

If an operand is in blocks along ``k``, the blocks' products are added by a fixed tree.  With
``out=`` the result is in its blocks, or on each device if ``out`` is replicated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import pyopencl as cl

from portable_gpu.dtypes import is_float16_like
from portable_gpu.errors import ArgumentError
from portable_gpu.multi import collectives
from portable_gpu.multi.array import GroupArray, GroupBlock
from portable_gpu.multi.member import Member
from portable_gpu.multi.operations import runs
from portable_gpu.multi.operations.host_arrays import as_whole, compute_on_host, in_parts
from portable_gpu.multi.operations.host_products import HostProduct, compute_in_tiles, fits
from portable_gpu.multi.operations.operands import (
    Cut,
    blocks_of,
    check_kind,
    check_out,
    check_target,
    compute_on_each,
    compute_on_one,
    copies_of,
    on_device,
    operand,
    recorded_kernels,
    refuse,
)
from portable_gpu.ops import gemm as gemm_family
from portable_gpu.ops import gemv as gemv_family
from portable_gpu.ops.elementwise import elementwise
from portable_gpu.ops.gemm.binding import result_dtype
from portable_gpu.ops.gemm.packed.sharing import packed_once, shared_operand
from portable_gpu.runtime.engine import Engine

if TYPE_CHECKING:
    from portable_gpu.multi.group import DeviceGroup

#: Computes a product of blocks, given these, the block of the result or ``None``, and the engine.
_Product = Callable[[Any, Any, Any, Any], Any]


def gemm(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Compute a product; the arguments are those of :func:`portable_gpu.gemm`.

    Returns:
        For arrays of the group a :class:`GroupArray`; for arrays of NumPy one of NumPy.
    """
    refuse(arguments, "epilogue")
    options = {n: arguments[n] for n in ("alpha", "beta", "trans_a", "trans_b", "precision")}

    def product(a: Any, b: Any, out: Any, engine: Any) -> Any:
        return gemm_family.gemm(a, b, out=out, engine=engine, queue=_queue(engine), **options)

    letters = "mk" if arguments["trans_a"] == "N" else "km"
    others = "kn" if arguments["trans_b"] == "N" else "nk"
    a, b = operand(group, arguments["a"], "a"), operand(group, arguments["b"], "b")
    if a.ndim != 2 or b.ndim != 2:
        return _on_one(group, product, a, b)  # which raises the error
    return _product(group, product, a, b, (letters, others, "mn"), arguments)


def gemv(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Compute a product; the arguments are those of :func:`portable_gpu.gemv`.

    Returns:
        As :func:`gemm`.
    """
    options = {name: arguments[name] for name in ("alpha", "beta", "trans")}

    def product(a: Any, x: Any, out: Any, engine: Any) -> Any:
        is_narrow = is_float16_like(result_dtype(a.dtype, x.dtype))
        if is_narrow and out is not None and out.dtype == np.float32:
            column, result = x.reshape(-1, 1), out.reshape(-1, 1)
            gemm_family.gemm(
                a, column, alpha=options["alpha"], trans_a=options["trans"], out=result,
                engine=engine,
            )  # fmt: skip
            return out
        return gemv_family.gemv(a, x, out=out, engine=engine, **options)

    letters = "mk" if arguments["trans"] == "N" else "km"
    a, x = operand(group, arguments["a"], "a"), operand(group, arguments["x"], "x")
    if a.ndim != 2 or x.ndim != 1:
        return _on_one(group, product, a, x)
    return _product(group, product, a, x, (letters, "k", "m"), arguments)


def matmul(group: DeviceGroup, arguments: Mapping[str, Any]) -> Any:
    """Compute a product; the arguments are those of :func:`portable_gpu.matmul`.

    Returns:
        As :func:`gemm`.
    """
    refuse(arguments, "epilogue")
    precision = arguments["precision"]

    def product(a: Any, b: Any, out: Any, engine: Any) -> Any:
        return gemm_family.matmul(
            a, b, out=out, precision=precision, engine=engine, queue=_queue(engine)
        )

    a, b = operand(group, arguments["a"], "a"), operand(group, arguments["b"], "b")
    batch = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: max(a.ndim, b.ndim, 2) - 2]
    letters = (batch + "mk")[-a.ndim :] if a.ndim > 1 else "k" * a.ndim
    others = (batch + "kn")[-b.ndim :] if b.ndim > 1 else "k" * b.ndim
    result = batch + ("m" if a.ndim > 1 else "") + ("n" if b.ndim > 1 else "")
    if not a.ndim or not b.ndim:
        return _on_one(group, product, a, b)
    return _product(group, product, a, b, (letters, others, result), arguments)


def _queue(engine: Engine) -> cl.CommandQueue | None:
    """Return the argument ``queue=`` of a block's product.

    Calls with ``queue=`` are not repeated ones, which have the packing of both operands recorded.
    """
    return None if shared_operand() is None else engine.queue


def _product(
    group: DeviceGroup,
    product: _Product,
    a: Any,
    b: Any,
    letters: tuple[str, str, str],
    arguments: Mapping[str, Any],
) -> Any:
    """Compute a product in blocks.

    Args:
        group: The group.
        product: The kind of product.
        a, b: The operands.
        letters: The axes of ``a``, ``b`` and the result.
        arguments: Those of the public function.
    """
    of_a, of_b, of_result = letters
    out = arguments["out"]
    on_host = not any(isinstance(x, GroupArray) for x in (a, b, out))
    check_kind(group, out, on_host)
    if out is None and arguments.get("beta"):
        raise ArgumentError(f"beta is {arguments['beta']} and there is no out; pass out=")
    extents = _extents((a, of_a), (b, of_b))
    if extents is None or (on_host and (0 in extents.values() or not of_result)):
        return _on_one(group, product, a, b, out if on_host else None)
    shape, dtype = tuple(extents[letter] for letter in of_result), result_dtype(a.dtype, b.dtype)
    is_wide = is_float16_like(dtype) and out is not None and out.dtype == np.float32
    check_out(out, shape, np.dtype(np.float32) if is_wide else dtype, {"a": a, "b": b})
    letter = _letter(a, b, out, letters, extents)
    if letter is None:

        def whole(a: Any, b: Any, out: Any, engine: Any) -> Any:
            return product(a, b, out, engine)

        return compute_on_each(group, whole, {"a": a, "b": b}, out)
    cut = _cut(group, letter, ((out, of_result), (a, of_a), (b, of_b)), extents)
    if on_host:
        result: Any = np.empty(shape, dtype) if out is None else out
        cut = cut._replace(axis=of_result.index(letter))
        reads_out = out is not None and arguments.get("beta", 0) != 0
        if _is_of_matrices(letters) and not reads_out:
            tiled = _in_tiles(product, (a, of_a), (b, of_b), result, letter, cut)
            if fits(group, tiled) and compute_in_tiles(group, tiled):
                return result
        reads = []
        for x, of_x in ((a, of_a), (b, of_b)):
            axis = _axis_in(x, of_x, letter, extents)
            reads.append(as_whole(group, x) if axis is None else in_parts(x, axis))

        def enqueue(blocks: Sequence[Any], target: Any, engine: Any) -> None:
            product(blocks[0], blocks[1], target, engine)

        with _packing(group, letters, letter, cut):
            compute_on_host(group, cut, reads, result, enqueue, reads_result=reads_out)
        return result
    operands = [_blocks(group, x, of_x, letter, cut, extents) for x, of_x in ((a, of_a), (b, of_b))]
    if letter == "k":
        return _sum_of_products(group, product, operands, cut, shape, dtype)
    axis = of_result.index(letter)
    waits = any(isinstance(x, np.ndarray) for x in (a, b))
    length = runs.run_length(cut.bounds) if _on_cpus(group) and _is_of_matrices(letters) else 1
    if length > 1:
        axes = [_axis_in(x, of_x, letter, extents) for x, of_x in ((a, of_a), (b, of_b))]
        joined = [*map(runs.BlockOperand, operands, axes)]
        reads_out = out is not None and arguments.get("beta", 0) != 0
        with _packing(group, letters, letter, cut):
            blocks = runs.compute_runs(
                group, cut._replace(axis=axis), length, joined, product, out,
                reads_out=reads_out, waits=waits,
            )  # fmt: skip
        if out is not None:
            return out
        return GroupArray(group, shape, blocks[0].array.dtype, axis, blocks)
    outs = None if out is None else blocks_of(out, cut._replace(axis=axis))

    def work(member: Member, number: int) -> GroupBlock:
        left, right = (on_device(group, member, x[number]) for x in operands)
        target = None if outs is None else outs[number]
        check_target(member, target)
        with recorded_kernels(member, number):
            result = product(left, right, target, member.engine)
        return GroupBlock(
            *cut.range(number), member, member.count(result) if outs is None else result
        )

    with _packing(group, letters, letter, cut):
        blocks = group.for_blocks(cut.members, work, waits=waits)
    if out is not None:
        return out
    return GroupArray(group, shape, blocks[0].array.dtype, axis, blocks)


def _packing(
    group: DeviceGroup, letters: tuple[str, str, str], letter: str, cut: Cut
) -> AbstractContextManager[None]:
    """Let CPUs pack the operand that all blocks of a product of matrices need once."""
    if _on_cpus(group) and _is_of_matrices(letters) and len(cut.members) > len({*cut.members}):
        return packed_once("b" if letter == "m" else "a")
    return nullcontext()


def _on_cpus(group: DeviceGroup) -> bool:
    return all(engine.target.is_cpu for engine in group.engines)


def _is_of_matrices(letters: tuple[str, str, str]) -> bool:
    return sorted(letters[0] + letters[1]) == ["k", "k", "m", "n"]


def _on_one(group: DeviceGroup, product: _Product, a: Any, b: Any, out: Any = None) -> Any:
    """Compute a product that is not cut, of arrays of NumPy."""
    a, b = (x.asnumpy() if isinstance(x, GroupArray) else x for x in (a, b))
    return compute_on_one(group, lambda engine: product(a, b, out, engine))


def _in_tiles(
    product: _Product, a: tuple[Any, str], b: tuple[Any, str], result: Any, letter: str, cut: Cut
) -> HostProduct:
    """Return a product of matrices, of which the operand that has the letter is cut."""
    (blocks, of_x), (panels, others) = (a, b) if letter in a[1] else (b, a)

    def compute(block: Any, panel: Any, tile: Any, engine: Any) -> None:
        left, right = (block, panel) if letter in a[1] else (panel, block)
        product(left, right, tile, engine)

    return HostProduct(
        blocks, of_x.index(letter), panels, 1 - others.index("k"), result, cut, compute
    )


def _sum_of_products(
    group: DeviceGroup,
    product: _Product,
    operands: list[list[Any]],
    cut: Cut,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
) -> GroupArray:
    """Add the products of the blocks of ``k``; those of 16-bit floats in float32."""
    wide = np.dtype(np.float32) if is_float16_like(dtype) else dtype

    def work(member: Member, number: int) -> GroupBlock:
        left, right = (on_device(group, member, x[number]) for x in operands)
        result = member.empty(shape, wide)
        with recorded_kernels(member, number):
            product(left, right, result, member.engine)
        return GroupBlock(*cut.range(number), member, result)

    waits = any(isinstance(x[0], np.ndarray) for x in operands)
    total = collectives.all_reduce(group, group.for_blocks(cut.members, work, waits=waits))
    if wide == dtype:
        return total
    copies = []
    for block in total.blocks:
        with block.member.named_errors():
            rounded = elementwise("x", x=block.array, dtype=dtype, engine=block.member.engine)
        copies.append((block.member, block.member.count(rounded)))
    return collectives.replicated(group, copies)


def _extents(*operands: tuple[Any, str]) -> dict[str, int] | None:
    """Return the extent of each letter; ``None`` if the operands do not fit each other."""
    extents: dict[str, int] = {}
    for x, letters in operands:
        for letter, extent in zip(letters, x.shape, strict=True):
            known = extents.setdefault(letter, extent)
            if known == 1 and letter.isupper():
                extents[letter] = extent
            elif known != extent and not (extent == 1 and letter.isupper()):
                return None
    return extents


def _letter(
    a: Any, b: Any, out: Any, letters: tuple[str, str, str], extents: Mapping[str, int]
) -> str | None:
    """Return the axis that is cut; ``None`` if each device computes the whole product."""
    if isinstance(out, GroupArray):
        return None if out.axis is None else letters[2][out.axis]
    axes = [
        of_x[x.axis]
        for x, of_x in ((a, letters[0]), (b, letters[1]))
        if isinstance(x, GroupArray) and x.axis is not None
        if x.shape[x.axis] == extents[of_x[x.axis]]  # it does not broadcast
    ]
    of_result = [letter for letter in axes if letter in letters[2]]
    if axes:
        return (of_result or axes)[0]
    if any(isinstance(x, GroupArray) for x in (a, b)):
        return None
    batch = [letter for letter in letters[2] if letter.isupper() and extents[letter] > 1]
    return batch[0] if batch else max(letters[2], key=lambda letter: extents[letter])


def _cut(
    group: DeviceGroup,
    letter: str,
    arrays: Sequence[tuple[Any, str]],
    extents: Mapping[str, int],
) -> Cut:
    """Return the blocks along an axis: those of the first array that is cut so, or new ones.

    Args:
        group: The group.
        letter: The axis.
        arrays: ``out`` or ``None``, and the operands, with their axes.
        extents: The extent of each axis.
    """
    for x, letters in arrays:
        is_cut = isinstance(x, GroupArray) and x.axis is not None and letters[x.axis] == letter
        if is_cut and x.shape[x.axis] == extents[letter]:
            return Cut(x.axis, x.bounds, collectives.owners_of(group, x.blocks))
    sizes = [x.nbytes for x, letters in arrays[1:] if letter in letters]
    packs = _on_cpus(group) and letter in "mn" and {*"mn"} <= {*arrays[0][1]}
    min_extent = runs.LEAST_ROWS_ON_CPUS if packs else 1
    bounds = group.bounds(extents[letter], max(sizes), min_extent=min_extent)
    return Cut(0, bounds, group.owners(len(bounds) - 1))


def _blocks(
    group: DeviceGroup, x: Any, letters: str, letter: str, cut: Cut, extents: Mapping[str, int]
) -> list[Any]:
    """Return what each block reads of an operand: its part of the axis, or all of it."""
    axis = _axis_in(x, letters, letter, extents)
    if axis is None:
        return copies_of(group, x, cut)
    if isinstance(x, GroupArray) and (x.axis, x.bounds) != (axis, tuple(cut.bounds)):
        x = group.broadcast(x)
    return blocks_of(x, cut._replace(axis=axis))


def _axis_in(x: Any, letters: str, letter: str, extents: Mapping[str, int]) -> int | None:
    """Return the operand's axis of a letter; ``None`` if it has none or broadcasts there."""
    axis = letters.find(letter)
    return axis if axis >= 0 and x.shape[axis] == extents[letter] else None
