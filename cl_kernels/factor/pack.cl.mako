## pack: copies between a packed triangle (ops/factor's packed layout, in blocks of `block` = 128 rows) and a dense
## array of a rectangle of it, of `rows` x `cols` elements from (row0, col0) on.
##
##    block row I of h rows, from r0 = 128 I               r0              dense (i, j) is the triangle's
##    +---------------------------+.                                     (row0 + i, col0 + j)
##    | rectangle: h x r0, by rows| .          offset r0 (r0 + 1) / 2
##    +---------------------------+  .         then the diagonal block, its row k at k (k + 1) / 2
##
## operation unpack: dense = packed     pack: packed = dense     add: packed = dense + beta packed
## diagonal  whether dense has the diagonal blocks, one below the other: the column of its first element is r0, not col0
## above     what unpack stores above the diagonal: zero, or conj of the mirrored elements
## unit      whether neighbours along dense's rows are neighbours in memory
## A work-item of a CPU copies `lines` rows; elsewhere a group of `size` work-items copies a piece of `size` elements of
## each of `lines` rows.  A matrix has bands * pieces groups:
##
##   group   (matrix * bands + band of `lines` rows) * pieces + piece of a row
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, operation, diagonal, above = problem.packed.elem, problem.operation, problem.diagonal, problem.above
rank = len(problem.batch)
names = ("packed", "dense") if operation == "unpack" else ("dense", "packed")
load, store = f"{e.name}_load", f"{e.name}_store"
step = "" if unit else " * dense_col"
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}

// Element (row, col) is at offset rectangle(row, start) + col, or, in the diagonal block, at diagonal(n, row, start) +
// col, with `start` the first row of its block, r0 in the picture.
static inline long rectangle(long row, long start) { return start * (start + 1) / 2 + (row - start) * start; }
static inline long diagonal(long n, long row, long start)
{
    const long i = row - start;
    return start * (start + 1) / 2 + min(${block}l, n - start) * start + i * (i + 1) / 2 - start;
}

__kernel ${"__attribute__((reqd_work_group_size(1, 1, 1)))" if target.is_cpu else f"UNBOUND_GROUP({size})"}
void ${kernel("pack")}
{
    const long group = get_group_id(0), band = group / pieces, first = band % bands * ${lines}l;
${operands.locate(names, rank, "band / bands")}
    // Row i of dense is row `row` of the triangle, from column `left` on, in the block that begins at row `start`.
    for (long i = first; i < min(first + ${lines}, rows); ++i) {
        const long row = row0 + i, start = row / ${block} * ${block}, left = ${"start" if diagonal else "col0"};
        __global ${e.name}_t ${"const " if operation != "unpack" else ""}*line = dense + i * dense_row;
        __global ${e.name}_t ${"const " if operation == "unpack" else ""}*p = packed + rectangle(row, start) + left,
            *q = packed + diagonal(n, row, start) + left;
        // The ends of this row's columns in the packed rectangle, and in the triangle.
        const long rectangle_end = clamp(start - left, 0l, cols), triangle_end = clamp(row + 1 - left, 0l, cols);
% if target.is_cpu:
        for (long j = 0; j < rectangle_end; ++j) ${move("p")}
        for (long j = rectangle_end; j < triangle_end; ++j) ${move("q")}
% if operation == "unpack":
        for (long j = triangle_end; j < cols; ++j) ${store_above()}
% endif
% else:
        const long j = group % pieces * ${size} + get_local_id(0);
        if (j < triangle_end) {
            if (j >= rectangle_end) p = q;
            ${move("p")}
        }
% if operation == "unpack":
        else if (j < cols) ${store_above()}
% endif
% endif
    }
}

## A statement: copy element j of a row between dense, at `line`, and packed, at p.
<%def name="move(p)">\
% if operation == "unpack":
${store}(line + j${step}, ${load}(${p} + j));
% elif operation == "pack":
${store}(${p} + j, ${load}(line + j${step}));
% else:
${store}(${p} + j, ${load}(line + j${step}) + MUL(beta, ${load}(${p} + j)));
% endif
</%def>

## A statement: store element j of a row of dense, which is above the diagonal.
<%def name="store_above()">\
% if above == "conj":
{
            // The mirrored element is in row `other`, in the block that begins at row `top`.
            const long other = left + j, top = other / ${block} * ${block};
            ${store}(line + j${step},
                CONJ(${load}(packed + row + (row < top ? rectangle(other, top) : diagonal(n, other, top)))));
        }
% else:
${store}(line + j${step}, (value_t)(0));
% endif
</%def>
