## Copies of an operand that a Gather reads (see _gather) to lines of local memory (see _lines).  The elements of a
## chunk are adjacent in memory and have the same place; a chunk outside of the bounds is zeros.  parts: pieces of a
## value, which are copied in turn; `part` is the number of the piece.
##
##   k along the lines    a work-item copies one chunk of k, of several rows: it reads one entry of the table a step
##   k across the lines   a work-item copies chunks of few rows, at several k
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
    return list(dict.fromkeys(of(lines, i) for i in range(lines.copies)))
%>
<%def name="place(lines, first, count)">
<% n, r = lines.name, lines.reader %>\
    const int ${n}_last = (int)min(${count} - ${first}, ${lines.extent}l) - ${lines.width if lines.across else 1};
% for u, s in enumerate(distinct(row, lines)):
<% digits = axes.digits(f"{n}_axis", r.rank, f"{n}_index{u}") %>\
    const int ${n}_index${u} = (int)${first} + min(${s}, ${n}_last);
    __global const char *const ${n}_row${u} = (__global const char *)(${n} + (${axes.offset("axis", n, digits)}));
% for d in range(r.rank - r.places, r.rank):
    const int ${n}_row${u}_place${d} = ${digits[d]} * ${n}_pitch${d};
% endfor
% endfor
% for v, k in enumerate(distinct(step, lines)):
% if r.wraps:
    int ${n}_at${v} = (int)((k_first + ${k}) % ${n}_period);
    long ${n}_far${v} = (k_first + ${k}) / ${n}_period * ${n}_repeat;
% else:
    int ${n}_at${v} = (int)k_first + ${k};
% endif
    ${r.entry_type} ${n}_entry${v} = ${entry(lines, v)};
% endfor
</%def>

## An entry of the table.  Entries of the next step are loaded while copies of this one are in flight.
<%def name="entry(lines, v)"><%
n, r = lines.name, lines.reader
return f"{n}_steps[{n}_at{v}]" if r.wraps else f"{n}_at{v} < k ? {n}_steps[{n}_at{v}] : ({r.entry_type})(0)"
%></%def>

## Copy a step of k to the stage at `to`, and advance by its steps after the last piece; the last step has `tail`.
<%def name="copy(lines, to, advance)">${chunks(lines, to, False)}</%def>
<%def name="copy_tail(lines, to, advance)">${chunks(lines, to, True)}</%def>

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
% for v in range(len(distinct(step, lines))):
    ${n}_at${v} += ${f"part == {parts - 1} ? {lines.depth} : 0" if parts > 1 else lines.depth};
% if r.wraps:
    if (${n}_at${v} >= ${n}_period) {
        ${n}_at${v} -= ${n}_period;
        ${n}_far${v} += ${n}_repeat;
    }
% endif
    ${n}_entry${v} = ${entry(lines, v)};
% endfor
</%def>
