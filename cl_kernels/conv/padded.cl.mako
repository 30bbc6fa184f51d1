## padded: images of few channels as matrix units read them: channels last, with zeros around each image and after the
## channels of each place.
##
##   t[n, at0, at1, at2, channel] = s[n, channel, at0 - before0, at1 - before1, at2 - before2], or 0 outside of s
##
## A work-item stores the `lanes` channels from first_channel on of one place, as a vector.  Elements have 16 bits, and
## are copied as they are.  Arguments that _axes does not have:
##
##   s_channels, blocks   the channels of s, and the vectors of channels of t
##   before0              the places in front of s along an axis
##
## lanes   elements of a vector: 2, 4 or 8
<%namespace name="space" file="/conv/_axes.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<% order = [("n", "batch"), ("at0", "t0_size"), ("at1", "t1_size"), ("at2", "t2_size"), ("block", "blocks")] %>
__kernel void ${kernel("padded")}
{
    const int item = get_global_id(0);
    if (item >= items) return;
${space.coordinates("item", order, "int")}\
    const int p0 = at0 - before0, p1 = at1 - before1, p2 = at2 - before2, first_channel = block * ${lanes};
    const bool inside = (uint)p0 < (uint)s0_size && (uint)p1 < (uint)s1_size && (uint)p2 < (uint)s2_size;
    const int channels = inside ? s_channels - first_channel : 0;
    s += s_offset + n * s_batch + first_channel * s_channel + p0 * s_axis0 + p1 * s_axis1 + p2 * s_axis2;
    ushort${lanes} values = 0;
% for lane in range(lanes):
    if (${lane} < channels) values.s${lane} = s[${f"{lane} * s_channel" if lane else 0}];
% endfor
    ((__global ushort${lanes} *)(t + t_offset))[item] = values;
}
