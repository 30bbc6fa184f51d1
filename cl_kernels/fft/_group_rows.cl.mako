## Rows of transforms in global memory: brought as numbers (re, im), and stored.
##
##   types(real)                      real_t, pair_t, vec_t; products of pairs, roots of one from two tables
##   bring(source, planes, all)       bring(x, i, lane, live, sign, ...): row i of a lane, or of the real lanes that are one
##   roots()                          root_of(p, ...): exp(-2 pi i p / whole)
##   put(result, planes, twisted, all)    put(y, k, lane, live, sign, scale, ..., v): v becomes row k of the same
##   place(name, side, row, lane)     where a row of a lane lies; of the form folded, where the first one does
##   given(name, side, all)           the arguments of both that do not change
##
## x and y are such places.  Of `live` lanes from this one on there are numbers.  all: there are of each row, so that
## no row is compared with a limit.  Forms, limits and factors as in _cpu_bring and _cpu_store.
##
## Where the exponents of the transform are positive sign is -1: bring and put conjugate.  Of the form half bring
## yields two rows, i and n - i, and put takes them.
##
## Of a result that is cropped, rows before `first` and in row k lanes before begin - k * limit_row are not stored; times:
## numbers are multiplied by those of t.
##
## twisted: row k of lane l is multiplied by exp(-2 pi i k l / whole): the product of a root of the coarse table and
## one of the fine one, of which k l has so many bits as `shift` says.
<%def name="types(real)">
<% nbytes = real.itemsize if target.facts.type == "cpu" else 2 * real.itemsize %>
typedef ${real.real} real_t;
typedef real_t vec_t;
typedef ${real.real}2 pair_t;
typedef pair_t pair_in_memory_t __attribute__((aligned(${nbytes})));

static inline pair_t product(pair_t a, pair_t b)
{
    return (pair_t)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

static inline pair_t with_sign(pair_t v, real_t sign)
{
    return (pair_t)(v.x, v.y * sign);
}

// How many of `here` there are from number i on.
static inline uint left(uint i, uint here)
{
    return here - min(i, here);
}

static inline pair_t conjugate_if(pair_t v, bool really)
{
    return (pair_t)(v.x, really ? -v.y : v.y);
}
</%def>

<%def name="roots()">
static inline pair_t root_of(ulong power, __global const pair_t *coarse, __global const pair_t *fine, int shift)
{
    return product(coarse[power >> shift], fine[power & ((1ul << shift) - 1)]);
}
</%def>

<%def name="step(name, side, axis)">${"1" if (side.layout, axis) in (("along", "row"), ("across", "lane")) else f"{name}_{axis}"}</%def>
<%def name="place(name, side, row, lane)">\
<% own = name[0] %>\
% if side.form == "folded":
${name}\
% else:
${name} + ${side.components} * ((long)(${row}) * ${step(own, side, "row")} + (long)(${lane}) * ${step(own, side, "lane")})\
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

<%def name="bring(source, planes, all)">
<% half = source.form == "half" %>
static inline pair_t element(__global const real_t *x, long i, long lane${parameters(source, all)})
{
% if source.form == "folded":
    const long at = i * limit_row + lane;
    const bool mirrored = 2 * at > limit;
    pair_t v = conjugate_if(*(__global const pair_in_memory_t *)(x + 2 * (mirrored ? limit - at : at) * lane_step), mirrored);
% else:
% if not all:
    if (i >= rows || i * limit_row + lane >= limit)
        return (pair_t)(0, 0);
% endif
% if source.form == "real":
    pair_t v = (pair_t)(*x, 0);
% else:
    pair_t v = *(__global const pair_in_memory_t *)x;
% endif
% endif
% if source.factor:
    v = product(v, ${factor(source, "i")});
% endif
    return v;
}

static inline pair_t bring(__global const real_t *x, long i, long lane, uint live, real_t sign${parameters(source, all)}${", long n, pair_t *mirror" if half else ""})
{
    pair_t v = live > 0 ? element(x, i, lane${arguments(source, all)}) : (pair_t)(0, 0);
% if planes == 2 and source.form != "folded":
    const pair_t w = live > 1 ? element(x + ${source.components} * lane_step, i, lane + 1${arguments(source, all)}) : (pair_t)(0, 0);
% if half:
    const bool own = i == 0 || 2 * i == n;  // both are real there
    *mirror = with_sign((pair_t)(v.x + w.y, w.x - v.y), sign);
    v = own ? (pair_t)(v.x, w.x) : (pair_t)(v.x - w.y, v.y + w.x);
% else:
    v.y = w.x;
% endif
% endif
    return with_sign(v, sign);
}
</%def>

<%def name="put(result, planes, twisted, all)">
<%
given = capture(arguments, result, all) + (", first, begin" if not all else "")
given += (", t, t_row, t_lane, t_conjugate" if result.times else "") + (", root" if twisted else "")
more = (", long first, long begin" if not all else "") + (", __global const pair_in_memory_t *t, long t_row, long t_lane, int t_conjugate" if result.times else "")
%>
static inline void put_element(__global real_t *y, long k, long lane, pair_t v${parameters(result, all)}${more}${", pair_t root" if twisted else ""})
{
% if result.form != "folded" and not all:
    if (k < first || k >= rows || k * limit_row + lane < begin || k * limit_row + lane >= limit)
        return;
% endif
% if twisted:
    v = product(v, root);
% endif
% if result.factor:
    v = product(v, ${factor(result, "k")});
% endif
% if result.form == "folded":
    const long at = k * limit_row + lane;
    const bool mirrored = 2 * at > limit;
    if (mirrored && (lane == 0 || 2 * lane == limit_row))
        return;  // the lane holds both of such a pair
% if result.times:
    v = product(v, conjugate_if(t[(mirrored ? limit - at : at) * t_lane], mirrored != (bool)t_conjugate));
% endif
    *(__global pair_in_memory_t *)(y + 2 * (mirrored ? limit - at : at) * lane_step) = conjugate_if(v, mirrored);
% elif result.form == "real":
    *y = v.x;
% else:
% if result.times:
    v = product(v, conjugate_if(t[k * t_row + lane * t_lane], t_conjugate));
% endif
    *(__global pair_in_memory_t *)y = v;
% endif
}

static inline void put(__global real_t *y, long k, long lane, uint live, real_t sign, real_t scale${parameters(result, all)}${more}, pair_t v${", pair_t mirror" if result.form == "half" else ""}${(", pair_t root, pair_t second" if planes == 2 and result.form == "half" else ", pair_t root") if twisted else ""})
{
    v = with_sign(v, sign) * scale;
% if result.form == "half":
    mirror = with_sign(mirror, sign) * scale;
    const pair_t a = (pair_t)(v.x + mirror.x, v.y - mirror.y) / 2;
    const pair_t b = (pair_t)(v.y + mirror.y, mirror.x - v.x) / 2;
% endif
    if (live > 0)
        put_element(y, k, lane, ${"a" if result.form == "half" else "v"}${given});
% if planes == 2 and result.form in ("half", "real"):
    if (live > 1)
        put_element(y + ${result.components} * lane_step, k, lane + 1, ${"b" if result.form == "half" else "v.yx"}${given.replace(", root", ", second") if result.form == "half" else given});
% endif
}
</%def>
