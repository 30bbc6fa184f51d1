## limit: scale the rows of weight that are indexed, in place, if their norm is above max_norm.
##
##   rows   | rows_each | rows_each | ...      a work-item has whole rows: one on a GPU
##
##   weight[row, :] *= max_norm / (norm + 1e-7), where norm = (sum |weight[row, :]|^p)^(1/p) > max_norm
##
## A row is indexed if a list of the kernel `lists`, in `positions`, has it.  If its report says that an index is not a
## row, no row is changed.
##
## elem: the element type.  norm: "one", "two", "infinite" or "power", the kind of p.  G: work-items of a group.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
real = elem.real
added = {"one": "sum + x", "two": "sum + x * x", "infinite": "x > sum || x != x ? x : sum", "power": "sum + pow(x, p)"}
root = {"one": "sum", "two": "sqrt(sum)", "infinite": "sum", "power": "pow(sum, 1 / p)"}
%>
${element.scalar(elem)}

__kernel ${group.of_size(G)}
void ${kernel("limit")}
{
    if (report_in[report_in_offset] >= 0) return;
    const long begin = (long)get_global_id(0) * rows_each, end = min(rows, begin + rows_each);
    for (long row = begin; row < end; row++) {
        bool is_named = false;
        for (long chunk = 0; chunk < chunks; chunk++) is_named = is_named || positions[chunk * rows + row] >= 0;
        if (!is_named) continue;
        __global ${elem.name}_t *first = weight_in + (weight_in_offset + row * weight_row);
        ${real} sum = 0;
        for (long column = 0; column < columns; column++) {
            const ${real} x = fabs(${elem.name}_load(first + column * weight_column));
            sum = ${added[norm]};
        }
        const ${real} size = ${root[norm]};
        if (!(size > max_norm)) continue;
        const ${real} scale = max_norm / (size + (${real})1e-7);
        for (long column = 0; column < columns; column++) {
            __global ${elem.name}_t *at = first + column * weight_column;
            ${elem.name}_store(at, ${elem.name}_load(at) * scale);
        }
    }
}
