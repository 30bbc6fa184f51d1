## channels: the gradient of normalisation over groups of channels (group norm) by its input, and sums for the gradients
## by weight and bias, on a GPU.  A work-group has one group of channels of one sample, the row get_group_id(0).
##
##   row   | channel 0: L lanes | channel 1: L lanes | ...     it folds all channels, and reads them again, from the
##         | channel G/L ...                         | ...     cache, for the result
##
##   dw_parts[sample, c] = rstd sum dy (x - mean),  db_parts[sample, c] = sum dy, over the places of channel c
##   dx = rstd (w dy - (x - mean) slope - shift),   with sums over the group's `count` elements:
##   slope = rstd^2 sum w dy (x - mean) / count,    shift = sum w dy / count
##
## acc: the accumulator of a channel.  G: work-items of a group.  L: of a channel.  S: of a sub-group.  T: the channels
## that a work-item folds.  V: elements of a vector.  U: vectors in flight.  p, elems, real, kept, outer: see _program.
## n: places of a channel.  folded: in local memory, L / S accumulators for each channel c, one after the other.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="accumulator" file="/group/accumulator.cl.mako"/>
<%namespace name="subgroup" file="/subgroup/subgroup.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% own_rows, waves, value = G // L, L // S, vector(real, V) %>
% for e in dict.fromkeys(elems.values()):
${element.scalar(e)}
% endfor
% if V > 1:
${element.vector_load(elems["dx"], V, True)}
${element.vector_store(elems["dx"], V, True)}
% endif
${accumulator.define(acc, 1)}
${subgroup.define(acc, S)}

__kernel SUBGROUP_KERNEL ${group.of_size(G)}
void ${kernel("normalize_channels")}
{
    __local acc_t folded[${T * own_rows * waves}];
    SUBGROUP_SCRATCH(acc_t, scratch, ${G});
    // place0: the work-item's first place of a channel.  own: its channel among the G / L that are folded at once.
    const uint lid = get_local_id(0), place0 = lid % ${L}u * ${V}u, own = lid / ${L}u, row = get_group_id(0);
% for name in p.operands:
    __global ${"" if name in written else "const "}${elems[name].name}_t *${name} = ${name}_data + (${name}_offset
        + ${axes.offset("kept", name, axes.digits("kept", kept, "row"))});
% endfor
    const ${real} rstd_of_row = ${elems["rstd"].name}_load(rstd), mean_of_row = ${elems["mean"].name}_load(mean);
    for (uint t = 0; t < ${T}u; ++t) {
        const uint c = t * ${own_rows}u + own;
        acc_t s = acc_t_identity();
        if (c < channels) {
            ${value} grads = 0, products = 0;
            uint j = place0;
            for (; j + ${(U - 1) * L * V}u < n; j += ${U * L * V}u) {
% for u in range(U):
${loaded(u, f"j + {u * L * V}u")}\
% endfor
% for u in range(U):
                grads += dy${u}, products += dy${u} * (x${u} - mean_of_row);
% endfor
            }
            for (; j < n; j += ${L * V}u) {
${loaded(0, "j")}\
                grads += dy0, products += dy0 * (x0 - mean_of_row);
            }
            s.sum_grad = ${" + ".join(f"grads{component(V, i)}" for i in range(V))};
            s.sum_grad_x = ${" + ".join(f"products{component(V, i)}" for i in range(V))};
        }
        s = acc_t_subgroup${S}(s, SUBGROUP_SLOT(scratch));
        if (lid % ${S}u == 0) folded[(t * ${own_rows}u + own) * ${waves}u + lid % ${L}u / ${S}u] = s;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    ${real} grads_of_row = 0, products_of_row = 0;
    for (uint c = 0; c < channels; ++c) {
        acc_t s = folded[c * ${waves}u];
        for (uint k = 1; k < ${waves}u; ++k) s = acc_t_combine(s, folded[c * ${waves}u + k]);
        const ${real} weight = ${weight()};
        grads_of_row += weight * s.sum_grad, products_of_row += weight * s.sum_grad_x;
% for name, sum in (("dw_parts", "s.sum_grad_x * rstd_of_row"), ("db_parts", "s.sum_grad")):
% if name in p.operands:
        if (c % ${G}u == lid) ${elems[name].name}_store(${name}${f" + c * {name}_outer0" if outer else ""}, ${sum});
% endif
% endfor
    }
    const ${real} slope = products_of_row * rstd_of_row * rstd_of_row / count, shift = grads_of_row / count;
    for (uint c = own; c < channels; c += ${own_rows}u) {
        const ${real} weight = ${weight()};
        #pragma unroll ${U}
        for (uint j = place0; j < n; j += ${L * V}u) {
${loaded(0, "j")}\
            ${elems["dx"].name}_store${V if V > 1 else ""}(${address("dx", "j")},
                rstd_of_row * (weight * dy0 - (x0 - mean_of_row) * slope - shift));
        }
    }
}

## Expressions: the weight of channel c, and the address of its element j.
<%def name="weight()">\
<% load = f"{elems['w'].name}_load" if "w" in p.operands else "" %>\
${f"{load}(w{' + c * w_outer0' if outer else ''})" if load else 1}\
</%def>

<%def name="address(name, j)">\
${name} + (${f"c * {name}_outer0 + " if outer else ""}${j})\
</%def>

## Declare dy<tag> and x<tag>, the vectors at element j of channel c.
<%def name="loaded(tag, j)">\
% for name in ("dy", "x"):
                const ${value} ${name}${tag} = ${elems[name].name}_load${V if V > 1 else ""}(${address(name, j)});
% endfor
</%def>
