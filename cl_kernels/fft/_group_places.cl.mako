## A part of fft/group: pointers to the rows of a source (name x) or a result (name y) in global memory, and the
## parameters of load_row and put that describe this side.  side: RenderedOperand.  All results are C text, as are row,
## lane, and i{u} and s{u}, the row and the slot of number u of a work-item.  Strides and limits: PassOperand.
##
##   place(name, side, row, lane)     the pointer to a row of a lane
##   begin(name, side, row, lane)     declare <name>_at, this pointer; for the form folded also <name>_end (see below)
##   further(name, side, row, lane, mirrored)
##                                    the pointer to the row that is `row` rows and `lane` lanes after <name>_at
##   staged_place(name, plan, side, planes, u, mirrored)
##                                    the pointer to number u of a work-item.  <name>_at: the group's first row; planes:
##                                    lanes of a slot
##   mirrored_of(plan, stage, r)      whether number r of a stage's butterflies is mirrored: "true", "false", or "" if
##                                    that is known only at run time
##   mirrored(name, side, row, lane)  the C condition for it
##   fixed(name, side, all)           the arguments of load_row and put that are the same in all calls
##   parameters(side, all), arguments(side, all)     their declarations in both functions, and their names there
##   factor(side, row)                the factor by which a row is multiplied
##
## all: whether every row of every lane exists, so that none is compared with a limit.  Of a side that is `stepped`,
## <name>_number is the number in the sequence of row 0 of lane 0; of other sides this is 0.
##
## In the form folded, a sequence of `limit` complex numbers is stored up to its middle.  A number j behind the middle
## is `mirrored`: it is the conjugate of number limit - j.  If <name>_at is number j, <name>_end is number limit - j.
## So the row after it by a distance d is at <name>_at + d, or, mirrored, at <name>_end - d.
<%!
def mirrored_of(plan, stage, r):
    if plan.chirp or plan.cyclic or 2 * r < stage.radix < 2 * (r + 1):
        return ""
    return "true" if 2 * r >= stage.radix else "false"

def mirrored(name, side, row, lane):
    return f"2 * ((long)({row}) * {name}_limit_row + {lane}) > {limit(name, side)}"

def limit(name, side):
    """The C expression for the limit of numbers that are counted from row 0 of lane 0.

    A folded row's limit is compared with 2 j, for a number j of the sequence.
    """
    factor = 2 if side.form == "folded" else 1
    return f"({name}_limit - {factor} * {name}_number)" if side.stepped else f"{name}_limit"

def needs_limit_batch(side):
    """Whether put needs `limit_batch`, to find the lanes in which a number and its mirror image both are."""
    return side.form == "folded" and side.stepped

def declared(side, all):
    """The declarations of the parameters whose arguments are in `fixed`, in that order."""
    limited = not all or side.form == "folded" or side.factor
    return [
        "long lane_step", *(["long limit", "long limit_row"] if limited else []),
        *(["long limit_batch"] if needs_limit_batch(side) else []), *([] if all else ["long rows"]),
        *(["__global const pair_t *factors"] if side.factor else []),
    ]
%>
## Expressions: the stride along an axis ("row" or "lane") in numbers of the side, 1 or 2 where it is known; the pointer
## to a row of a lane, and its distance from row 0 of lane 0, in real numbers.
<%def name="step(name, side, axis)">\
% if side.form == "packed" and axis == "row":
2\
% elif (side.layout, axis) in (("along", "row"), ("across", "lane")):
1\
% elif side.dense and axis == "lane":
${side.dense}\
% else:
${name}_${axis}\
% endif
</%def>
<%def name="place(name, side, row, lane)">${name} + ${distance(name, side, row, lane)}</%def>
<%def name="distance(name, side, row, lane)">\
${side.components} * ((long)(${row}) * ${step(name, side, "row")} + (long)(${lane}) * ${step(name, side, "lane")})\
</%def>
## Lanes of a folded sequence are adjacent numbers.
<%def name="begin(name, side, row, lane)">\
    __global ${"const " if name == "x" else ""}real_t *${name}_at = ${place(name, side, row, lane)};
% if side.form == "folded":
    __global ${"const " if name == "x" else ""}real_t *${name}_end = ${name}
        + 2 * ${limit(name, side)} * ${step(name, side, "lane")} - ${distance(name, side, row, lane)};
% endif
</%def>
<%def name="further(name, side, row, lane, mirrored)">\
% if mirrored in ("", "false"):
${name}_at + ${distance(name, side, row, lane)}\
% elif mirrored == "true":
${name}_end - ${distance(name, side, row, lane)}\
% else:
(${mirrored} ? ${further(name, side, row, lane, "true")} : ${further(name, side, row, lane, "false")})\
% endif
</%def>
<%def name="staged_place(name, plan, side, planes, u, mirrored)">\
% if side.dense:
${name}_at + ${side.components}
    * (id + ${u * plan.group}${f" + s{u} * {side.dense}" if planes == 2 and plan.slots > 1 else ""})\
% else:
${further(name, side, f"i{u}", f"{planes} * s{u}", mirrored)}\
% endif
</%def>
<%def name="fixed(name, side, all)">\
, ${step(name, side, "lane")}\
% if not all or side.form == "folded" or side.factor:
, ${limit(name, side)}, ${name}_limit_row\
% endif
% if needs_limit_batch(side):
, ${name}_limit_batch\
% endif
% if not all:
, ${name}_rows\
% endif
% if side.factor:
, ${name}_factor${f" + {name}_number" if side.stepped and side.factor == "lanes" else ""}\
% endif
</%def>

<%def name="parameters(side, all)">${"".join(f", {text}" for text in declared(side, all))}</%def>
<%def name="arguments(side, all)">${"".join(f", {text.split()[-1].lstrip('*')}" for text in declared(side, all))}</%def>
<%def name="factor(side, row)">factors[${f"{row} * limit_row + lane" if side.factor == "lanes" else row}]</%def>
