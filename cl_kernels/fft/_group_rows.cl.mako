## Rows of transforms in global memory: brought as numbers (re, im), and stored.
##
##   types(real)                      real_t, pair_t, vec_t; products of pairs, roots of one from two tables
##   bring(source, planes)            bring(x, i, lane, ...): row i of a lane, or of the real lanes that are one
##   roots()                          root_of(p, ...): exp(-2 pi i p / whole)
##   put(result, planes, twisted)     put(y, k, lane, ..., v): v becomes row k of the same
##
## Forms, limits and factors as in _cpu_bring and _cpu_store.  bring turns a number over (re and im exchanged)
## where the exponents of the transform are positive, put turns it back.  Of the form half bring yields two rows,
## i and n - i, and put takes them.
##
## Of a result that is cropped, rows before `first` and in row k lanes before begin - k * limit_row are not stored; times:
## numbers are multiplied by those of t.
##
## twisted: row k of lane l is multiplied by exp(-2 pi i k l / whole): the product of a root of the coarse table and
## one of the fine one, of which k l has so many bits as `shift` says.
<%!
ARGUMENTS = ("rows", "row", "lane_step", "limit", "limit_row")
%>
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

static inline pair_t turned(pair_t v, int flip)
{
    return flip ? v.yx : v;
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

<%def name="parameters(side)">${"".join(f", long {name}" for name in ARGUMENTS)}${", __global const pair_t *factors" if side.factor else ""}</%def>
<%def name="more_parameters(result)">, long first, long begin${", __global const pair_in_memory_t *t, long t_row, long t_lane, int t_conjugate" if result.times else ""}</%def>
<%def name="factor(side, row)">factors[${f"{row} * limit_row + lane" if side.factor == "lanes" else row}]</%def>

<%def name="bring(source, planes)">
<% half = source.form == "half" %>
static inline pair_t element(__global const real_t *x, long i, long lane, long lanes${parameters(source)})
{
    pair_t v = (pair_t)(0, 0);
% if source.form == "folded":
    if (lane < lanes) {
        const long at = i * limit_row + lane;
        const bool mirrored = 2 * at > limit;
        v = conjugate_if(*(__global const pair_in_memory_t *)(x + 2 * (mirrored ? limit - at : at) * lane_step), mirrored);
    }
% else:
    if (lane < lanes && i < rows && i * limit_row + lane < limit)
% if source.form == "real":
        v.x = x[i * row + lane * lane_step];
% else:
        v = *(__global const pair_in_memory_t *)(x + 2 * (i * row + lane * lane_step));
% endif
% endif
% if source.factor:
    if (lane < lanes && i < rows && i * limit_row + lane < limit)
        v = product(v, ${factor(source, "i")});
% endif
    return v;
}
<% given = "".join(f", {name}" for name in ARGUMENTS) + (", factors" if source.factor else "") %>
static inline pair_t bring(__global const real_t *x, long i, long lane, long lanes, int flip${parameters(source)}${", long n, pair_t *mirror" if half else ""})
{
    pair_t v = element(x, i, lane, lanes${given});
% if planes == 2 and source.form != "folded":
    const pair_t w = element(x, i, lane + 1, lanes${given});
% if half:
    const bool own = i == 0 || 2 * i == n;  // both are real there
    *mirror = turned((pair_t)(v.x + w.y, w.x - v.y), flip);
    v = own ? (pair_t)(v.x, w.x) : (pair_t)(v.x - w.y, v.y + w.x);
% else:
    v.y = w.x;
% endif
% endif
    return turned(v, flip);
}
</%def>

<%def name="put(result, planes, twisted)">
<%
given = "".join(f", {name}" for name in ARGUMENTS) + (", factors" if result.factor else "") + ", first, begin"
given += (", t, t_row, t_lane, t_conjugate" if result.times else "") + (", root" if twisted else "")
absent = "k < first || k >= rows || k * limit_row + lane < begin || k * limit_row + lane >= limit"
%>
static inline void put_element(__global real_t *y, long k, long lane, long lanes, pair_t v${parameters(result)}${more_parameters(result)}${", pair_t root" if twisted else ""})
{
    if (lane >= lanes${"" if result.form == "folded" else f" || {absent}"})
        return;
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
    y[k * row + lane * lane_step] = v.x;
% else:
% if result.times:
    v = product(v, conjugate_if(t[k * t_row + lane * t_lane], t_conjugate));
% endif
    *(__global pair_in_memory_t *)(y + 2 * (k * row + lane * lane_step)) = v;
% endif
}

static inline void put(__global real_t *y, long k, long lane, long lanes, int flip, real_t scale${parameters(result)}${more_parameters(result)}, pair_t v${", pair_t mirror" if result.form == "half" else ""}${(", pair_t root, pair_t second" if planes == 2 and result.form == "half" else ", pair_t root") if twisted else ""})
{
    v = turned(v, flip) * scale;
% if result.form == "half":
    mirror = turned(mirror, flip) * scale;
    const pair_t a = (pair_t)(v.x + mirror.x, v.y - mirror.y) / 2;
    const pair_t b = (pair_t)(v.y + mirror.y, mirror.x - v.x) / 2;
    put_element(y, k, lane, lanes, a${given});
    put_element(y, k, lane + 1, lanes, b${given.replace(", root", ", second")});
% elif planes == 2 and result.form == "real":
    put_element(y, k, lane, lanes, v${given});
    put_element(y, k, lane + 1, lanes, v.yx${given});
% else:
    put_element(y, k, lane, lanes, v${given});
% endif
}
</%def>
