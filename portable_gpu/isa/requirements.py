"""The requirements on every compiled kernel."""

from __future__ import annotations

import re
from collections.abc import Iterator

from portable_gpu.codegen.specialization import Specialization
from portable_gpu.isa.architectures import Occupancy
from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.machines import Machine
from portable_gpu.ops.family import Compiled
from portable_gpu.ops.registry import KERNELS
from portable_gpu.targets import Exchange

#: Waves that must fit the registers of a SIMD, so that one computes while the other waits.
MIN_WAVES = 2
_FOLD_WIDTH = re.compile(r"\w+_subgroup(\d+)\(")
#: The requirements on kernels for which the family states none.
_DEFAULT = Compiled()


def problems(
    spec: Specialization, dtype: str, machine: Machine, kernel: CompiledKernel, occupancy: Occupancy
) -> list[str]:
    """The requirements that a kernel breaks, in words; empty if none.

    Args:
        spec: The text.
        dtype: The element type.
        machine: The GPU.
        kernel: The compiled kernel.
        occupancy: Its resident waves.
    """
    return [
        *_memory(spec, machine, kernel),
        *_registers(kernel, occupancy),
        *_loop(spec, dtype, machine, kernel),
        *_index_arithmetic(spec, dtype, kernel),
        *_exchange(spec, machine, kernel),
    ]


def _memory(spec: Specialization, machine: Machine, kernel: CompiledKernel) -> Iterator[str]:
    if kernel.scratch:
        yield f"scratch memory is {kernel.scratch} bytes"
    if kernel.spills:
        yield f"spills {kernel.spills} {'registers' if machine.architecture.is_amd else 'bytes'}"
    if f"-DWAVEFRONT_SIZE={kernel.wave}" not in spec.options:
        yield f"wave of {kernel.wave}, not what the text was rendered for"
    limit = machine.target.static_local_mem
    if kernel.local > limit:
        yield f"local memory is {kernel.local} bytes, the limit {limit}"


def _registers(kernel: CompiledKernel, occupancy: Occupancy) -> Iterator[str]:
    if not occupancy.waves:
        yield f"no group of {kernel.group_size} fits a compute unit, by its {occupancy.limit}"
    if occupancy.by_registers < MIN_WAVES:
        yield (
            f"{kernel.registers} registers allow {occupancy.by_registers} waves of a SIMD, "
            f"not {MIN_WAVES}"
        )


def _loop(
    spec: Specialization, dtype: str, machine: Machine, kernel: CompiledKernel
) -> Iterator[str]:
    requested = KERNELS.get(spec.name, _DEFAULT)
    if not requested.matrix and requested.fma_share is None:
        return
    if kernel.loop is None:
        yield "no inner loop"
        return
    mix = kernel.loop.mix
    if requested.matrix and not mix.matrix:
        yield "no matrix instruction in the inner loop"
    if requested.fma_share is None:
        return
    if dtype.startswith(("float", "complex")) and not mix.fma:
        yield "no multiply-add in the inner loop"
    one_by_one = machine.architecture.is_amd and not machine.architecture.packs_fma
    if dtype == "float16" and machine.target.dot2 and mix.dot < mix.fma:
        yield f"only {mix.dot} of the inner loop's {mix.fma} multiply-adds are of pairs, not all"
    if dtype in ("float16", "float32") and one_by_one:
        required = requested.fma_share(spec.policy)
        if mix.fma_share < required:
            yield (
                f"{mix.fma_share:.2f} of the inner loop's vector and local memory instructions "
                f"are multiply-adds, not {required:.2f}"
            )


def _index_arithmetic(spec: Specialization, dtype: str, kernel: CompiledKernel) -> Iterator[str]:
    if KERNELS.get(spec.name, _DEFAULT).strided:
        return
    if "float" not in dtype and not dtype.startswith("complex"):
        return  # these may be products of the data, which are integers
    count = kernel.loop.mix.wide_multiply if kernel.loop else 0
    if count:
        yield f"{count} products of 32-bit integers in the inner loop, at a quarter of the rate"


def _exchange(spec: Specialization, machine: Machine, kernel: CompiledKernel) -> Iterator[str]:
    widths = [int(width) for width in _FOLD_WIDTH.findall(spec.text)]
    if not KERNELS.get(spec.name, _DEFAULT).folds or max(widths, default=1) == 1:
        return
    mix, exchange = kernel.mix, machine.target.exchange
    uses_exchange: dict[Exchange, bool] = {
        "wavefront_dpp": mix.dpp > 0,
        "wavefront_lds": mix.lds > 0 and mix.dpp == 0,
        "warp_shuffle": mix.lanes > 0,
    }
    if not uses_exchange[exchange]:
        yield (
            f"lanes do not exchange by {exchange}: "
            f"{mix.dpp} DPP, {mix.lanes} shuffles, {mix.lds} of local memory"
        )
