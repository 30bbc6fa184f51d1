## limit: scale the rows of weight that are indexed, in place, if their norm is above max_norm.
##
##   rows   | rows_each | rows_each | ...      one range for each work-item; on a GPU one row
##
##   weight[row, :] *= max_norm / (row_norm + 1e-7), where row_norm = (sum |weight[row, :]|^p)^(1/p) > max_norm
##
## The kernel `lists` has made the lists of a row's positions in the `chunks` chunks of the indices.  `positions` begins
## with their heads: positions[chunk, row] is -1 if the chunk does not have the row.  If that kernel has reported an
## index that is not a row, no row is changed.
##
## elem: the element type.  norm: "one", "two", "infinite" or "power", for p = 1, 2, infinity, or any p.  G: work-items
## of a group.
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
    if (report_data[report_data_offset] >= 0) return;
    const long begin = (long)get_global_id(0) * rows_each, end = min(rows, begin + rows_each);
    for (long row = begin; row < end; row++) {
        bool is_indexed = false;
        for (long chunk = 0; chunk < chunks; chunk++) is_indexed = is_indexed || positions[chunk * rows + row] >= 0;
        if (!is_indexed) continue;
        __global ${elem.name}_t *first = weight_data + (weight_data_offset + row * weight_row);
        ${real} sum = 0;
        for (long column = 0; column < columns; column++) {
            const ${real} x = fabs(${elem.name}_load(first + column * weight_column));
            sum = ${added[norm]};
        }
        const ${real} row_norm = ${root[norm]};
        if (!(row_norm > max_norm)) continue;
        const ${real} scale = max_norm / (row_norm + (${real})1e-7);
        for (long column = 0; column < columns; column++) {
            __global ${elem.name}_t *at = first + column * weight_column;
            ${elem.name}_store(at, ${elem.name}_load(at) * scale);
        }
    }
}
