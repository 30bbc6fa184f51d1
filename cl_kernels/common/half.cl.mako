## float16 in memory, of which element.cl.mako makes the loads and stores of an Element: bodies of functions with the
## arguments p and v.  Numbers are rounded to nearest even.  V, aligned: see there.
<%def name="load()">\
#if HALVES_INLINE
    const f16_t bits = *p;
    return __builtin_load_halff((const half *)&bits);
#else
    return vload_half(0, (__global const half *)p);
#endif
</%def>

<%def name="store()">\
#if HALVES_INLINE
    f16_t bits;
    __builtin_store_halff(v, (half *)&bits);
    *p = bits;
#else
    vstore_half_rte(v, 0, (__global half *)p);
#endif
</%def>

<%def name="vector_load(V, aligned)">\
#if HALF_VECTORS_SPLIT
    const f16_x${V} bits = *(__global const f16_x${V} *)p;
    return (float${V})(${", ".join(f"vload_half({j}, (const half *)&bits)" for j in range(V))});
#elif BUILTINS_INLINE
% if aligned or not target.is_cpu:
    return ${"vloada_half" if aligned else "vload_half"}${V}(0, (__global const half *)p);
% else:  # PoCL 3.0 assumes that addresses of vload_half and vstore_half are aligned
    const ushort${V} bits = *(__global const f16_x${V} *)p;
    return vloada_half${V}(0, (const half *)&bits);
% endif
% if V in (8, 16):
#elif HALVES_INLINE && defined(__F16C__)
    // In assembly: a conversion by clang's built-in function would be moved behind comparisons by LLVM 14, which then
    // compares the halves one by one.
    const short${V} bits = as_short${V}(*(__global const f16_x${V} *)p);
    float${V} v;
% if V == 16:
#if defined(__AVX512F__)
    __asm__("vcvtph2ps %1, %0" : "=v"(v) : "v"(bits));
    return v;
#endif
% endif
% for part in [""] if V == 8 else [".lo", ".hi"]:
    { float8 one; __asm__("vcvtph2ps %1, %0" : "=x"(one) : "x"(bits${part})); v${part} = one; }
% endfor
    return v;
% endif
#else
    // Scaling by 2^112 corrects the bias of the exponent, also for subnormal numbers.
    const uint${V} bits = CONVERT(uint${V}, *(__global const f16_x${V} *)p);
    const uint${V} magnitude = as_uint${V}(as_float${V}((bits & 0x7fffu) << 13) * 0x1p112f);
    const uint${V} special = (bits & 0x7c00u) == 0x7c00u ? (uint${V})(0x7f800000u) : (uint${V})(0u);
    return as_float${V}(magnitude | special | ((bits & 0x8000u) << 16));
#endif
</%def>

<%def name="vector_store(V, aligned)">\
#if HALF_VECTORS_SPLIT
    f16_x${V} bits;
% for j in range(V):
    vstore_half_rte(v${component(V, j)}, ${j}, (half *)&bits);
% endfor
    *(__global f16_x${V} *)p = bits;
% if V in (8, 16):
#elif HALVES_INLINE && defined(__F16C__)
    typedef ushort${V} unaligned_t __attribute__((aligned(2)));
    short${V} bits;
% if V == 16:
#if defined(__AVX512F__)
    bits = __builtin_ia32_vcvtps2ph512_mask(v, 0, (short16)(0), (ushort)-1);
#else
% endif
% for part in [""] if V == 8 else [".lo", ".hi"]:
    bits${part} = __builtin_ia32_vcvtps2ph256(v${part}, 0);
% endfor
% if V == 16:
#endif
% endif
    *(__global unaligned_t *)p = as_ushort${V}(bits);
% endif
#else
% if aligned or not target.is_cpu:
    ${"vstorea_half" if aligned else "vstore_half"}${V}_rte(v, 0, (__global half *)p);
% else:
    typedef ushort${V} unaligned_t __attribute__((aligned(2)));
    ushort${V} bits;
    vstorea_half${V}_rte(v, 0, (half *)&bits);
    *(__global unaligned_t *)p = bits;
% endif
#endif
</%def>
