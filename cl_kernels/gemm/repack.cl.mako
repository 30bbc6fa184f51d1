## Copy one operand of a product, of any strides, to the layout that the matrix unit reads best: k along
## the line, lines aligned, k filled up with zeros.  Elements are converted to the unit's type.
##
##   from: rows x k  --->  to: rows x (`pieces` times `pitch` steps of k)
##
## A group of 256 moves a square of 64 rows and 64 steps of k through local memory, so that reads and writes are both of
## adjacent elements.  Group (x, y) has the square x / columns, x % columns of the y-th matrix.
##
## operand  Operand      rows_adjacent  whether rows, not steps of k, are adjacent in `from`
## elem     f16, bf16, f32 or f64    rounded  whether f32 is rounded to tf32
## copied   whether the elements of a chunk are adjacent and aligned in `from`, and are not converted
## pieces   the number of pieces of a value: the value rounded to `elem`, what then remains of it, rounded, and so on
## columns  the number of squares side by side
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(operand.batch)
wide = elem.itemsize == 4
width = 16 // elem.itemsize
chunks = 64 // width


def word(piece, j):
    # An expression: the j-th 32 bits (64 bits of doubles) of a chunk.
    if width < 8:
        return f"bits[{piece}][{j}]"
    return f"bits[{piece}][{2 * j}] | (uint)bits[{piece}][{2 * j + 1}] << 16"
%>
${element.scalar(operand.elem)}
typedef ${elem.real} value_t;
typedef ${{2: "ushort", 4: "uint", 8: "double"}[elem.itemsize]} bits_t;
typedef ${"double2" if elem.itemsize == 8 else "uint4"} chunk_t;
% if elem.name == "f64":
#define to_bits(v) (v)
% elif wide and not rounded:
#define to_bits(v) as_uint(v)
% elif elem.name == "f16":
static inline bits_t to_bits(float v)
{
    bits_t bits;
    vstore_half_rte(v, 0, (half *)&bits);
    return bits;
}
% else:
// Round to nearest even, but towards zero where rounding up would give infinity.
static inline bits_t to_bits(float v)
{
    const uint bits = as_uint(v), shift = ${13 if wide else 16}, half_unit = (1u << (shift - 1)) - 1;
    const uint truncated = bits >> shift, rounded = (bits + half_unit + (truncated & 1)) >> shift;
    const uint all_ones = 0x7f800000u >> shift;
    const uint result = (rounded & all_ones) == all_ones ? truncated : rounded;
    return (bits_t)((v != v ? truncated | 1u : result)${" << shift" if wide else ""});
}
// The remainder of v after the piece `bits`.
static inline float rest(float v, bits_t bits)
{
    const float rounded = as_float(${"bits" if wide else "(uint)bits << 16"});
    return isfinite(rounded) ? v - rounded : 0.0f;
}
% endif

__kernel __attribute__((reqd_work_group_size(256, 1, 1)))
void ${kernel("repack")}
{
    const int t = get_local_id(0);
    const long first_row = 64l * (get_group_id(0) / columns), first_k = 64l * (get_group_id(0) % columns);
${operands.locate(["from"], rank, "get_group_id(1)")}
    to += to_offset + get_group_id(1) * rows * ${pieces} * pitch;
% if copied:
    // Each turn copies a chunk of 16 bytes.
    for (int i = t; i < ${64 * chunks}; i += 256) {
        const long row = first_row + i / ${chunks}, at = first_k + i % ${chunks} * ${width};
        if (row < rows && at < pitch)
            *(__global chunk_t *)(to + row * pitch + at) = at < k
                ? *(__global const chunk_t *)(from + row * from_row + at) : (chunk_t)(0);
    }
% else:
    // tile: the square by rows, with a pitch of 65, so that elements of a column are in different banks.  A work-item
    // loads 16 elements: (own_y, own_x), and every fourth one along the axis whose elements are not adjacent.
    __local value_t tile[64 * 65];
<% y, x, step = ("t % 64", "t / 64", "4 * from_col") if rows_adjacent else ("t / 64", "t % 64", "4 * from_row") %>\
    const int own_y = ${y}, own_x = ${x};
    __global const ${operand.elem.name}_t *at = from + (first_row + own_y) * from_row + (first_k + own_x) * from_col;
    value_t values[16];
#pragma unroll
    for (int i = 0; i < 16; ++i, at += ${step})
        values[i] = ${("first_row + own_y < rows && first_k + own_x + 4 * i < k" if rows_adjacent
            else "first_row + own_y + 4 * i < rows && first_k + own_x < k")} ? ${operand.elem.name}_load(at) : 0;
#pragma unroll
    for (int i = 0; i < 16; ++i)
        tile[${"own_y * 65 + own_x + 4 * i" if rows_adjacent else "(own_y + 4 * i) * 65 + own_x"}] = values[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = t; i < ${64 * chunks}; i += 256) {
        const int y = i / ${chunks}, x = i % ${chunks} * ${width};
        const long row = first_row + y;
        if (row >= rows || first_k + x >= pitch) continue;
        bits_t bits[${pieces}][${width}];
#pragma unroll
        for (int j = 0; j < ${width}; ++j) {
            value_t v = tile[y * 65 + x + j];
% for piece in range(pieces):
            bits[${piece}][j] = to_bits(v);
% if piece + 1 < pieces:
            v = rest(v, bits[${piece}][j]);
% endif
% endfor
        }
        __global bits_t *line = to + row * ${pieces} * pitch + first_k + x;
% for piece in range(pieces):
        *(__global chunk_t *)(line + ${piece} * pitch) =
            (chunk_t)(${", ".join(word(piece, j) for j in range(min(width, 4)))});
% endfor
    }
% endif
}
