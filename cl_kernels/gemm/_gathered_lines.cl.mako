## For the producer of wgmma: copies of an operand that a Gather reads (see _gather) to lines of local memory (see
## _lines).  A work-item makes lines.copies copies of a chunk of 16 bytes, whose elements are adjacent in memory and
## have the same coordinates; a chunk outside of the bounds is zeros.
##
##   k along the lines    a work-item's chunks are of several rows, at the same k: a step needs one entry of the table
##   k across the lines   a work-item's chunks are of few rows, at several k
##
## lines: portable_gpu.ops.gemm.matrix.lines.Lines.  pieces: the number of pieces of a value, which are copied in turn.
## In scope: line and chunk, the position of this work-item's first chunk in the tile (_lines); piece, the number of the
## piece; NAME_piece, the distance of a value's pieces in elements; tail, the steps of k in the last tile.
<%namespace name="entries" file="/gemm/_gathered_entries.cl.mako"/>
<%!
def row_of(lines, i):
    """C expression: the first row, in the tile, of copy i of a work-item."""
    if not lines.across:
        return f"line + {i * lines.step}"
    return f"{i * lines.step // lines.depth * lines.depth} + chunk * {lines.width}"

def k_of(lines, i):
    """C expression: the first step of k, in the tile, of copy i of a work-item."""
    return f"line + {i * lines.step % lines.depth}" if lines.across else f"chunk * {lines.width}"

def distinct(of, lines):
    """The different rows, or steps, of a work-item's copies (of: row_of or k_of), in the order of their first use."""
    return list(dict.fromkeys(of(lines, i) for i in range(lines.copies)))
%>
## Declare the positions of this work-item's distinct rows u.  The indices of the first row along the axes d of the
## reader are computed by divisions.  For each further row the distance of two rows is added to them, with carries, as
## in the addition of numbers digit by digit.  A row beyond the matrix repeats the previous row.  first: the tile's
## first row; count: rows of the matrix.
##
##   NAME_row<u>, NAME_row<u>_place<d>   the pointer to row u, and its coordinate along the checked axis d
##   NAME_at<d>                          the index along axis d of the current row
##   NAME_ahead<d>, NAME_ahead           the distance of two rows as indices along the axes, and in bytes
##   NAME_carry<d>                       the bytes that a carry from axis d to axis d - 1 adds to the pointer
<%def name="place(lines, first, count)">
<%
n, r, rows, size = lines.name, lines.reader, distinct(row_of, lines), lines.elem.itemsize
distance = lines.depth if lines.across else lines.step
carried = range(r.rank - 1, 0, -1)  # the axes from which a carry may come
%>\
    const int ${n}_last = (int)min(${count} - ${first}, ${lines.extent}l) - ${lines.width if lines.across else 1};
    const int ${n}_index = (int)${first} + min(${rows[0]}, ${n}_last);
% for d, digit in enumerate(axes.digits(f"{n}_axis", r.rank, f"{n}_index")):
    int ${n}_at${d} = ${digit};
% endfor
% if len(rows) > 1:
% for d, digit in enumerate(axes.digits(f"{n}_axis", r.rank, str(distance))):
    const int ${n}_ahead${d} = ${digit};
% endfor
    const long ${n}_ahead = ${size} * (${axes.offset("axis", n, [f"{n}_ahead{d}" for d in range(r.rank)])});
% for d in carried:
    const long ${n}_carry${d} = ${size} * (${n}_axis${d - 1} - ${n}_axis${d}_size * ${n}_axis${d});
% endfor
% endif
% for u, s in enumerate(rows):
% if u == 0:
    __global const char *const ${n}_row0 = (__global const char *)${n}
        + ${size} * (${axes.offset("axis", n, [f"{n}_at{d}" for d in range(r.rank)])});
% else:
    __global const char *${n}_row${u} = ${n}_row${u - 1};
    if (${s} <= ${n}_last) {
        ${n}_row${u} += ${n}_ahead;
% for d in range(r.rank):
        ${n}_at${d} += ${n}_ahead${d};
% endfor
% for d in carried:
        if (${n}_at${d} >= ${n}_axis${d}_size) {
            ${n}_at${d} -= ${n}_axis${d}_size;
            ${n}_at${d - 1} += 1;
            ${n}_row${u} += ${n}_carry${d};
        }
% endfor
    }
% endif
% for d in range(r.rank - r.places, r.rank):
    const int ${n}_row${u}_place${d} = ${n}_at${d} * ${n}_pitch${d};
% endfor
% endfor
${entries.first_entries(lines, distinct(k_of, lines))}\
</%def>

## Copy a tile, or the last tile, to the stage at `to`, and advance.  The defs of _lines have the same parameters;
## `advance` is not used here, because a reader advances by the entries of its table.
<%def name="copy(lines, to, advance)">${chunks(lines, to, False)}</%def>
<%def name="copy_tail(lines, to, advance)">${chunks(lines, to, True)}</%def>

## The copies of a tile.  ends: whether only `tail` steps of k exist.  Of the distinct step v, e<v> is the entry of the
## table, and offset<v> its offset in bytes.
<%def name="chunks(lines, to, ends)">
<% n, r, first_checked = lines.name, lines.reader, lines.reader.rank - lines.reader.places %>\
    {
% for v, k in enumerate(distinct(k_of, lines)):
        const bool exists${v} = ${f"{k} < tail" if ends else "true"};
        const ${r.entry_type} e${v} = ${n}_entry${v};
        const long offset${v} = ${lines.elem.itemsize}l * (${f"e{v}.x" if r.places else f"e{v}"}\
${f" + {n}_far{v}" if r.wraps else ""}${f" + piece * {n}_piece" if pieces > 1 else ""});
% endfor
% for i in range(lines.copies):
<%
u, v = distinct(row_of, lines).index(row_of(lines, i)), distinct(k_of, lines).index(k_of(lines, i))
places = [(f"{n}_row{u}_place{d} + e{v}.{'yzw'[d - first_checked]}", f"{n}_bound{d}")
    for d in range(first_checked, r.rank)]
inside = " && ".join([f"exists{v}", *(f"(uint)({place}) < (uint){bound}" for place, bound in places)])
%>\
        COPY_OR_ZERO(${to} + ${128 * lines.step * i}, ${n}_row${u} + offset${v}, ${inside} ? 16 : 0);
% endfor
    }
${entries.next_entries(lines, len(distinct(k_of, lines)))}\
</%def>
