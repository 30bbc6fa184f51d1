	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"
	.amdhsa_code_object_version 5
	.protected	gemm                    ; -- Begin function gemm
	.globl	gemm
	.p2align	8
	.type	gemm,@function
gemm:                                   ; @gemm
; %bb.0:
	s_load_dwordx4 s[28:31], s[4:5], 0x28
	s_waitcnt lgkmcnt(0)
	s_cmp_ge_i32 s6, s31
	s_cbranch_scc1 .LBB0_42
.LBB0_3:                                ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB0_6 Depth 2
	s_abs_i32 s1, s6
	s_barrier
	s_cbranch_vccnz .LBB0_10
; %bb.4:                                ;   in Loop: Header=BB0_3 Depth=1
	v_pk_mov_b32 v[14:15], v[24:25], v[24:25] op_sel:[0,1]
	v_pk_mov_b32 v[0:1], v[24:25], v[24:25] op_sel:[0,1]
	v_pk_mov_b32 v[2:3], v[24:25], v[24:25] op_sel:[0,1]
	v_pk_mov_b32 v[4:5], v[24:25], v[24:25] op_sel:[0,1]
	v_pk_mov_b32 v[6:7], v[24:25], v[24:25] op_sel:[0,1]
	s_branch .LBB0_6
.LBB0_5:                                ;   in Loop: Header=BB0_6 Depth=2
	s_cmp_eq_u32 s10, s16
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_cbranch_scc1 .LBB0_10
.LBB0_6:                                ;   Parent Loop BB0_3 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
	s_add_i32 s16, s16, 1
	s_cmp_lt_i32 s16, s10
	s_cselect_b64 s[8:9], -1, 0
	s_cmp_ge_i32 s16, s10
	s_cbranch_scc1 .LBB0_8
; %bb.7:                                ;   in Loop: Header=BB0_6 Depth=2
	s_waitcnt vmcnt(1)
	v_add_co_u32_e32 v40, vcc, v64, v62
	v_addc_co_u32_e32 v41, vcc, v65, v63, vcc
	v_mov_b32_e32 v32, s5
	s_waitcnt vmcnt(0)
	v_add_co_u32_e32 v44, vcc, s4, v40
	v_addc_co_u32_e32 v45, vcc, v41, v32, vcc
	v_add_co_u32_e32 v36, vcc, v66, v60
	v_addc_co_u32_e32 v37, vcc, v67, v61, vcc
	v_add_co_u32_e32 v32, vcc, v66, v58
	v_addc_co_u32_e32 v33, vcc, v67, v59, vcc
	global_load_dwordx4 v[32:35], v[32:33], off
	s_nop 0
	global_load_dwordx4 v[36:39], v[36:37], off
	s_nop 0
	global_load_dwordx4 v[40:43], v[40:41], off
	s_nop 0
	global_load_dwordx4 v[44:47], v[44:45], off
	v_mov_b32_e32 v84, s15
	v_add_co_u32_e32 v64, vcc, s14, v64
	v_addc_co_u32_e32 v65, vcc, v65, v84, vcc
	v_add_co_u32_e32 v66, vcc, 0x80, v66
	v_addc_co_u32_e32 v67, vcc, 0, v67, vcc
