## Copies of an operand that a Gather reads (see _gather) to lines of local memory (see _lines, which also defines line
## and chunk, the position of this work-item's first chunk).  The elements of a chunk are adjacent in memory and have
## the same coordinates; a chunk outside of the bounds is zeros.  parts: the number of pieces of a value, which are
## copied in turn; `part`, a variable in scope, is the number of the piece.
##
##   k along the lines    a work-item copies one chunk of k, of several rows: it reads one entry of the table in a step
##   k across the lines   a work-item copies chunks of few rows, at several k
<%namespace name="entries" file="/gemm/_gathered_entries.cl.mako"/>
<%!
def row(lines, i):
    """The first row of copy i of a work-item, in the tile."""
    if not lines.across:
        return f"line + {i * lines.step}"
    return f"{i * lines.step // lines.depth * lines.depth} + chunk * {lines.width}"

def step(lines, i):
    """The step of k of copy i of a work-item, in the tile."""
    return f"line + {i * lines.step % lines.depth}" if lines.across else f"chunk * {lines.width}"

def distinct(of, lines):
    """The different rows, or steps, of a work-item's copies (of: `row` or `step`), in the order of their first use."""
    return list(dict.fromkeys(of(lines, i) for i in range(lines.copies)))
%>
## Declare the positions of this work-item's rows.  Divisions yield the indices of the first row along the axes; those
## of other rows are computed by additions of the distance, with carries.  A row beyond the matrix repeats the previous
## row.
<%def name="place(lines, first, count)">
<%
n, r, rows, size = lines.name, lines.reader, distinct(row, lines), lines.elem.itemsize
distance = lines.depth if lines.across else lines.step
carried = range(r.rank - 1, 0, -1)
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
${entries.first(lines, distinct(step, lines))}\
</%def>

## Copy a panel of k to the stage at `to`, and advance after the last piece.  The last panel has `tail` steps.
<%def name="copy(lines, to, advance)">${chunks(lines, to, False)}</%def>
<%def name="copy_tail(lines, to, advance)">${chunks(lines, to, True)}</%def>

## ends: whether only `tail` steps of k exist.
<%def name="chunks(lines, to, ends)">
<% n, r, first = lines.name, lines.reader, lines.reader.rank - lines.reader.places %>\
    {
% for v, k in enumerate(distinct(step, lines)):
        const bool exists${v} = ${f"{k} < tail" if ends else "true"};
        const ${r.entry_type} e${v} = ${n}_entry${v};
        const long ahead${v} = ${lines.elem.itemsize}l * (${f"e{v}.x" if r.places else f"e{v}"}\
${f" + {n}_far{v}" if r.wraps else ""}${f" + part * {n}_piece" if parts > 1 else ""});
% endfor
% for i in range(lines.copies):
<%
u, v = distinct(row, lines).index(row(lines, i)), distinct(step, lines).index(step(lines, i))
places = [(f"{n}_row{u}_place{d} + e{v}.{'yzw'[d - first]}", f"{n}_bound{d}") for d in range(first, r.rank)]
inside = " && ".join([f"exists{v}", *(f"(uint)({place}) < (uint){bound}" for place, bound in places)])
%>\
        COPY_OR_ZERO(${to} + ${128 * lines.step * i}, ${n}_row${u} + ahead${v}, ${inside} ? 16 : 0);
% endfor
    }
${entries.following(lines, len(distinct(step, lines)))}\
</%def>
