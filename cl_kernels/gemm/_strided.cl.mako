## The reader of a panel of gemm whose operand has two strides (see _panel, which explains place, load and advance):
## element (s, k) is at s * s_stride + k * k_stride.
<%namespace name="either_way" file="/gemm/_either_way.cl.mako"/>

## Of load i: NAME_s<i>, NAME_k<i>, its row and its k in the panel; NAME_at<i>, its position in memory, in bytes from
## the panel's start; NAME_r<i>, its register, or two of them with pairs across k, for 2k and 2k + 1.  NAME_last: the
## last row from which a load may begin.  panel.offset_type: an unsigned 32-bit number if it suffices, because GPUs add
## it without extra instructions to an address that is the same for all work-items.
<%def name="place(panel, first, count, begin)">
<% n, w, type = panel.name, panel.width, panel.offset_type %>
    ${n} += ${first} * ${n}_${panel.s_stride}${f" + {begin} * {n}_{panel.k_stride}" if begin != "0" else ""};
    const int ${n}_last = (int)min(${panel.extent}l, ${count} - ${first}) - ${w if panel.along == "s" else 1};
    ${either_way.begin(panel) if panel.along == "either" else ""}
% for i in range(panel.loads):
    const int ${n}_s${i} = ${panel.place_s(i)}, ${n}_k${i} = ${panel.place_k(i)};
    const ${type} ${n}_at${i} = ${panel.elem.itemsize} * (min(${n}_s${i}, ${n}_last)
        * (${type})${n}_${panel.s_stride} + ${times(panel.pack, f"{n}_k{i}")} * (${type})${n}_${panel.k_stride});
% endfor
    ${n}_raw ${", ".join(f"{n}_r{i}" for i in range(panel.loads * panel.loads_each))};
</%def>

<%def name="load(panel, ends)">
${elements(panel) if ends else vectors(panel)}
</%def>

## All loads, as vectors.
<%def name="vectors(panel)">
<% n = panel.name %>
% for i in range(panel.loads):
% for half in range(panel.loads_each):
    ${n}_r${panel.loads_each * i + half} =
        *(__global const ${n}_raw *)(${n.upper()}_AT(${n}_at${i})${half * f" + {n}_{panel.k_stride}"});
% endfor
% endfor
</%def>

## The same, each element by itself; those of steps of k from `tail` on are zeros.
<%def name="elements(panel)">
<% n, w = panel.name, panel.width %>
% for i in range(panel.loads):
% for half in range(panel.loads_each):
% for j in range(w):
<%
step = f"{times(panel.pack, f'{n}_k{i}')} + {(j if panel.along == 'k' else 0) + half}"
element = f"{n.upper()}_AT({n}_at{i})[{j}{half * f' + {n}_{panel.k_stride}'}]"
%>\
    ${n}_r${panel.loads_each * i + half}${component(w, j)} = ${step} < tail
        ? ${element} : (${panel.stored_type})(0);
% endfor
% endfor
% endfor
</%def>

<%def name="advance(panel, steps)">
    ${panel.name} += ${steps} * ${panel.name}_${panel.k_stride};
</%def>
<%! times = lambda factor, text: text if factor == 1 else f"{factor} * {text}" %>
