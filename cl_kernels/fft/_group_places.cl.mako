## Where the rows of a side lie in global memory, and what bring and put are told of it.
##
##   place(name, side, row, lane)     where a row of a lane lies; of the form folded, where the first one does
##   staged_place(name, plan, side, planes, u)     where number u of a work-item lies; name: the group's first lane
##   given(name, side, all)           the arguments of bring and put that do not change
##   factor(side, row)                what a row's number is multiplied by
##   parameters(side, all), arguments(side, all)     the same as they are declared, and handed on, inside of both
##
## all: every row of every lane is there, so that none is compared with a limit.
<%def name="step(name, side, axis)">${"2" if side.form == "packed" and axis == "row" else "1" if (side.layout, axis) in (("along", "row"), ("across", "lane")) else str(side.dense) if side.dense and axis == "lane" else f"{name}_{axis}"}</%def>
<%def name="place(name, side, row, lane)">\
<% own = name[0] %>\
% if side.form == "folded":
${name}\
% else:
${name} + ${side.components} * ((long)(${row}) * ${step(own, side, "row")} + (long)(${lane}) * ${step(own, side, "lane")})\
% endif
</%def>
<%def name="staged_place(name, plan, side, planes, u)">\
% if side.dense:
${name} + ${side.components} * (id + ${u * plan.group}${f" + s{u} * {side.dense}" if planes == 2 and plan.slots > 1 else ""})\
% else:
${place(name, side, f"i{u}", f"{planes} * s{u}")}\
% endif
</%def>
<%def name="given(name, side, all)">\
, ${step(name, side, "lane")}\
% if not all or side.form == "folded" or side.factor:
, ${name}_limit, ${name}_limit_row\
% endif
% if not all:
, ${name}_rows\
% endif
% if side.factor:
, ${name}_factor\
% endif
</%def>
<%def name="parameters(side, all)">\
, long lane_step\
% if not all or side.form == "folded" or side.factor:
, long limit, long limit_row\
% endif
% if not all:
, long rows\
% endif
% if side.factor:
, __global const pair_t *factors\
% endif
</%def>
<%def name="arguments(side, all)">\
, lane_step\
% if not all or side.form == "folded" or side.factor:
, limit, limit_row\
% endif
% if not all:
, rows\
% endif
% if side.factor:
, factors\
% endif
</%def>
<%def name="factor(side, row)">factors[${f"{row} * limit_row + lane" if side.factor == "lanes" else row}]</%def>
