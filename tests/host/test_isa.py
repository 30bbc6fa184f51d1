"""check-isa's readers and requirements, on excerpts of real assembly; needs no compiler.

The excerpts in tests/host/assembly are what clang-19 and ptxas 12.9 made of the library's kernels,
with straight code and kernel arguments cut.  Counts asserted here were made by hand.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from choosing import render_nothing

from portable_gpu.cli import main
from portable_gpu.codegen.reductions import Request, reduction
from portable_gpu.codegen.specialization import Specialization
from portable_gpu.dtypes import bfloat16, element
from portable_gpu.errors import ArgumentError
from portable_gpu.isa import amdgcn, jobs, machines, ptx, select
from portable_gpu.isa.architectures import ARCHITECTURES, occupancy
from portable_gpu.isa.check import CompileJob, CompileResult, problems
from portable_gpu.isa.compilers import Compilers, MissingCompiler, group_size_of, is_bound
from portable_gpu.isa.kernel import CompiledKernel
from portable_gpu.isa.loops import Block, inner_loop, innermost_loops
from portable_gpu.isa.machines import Machine
from portable_gpu.isa.mix import Instruction
from portable_gpu.isa.mix import InstructionKind as Kind
from portable_gpu.ops.gemm.commands.family import required_fma_share
from portable_gpu.ops.gemm.tiled.policy import GemmPolicy
from portable_gpu.ops.reduce.policy import ReducePolicy
from portable_gpu.ops.reduce.problem import analyse
from portable_gpu.ops.reduce.variants import kernels_of
from portable_gpu.targets import example_target
from portable_gpu.tuning.table import PolicyRow

BFLOAT16 = bfloat16()

NVIDIA = example_target("nvidia")
FLOAT = element("float32")
ASSEMBLY = Path(__file__).parent / "assembly"
LARGE = GemmPolicy(128, 128, 16, 8, 8, 8, 8, vector=4)
FLAT = GemmPolicy(16, 128, 16, 2, 4, 8, 8, vector=4)


def text(name: str) -> str:
    return (ASSEMBLY / name).read_text(encoding="utf-8")


def amd(name: str, *changes: tuple[str, str]) -> CompiledKernel:
    """The kernel of an excerpt, some of its text replaced."""
    content = text(name)
    for old, new in changes:
        assert old in content
        content = content.replace(old, new)
    (kernel,) = amdgcn.read(content)
    return kernel


def wgmma(*changes: tuple[str, str]) -> CompiledKernel:
    content, log = text("wgmma_sm_90.ptx"), text("wgmma_sm_90.log")
    for old, new in changes:
        assert old in content + log
        content, log = content.replace(old, new), log.replace(old, new)
    (kernel,) = ptx.read(content, log, 384)
    return kernel


def machine(name: str) -> Machine:
    (result,) = select([name])
    return result


def faults(
    kernel: CompiledKernel,
    on: str = "gfx900-dpp",
    template: str = "gemm/gemm",
    dtype: str = "float32",
    source: str = "",
    policy: GemmPolicy | None = LARGE,
) -> list[str]:
    on_machine = machine(on)
    resident = occupancy(
        on_machine.architecture, kernel.registers, kernel.scalars, kernel.local, kernel.group_size
    )
    spec = Specialization(template, source, on_machine.target.options, policy)
    return problems(spec, dtype, on_machine, kernel, resident)


FOLD = "v = acc_t_subgroup64(v, slot);"

COMPUTES = Kind.VECTOR | Kind.ARITHMETIC


class TestAmd:
    def test_metadata(self) -> None:
        kernel = amd("gemm_gfx900.s")
        assert (kernel.name, kernel.registers, kernel.scalars) == ("gemm", 117, 42)
        assert (kernel.local, kernel.group_size, kernel.wave) == (16640, 256, 64)
        assert (kernel.scratch, kernel.spills, kernel.scalar_spills) == (0, 0, 0)

    def test_inner_loop_of_gemm(self) -> None:
        loop = amd("gemm_gfx900.s").loop
        assert loop is not None
        assert (loop.label, loop.depth) == (".LBB0_5", 2)
        assert (loop.mix.fma, loop.mix.vector, loop.mix.lds) == (64, 66, 4)
        assert loop.mix.fma_share == pytest.approx(64 / 70)
        assert loop.mix.arithmetic_per_memory == pytest.approx(66 / 4)
        assert not loop.mix.loads  # they are in the loop around it

    def test_loads_of_the_whole_kernel(self) -> None:
        assert amd("gemm_gfx900.s").mix.loads == {16: 4}

    def test_inner_loop_of_a_reduction_is_the_deepest_one(self) -> None:
        # .LBB0_38, which folds the groups' parts, has more arithmetic and is nested in nothing.
        loop = amd("sum_gfx900.s").loop
        assert loop is not None
        assert (loop.label, loop.depth) == (".LBB0_10", 3)
        assert loop.mix.loads == {16: 2}

    def test_lane_exchange(self) -> None:
        mix = amd("sum_gfx900.s").mix
        assert (mix.dpp, mix.lanes, mix.lds) == (4, 3, 0)

    def test_a_function_that_is_called_counts_with_its_kernel(self) -> None:
        called = (
            "\nfold:\n\tv_mov_b32_dpp v1, v2 row_mirror\n\ts_setpc_b64 s[30:31]\n.Lfunc_end1:\n"
        )
        kernel = amd("gemm_gfx900.s", ("\t.amdgpu_metadata", f"{called}\t.amdgpu_metadata"))
        assert kernel.mix.dpp == 1
        assert kernel.loop == amd("gemm_gfx900.s").loop

    @pytest.mark.parametrize(
        ("line", "kind", "loads"),
        [
            ("v_fma_f32 v1, v2, v3, v1", COMPUTES | Kind.FMA, 0),
            ("v_mac_f32_e32 v1, v2, v3", COMPUTES | Kind.FMA, 0),
            ("v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]", COMPUTES | Kind.FMA, 0),
            ("v_dual_mov_b32 v1, 0 :: v_dual_fmac_f32 v2, v3, v4", COMPUTES | Kind.FMA, 0),
            ("v_mad_u64_u32 v[0:1], s[0:1], v2, s3, 0", COMPUTES | Kind.WIDE_MULTIPLY, 0),
            ("v_mul_lo_u32 v0, v1, s3", COMPUTES | Kind.WIDE_MULTIPLY, 0),
            ("v_mul_u32_u24_e32 v0, 3, v1", COMPUTES, 0),
            ("v_mad_u32_u24 v0, 3, v1, v2", COMPUTES, 0),
            ("v_dot2_f32_f16 v1, v2, v3, v1", COMPUTES | Kind.FMA | Kind.DOT, 0),
            ("v_dot2c_f32_f16_e32 v1, v2, v3", COMPUTES | Kind.FMA | Kind.DOT, 0),
            (
                "v_dual_mov_b32 v1, 0 :: v_dual_dot2acc_f32_f16 v2, v3, v4",
                COMPUTES | Kind.FMA | Kind.DOT,
                0,
            ),
            ("v_mfma_f32_32x32x1f32 a[0:31], v0, v1, a[0:31]", COMPUTES | Kind.MATRIX, 0),
            ("v_mov_b32_e32 v1, 0", Kind.VECTOR, 0),
            ("v_mov_b32_dpp v1, v2 row_mirror row_mask:0xf", Kind.VECTOR | Kind.DPP, 0),
            ("ds_read_b128 v[0:3], v4 offset:128", Kind.LDS, 0),
            ("ds_bpermute_b32 v0, v1, v2", Kind.LANES, 0),
            ("flat_load_dwordx2 v[0:1], v[2:3]", Kind.GLOBAL, 8),
            ("global_load_b128 v[0:3], v[4:5], off", Kind.GLOBAL, 16),
            ("global_load_d16_u8 v0, v[4:5], off", Kind.GLOBAL, 1),
            ("global_store_dwordx4 v[0:1], v[2:5], off", Kind.GLOBAL, 0),
            ("scratch_load_b32 v0, off, off", Kind.SCRATCH, 0),
            ("buffer_wbinvl1", Kind.NONE, 0),
            ("s_load_dwordx4 s[0:3], s[4:5], 0x0", Kind.NONE, 0),
        ],
    )  # fmt: skip
    def test_instructions(self, line: str, kind: Kind, loads: int) -> None:
        result = amdgcn.instruction(line)
        assert (result.kind, result.loads) == (kind, loads)


class TestPtx:
    def test_log(self) -> None:
        kernel = wgmma()
        assert (kernel.name, kernel.registers, kernel.local) == ("gemm", 159, 163904)
        assert (kernel.scratch, kernel.spills, kernel.wave) == (0, 0, 32)

    def test_group_size_for_ptxas(self) -> None:
        bound = ptx.with_group_size(text("wgmma_sm_90.ptx"), 384)
        assert ".param .u64 gemm_param_0,\n)\n.reqntid 384, 1, 1\n{\n" in bound
        (kernel,) = ptx.read(bound, text("wgmma_sm_90.log"), 384)
        assert kernel == wgmma()

    @pytest.mark.parametrize(("size", "bound"), [(128, False), (256, False), (512, True)])
    def test_groups_with_room_for_all_registers_are_not_bound(self, size: int, bound: bool) -> None:
        policy = replace(ReducePolicy.default(NVIDIA, FLOAT), group_size=size)
        geometry = analyse((1 << 24,), frozenset({0}), [(1,)], (), False)
        fold = reduction(Request("sum", FLOAT, FLOAT, FLOAT))
        (kernel,) = kernels_of(PolicyRow(policy, ""), NVIDIA, fold, geometry, 128)
        spec = kernel.specialization(NVIDIA)
        assert group_size_of(spec) == size
        assert is_bound(spec) == bound

    def test_a_wait_is_part_of_the_loop_around_it(self) -> None:
        loop = wgmma().loop
        assert loop is not None
        assert (loop.label, loop.depth) == ("$L__BB0_22", 2)
        assert loop.mix.matrix == 4

    @pytest.mark.parametrize(
        ("line", "kind", "loads"),
        [
            ("fma.rn.f32 %f1, %f2, %f3, %f1", COMPUTES | Kind.FMA, 0),
            ("mad.lo.s32 %r1, %r2, %r3, %r4", COMPUTES, 0),
            ("mov.u32 %r1, %r2", Kind.VECTOR, 0),
            ("ld.global.nc.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1]", Kind.GLOBAL, 16),
            ("ld.global.v2.u64 {%rd1, %rd2}, [%rd3]", Kind.GLOBAL, 16),
            ("ld.global.u8 %rs1, [%rd3]", Kind.GLOBAL, 1),
            ("cp.async.cg.shared.global [%r1], [%rd1], 16", Kind.LDS | Kind.GLOBAL, 16),
            ("cp.async.cg.shared.global [%r1], [%rd1], 16, %r2", Kind.LDS | Kind.GLOBAL, 16),
            ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1]", Kind.NONE, 0),
            ("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]", Kind.LDS, 0),
            ("st.local.f32 [%rd1], %f1", Kind.SCRATCH, 0),
            ("ld.param.u64 %rd1, [gemm_param_0]", Kind.NONE, 0),
            ("shfl.sync.bfly.b32 %r1, %r2, 16, 31, 0xffffffff", Kind.LANES, 0),
            ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd1}", COMPUTES | Kind.MATRIX, 0),
        ],
    )  # fmt: skip
    def test_instructions(self, line: str, kind: Kind, loads: int) -> None:
        result = ptx.instruction(line)
        assert (result.kind, result.loads) == (kind, loads)


ADD = Instruction("add", COMPUTES)
NOP = Instruction("nop", Kind.NONE)


def block(label: str, targets: str, *instructions: Instruction) -> Block:
    return Block(label, instructions, tuple(targets.split()))


class TestLoops:
    def test_straight_code_has_none(self) -> None:
        assert inner_loop([block("a", "b", ADD), block("b", "", ADD)]) is None

    def test_nested(self) -> None:
        result = innermost_loops(
            [
                block("a", "b"),
                block("b", "c", ADD),
                block("c", "c d", ADD, ADD),
                block("d", "b e", ADD),
                block("e", "e f", ADD),
                block("f", ""),
            ]
        )
        assert [(loop.label, loop.depth, loop.mix.arithmetic) for loop in result] == [
            ("c", 2, 2),
            ("e", 1, 1),
        ]

    def test_a_level_of_nesting_outweighs_some_arithmetic(self) -> None:
        def deepest(flat: int) -> str:
            loop = inner_loop(
                [
                    block("a", "b"),
                    block("b", "b c", ADD, ADD),
                    block("c", "a d", NOP),
                    block("d", "d e", *[ADD] * flat),
                    block("e", ""),
                ]
            )
            assert loop is not None
            return loop.label

        assert deepest(15) == "b"
        assert deepest(17) == "d"

    def test_two_entries(self) -> None:
        result = innermost_loops(
            [block("a", "b c"), block("b", "c", ADD), block("c", "b d", ADD), block("d", "")]
        )
        assert [(loop.label, loop.mix.arithmetic) for loop in result] == [("b", 2)]

    def test_code_that_nothing_reaches_is_no_entry(self) -> None:
        result = innermost_loops(
            [
                block("a", "b"),
                block("dead", "d"),
                block("b", "b c", NOP),
                block("c", "d", ADD),
                block("d", "b e", ADD),
                block("e", ""),
            ]
        )
        assert [(loop.label, loop.mix.arithmetic) for loop in result] == [("b", 2)]


class TestOccupancy:
    @pytest.mark.parametrize(
        ("architecture", "registers", "scalars", "local", "group", "waves", "limit"),
        [
            # Each of AMD's is what LLVM prints as "Occupancy" for a kernel of these figures.
            ("gfx900", 117, 42, 16640, 256, 2, "registers"),
            ("gfx900", 55, 45, 16896, 256, 3, "local memory"),
            ("gfx803", 26, 39, 0, 256, 9, "registers"),
            ("gfx942", 122, 43, 16640, 256, 3, "local memory"),
            ("gfx942", 15, 28, 0, 256, 8, "waves"),
            ("gfx1030", 115, 42, 16640, 256, 8, "registers"),
            ("gfx1030", 50, 47, 16896, 256, 14, "local memory"),
            ("gfx1100", 116, 42, 16640, 256, 12, "registers"),
            ("gfx900", 20, 104, 0, 64, 7, "registers"),
            # CUDA's occupancy calculator: 16, 12 and 64 warps of a multiprocessor.
            ("sm_70", 128, 0, 0, 256, 4, "registers"),
            ("sm_90", 159, 0, 163904, 384, 3, "registers"),
            ("sm_60", 32, 0, 0, 256, 32, "waves"),
        ],
    )
    def test_against_published_calculators(
        self,
        architecture: str,
        registers: int,
        scalars: int,
        local: int,
        group: int,
        waves: float,
        limit: str,
    ) -> None:
        result = occupancy(ARCHITECTURES[architecture], registers, scalars, local, group)
        assert (result.waves, result.limit) == (waves, limit)

    @pytest.mark.parametrize(
        ("architecture", "group", "registers"),
        [("sm_90", 384, 168), ("sm_60", 1024, 64), ("sm_70", 256, 256), ("gfx900", 1024, 64)],
    )
    def test_registers_that_a_group_has_room_for(
        self, architecture: str, group: int, registers: int
    ) -> None:
        limits = ARCHITECTURES[architecture]
        assert limits.registers_of(group) == registers
        assert occupancy(limits, registers, 0, 0, group).waves > 0
        assert (
            occupancy(limits, registers + 1, 0, 0, group).waves
            < occupancy(limits, registers, 0, 0, group).waves
        )

    def test_small_groups_may_fill_a_simd_in_part(self) -> None:
        result = occupancy(ARCHITECTURES["gfx900"], 118, 45, 8704, 64)
        assert (result.waves, result.limit) == (1.75, "local memory")


class TestRequirements:
    def test_good_kernels(self) -> None:
        assert faults(amd("gemm_gfx900.s")) == []
        assert faults(amd("sum_gfx900.s"), template="reduce/rows", source=FOLD) == []
        assert faults(wgmma(), "sm_90", "gemm/wgmma") == []

    def test_scratch(self) -> None:
        (fault,) = faults(amd("scattered_gfx900.s"), template="reduce/columns")
        assert fault == "scratch memory is 260 bytes"

    def test_a_frame_that_nothing_touches_is_no_scratch(self) -> None:
        kernel = amd("scattered_gfx900.s", ("buffer_", "global_"))
        assert faults(kernel, template="reduce/columns") == []

    def test_spills(self) -> None:
        kernel = amd("gemm_gfx900.s", ("vgpr_spill_count: 0", "vgpr_spill_count: 3"))
        assert faults(kernel) == ["spills 3 registers"]
        kernel = wgmma(
            ("0 bytes spill stores, 0 bytes spill", "8 bytes spill stores, 4 bytes spill")
        )
        assert faults(kernel, "sm_90", "gemm/wgmma") == ["spills 12 bytes"]

    def test_stack(self) -> None:
        kernel = wgmma(("0 bytes stack frame", "256 bytes stack frame"))
        assert faults(kernel, "sm_90", "gemm/wgmma") == ["scratch memory is 256 bytes"]

    def test_wave(self) -> None:
        kernel = amd("sum_gfx900.s", ("wavefront_size: 64", "wavefront_size: 32"))
        (fault,) = faults(kernel, template="reduce/columns")
        assert fault == "wave of 32, not what the text was rendered for"

    def test_a_text_for_another_wave(self) -> None:
        on_machine, kernel = machine("gfx1030-lds"), replace(amd("gemm_gfx900.s"), wave=32)
        resident = occupancy(on_machine.architecture, 100, 40, 16640, 256)
        options = machine("gfx900-lds").target.options
        for template in ("gemm/gemm", "gemm/direct"):
            spec = Specialization(template, "", options, LARGE)
            assert problems(spec, "float32", on_machine, kernel, resident) == [
                "wave of 32, not what the text was rendered for"
            ]

    def test_local_memory(self) -> None:
        kernel = amd("gemm_gfx900.s", ("fixed_size: 16640", "fixed_size: 65540"))
        assert "local memory is 65540 bytes, the limit 65536" in faults(kernel)

    def test_registers(self) -> None:
        kernel = amd("gemm_gfx900.s", ("vgpr_count:     117", "vgpr_count:     129"))
        assert faults(kernel) == ["129 registers allow 1 waves of a SIMD, not 2"]

    def test_no_room_for_a_group(self) -> None:
        kernel = wgmma(("Used 159 registers", "Used 190 registers"))
        assert faults(kernel, "sm_90", "gemm/wgmma") == [
            "no group of 384 fits a compute unit, by its registers"
        ]

    def test_too_few_multiply_adds(self) -> None:
        # 9 of 64 become separate multiplications: 55 of 70 are left.
        kernel = amd(
            "gemm_gfx900.s", *((f"v_fma_f32 v{i},", f"v_mul_f32 v{i},") for i in range(1, 10))
        )
        assert faults(kernel) == [
            "0.79 of the inner loop's vector and local memory instructions are multiply-adds, "
            "not 0.85"
        ]

    def test_half_precision_by_one_product_at_a_time(self) -> None:
        kernel = amd("gemm_gfx900.s", ("v_fma_f32 v7,", "v_dot2_f32_f16 v7,"))
        assert faults(kernel, dtype="float16") == []
        assert faults(kernel, "gfx906-dpp", dtype="float16") == [
            "only 1 of the inner loop's 64 multiply-adds are of pairs, not all"
        ]
        pairs = amd("gemm_gfx900.s", ("v_fma_f32", "v_dot2_f32_f16"))
        assert faults(pairs, "gfx906-dpp", dtype="float16") == []

    def test_wide_index_arithmetic(self) -> None:
        kernel = amd("gemm_gfx900.s", ("v_fma_f32 v7,", "v_mul_lo_u32 v7,"))
        fault = "1 products of 32-bit integers in the inner loop, at a quarter of the rate"
        assert fault in faults(kernel, template="gemv/dot_rows")
        assert faults(kernel, template="gemv/dot_rows", dtype="int32") == []
        narrow = amd("gemm_gfx900.s", ("v_fma_f32 v7,", "v_mul_u32_u24 v7,"))
        assert faults(narrow, template="gemv/dot_rows") == []

    def test_no_multiply_add_at_all(self) -> None:
        kernel = amd("gemm_gfx900.s", ("v_fma_f32", "v_mul_f32"))
        assert faults(kernel, dtype="float64") == ["no multiply-add in the inner loop"]
        assert faults(kernel, dtype="int8") == []

    def test_a_flat_tile_is_held_to_its_own_bound(self) -> None:
        assert required_fma_share(LARGE) == 0.85
        assert required_fma_share(FLAT) == pytest.approx(0.95 * 8 / 10)

    def test_no_matrix_instruction(self) -> None:
        kernel = wgmma(("wgmma.mma_async", "wgmma.none"))
        assert faults(kernel, "sm_90", "gemm/wgmma") == ["no matrix instruction in the inner loop"]

    def test_matrix_instructions_of_wavefronts(self) -> None:
        kernel = amd("mfma_gfx90a.s")
        assert (kernel.registers, kernel.local, kernel.group_size) == (100, 32768, 256)
        assert kernel.loop is not None
        assert (kernel.loop.mix.matrix, kernel.loop.mix.lds) == (16, 12)
        assert faults(kernel, "gfx90a-dpp", "gemm/mfma") == []
        none = amd("mfma_gfx90a.s", ("v_mfma_f64_16x16x4f64", "v_fma_f64"))
        assert faults(none, "gfx90a-dpp", "gemm/mfma") == [
            "no matrix instruction in the inner loop"
        ]

    def test_no_loop(self) -> None:
        kernel = replace(amd("gemm_gfx900.s"), loop=None)
        assert faults(kernel) == ["no inner loop"]

    def test_exchange_by_another_mechanism(self) -> None:
        kernel = amd("sum_gfx900.s")
        (fault,) = faults(kernel, "gfx900-lds", "reduce/rows", source=FOLD)
        assert fault.startswith("lanes do not exchange by wavefront_lds: 4 DPP")
        kernel = amd("sum_gfx900.s", ("_dpp", ""), (" quad_perm", " x"), (" row_", " x_"))
        (fault,) = faults(kernel, "gfx900-dpp", "reduce/rows", source=FOLD)
        assert fault.startswith("lanes do not exchange by wavefront_dpp: 0 DPP")

    def test_one_lane_exchanges_nothing(self) -> None:
        source = FOLD.replace("64", "1")
        assert faults(amd("gemm_gfx900.s"), "gfx900-dpp", "reduce/rows", source=source) == []


class TestMachines:
    def test_architecture_selects_both_exchanges(self) -> None:
        assert [m.name for m in select(["gfx900"])] == ["gfx900-dpp", "gfx900-lds"]
        assert len(select([])) == len(machines())

    def test_targets_are_what_the_names_say(self) -> None:
        for machine in machines():
            assert machine.target.subgroup_size == machine.architecture.wave
            exchange = {"dpp": "wavefront_dpp", "lds": "wavefront_lds"}
            expected = exchange.get(machine.name.partition("-")[2], "warp_shuffle")
            assert machine.target.exchange == expected

    def test_no_such_target(self) -> None:
        with pytest.raises(ArgumentError, match="no target 'gfx1'; there are: gfx803-dpp"):
            select(["gfx1"])

    def test_no_such_operation(self) -> None:
        with pytest.raises(ArgumentError, match=r"no operation 'sin'; there are: .*all, any"):
            jobs(select(["sm_70"]), ["sin"])

    def test_jobs_cover_shipped_rows_and_every_shape_class(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        render_nothing(monkeypatch)
        result = [job for job in jobs(select(["sm_90"]), ["gemm"]) if job.dtype == "float32"]
        policies = [job.spec.policy for job in result if job.spec.name == "gemm/gemm"]
        items = {(p.item_m, p.item_n) for p in policies if isinstance(p, GemmPolicy)}
        assert (8, 16) in items  # the H200's measured row of large products
        assert len(policies) >= 6

    def test_every_format_of_wavefronts_is_compiled(self) -> None:
        result = jobs(select(["gfx908", "gfx90a-dpp", "gfx90a-lds"]), ["gemm"])
        mfma = {(j.machine.name, j.dtype) for j in result if j.spec.name == "gemm/mfma"}
        halves = [str(dtype) for dtype in (np.dtype(np.float16), BFLOAT16) if dtype is not None]
        common = ["float32", *halves]
        assert mfma == {
            *(("gfx908-dpp", dtype) for dtype in common),
            *(("gfx90a-dpp", dtype) for dtype in [*common, "float64"]),
        }

    @pytest.mark.divided("types, pages and texts")
    def test_a_text_is_compiled_once_a_machine(self) -> None:
        result = jobs(select(["gfx900"]), full=False)
        assert len({(job.machine.name, job.spec.key) for job in result}) == len(result)


@pytest.fixture
def _one_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """One job of gemm on each machine, and compilers that answer with an excerpt."""

    def job_of_machine(
        machines: tuple[Machine, ...], operations: object, full: bool
    ) -> list[CompileJob]:
        spec = Specialization("gemm/gemm", "", (), LARGE)
        return [CompileJob(m, "gemm", "float32", spec) for m in machines if m.name == "gfx900-dpp"]

    def checked(job: CompileJob, compilers: Compilers, folder: Path) -> list[CompileResult]:
        kernel = amd("gemm_gfx900.s")
        resident = occupancy(job.machine.architecture, 117, 42, 16640, 256)
        return [CompileResult(job, kernel, resident)]

    monkeypatch.setattr("portable_gpu.cli.check_isa.jobs", job_of_machine)
    monkeypatch.setattr("portable_gpu.cli.check_isa.check", checked)
    monkeypatch.setattr("portable_gpu.cli.check_isa.find_compilers", lambda: Compilers(""))


@pytest.mark.usefixtures("_one_job")
class TestCommand:
    def test_summary_and_json(self, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
        file = tmp_path / "isa.json"
        assert main(["check-isa", "--verbose", "--json", str(file)]) == 0
        output = capsys.readouterr().out
        assert "gfx900-dpp" in output
        assert "64 (0.91)" in output
        assert output.splitlines()[-1] == "1 passed, 0 failed"
        (row,) = json.loads(file.read_text())["results"]
        assert row["vector_registers"] == 117
        assert row["occupancy"] == {"resident_waves": 2, "of": "SIMD", "limit": "registers"}
        assert row["inner_loop"]["fma"] == 64
        assert row["instructions"]["loads_by_bytes"] == {"16": 4}
        assert row["policy"]["tile_m"] == 128

    def test_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["check-isa", "--table"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("| target | kernels | failed |")
        assert "| gfx900-dpp | gemm gemm/gemm | float32 | 117 | 42 |" in lines[-1]

    def test_failure(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(
            "portable_gpu.cli.check_isa.check",
            lambda job, *rest: [CompileResult(job, problems=("error: no such type", "and more"))],
        )
        assert main(["check-isa"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2] == "gfx900-dpp gemm float32 gemm/gemm: error: no such type; and more"
        assert lines[-1] == "0 passed, 1 failed"

    def test_missing_compiler(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lacks = {"AMD": MissingCompiler("AMD", "apt-get install clang-19")}
        monkeypatch.setattr(
            "portable_gpu.cli.check_isa.find_compilers", lambda: Compilers("", lacks)
        )
        assert main(["check-isa"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == "AMD: skipped, a compiler is missing (apt-get install clang-19)"
        assert lines[-1] == "0 passed, 0 failed"
        assert main(["check-isa", "--target", "sm_90"]) == 0
        assert main(["check-isa", "--target", "gfx900"]) == 1
        assert capsys.readouterr().err == (
            "error: --target needs a compiler for AMD: apt-get install clang-19\n"
        )