.LBB0_8:                                ;   in Loop: Header=BB0_6 Depth=2
	s_lshl_b32 s17, s11, 9
	v_or_b32_e32 v88, s17, v74
	v_add_lshl_u32 v84, v88, v75, 4
	v_add_lshl_u32 v89, v88, v76, 4
	v_or3_b32 v85, s17, v77, v74
	v_lshlrev_b32_e32 v92, 4, v85
	ds_read_b128 v[84:87], v84
	v_or_b32_e32 v93, v88, v78
	ds_read_b128 v[88:91], v89
	v_lshlrev_b32_e32 v96, 4, v93
	ds_read_b128 v[92:95], v92 offset:16384
	ds_read_b128 v[96:99], v96 offset:16384
	s_andn2_b64 vcc, exec, s[8:9]
	s_xor_b32 s11, s11, 1
	s_waitcnt lgkmcnt(1)
	v_mfma_f64_16x16x4f64 v[24:31], v[84:85], v[92:93], v[24:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f64_16x16x4f64 v[16:23], v[84:85], v[96:97], v[16:23]
	v_mfma_f64_16x16x4f64 v[8:15], v[88:89], v[92:93], v[8:15]
	v_or_b32_e32 v92, s17, v79
	v_add_lshl_u32 v84, v92, v80, 4
	v_or3_b32 v93, s17, v82, v79
	v_lshlrev_b32_e32 v93, 4, v93
	v_mfma_f64_16x16x4f64 v[0:7], v[88:89], v[96:97], v[0:7]
	v_add_lshl_u32 v88, v92, v81, 4
	v_or_b32_e32 v92, v92, v83
	v_lshlrev_b32_e32 v96, 4, v92
	v_mfma_f64_16x16x4f64 v[24:31], v[86:87], v[94:95], v[24:31]
	v_mfma_f64_16x16x4f64 v[16:23], v[86:87], v[98:99], v[16:23]
	v_mfma_f64_16x16x4f64 v[8:15], v[90:91], v[94:95], v[8:15]
	v_mfma_f64_16x16x4f64 v[0:7], v[90:91], v[98:99], v[0:7]
	ds_read_b128 v[84:87], v84
	ds_read_b128 v[88:91], v88
	ds_read_b128 v[92:95], v93 offset:16384
	ds_read_b128 v[96:99], v96 offset:16384
	s_waitcnt lgkmcnt(1)
	v_mfma_f64_16x16x4f64 v[24:31], v[84:85], v[92:93], v[24:31]
	s_waitcnt lgkmcnt(0)
	v_mfma_f64_16x16x4f64 v[16:23], v[84:85], v[96:97], v[16:23]
	v_mfma_f64_16x16x4f64 v[8:15], v[88:89], v[92:93], v[8:15]
	v_mfma_f64_16x16x4f64 v[0:7], v[88:89], v[96:97], v[0:7]
	v_mfma_f64_16x16x4f64 v[24:31], v[86:87], v[94:95], v[24:31]
	v_mfma_f64_16x16x4f64 v[16:23], v[86:87], v[98:99], v[16:23]
	v_mfma_f64_16x16x4f64 v[8:15], v[90:91], v[94:95], v[8:15]
	v_mfma_f64_16x16x4f64 v[0:7], v[90:91], v[98:99], v[0:7]
	s_cbranch_vccnz .LBB0_5
; %bb.9:                                ;   in Loop: Header=BB0_6 Depth=2
	s_lshl_b32 s9, s11, 13
	s_lshl_b32 s8, s11, 9
	v_or_b32_e32 v84, s9, v68
	s_waitcnt vmcnt(3)
	ds_write_b128 v84, v[32:35]
	v_or_b32_e32 v84, s9, v69
	v_or_b32_e32 v88, s8, v70
	s_waitcnt vmcnt(2)
	ds_write_b128 v84, v[36:39]
	s_waitcnt vmcnt(1)
	v_mov_b32_e32 v84, v40
	v_mov_b32_e32 v85, v41
	s_waitcnt vmcnt(0)
	v_mov_b32_e32 v86, v44
	v_mov_b32_e32 v87, v45
	v_lshlrev_b32_e32 v88, 4, v88
	ds_write_b128 v88, v[84:87] offset:16384
	v_or_b32_e32 v88, s8, v72
	v_mov_b32_e32 v84, v42
	v_mov_b32_e32 v85, v43
	v_mov_b32_e32 v86, v46
	v_mov_b32_e32 v87, v47
	v_lshlrev_b32_e32 v88, 4, v88
	ds_write_b128 v88, v[84:87] offset:16384
	s_branch .LBB0_5
.LBB0_10:                               ;   in Loop: Header=BB0_3 Depth=1
	s_waitcnt vmcnt(3)
	s_cbranch_scc0 .LBB0_3
.LBB0_42:
	s_endpgm
.Lfunc_end0:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .agpr_count:     0
    .args:           []
    .group_segment_fixed_size: 32768
    .kernarg_segment_align: 8
    .kernarg_segment_size: 424
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           gemm
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 256
      - 1
      - 1
    .sgpr_count:     66
    .sgpr_spill_count: 0
    .symbol:         gemm.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     100
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx90a
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
