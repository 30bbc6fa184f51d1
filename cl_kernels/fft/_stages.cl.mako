## The stages of transforms on a CPU, one in each lane of a vector, in place in scratch memory (Gentleman and Sande).
##
##      rows 0 .. n-1 of scratch, each a pair of vectors (re, im)
##
##      stage of radix R    replaces rows j, j + M, j + 2 M ... by their transform, times powers of a root of one
##      the next stage      does the same with each of the R parts of M rows
##
## After the last stage, result k is in row place[k].  s: the scratch memory; n: its rows; `blocks` parts of R M rows.
##
##   define(radices)     transform(s, w, radices, n) for stages of any of these radices; its argument `radices` has
##                       those of its stages, in their order
##
## w: for each stage but the last, and each j = 0 .. M-1, the roots exp(-2 pi i j r / (R M)), r = 1 .. R-1, as (re, im).
<%def name="define(radices)">
% for R in radices:
// w: the roots of this stage.  blocks: parts of R M rows.
static void stage${R}(__global vec_t *s, __global const real_t *w, long blocks, long M)
{
    for (long b = 0; b < blocks; b++)
        for (long j = 0; j < M; j++) {
            __global vec_t *first_row = s + 2 * (b * ${R} * M + j);
            __global const real_t *root = w + j * ${2 * (R - 1)};
            vec_t re[${R}], im[${R}];
% for r in range(R):
            re[${r}] = first_row[${2 * r} * M], im[${r}] = first_row[${2 * r} * M + 1];
% endfor
            butterfly${R}(re, im);
            first_row[0] = re[0], first_row[1] = im[0];
% for r in range(1, R):
            first_row[${2 * r} * M] = re[${r}] * root[${2 * r - 2}] - im[${r}] * root[${2 * r - 1}];
            first_row[${2 * r} * M + 1] = re[${r}] * root[${2 * r - 1}] + im[${r}] * root[${2 * r - 2}];
% endfor
        }
}

// The stage with M = 1, which is the last one and has no roots.
static void last${R}(__global vec_t *s, long blocks)
{
    for (__global vec_t *block = s; block < s + ${2 * R} * blocks; block += ${2 * R}) {
        vec_t re[${R}], im[${R}];
% for r in range(R):
        re[${r}] = block[${2 * r}], im[${r}] = block[${2 * r + 1}];
% endfor
        butterfly${R}(re, im);
% for r in range(R):
        block[${2 * r}] = re[${r}], block[${2 * r + 1}] = im[${r}];
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
    long blocks = 1, M = n, part_number = -1;  // -1 in the first stage, which is one for all parts
    __global vec_t *rows = s;
    __global const real_t *roots = w;  // of the stage
    for (int k = 0; n > 1;) {
        const int radix = radices[k];
        M /= radix;
        switch (radix) {
% for R in radices:
        case ${R}:
            if (M > 1)
                stage${R}(rows, roots, blocks, M);
            else
                last${R}(rows, blocks);
            break;
% endfor
        }
        roots += 2 * (radix - 1) * M;
        blocks *= radix;
        k++;
        if (part_number < 0 || M == 1) {
            if (++part_number == first || part == 1)
                break;
            rows = s + 2 * part_number * part, roots = w + 2 * (first - 1) * part;
            blocks = 1, M = part, k = 1;
        }
    }
}
</%def>
