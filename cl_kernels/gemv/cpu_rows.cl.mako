## cpu_rows: y = alpha * A x + beta * y on a CPU, where A is contiguous along the summed axis.
##
##            | V | V | V | tail |        V elements fill the vector registers' lanes
##   row 0    | s0 ...           |        side_by_side: R rows share each load of x, or R / 2 at the end;
##   row 1    | s1 ...           |        else one after the other, in the order of memory, several vectors
##   ...      |                  |        in flight
##   row R-1  | s<R-1> ...       |
## The lane sums of R rows become one vector of R sums by log2(R) blends and permutations
## (a transposition in registers), not by R horizontal sums.
##
## A group is one work-item.  It computes block_size rows and, with `split`, one of `parts` parts of the columns (group
## g has block g / parts and part g % parts); then the last group of a row block to finish adds the parts in order.
##
## R, V: as in the picture.  elem, real: element, and the real type of the sums.  P: reals of an element.  C = V * P; T,
## E: types of C and of P reals.  conj: conjugate A.  unit: a_sum == 1 (else V == 1).  x_unit, y_unit: x_step, y_step
## == 1.  U: vectors in flight of rows side by side.  tail: how the columns after the last whole vector are read:
## "inside" the row, or "across" the ends of rows shorter than V; "none" if there are no such columns.  whole: the
## number of vectors of a row, if each has its own statements; 0 for a loop.  finish: see _put.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="gemv" file="/gemv/_gemv.cl.mako"/>
<%namespace name="put" file="/gemv/_put.cl.mako"/>
<%namespace name="outputs" file="/gemv/_cpu_outputs.cl.mako"/>
<%namespace name="dots" file="/gemv/_cpu_row_sums.cl.mako"/>
<%namespace name="blocks" file="/gemv/_cpu_row_block.cl.mako"/>
<%namespace name="fix_up" file="/group/fix_up.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    # The numbers of rows that are summed at a time.
    row_counts = [R, R // 2, 1] if side_by_side and R > 2 else list(dict.fromkeys([R, 1]))
    # The arguments of lane_sums for the tail.
    tail_arguments = ", tail_at, fresh, x_tail" if tail != "none" else ""
    tail_arguments += ", is_loadable" if tail == "across" else ""
%>
${element.scalar(elem)}
${put.define(elem, real, finish)}
${gemv.adjacent(elem, real, V, False)}
% if not x_unit:
${gemv.gather(elem, real, V)}
% endif
% if split:
${fix_up.define()}
% endif
${outputs.define(elem, real, C, y_unit, finish)}
% for rows in row_counts:
${blocks.define(rows)}
% endfor
% if tail == "across":
${dots.define_load_row()}
% endif
% for rows in row_counts[:-1] if side_by_side else []:
${dots.lane_sums(rows, U)}
% endfor
${dots.lane_sums(1, 1 if whole else 4 // P)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("gemv_cpu_rows")}
{
    ${T} lanes[${R * P}];
    ${real} sums[${R * P}] __attribute__((aligned(64)));
% if split:
    const uint part = get_group_id(0) % parts;
    const long first_row = get_group_id(0) / parts * block_size;
    const long first = part * part_size, last = first + part_size < n ? first + part_size : n;
    __global ${real} *sums_at = (__global ${real} *)partial + part * m * ${P};
% else:
    const long first_row = get_group_id(0) * block_size;
    const long first = 0, last = n;
% endif
    const long last_row = first_row + block_size < m ? first_row + block_size : m;
    a += a_offset;
    x += x_offset;
    y += y_offset;
${put.advance_arrays(finish)}\
% if tail != "none":
${dots.declare_tail()}\
% endif
    long i = first_row;
% if side_by_side:
% for rows in row_counts[:-1]:
    while (last_row - i > ${rows // 2}) {
        if (i + ${rows} > last_row) {
            // Begin before row i, and compute some rows again: ${rows} rows at a time take less time than a few one by
            // one.
            if (reads_y || last_row - ${rows} < first_row) break;
            i = last_row - ${rows};
        }
${blocks.compute(rows, tail_arguments)}\
        i += ${rows};
    }
% endfor
% else:
    while (i + ${R} <= last_row) {
${blocks.compute(R, tail_arguments)}\
        i += ${R};
    }
% endif
% if R > 1:
    for (; i < last_row; ++i) {
${blocks.compute(1, tail_arguments)}\
    }
% endif
% if split:
    ${outputs.fold_parts(elem, real, "get_group_id(0) / parts", "first_row", "last_row", finish)}
% endif
}
