## Factorise subtrees of the elimination tree on a CPU.  A group is one work-item.  It takes the number of a subtree as
## a ticket (group/waiting), processes the fronts of that subtree in postorder, and takes the next ticket.
##
##      scratch of a work-item:   t: T of the front   | inverse: 1 / diagonal | at: positions | updates: the stack
##                                `triangle` elements | `places` elements     | `places`      |      `size` in all
##
##      Assemble T (see _strips): the matrix's entries, then the children's updates from the stack.
##      Factorise its own columns.  Copy the panel to the factor, and the update to the stack, by rows:
##
##      *****        row k has elements k .. u - 1, and rows are contiguous.  The update of a subtree's root, or of
##       ****        a single front, is stored in the arena in the packed form that other kernels read.
##
## e, policy, K, NB   as in _strips
## subtree            of each subtree: its first front, and the front after its last one
## stack              of each front: the position of its update on the stack, or -1 if that is in the arena
## place              of each column: its position in row 0 of T
## failures           of each front: the first own column whose pivot is not positive, or -1, and that pivot's bits
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="moves" file="/common/moves.cl.mako"/>
<%namespace name="rows" file="/factor/_rows.cl.mako"/>
<%namespace name="strips" file="/fronts/_strips.cl.mako"/>
<%namespace name="updates_of" file="/fronts/_cpu_updates.cl.mako"/>
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
E, R, NR = f"__global {e.name}_t", policy.rows, policy.strip(e)
%>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}
${numbers.root(e)}
${moves.types(e)}
${moves.define(e, "move_conj", True)}
${rows.types(e, policy)}
${rows.define(e, policy, True)}
${rows.define_square(e, policy)}
${strips.define(e, policy, K, NB)}
${front_.place()}
${updates_of.define(e, policy)}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("subtrees")}
{
    ${E} *t = scratch + get_group_id(0) * size, *inverse = t + triangle;
    __global int *at = (__global int *)(inverse + places);
    ${E} *updates = inverse + 2 * places;
    values += values_offset;
    for (long subtree_number = ${waiting.ticket()}; subtree_number < count; subtree_number = ${waiting.ticket()})
        for (long s = subtree[2 * subtree_number]; s < subtree[2 * subtree_number + 1]; s++) {
${front_.front("s", only=("columns", "rows", "panel", "leading", "update", "child_start", "child_end", "entry_start",
    "entry_end", "parent"))}
            // T has c own columns, of which the first `pad` are those of the identity, and m columns in all.
            const long c = (columns + ${R - 1}) / ${R} * ${R}, pad = c - columns, m = c + rows;
            clear(t, strip((m + ${NR - 1}) / ${NR}));
            for (long k = 0; k < pad; k++) t[place[k] + k * ${NR}] = (value_t)(${"1, 0" if e.complex else "1"});
            for (long k = entry_start; k < entry_end; k++) {
                const long source = entry_source[k];  // ~index where the conjugate is meant; T has that of L
                const value_t v = values[source < 0 ? ~source : source];
                t[place[entry_row[k] + pad] + (entry_column[k] + pad) * ${NR}] = source < 0 ? v : CONJ(v);
            }
            for (long k = child_start; k < child_end; k++) {
${front_.front("child[k]", "child_", ("rows", "update", "row_start"))}
                const long from = stack[child[k]];
                if (from >= 0) add_update(t, at, place, relative + child_row_start, child_rows, pad, updates + from);
                else add_packed(t, at, place, relative + child_row_start, child_rows, pad,
                    arena + arena_offset + child_update);
            }
            long failed = -1;
            real_t pivot = 0;
            factor_front(t, inverse, c, m, &failed, &pivot);
            put_panel(t, pad, c, m, factor + factor_offset + panel, leading);
            if (stack[s] >= 0) put_update(t, c, m, updates + stack[s]);
            else if (parent >= 0) put_packed(t, place, c, rows, arena + arena_offset + update);
            failures[failures_offset + 2 * s] = failed < 0 ? -1 : failed - pad;
            failures[failures_offset + 2 * s + 1] = ${"as_long(pivot)" if e.needs_fp64 else "(long)as_int(pivot)"};
        }
    if (${waiting.is_last("get_num_groups(0)")}) ${waiting.reset("0", "0", "1")}\
}
