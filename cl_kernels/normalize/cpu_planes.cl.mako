## cpu_planes: the gradient of normalisation over groups of channels (group norm) by its input, and sums for the
## gradients by weight and bias, on a CPU.  The elements of a channel are contiguous: images are NCHW.
##
##   row   channel 0 | V V V ... V' |    V elements of a channel; V', the last V elements, overlaps the vector before it
##         channel 1 | V V V ... V' |    if V does not divide `places` (at least V): sums leave out what they have of it
##
##   dw_parts[image, c] = rstd * sum(dy * (x - mean)),  db_parts[image, c] = sum(dy), over the places of channel c
##   slope = rstd^3 * sum(w * dy * (x - mean)) / count,  shift = rstd * sum(w * dy) / count, over the row's elements
##   dx = rstd * w * dy - ((x - mean) * slope + shift)
##
## A work-group has one work-item, which computes rows_each rows; a row is a group of channels of one image.  It adds up
## each channel, and then reads the channels again for dx, from the last to the first: the last ones are in the caches.
## dx is stored twice where V' overlaps, so it must not be dy or x.
## U: vectors of a step, each with sums of its own.  written: the names of the results.  NAME_channel: the stride of
## operand NAME between channels.  elems, real, V, kept: see normalize/_program.
<%namespace name="element" file="/common/element.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% value, suffix = vector(real, V), V if V > 1 else "" %>\
% for e in dict.fromkeys(elems.values()):
${element.scalar(e)}
% endfor
% if V > 1:
${element.vector_load(elems["dx"], V, False)}
${element.vector_store(elems["dx"], V, False)}
% endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${kernel("normalize_cpu_planes")}
{
    const uint begin = get_group_id(0) * rows_each, stop = min(begin + rows_each, rows);
    const uint whole = places / ${V}u * ${V}u;
    for (uint row = begin; row < stop; ++row) {
% for name in operands:
        __global ${"" if name in written else "const "}${elems[name].name}_t *const ${name}_row = ${name}_data
            + (${name}_offset + ${axes.offset("kept", name, axes.digits("kept", kept, "row"))});
% endfor
        const ${real} mean = ${elems["mean"].name}_load(mean_row), rstd = ${elems["rstd"].name}_load(rstd_row);
        ${real} grads_of_row = 0, products_of_row = 0;
        for (uint c = 0; c < channels; ++c) {
${channel()}\
            ${value} grads0 = 0, products0 = 0;
            uint at = 0;
            if (places >= ${U * V}u) {
                ${value} ${", ".join(f"grads{u} = 0, products{u} = 0" for u in range(1, U))};
                for (; at + ${U * V}u <= places; at += ${U * V}u) {
% for u in range(U):
${loaded(u, f"at + {u * V}u")}\
                    grads${u} += dy${u}, products${u} += dy${u} * (x${u} - mean);
% endfor
                }
% for u in range(1, U):
                grads0 += grads${u}, products0 += products${u};
% endfor
            }
            for (; at < whole; at += ${V}u) {
${loaded(0, "at")}\
                grads0 += dy0, products0 += dy0 * (x0 - mean);
            }
% if V > 1:
            if (at < places) {
<% mask = vector("long" if real == "double" else "int", V) %>\
                const ${mask} is_new = (${mask})(${", ".join(map(str, range(V)))}) >= (${mask})(at + ${V}u - places);
${loaded(0, f"places - {V}u")}\
                grads0 += select((${value})(0), dy0, is_new);
                products0 += select((${value})(0), dy0 * (x0 - mean), is_new);
            }
% endif
${halved("grads")}\
${halved("products")}\
% for name, sum in (("dw_parts", "products * rstd"), ("db_parts", "grads")):
% if name in operands:
            ${elems[name].name}_store(${name}_row + c * ${name}_channel, ${sum});
% endif
% endfor
            grads_of_row += weight * grads, products_of_row += weight * products;
        }
        const ${real} slope = products_of_row * rstd * rstd * rstd / count, shift = grads_of_row * rstd / count;
        for (uint c = channels; c-- > 0;) {
${channel()}\
            __global ${elems["dx"].name}_t *const dx = dx_row + c * dx_channel;
            const ${real} factor = rstd * weight;
            for (uint at = 0; at < whole; at += ${V}u) {
${stored("at")}\
            }
% if V > 1:
            if (whole < places) {
${stored(f"places - {V}u")}\
            }
% endif
        }
    }
}

## Declare the elements and the weight of channel c.
<%def name="channel()">\
% for name in ("dy", "x"):
            __global const ${elems[name].name}_t *const ${name} = ${name}_row + c * ${name}_channel;
% endfor
            const ${real} weight = ${f"{elems['w'].name}_load(w_row + c * w_channel)" if "w" in operands else 1};
</%def>

## Declare dy<tag> and x<tag>, the vectors at element j of the channel; store the result of the vector there.
<%def name="loaded(tag, j)">\
% for name in ("dy", "x"):
                const ${value} ${name}${tag} = ${elems[name].name}_load${suffix}(${name} + ${j});
% endfor
</%def>
<%def name="stored(j)">\
${loaded(0, j)}\
                ${elems["dx"].name}_store${suffix}(dx + ${j}, factor * dy0 - ((x0 - mean) * slope + shift));
</%def>

## Declare the sum of the components of the vector <name>0.
<%def name="halved(name)">\
% for width in [V >> k for k in range(1, V.bit_length())]:
<% wider = f"{name}_of_{2 * width}" if 2 * width < V else f"{name}0" %>\
            const ${vector(real, width)} ${name}_of_${width} = ${wider}.lo + ${wider}.hi;
% endfor
            const ${real} ${name} = ${name}${"_of_1" if V > 1 else 0};
</%def>
