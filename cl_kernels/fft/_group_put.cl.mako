## A part of fft/group: rows of a result, stored in global memory.
##
##   put(result, planes, twisted, all, tag)
##       put(y, k, lane, live, sign, scale, ..., v): store v as row k of a lane, or of two real lanes (planes is 2) that
##       form one complex lane
##
## product, exchanged, conjugate_if: see _group_numbers.  y points to the row; the further arguments (_group_places:
## fixed) say which rows exist.  live: the number of lanes, from this one on, that exist.  sign: -1 if the exponents of
## the transform are positive; then real and imaginary parts are exchanged.  tag: a suffix of the functions.
## The form half stores two rows, k and n - k.  Of a cropped result, rows before `first` are not stored; in row k, lanes
## before begin - k * limit_row are not stored either.  For the form folded (_cpu_load) there is a parameter `mirrored`:
## if it is true, y points to the number that is the conjugate of v.
## times     whether numbers are multiplied by those of t, which are conjugated if t_conjugate is 1
## twisted   whether row k of lane l is multiplied by `root`, exp(-2 pi i k l / twiddle_length); `second`: that of lane
##           l + 1
<%namespace name="rows" file="/fft/_group_places.cl.mako"/>
<%def name="put(result, planes, twisted, all, tag)">
<%
mirrored_parameter, mirrored_argument = (", bool mirrored", ", mirrored") if result.form == "folded" else ("", "")
# The further parameters, and the arguments for them.
more, fixed = "", capture(rows.arguments, result, all)
if not all:
    more += ", long first, long begin"
    fixed += ", first, begin"
if result.times:
    more += ", __global const pair_in_memory_t *t, long t_row, long t_lane, int t_conjugate"
    fixed += ", t, t_row, t_lane, t_conjugate"
root_parameters = root_argument = second_root_argument = ""
if twisted:
    root_parameters, root_argument, second_root_argument = ", pair_t root", ", root", ", root"
    if planes == 2 and result.form == "half":
        root_parameters, second_root_argument = ", pair_t root, pair_t second", ", second"
value, second_value = ("of_lane", "of_second") if result.form == "half" else ("v", "v.yx")
%>
static inline void put_element${tag}(__global real_t *y, long k, long lane${mirrored_parameter},
    pair_t v${rows.parameters(result, all)}${more}${", pair_t root" if twisted else ""})
{
% if result.form != "folded" and not all:
    if (k < first || k >= rows || k * limit_row + lane < begin || k * limit_row + lane >= limit)
        return;
% endif
% if twisted:
    v = product(v, root);
% endif
% if result.factor:
    v = product(v, ${rows.factor(result, "k")});
% endif
% if result.form == "folded":
    const long at = k * limit_row + lane;
    if (mirrored && 2 * at != limit && (lane == 0 || 2 * lane == ${"limit_batch" if result.stepped else "limit_row"}))
        return;  // the same lane stores this number's mirror image
% if result.times:
    v = product(v, conjugate_if(t[(mirrored ? limit - at : at) * t_lane], mirrored != (bool)t_conjugate));
% endif
    *(__global pair_in_memory_t *)y = conjugate_if(v, mirrored);
% elif result.form == "real":
    *y = v.x;
% else:
% if result.times:
    v = product(v, conjugate_if(t[k * t_row + lane * t_lane], t_conjugate));
% endif
    *(__global pair_in_memory_t *)y = v;
% endif
}

static inline void put${tag}(__global real_t *y, long k, long lane${mirrored_parameter}, uint live, real_t sign,
    real_t scale${rows.parameters(result, all)}${more},
    pair_t v${", pair_t mirror" if result.form == "half" else ""}${root_parameters})
{
    v = exchanged(v, sign) * scale;
% if result.form == "half":
    mirror = exchanged(mirror, sign) * scale;
    const pair_t of_lane = (pair_t)(v.x + mirror.x, v.y - mirror.y) / 2;
    const pair_t of_second = (pair_t)(v.y + mirror.y, mirror.x - v.x) / 2;
% endif
    if (live > 0)
        put_element${tag}(y, k, lane${mirrored_argument}, ${value}${fixed}${root_argument});
% if planes == 2 and result.form in ("half", "real"):
    if (live > 1)
        put_element${tag}(y + ${result.components} * lane_step, k, lane + 1,
            ${second_value}${fixed}${second_root_argument});
% endif
}
</%def>
