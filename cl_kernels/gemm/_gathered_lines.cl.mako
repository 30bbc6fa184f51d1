## Copies of an operand that a Gather reads (see _gather) to lines of local memory (see _lines): k is along the lines,
## and the elements of a chunk are adjacent in memory and have the same place.  A chunk outside of the bounds is zeros.

<%def name="place(lines, first, count)">
<% n, r = lines.name, lines.reader %>\
    const int ${n}_last = (int)min(${count} - ${first}, ${lines.extent}l) - 1;
% for i in range(lines.copies):
<% digits = axes.digits(f"{n}_axis", r.rank, f"{n}_index{i}") %>\
    const int ${n}_index${i} = (int)${first} + min(line + ${i * lines.step}, ${n}_last);
    __global const char *const ${n}_row${i} = (__global const char *)(${n} + (${axes.offset("axis", n, digits)}));
% for d in range(r.rank - r.places, r.rank):
    const int ${n}_row${i}_place${d} = ${digits[d]} * ${n}_pitch${d};
% endfor
% endfor
    int ${n}_at = (int)k_first + chunk * ${lines.width};
</%def>

## Copy a step of k to the stage at `to`, and advance by its steps; the last step has `tail`.
<%def name="copy(lines, to, advance)">${chunks(lines, to, advance, False)}</%def>
<%def name="copy_tail(lines, to, advance)">${chunks(lines, to, advance, True)}</%def>

<%def name="chunks(lines, to, advance, ends)">
<% n, r, first = lines.name, lines.reader, lines.reader.rank - lines.reader.places %>\
    {
        const bool exists = ${f"chunk * {lines.width} < tail" if ends else "true"};
        const ${r.entry_type} e = exists ? ${n}_steps[${n}_at] : (${r.entry_type})(0);
        const long ahead = ${lines.elem.itemsize}l * ${"e.x" if r.places else "e"};
% for i in range(lines.copies):
<%
places = [(f"{n}_row{i}_place{d} + e.{'yzw'[d - first]}", f"{n}_bound{d}") for d in range(first, r.rank)]
inside = " && ".join(["exists", *(f"(uint)({place}) < (uint){bound}" for place, bound in places)])
%>\
        COPY_OR_ZERO(${to} + ${128 * lines.step * i}, ${n}_row${i} + ahead, ${inside} ? 16 : 0);
% endfor
    }
    ${n}_at += (int)${advance};
</%def>
