## Rows of a source of fft/group in global memory, loaded as numbers (re, im).
##
##   load(source, planes, all, unconditional, tag)
##       load_row(x, i, lane, live, sign, ...): row i of a lane, or of two real lanes (planes is 2) that form one
##       complex lane
##
## source    ops.fft.passes.RenderedOperand          tag    a suffix of the functions
## x         the pointer to the row.  For the form folded there is a parameter `mirrored`: if it is true, x points to a
##           number of the mirrored row, and the conjugate of that is loaded.
## live      how many lanes, from this one on, have numbers
## unconditional   whether the lane always has numbers.  Then loads have no condition, because some drivers make each
##           conditional load wait for the load before it; if there is no second lane, this one is read twice.
## first     an existing number that is read in the place of a missing one, for the same reason
## sign      -1 if the exponents of the transform are positive; then real and imaginary parts are exchanged
##
## product, exchanged, conjugate_if: see _group_numbers.  The form half reads two rows, i and n - i: `mirror` is the
## second one.  all: whether every row of every lane exists, so that none is compared with a limit.  Other forms, limits
## and factors, which are described by the further arguments (_group_places: fixed): see _cpu_load.
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="load(source, planes, all, unconditional, tag)">
<%
half = source.form == "half"
first_parameter = first_argument = mirrored_parameter = mirrored_argument = ""
if source.form == "folded":
    mirrored_parameter, mirrored_argument = ", bool mirrored", ", mirrored"
elif not all:
    first_parameter, first_argument = ", __global const real_t *first", ", first"
%>
static inline pair_t element${tag}(__global const real_t *x, long i, long lane${mirrored_parameter}
    ${rows.parameters(source, all)}${first_parameter})
{
% if source.form == "folded":
    pair_t v = conjugate_if(*(__global const pair_in_memory_t *)x, mirrored);
% else:
% if first_parameter:
    const bool exists = i < rows && i * limit_row + lane < limit;
    x = exists ? x : first, i = exists ? i : 0, lane = exists ? lane : 0;
% endif
% if source.form == "real":
    pair_t v = (pair_t)(*x, 0);
% else:
    pair_t v = *(__global const pair_in_memory_t *)x;
% endif
% endif
% if source.factor:
    v = product(v, ${rows.factor(source, "i")});
% endif
% if first_parameter:
    v = exists ? v : (pair_t)(0, 0);
% endif
    return v;
}

static inline pair_t load_row${tag}(__global const real_t *x, long i, long lane${mirrored_parameter}, uint live,
    real_t sign${rows.parameters(source, all)}${first_parameter}${", long n, pair_t *mirror" if half else ""})
{
% if unconditional:
    pair_t v = element${tag}(x, i, lane${mirrored_argument}${rows.arguments(source, all)}${first_argument});
% else:
    pair_t v = live > 0 ? element${tag}(x, i, lane${mirrored_argument}${rows.arguments(source, all)}${first_argument})
        : (pair_t)(0, 0);
% endif
% if planes == 2 and source.form != "folded":
% if unconditional:
    const pair_t second = element${tag}(x + ${source.components} * (live > 1 ? lane_step : 0), i,
        lane + (live > 1)${rows.arguments(source, all)}${first_argument});
% else:
    const pair_t second = live > 1 ? element${tag}(x + ${source.components} * lane_step, i,
        lane + 1${rows.arguments(source, all)}${first_argument}) : (pair_t)(0, 0);
% endif
% if half:
    const bool self_mirrored = i == 0 || 2 * i == n;  // row n - i is row i, so both transforms are real there
    *mirror = exchanged((pair_t)(v.x + second.y, second.x - v.y), sign);
    v = self_mirrored ? (pair_t)(v.x, second.x) : (pair_t)(v.x - second.y, v.y + second.x);
% else:
    v.y = second.x;
% endif
% endif
    return exchanged(v, sign);
}
</%def>
