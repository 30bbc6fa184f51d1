	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
	.amdhsa_code_object_version 5
	.protected	reduce_rows             ; -- Begin function reduce_rows
	.globl	reduce_rows
	.p2align	8
	.type	reduce_rows,@function
reduce_rows:                            ; @reduce_rows
; %bb.0:
	s_load_dwordx2 s[22:23], s[4:5], 0x30
	s_load_dwordx8 s[8:15], s[4:5], 0x48
	s_load_dwordx2 s[20:21], s[4:5], 0x10
	s_cbranch_execz .LBB0_27
	s_branch .LBB0_4
.LBB0_2:                                ;   in Loop: Header=BB0_4 Depth=1
	s_or_b64 exec, exec, s[34:35]
.LBB0_3:                                ;   in Loop: Header=BB0_4 Depth=1
	s_or_b64 exec, exec, s[10:11]
	v_cndmask_b32_e64 v17, 0, v5, s[8:9]
	s_cbranch_vccnz .LBB0_27
.LBB0_4:                                ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB0_8 Depth 2
                                        ;       Child Loop BB0_10 Depth 3
                                        ;     Child Loop BB0_16 Depth 2
                                        ;       Child Loop BB0_18 Depth 3
	s_cbranch_vccnz .LBB0_12
	s_branch .LBB0_8
.LBB0_6:                                ;   in Loop: Header=BB0_8 Depth=2
	v_mov_b32_e32 v6, 0
	v_mov_b32_e32 v5, 0
	v_mov_b32_e32 v4, 0
	v_mov_b32_e32 v3, 0
.LBB0_7:                                ;   in Loop: Header=BB0_8 Depth=2
	v_add_f32_e32 v7, v23, v3
	v_cndmask_b32_e64 v22, 0, v6, s[8:9]
	s_cbranch_vccnz .LBB0_12
.LBB0_8:                                ;   Parent Loop BB0_4 Depth=1
                                        ; =>  This Loop Header: Depth=2
                                        ;       Child Loop BB0_10 Depth 3
	v_mov_b32_e32 v3, s10
	v_mov_b32_e32 v4, s11
	v_cmp_le_i64_e32 vcc, s[12:13], v[3:4]
	s_cbranch_vccnz .LBB0_6
; %bb.9:                                ;   in Loop: Header=BB0_8 Depth=2
.LBB0_10:                               ;   Parent Loop BB0_4 Depth=1
                                        ;     Parent Loop BB0_8 Depth=2
                                        ; =>    This Inner Loop Header: Depth=3
	global_load_dwordx4 v[29:32], v[3:4], off offset:-4096
	global_load_dwordx4 v[33:36], v[3:4], off
	s_add_u32 s34, s34, 1
	v_add_co_u32_e32 v3, vcc, 0x2000, v3
	v_mov_b32_e32 v38, s9
	v_mov_b32_e32 v37, s8
	s_addc_u32 s35, s35, 0
	v_addc_co_u32_e32 v4, vcc, 0, v4, vcc
	v_cmp_lt_i64_e32 vcc, s[34:35], v[37:38]
	s_and_b64 vcc, exec, vcc
	s_waitcnt vmcnt(1)
	v_add_f32_e32 v8, v8, v32
	v_add_f32_e32 v7, v7, v31
	v_add_f32_e32 v6, v6, v30
	v_add_f32_e32 v5, v5, v29
	s_waitcnt vmcnt(0)
	v_add_f32_e32 v28, v28, v36
	v_add_f32_e32 v27, v27, v35
	v_add_f32_e32 v10, v10, v34
	v_add_f32_e32 v9, v9, v33
	s_cbranch_vccnz .LBB0_10
; %bb.11:                               ;   in Loop: Header=BB0_8 Depth=2
	s_add_u32 s10, s10, 1
	s_branch .LBB0_7
.LBB0_12:                               ;   in Loop: Header=BB0_4 Depth=1
	s_andn2_b64 vcc, exec, s[0:1]
	s_cbranch_vccnz .LBB0_20
	s_branch .LBB0_16
.LBB0_14:                               ;   in Loop: Header=BB0_16 Depth=2
	v_mov_b32_e32 v8, 0
	v_mov_b32_e32 v7, 0
.LBB0_15:                               ;   in Loop: Header=BB0_16 Depth=2
	v_add_f32_e32 v3, v31, v5
	v_add_f32_e32 v4, v32, v6
	s_cbranch_vccnz .LBB0_20
.LBB0_16:                               ;   Parent Loop BB0_4 Depth=1
                                        ; =>  This Loop Header: Depth=2
	s_cbranch_vccnz .LBB0_14
.LBB0_18:                               ;   Parent Loop BB0_4 Depth=1
                                        ;     Parent Loop BB0_16 Depth=2
                                        ; =>    This Inner Loop Header: Depth=3
	global_load_dwordx4 v[35:38], v[3:4], off
	s_add_u32 s34, s34, 1
	v_add_co_u32_e32 v3, vcc, 0x1000, v3
	v_mov_b32_e32 v10, s9
	v_mov_b32_e32 v9, s8
	s_addc_u32 s35, s35, 0
	v_addc_co_u32_e32 v4, vcc, 0, v4, vcc
	v_cmp_lt_i64_e32 vcc, s[34:35], v[9:10]
	s_and_b64 vcc, exec, vcc
	s_waitcnt vmcnt(0)
	v_add_f32_e32 v5, v5, v35
	v_add_f32_e32 v6, v6, v36
	v_add_f32_e32 v7, v7, v37
	v_add_f32_e32 v8, v8, v38
	s_cbranch_vccnz .LBB0_18
