## Asynchronous copies of tiles of rows to local memory, for mma and mma_backward (PTX ISA: cp.async).
##
## A row has D 16-bit elements: D / 8 chunks of 16 bytes.  Local memory has the rows one after another, and chunk c of
## row r at place c ^ swizzle(r) of the row, so that the rows which one instruction reads are in different banks.
## In scope at the caller: t, the local id; NAME_data, the address of the array's next tile in global memory; NAME_row,
## its stride between rows in elements; NAME_base, the address of its tile in local memory, in bytes.
## Parameters: name, the array's NAME; D; rows, of a tile; extent, C text: the elements of a row that exist; group, the
## number of work-items, which copy the chunks of a tile in their order: work-item t has t, t + group, ...
<%!
def permuted(D):
    """The number of adjacent chunks that are permuted: the greatest power of two, at most 8, that divides D / 8."""
    chunks = D // 8
    return min(8, chunks & -chunks)

def swizzle(D, row):
    """C text of the number s by which the chunks of a row are permuted: chunk c is at place c ^ s."""
    return f"({row} / {8 // permuted(D)}u % {permuted(D)}u)"

def same_chunk(D, rows, group):
    """Whether all copies of a work-item have the same chunk of a row and the same swizzle.

    This is so if the group copies whole rows at a time, their number is a multiple of 8, after which swizzles repeat,
    and a tile consists of such copies.
    """
    return group * 8 % D == 0 and group * 8 // D % 8 == 0 and rows * D % (8 * group) == 0
%>

<%def name="define()">
// The 32-bit address in local memory that PTX takes.
static inline uint local_address(const __local void *p) { return (uint)(size_t)p; }
// Copy `bytes` bytes, 0 or 16, and set the rest of 16 bytes to zero.
#define COPY_OR_ZERO(to, from, bytes) \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory")
#define COPIES_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT() asm volatile("cp.async.wait_group 0;" ::: "memory")
</%def>

## Declare where this work-item's chunks of a tile begin: NAME_data and NAME_to (source and destination of the first),
## and NAME_size (bytes to copy).  Without same_chunk, `copy` computes them for each chunk.
<%def name="place(name, D, rows, extent, group)"><% chunks = D // 8 %>\
% if same_chunk(D, rows, group):
    ${name}_data += t / ${chunks}u * ${name}_row + t % ${chunks}u * 8u;
    const uint ${name}_size = t % ${chunks}u * 8u < ${extent} ? 16 : 0;
    const uint ${name}_to = ${name}_base + t / ${chunks}u * ${2 * D}u
        + ((t % ${chunks}u ^ ${swizzle(D, f"(t / {chunks}u)")}) << 4);
% endif
</%def>

## Copy a tile of rows, and advance NAME_data to the next tile.  left: C text, the number of rows that exist from the
## tile's first one on; later rows, and elements beyond the extent, become zeros.  ahead: C text, added to the address
## in local memory.
<%def name="copy(name, D, rows, extent, group, left, ahead='')"><% chunks = D // 8 %>\
% if same_chunk(D, rows, group):
            HIDE_VALUE("+l", ${name}_data);
% for row in range(0, rows, group // chunks):
            COPY_OR_ZERO(${name}_to${ahead} + ${2 * D * row}u, ${name}_data,
                t / ${chunks}u + ${row}u < ${left} ? ${name}_size : 0);
            ${name}_data += ${group // chunks} * ${name}_row;
% endfor
% else:
            HIDE_VALUE("+l", ${name}_row);
            for (uint index = t; index < ${rows * chunks}u; index += ${group}u) {
                const uint row = index / ${chunks}u, chunk = index % ${chunks}u;
                COPY_OR_ZERO(${name}_base${ahead} + row * ${2 * D}u + ((chunk ^ ${swizzle(D, "row")}) << 4),
                    ${name}_data + (row * ${name}_row + chunk * 8u), row < ${left} && chunk * 8u < ${extent} ? 16 : 0);
            }
            ${name}_data += ${rows} * ${name}_row;
% endif
</%def>
