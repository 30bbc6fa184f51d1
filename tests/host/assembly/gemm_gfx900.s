	.text
	.amdgcn_target "amdgcn-amd-amdhsa--gfx900"
	.amdhsa_code_object_version 5
	.protected	gemm                    ; -- Begin function gemm
	.globl	gemm
	.p2align	8
	.type	gemm,@function
gemm:                                   ; @gemm
; %bb.0:
	s_load_dwordx2 s[0:1], s[4:5], 0x28
	s_abs_i32 s3, s6
	s_load_dwordx8 s[8:15], s[4:5], 0x0
	s_cbranch_vccnz .LBB0_7
.LBB0_2:                                ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB0_5 Depth 2
	s_add_i32 s0, s0, 1
	s_cmp_ge_i32 s0, s33
	s_waitcnt vmcnt(0)
	ds_write2_b32 v99, v78, v79 offset0:4 offset1:136
	ds_write_b32 v91, v80 offset:1584
	ds_write2st64_b32 v91, v77, v73 offset1:1
	ds_write_b32 v92, v74 offset:256
	ds_write_b32 v93, v75 offset:256
	ds_write_b32 v94, v76 offset:256
	ds_write_b128 v95, v[69:72] offset:8448
	ds_write_b128 v96, v[65:68] offset:8448
	s_waitcnt lgkmcnt(0)
	s_barrier
	s_cbranch_scc1 .LBB0_4
; %bb.3:                                ;   in Loop: Header=BB0_2 Depth=1
	v_mov_b32_e32 v65, s15
	v_add_co_u32_e32 v100, vcc, s14, v81
	v_addc_co_u32_e32 v101, vcc, v65, v82, vcc
	v_add_co_u32_e32 v102, vcc, s14, v83
	v_addc_co_u32_e32 v103, vcc, v65, v84, vcc
	v_mov_b32_e32 v65, s13
	v_add_co_u32_e32 v104, vcc, s12, v85
	v_addc_co_u32_e32 v105, vcc, v65, v86, vcc
	v_add_co_u32_e32 v106, vcc, s12, v87
	v_addc_co_u32_e32 v107, vcc, v65, v88, vcc
	global_load_dwordx4 v[77:80], v[106:107], off
	global_load_dwordx4 v[73:76], v[104:105], off
	global_load_dwordx4 v[69:72], v[102:103], off
	global_load_dwordx4 v[65:68], v[100:101], off
	s_add_u32 s14, s14, s2
	s_addc_u32 s15, s15, s3
	s_add_u32 s12, s12, s16
	s_addc_u32 s13, s13, s17
.LBB0_4:                                ;   in Loop: Header=BB0_2 Depth=1
	s_mov_b32 s1, 0
	v_mov_b32_e32 v100, v97
