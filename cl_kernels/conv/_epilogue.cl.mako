## The epilogue (common/epilogue) in the kernels of convolutions that store results by image, channel and places.
##
##   define(elem, finish)              define the functions; none if `finish` (codegen.epilogue.Finish) is None
##   image(finish, n, channel, at0)    declare pointers e0_image, ... to the epilogue's arrays in image n, from
##                                     `channel` on, at position at0 of axis 0
##   line(finish, at1)                 declare e0, ..., pointers to position at1 of axis 1, in a scope inside image's
##   applied(finish, v, width, place)  C expression of `width` values v, as a vector, with the epilogue applied; value k
##                                     is at the row and the column of place(k)
##   apply(finish, sums, width, wide)  apply the epilogue to the variables `sums`: results from place q on, in line at1.
##                                     Each variable is a vector of `width` adjacent places, or if wide > 1 of `wide`
##                                     channels of one place.  In scope: end, the end of the item's places
## Rows of the epilogue are places along axis 2, its columns channels.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%!
from portable_gpu.codegen.operators import component, vector

def applied(finish, v, width, place):
    if finish is None:
        return v
    of_row_and_col = [", ".join(str(index) for index in place(k)) for k in range(width)]
    values = [f"EPILOGUE(({v}){component(width, k)}, {at})" for k, at in enumerate(of_row_and_col)]
    return f"({vector(finish.compute.real, width)})({', '.join(values)})"
%>
<%def name="define(elem, finish)">
% if finish:
% for other in dict.fromkeys(extra.elem for extra in finish.extras if extra.elem != elem):
${element.scalar(other)}
% endfor
${epilogue.values(finish.compute)}
${epilogue.define(finish)}
% endif
</%def>
<%def name="image(finish, n, channel, at0)">\
% for k, extra in enumerate(finish.extras if finish else ()):
    __global const ${extra.elem.name}_t *const e${k}_image = e${k} + e${k}_offset + ${n} * e${k}_outer
        + ${channel} * e${k}_col + ${at0} * e${k}_axis0;
% endfor
</%def>
<%def name="line(finish, at1)">\
% for k, extra in enumerate(finish.extras if finish else ()):
    __global const ${extra.elem.name}_t *const e${k} = e${k}_image + ${at1} * e${k}_axis1;
% endfor
</%def>
<%def name="apply(finish, sums, width, wide)">\
${line(finish, "at1")}\
% for v, sum in enumerate(sums if finish else ()):
<% at = lambda k: (f"min(q + {v}, end - 1)", k) if wide > 1 else (f"min(q + {v + k}, end - 1)", 0) %>\
        ${sum} = ${applied(finish, sum, width, at)};
% endfor
</%def>
