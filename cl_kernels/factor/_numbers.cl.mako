## Arithmetic of kernels that factorise and solve.  e: the Element; value_t, real_t: see common/epilogue.

## reciprocal(v): 1 / v.  For complex numbers Smith's algorithm is used, whose intermediate results do not overflow.
<%def name="reciprocal(e)">
% if e.complex:
static inline value_t reciprocal(value_t v)
{
    if (ABS(v.x) >= ABS(v.y)) {
        const real_t q = v.y / v.x, d = 1 / (v.x + v.y * q);
        return (value_t)(d, -q * d);
    }
    const real_t q = v.x / v.y, d = 1 / (v.y + v.x * q);
    return (value_t)(q * d, -d);
}
% else:
static inline value_t reciprocal(value_t v) { return 1 / v; }
% endif
</%def>

## CONJ(v), REAL(v), and AS_VALUE(v) of a real number.
<%def name="parts(e)">
#define CONJ(v) ${"((value_t)((v).x, -(v).y))" if e.complex else "(v)"}
#define REAL(v) ${"((v).x)" if e.complex else "(v)"}
#define AS_VALUE(v) ${"((value_t)((v), 0))" if e.complex else "((value_t)(v))"}
</%def>

## SQRT(x): the square root, in a form that compilers for CPUs replace by one instruction.
<%def name="root(e)">
#if BUILTINS_INLINE
#define SQRT(x) sqrt(x)
#else
#define SQRT(x) __builtin_sqrt${"" if e.needs_fp64 else "f"}(x)
#endif
</%def>

## root_of(p): the square root of a positive number.  rsqrt of float may have an error of two units in the last place,
## so its result is corrected.
<%def name="root_of(e)">
static inline real_t root_of(real_t p)
{
    const real_t scale = rsqrt(p), root = p * scale;
    return ${"root" if e.needs_fp64 else "fma(fma(-root, root, p), scale * 0.5f, root)"};
}
</%def>