.LBB0_5:                                ;   Parent Loop BB0_2 Depth=1
                                        ; =>  This Inner Loop Header: Depth=2
	v_add_u32_e32 v113, s1, v98
	ds_read_b128 v[101:104], v100
	ds_read_b128 v[105:108], v100 offset:128
	ds_read_b128 v[109:112], v113
	ds_read_b128 v[113:116], v113 offset:128
	s_addk_i32 s1, 0x200
	v_add_u32_e32 v100, 0x210, v100
	s_cmpk_eq_i32 s1, 0x2000
	s_waitcnt lgkmcnt(1)
	v_fma_f32 v64, v101, v112, v64
	v_fma_f32 v63, v101, v111, v63
	v_fma_f32 v62, v101, v110, v62
	v_fma_f32 v61, v101, v109, v61
	s_waitcnt lgkmcnt(0)
	v_fma_f32 v60, v101, v116, v60
	v_fma_f32 v59, v101, v115, v59
	v_fma_f32 v58, v101, v114, v58
	v_fma_f32 v57, v101, v113, v57
	v_fma_f32 v56, v102, v112, v56
	v_fma_f32 v55, v102, v111, v55
	v_fma_f32 v54, v102, v110, v54
	v_fma_f32 v53, v102, v109, v53
	v_fma_f32 v52, v102, v116, v52
	v_fma_f32 v51, v102, v115, v51
	v_fma_f32 v50, v102, v114, v50
	v_fma_f32 v49, v102, v113, v49
	v_fma_f32 v48, v103, v112, v48
	v_fma_f32 v47, v103, v111, v47
	v_fma_f32 v46, v103, v110, v46
	v_fma_f32 v45, v103, v109, v45
	v_fma_f32 v44, v103, v116, v44
	v_fma_f32 v43, v103, v115, v43
	v_fma_f32 v42, v103, v114, v42
	v_fma_f32 v41, v103, v113, v41
	v_fma_f32 v40, v104, v112, v40
	v_fma_f32 v39, v104, v111, v39
	v_fma_f32 v38, v104, v110, v38
	v_fma_f32 v37, v104, v109, v37
	v_fma_f32 v36, v104, v116, v36
	v_fma_f32 v35, v104, v115, v35
	v_fma_f32 v34, v104, v114, v34
	v_fma_f32 v33, v104, v113, v33
	v_fma_f32 v32, v105, v112, v32
	v_fma_f32 v31, v105, v111, v31
	v_fma_f32 v30, v105, v110, v30
	v_fma_f32 v29, v105, v109, v29
	v_fma_f32 v28, v105, v116, v28
	v_fma_f32 v27, v105, v115, v27
	v_fma_f32 v26, v105, v114, v26
	v_fma_f32 v25, v105, v113, v25
	v_fma_f32 v24, v106, v112, v24
	v_fma_f32 v23, v106, v111, v23
	v_fma_f32 v22, v106, v110, v22
	v_fma_f32 v21, v106, v109, v21
	v_fma_f32 v20, v106, v116, v20
	v_fma_f32 v19, v106, v115, v19
	v_fma_f32 v18, v106, v114, v18
	v_fma_f32 v17, v106, v113, v17
	v_fma_f32 v16, v107, v112, v16
	v_fma_f32 v15, v107, v111, v15
	v_fma_f32 v14, v107, v110, v14
	v_fma_f32 v13, v107, v109, v13
	v_fma_f32 v12, v107, v116, v12
	v_fma_f32 v11, v107, v115, v11
	v_fma_f32 v10, v107, v114, v10
	v_fma_f32 v9, v107, v113, v9
	v_fma_f32 v8, v108, v112, v8
	v_fma_f32 v7, v108, v111, v7
	v_fma_f32 v6, v108, v110, v6
	v_fma_f32 v5, v108, v109, v5
	v_fma_f32 v4, v108, v116, v4
	v_fma_f32 v3, v108, v115, v3
	v_fma_f32 v2, v108, v114, v2
	v_fma_f32 v1, v108, v113, v1
	s_cbranch_scc0 .LBB0_5
; %bb.6:                                ;   in Loop: Header=BB0_2 Depth=1
	s_cmp_eq_u32 s0, s33
	s_waitcnt vmcnt(0)
	s_barrier
	s_cbranch_scc0 .LBB0_2
.LBB0_7:
	s_load_dwordx4 s[12:15], s[4:5], 0x78
	global_store_dwordx4 v[65:66], v[61:64], off
	s_endpgm
.Lfunc_end0:
	.amdgpu_metadata
---
amdhsa.kernels:
  - .args:           []
    .group_segment_fixed_size: 16640
    .kernarg_segment_align: 8
    .kernarg_segment_size: 152
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
    .sgpr_count:     42
    .sgpr_spill_count: 0
    .symbol:         gemm.kd
    .uniform_work_group_size: 1
    .uses_dynamic_stack: false
    .vgpr_count:     117
    .vgpr_spill_count: 0
    .wavefront_size: 64
amdhsa.target:   amdgcn-amd-amdhsa--gfx900
amdhsa.version:
  - 1
  - 2
...

	.end_amdgpu_metadata
