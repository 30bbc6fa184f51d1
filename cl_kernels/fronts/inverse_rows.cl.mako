## Copy Z22 of large fronts: the elements of the parent's Z with the front's rows and columns.  The lower triangle is
## read, and both triangles are written.
##
## tasks     for each work-group: the front, and the first of the `run` rows of Z22 that the group copies
## z         the blocks, m x m by rows; block_start: the start of each front's block
## size      work-items of a group; 1 on CPUs
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="front_" file="/fronts/_front.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
${element.scalar(e)}
${epilogue.values(e)}
${numbers.parts(e)}

__kernel ${group.of_size(size)}
void ${kernel("inverse_rows")}
{
    const int2 task = tasks[get_group_id(0)];
    const long s = task.x, t = get_local_id(0);
${front_.front("s", only=("columns", "rows", "row_start", "parent"))}
${front_.front("parent", "parent_", ("columns", "rows"))}
    const long m = columns + rows, line = parent_columns + parent_rows, end = min(task.y + run, rows);
    __global const int *place = relative + row_start;
    __global ${e.name}_t *from = z + z_offset + block_start[parent],
        *to = z + z_offset + block_start[s] + columns * m + columns;
    for (long i = task.y; i < end; i++)
        for (long j = t; j <= i; j += ${size}) {
            const value_t v = ${e.name}_load(from + place[i] * line + place[j]);
            ${e.name}_store(to + i * m + j, v);
            if (j < i) ${e.name}_store(to + j * m + i, CONJ(v));
        }
}
