## The end of the kernel `columns`: fold the vectors of a group's work-items to one accumulator for each column.  In
## scope there: x_lane, y_lane, a work-item's place in the group, of CX x CY; total0, total1 ...: its C vectors of V
## columns; r: the Reduction, whose accumulator acc_t has `fields`; tile, part, parts: see columns.
##
##   row lane 0      | total0 total1 ... | ...            C vectors of V columns a work-item
##   row lane 1      | total0 total1 ... | ...   folds    CY row lanes, through local memory
##   ...
##   row lane 0      field[0] field[1] ... field[V*C-1]   an array for each of the accumulator's fields
##
## With `split` every group of a block folds its part, and the last group to arrive folds all parts.
<%namespace name="row_lanes" file="/reduce/_row_lanes.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>

## Copy the vectors total0 ... to the arrays of fields, or these to the vectors.
<%def name="to_columns()">
% for field in r.acc.fields:
% for c in range(C):
    *(${vector(field.ctype, V)} *)(${field.name} + ${c * V}) = total${c}.${field.name};
% endfor
% endfor
</%def>

<%def name="to_vectors()">\
% for c in range(C):
% for field in r.acc.fields:
    total${c}.${field.name} = *(const ${vector(field.ctype, V)} *)(${field.name} + ${c * V});
% endfor
% endfor
</%def>

## The head of a loop over the columns j of a work-item.  GPUs unroll it, so that their arrays are registers; on a CPU
## the arrays are in cache.
<%def name="each_column()">\
% if not target.is_cpu:
_Pragma("unroll") \
% endif
for (int j = 0; j < ${V * C}; ++j)\
</%def>

## The accumulator of column j.
<%def name="column()">const acc_t a = {${", ".join(f"{field.name}[j]" for field in r.acc.fields)}};</%def>

## The last group of a block to finish folds the parts of each column: each row lane folds some of them
## in order, and then the row lanes are folded.
<%def name="across_groups()">
<% words = r.acc.bytes // 4 %>\
    __local uint is_last;
    // partial: [tile][part][x_lane][column j of a work-item], `words` 32-bit words for each accumulator.
    volatile __global uint *own_partial = partial + ((size_t)tile * parts * ${CX} + x_lane) * ${V * C * words};
    if (y_lane == 0) {
        ${each_column()} {
            ${column()}
            acc_t_publish(own_partial + ((size_t)part * ${CX * V * C} + j) * ${words}, a);
        }
    }
${fix_up.arrive("counters + tile", "parts", "get_local_id(0) == 0")}\
    // Other groups continue with no parts to fold: compilers generate slow code for barriers in a branch.
    const uint parts_to_fold = is_last ? parts : 0;
% if target.is_cpu:
    ${each_column()} {
        acc_t a;
${fix_up.fold(r.acc, "a", f"own_partial + ((size_t)p * {CX * V * C} + j) * {words}", "y_lane", CY, "parts_to_fold")}\
% for field in r.acc.fields:
        ${field.name}[j] = a.${field.name};
% endfor
    }
% else:
${fold_parts()}\
% endif
% if CY > 1:
${to_vectors()}\
    ${row_lanes.fold()}
    ${to_columns()}
% endif
    if (!is_last) return;
</%def>

## The fold of all parts by a GPU's work-item: it loads all its columns of a few parts before it folds them.
<%def name="fold_parts()">
<%
    words = r.acc.bytes // 4
    ahead = max(1, 16 // (V * C * words))
    places = [(u, j) for u in range(ahead) for j in range(V * C)]  # part u of those loaded at once, column j
%>\
    const acc_t none = acc_t_identity();
% for field in r.acc.fields:
    ${each_column()} ${field.name}[j] = none.${field.name};
% endfor
    for (uint p = y_lane; p < parts_to_fold; p += ${ahead * CY}u) {
% for u, j in places:
        const acc_t loaded${u}_${j} = acc_t_collect(own_partial
            + ((size_t)${f"min(p + {u * CY}u, parts_to_fold - 1u)" if u else "p"} * ${CX * V * C} + ${j}) * ${words});
% endfor
% for u, j in places:
        ${f"if (p + {u * CY}u < parts_to_fold) " if u else ""}{
            acc_t a = {${", ".join(f"{field.name}[{j}]" for field in r.acc.fields)}};
            a = acc_t_combine(a, loaded${u}_${j});
% for field in r.acc.fields:
            ${field.name}[${j}] = a.${field.name};
% endfor
        }
% endfor
    }
</%def>
