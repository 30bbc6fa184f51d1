## A part of conv/cpu_weight: copies of rows into its tiles.
<%! from portable_gpu.codegen.operators import vector %>

## Define copy_NAME: to[j] = from[j * step * axis] for first <= j < last, and 0 for the other j below `count`; up to V
## elements of `to` behind these may be overwritten.  Nothing is read from address `end` on.  axis: the stride of s or t
## between elements of a row.
##
## adjacent: whether axis is 1.  in_lanes: to[u * apart + j] has the V adjacent channels u * V, ... of element j, for
## u < units, and the element 32 further is prefetched.
<%def name="copy(name, elem, V, units, adjacent, step, in_lanes)"><%
E, real = elem.name, vector(elem.real, V)
%>\
static inline void copy_${name}(${real if in_lanes else elem.real} *to, __global const ${E}_t *from,
    __global const ${E}_t *end, int first, int last, int count, long axis, int apart)
{
    int j = 0;
% if in_lanes:
    for (int u = 0; u < ${units}; u++) {
        for (j = 0; j < first; j++) to[u * apart + j] = (${real})(0);
        for (j = last; j < count; j++) to[u * apart + j] = (${real})(0);
    }
    for (j = first; j < last; j++) {
% for line in range(0, units * V * elem.itemsize, 64):
        PREFETCH((__global const char *)(from + (j + 32) * ${step} * axis) + ${line});
% endfor
        for (int u = 0; u < ${units}; u++)
            to[u * apart + j] = ${E}_load${V}(from + j * ${step} * axis + u * ${V});
    }
% else:
    for (; j < first; j += ${V}) *(anywhere_t *)(to + j) = (${real})(0);
    j = first;
% if adjacent and step <= 2:
    for (; j < last && end - from >= (j + ${V}) * ${step}; j += ${V})
% if step == 1:
        *(anywhere_t *)(to + j) = ${E}_load${V}(from + j);
% else:
        *(anywhere_t *)(to + j) = (${real})(${E}_load${V}(from + 2 * j).even, ${E}_load${V}(from + 2 * j + ${V}).even);
% endif
% endif
    for (; j < last; j++) to[j] = ${E}_load(from + j * ${step} * axis);
    for (j = last; j < count; j += ${V}) *(anywhere_t *)(to + j) = (${real})(0);
% endif
}
</%def>
