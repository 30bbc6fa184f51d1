## The stages of transforms on a CPU, one in each lane of a vector, in place in scratch memory (Gentleman and Sande).
##
##      rows 0 .. n-1 of scratch, each a pair of vectors (re, im)
##
##      stage of radix R    replaces rows j, j + M, j + 2 M ... by their transform, times powers of a root of one
##      the next stage      does the same with each of the R parts of M rows
##
## After the last stage, result k is in row place[k].
##
##   define(radices)     transform(s, w, radices, n) for stages of any of these radices; its argument `radices` has
##                       those of its stages, in their order
##
## w: for each stage but the last, and each j = 0 .. M-1, the roots exp(-2 pi i j r / (R M)), r = 1 .. R-1.
<%def name="define(radices)">
% for R in radices:
// w: the roots of this stage.  blocks: parts of R M rows.
static void stage${R}(__global vec_t *s, __global const real_t *w, long blocks, long M)
{
    for (long b = 0; b < blocks; b++)
        for (long j = 0; j < M; j++) {
            __global vec_t *p = s + 2 * (b * ${R} * M + j);
            __global const real_t *c = w + j * ${2 * (R - 1)};
            vec_t re[${R}], im[${R}];
% for r in range(R):
            re[${r}] = p[${2 * r} * M], im[${r}] = p[${2 * r} * M + 1];
% endfor
            butterfly${R}(re, im);
            p[0] = re[0], p[1] = im[0];
% for r in range(1, R):
            p[${2 * r} * M] = re[${r}] * c[${2 * r - 2}] - im[${r}] * c[${2 * r - 1}];
            p[${2 * r} * M + 1] = re[${r}] * c[${2 * r - 1}] + im[${r}] * c[${2 * r - 2}];
% endfor
        }
}

// The stage with M = 1, which is the last one and has no roots.
static void last${R}(__global vec_t *s, long blocks)
{
    for (__global vec_t *p = s; p < s + ${2 * R} * blocks; p += ${2 * R}) {
        vec_t re[${R}], im[${R}];
% for r in range(R):
        re[${r}] = p[${2 * r}], im[${r}] = p[${2 * r + 1}];
% endfor
        butterfly${R}(re, im);
% for r in range(R):
        p[${2 * r}] = re[${r}], p[${2 * r + 1}] = im[${r}];
% endfor
    }
}
% endfor

// After the first stage, compute part by part, because a part fits a faster cache.
static void transform(__global vec_t *s, __global const real_t *w, __global const int *radices, long n)
{
    //@noinline: PoCL compiles this function by itself (portable_gpu/runtime/pocl_bodies.py)
    const int first = radices[0];
    const long part = n / max(first, 1);  // max: a transform of one number has no stage
    long blocks = 1, M = n, q = -1;  // q: the part; -1 in the first stage
    __global vec_t *p = s;
    __global const real_t *c = w;
    for (int k = 0; n > 1;) {
        const int radix = radices[k];
        M /= radix;
        switch (radix) {
% for R in radices:
        case ${R}:
            if (M > 1)
                stage${R}(p, c, blocks, M);
            else
                last${R}(p, blocks);
            break;
% endfor
        }
        c += 2 * (radix - 1) * M;
        blocks *= radix;
        k++;
        if (q < 0 || M == 1) {
            if (++q == first || part == 1)
                break;
            p = s + 2 * q * part, c = w + 2 * (first - 1) * part;
            blocks = 1, M = part, k = 1;
        }
    }
}
</%def>