; %bb.19:                               ;   in Loop: Header=BB0_16 Depth=2
	s_branch .LBB0_15
.LBB0_20:                               ;   in Loop: Header=BB0_4 Depth=1
	v_mov_b32_e32 v35, 0
	s_cbranch_execz .LBB0_3
	s_branch .LBB0_24
.LBB0_22:                               ;   in Loop: Header=BB0_24 Depth=2
	s_or_b64 exec, exec, s[38:39]
.LBB0_23:                               ;   in Loop: Header=BB0_24 Depth=2
	s_or_b64 exec, exec, s[36:37]
	s_cbranch_execz .LBB0_2
.LBB0_24:                               ;   Parent Loop BB0_4 Depth=1
                                        ; =>  This Loop Header: Depth=2
	s_cbranch_execz .LBB0_23
.LBB0_26:                               ;   Parent Loop BB0_4 Depth=1
                                        ;     Parent Loop BB0_24 Depth=2
                                        ; =>    This Inner Loop Header: Depth=3
	global_load_dword v38, v[7:8], off
	v_add_co_u32_e32 v9, vcc, 1, v9
	v_addc_co_u32_e32 v10, vcc, 0, v10, vcc
	v_cmp_ge_i64_e64 s[8:9], v[9:10], v[5:6]
	v_add_co_u32_e32 v7, vcc, 0x400, v7
	v_addc_co_u32_e32 v8, vcc, 0, v8, vcc
	s_or_b64 s[38:39], s[8:9], s[38:39]
	s_waitcnt vmcnt(0)
	v_add_f32_e32 v37, v37, v38
	s_andn2_b64 exec, exec, s[38:39]
	s_cbranch_execnz .LBB0_26
	s_branch .LBB0_22
.LBB0_27:
	s_or_b64 exec, exec, s[30:31]
	v_add_f32_dpp v1, v18, v18 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_add_f32_dpp v2, v4, v4 quad_perm:[2,3,0,1] row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_add_f32_dpp v2, v4, v4 row_half_mirror row_mask:0xf bank_mask:0xf bound_ctrl:1
	v_add_f32_dpp v2, v4, v4 row_mirror row_mask:0xf bank_mask:0xf bound_ctrl:1
	ds_swizzle_b32 v5, v4 offset:swizzle(SWAP,16)
	ds_swizzle_b32 v2, v1 offset:swizzle(SWAP,16)
	ds_bpermute_b32 v2, v3, v1
	s_cbranch_vccnz .LBB0_46
	s_cbranch_execz .LBB0_40
.LBB0_38:                               ; =>This Inner Loop Header: Depth=1
	v_add_co_u32_e32 v10, vcc, v1, v9
	v_addc_co_u32_e32 v11, vcc, 0, v2, vcc
	v_lshlrev_b64 v[10:11], 3, v[10:11]
	v_add_u32_e32 v9, 0x100, v9
	v_add_co_u32_e32 v10, vcc, s18, v10
	v_addc_co_u32_e32 v11, vcc, v8, v11, vcc
	global_load_dword v12, v[10:11], off glc
	global_load_dword v13, v[10:11], off offset:4 glc
	v_cmp_le_u32_e32 vcc, s10, v9
	s_or_b64 s[8:9], vcc, s[8:9]
	s_waitcnt vmcnt(1)
	v_add_f32_e32 v10, v7, v12
	v_sub_f32_e32 v11, v10, v7
	s_waitcnt vmcnt(0)
	v_add_f32_e32 v6, v6, v13
	v_sub_f32_e32 v13, v10, v11
	v_sub_f32_e32 v11, v12, v11
	v_sub_f32_e32 v7, v7, v13
	v_add_f32_e32 v7, v11, v7
	v_cmp_o_f32_e32 vcc, v7, v7
	v_cndmask_b32_e32 v7, 0, v7, vcc
	v_add_f32_e32 v6, v6, v7
	v_add_f32_e32 v7, v10, v6
	v_sub_f32_e32 v10, v7, v10
	v_sub_f32_e32 v6, v6, v10
	v_cmp_o_f32_e32 vcc, v6, v6
	v_cndmask_b32_e32 v6, 0, v6, vcc
	s_andn2_b64 exec, exec, s[8:9]
	s_cbranch_execnz .LBB0_38
; %bb.39:
	s_or_b64 exec, exec, s[8:9]
.LBB0_40:
	s_branch .LBB0_46
.LBB0_29:
.LBB0_46:
	s_endpgm
.Lfunc_end0:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:           []
    .group_segment_fixed_size: 36
    .kernarg_segment_align: 8
    .kernarg_segment_size: 120
    .language:       OpenCL C
    .language_version:
      - 1
      - 2
    .max_flat_workgroup_size: 256
    .name:           reduce_rows
    .private_segment_fixed_size: 0
    .reqd_workgroup_size:
      - 256
      - 1
      - 1
    .sgpr_count:     44
    .sgpr_spill_count: 0
    .symbol:         reduce_rows.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     43
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx900
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
