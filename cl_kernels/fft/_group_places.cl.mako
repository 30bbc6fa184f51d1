## A part of fft/group: positions in global memory of the rows of a side, which is a source (name x) or a result (y);
## and those arguments of load_row and put that describe them.  side: RenderedOperand.  All results are C text; row,
## lane, s{u} and i{u} (slot and row of number u of a work-item) are C text too.  Strides and limits: PassOperand.
##
## The form folded: see _cpu_load.
##
##   place(name, side, row, lane)     the pointer to a row of a lane
##   begin(name, side, row, lane)     declare <name>_at, this pointer; for the form folded also <name>_end, its mirror
##                                    image: the distance of <name>_end from the sequence's end is that of <name>_at
##                                    from the first number
##   further(name, side, row, lane, mirrored)
##                                    the pointer `row` rows and `lane` lanes behind <name>_at; mirrored: whether the
##                                    row is in the half of a folded sequence that is stored as conjugates
##   staged_place(name, plan, side, planes, u, mirrored)
##                                    the pointer to number u of a work-item, counted from the group's first row
##   mirrored_of(plan, stage, r)      `mirrored` of number r of a stage's butterflies: "false", "true", or "" where it
##                                    is known only at run time
##   mirrored(name, side, row, lane)  the C expression for it
##   fixed(name, side, all)           the arguments of load_row and put that all calls have; on a stepped side,
##                                    <name>_number is the number of row 0 of lane 0, from which limits count
##   factor(side, row)                the factor of a row's number
##   parameters(side, all), arguments(side, all)     declarations of these arguments in both functions, and their names
##
## all: whether every row of every lane exists, so that none is compared with a limit.
<%!
def mirrored_of(plan, stage, r):
    if plan.chirp or plan.cyclic or 2 * r < stage.radix < 2 * (r + 1):
        return ""
    return "true" if 2 * r >= stage.radix else "false"

def mirrored(name, side, row, lane):
    return f"2 * ((long)({row}) * {name}_limit_row + {lane}) > {limit(name, side)}"

def limit(name, side):
    """The C expression for the end of a side's numbers, relative to that of row 0 of lane 0.

    A folded row's limit is compared with the sum of two numbers, a number and its mirror image.
    """
    factor = 2 if side.form == "folded" else 1
    return f"({name}_limit - {factor} * {name}_number)" if side.stepped else f"{name}_limit"

def needs_limit_batch(side):
    """Whether `limit_batch` is needed to find the lanes that hold pairs of a folded sequence."""
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
## NAME_end of a folded sequence: number limit - at, where NAME_at is number `at`; lanes are adjacent numbers.
<%def name="begin(name, side, row, lane)">\
    __global ${"const " if name == "x" else ""}real_t *${name}_at = ${place(name, side, row, lane)};
% if side.form == "folded":
    __global ${"const " if name == "x" else ""}real_t *${name}_end = ${name}
        + 2 * ${limit(name, side)} * ${step(name, side, "lane")} - ${distance(name, side, row, lane)};
% endif
</%def>
## Behind the middle, numbers go back from NAME_end as rows go on.
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
