## transposed: out[...] = a0[...] on a GPU, where adjacent elements of a0 (along `rows`) are not adjacent in out, whose
## adjacent elements are along `columns`.
##
##   a0    | R R R ... |  T rows, adjacent in a0        a group moves a tile of T rows and T columns through local
##   out   | C C C ... |  T columns, adjacent in out    memory, so that reads and writes are both of adjacent elements
##
## A work-item reads R rows of a column as a vector, and later writes C columns of a row.  Launch: one group a tile, for
## all positions on the other axes.  Numbers of rows and columns are multiples of R and C.
##
## word: C type of an element's bits.  T, R, C: as above.  P: words of a row in local memory, above T, so that banks
## differ: element (r, c) of the tile is at r * P + c.  G: work-items of a group.  outer: number of other axes.  index:
## C type of indices.  a0_column, out_row: strides along `columns` and along `rows`.
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    loads, stores = T * T // (R * G), T * T // (C * G)
    vector_in, vector_out = vector(word, R), vector(word, C)
    places = axes.digits("outer", outer, "other")
%>

__kernel ${group.of_size(G)}
void ${kernel("elementwise")}
{
    __local ${word} tile[${T * P}] __attribute__((aligned(16)));
    const int lid = get_local_id(0);
    const ${index} number = get_group_id(0), other = number / (row_tiles * column_tiles);
    const ${index} first_row = number % row_tiles * ${T}, first_column = number / row_tiles % column_tiles * ${T};
    (void)other;  // without other axes
    __global const ${word} *from = a0_data + (a0_offset + ${axes.offset("outer", "a0", places)});
    __global ${word} *to = out_data + (out_offset + ${axes.offset("outer", "out", places)});
    {
        const int r = lid % ${T // R} * ${R}, c = lid / ${T // R};
        from += first_row + r + (first_column + c) * a0_column;
        ${vector_in} values[${loads}];
        #pragma unroll
        for (int k = 0; k < ${loads}; k++)
            if (first_row + r < rows && first_column + c + k * ${G * R // T} < columns)
                values[k] = *(__global const ${vector_in} *)(from + k * ${G * R // T} * a0_column);
        #pragma unroll
        for (int k = 0; k < ${loads}; k++) {
% for j in range(R):
            tile[(r + ${j}) * ${P} + c + k * ${G * R // T}] = values[k]${f".s{j}" if R > 1 else ""};
% endfor
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int c = lid % ${T // C} * ${C}, r = lid / ${T // C};
    to += (first_row + r) * out_row + first_column + c;
    #pragma unroll
    for (int k = 0; k < ${stores}; k++)
        if (first_row + r + k * ${G * C // T} < rows && first_column + c < columns)
            *(__global ${vector_out} *)(to + k * ${G * C // T} * out_row) =
                *(__local const ${vector_out} *)(tile + (r + k * ${G * C // T}) * ${P} + c);
}
