## What a kernel of group is given.
##
##   of_kernel(passes, rank, joined)   all parameters
##   named(p, rank, text)              those of a pass that its text reads, by their own names
<%!
import re

CONST, OUT = "__global const real_t *", "__global real_t *"
TABLE = "__global const pair_t *"

def listed(p, rank):
    """Types and names of a pass's parameters."""
    found = [(TABLE, "roots"), ("long ", "lanes")]
    if p.plan.chirp:
        found += [("uint ", "n"), (TABLE, "chirp"), (TABLE, "filter")]
    if p.plan.cyclic:
        found += [("__global const uint *", "powers"), (TABLE, "filter")]
    if p.result.form == "split":
        found += [(TABLE, "halves")]
    if p.twisted:
        found += [(TABLE, "coarse"), (TABLE, "fine"), ("int ", "shift")]
    for name, side in (("x", p.source), ("y", p.result)):
        if name not in p.between:
            found += [(CONST if name == "x" else OUT, f"{name}_in"), ("long ", f"{name}_offset")]
        found += [("long ", f"{name}_{what}") for what in ("rows", "row", "lane", "limit", "limit_row")]
        found += [("long ", f"{name}_batch{d}") for d in range(rank)]
        if side.stepped:
            found += [("long ", f"{name}_limit_batch")]
        if side.factor:
            found += [(TABLE, f"{name}_factor")]
    found += [("long ", "y_first"), ("long ", "y_begin")]
    if p.result.times:
        found += [("__global const pair_in_memory_t *", "t_in"), ("long ", "t_offset"), ("long ", "t_row")]
        found += [("long ", "t_lane"), ("int ", "t_conjugate"), *(("long ", f"t_batch{d}") for d in range(rank))]
    return [*found, *(("uint ", f"batch{d}_size") for d in range(rank))]
%>
<%namespace name="tickets" file="/fft/_group_tickets.cl.mako"/>
<%def name="of_kernel(passes, rank, joined)">\
<% found = capture(listed_all, passes, rank, joined) %>\
${found.removeprefix(", ")}\
</%def>

<%def name="listed_all(passes, rank, joined)">\
% if passes[-1].scaled:
, real_t scale\
% endif
% for p in passes:
${"".join(f", {kind}{name}{p.tag}" for kind, name in listed(p, rank))}\
% endfor
% if len(passes) == 2:
${tickets.between_parameters()}\
% endif
% if joined:
${tickets.parameters()}\
% endif
% if passes[0].ahead:
, uint groups\
% endif
</%def>

<%def name="named(p, rank, text)">
<% read = set(re.findall(r"\w+", text)) %>\
% for kind, name in listed(p, rank):
% if name in read:
        ${kind if kind.endswith("*") else f"const {kind}"}${name} = ${name}${p.tag};
% endif
% endfor
</%def>
