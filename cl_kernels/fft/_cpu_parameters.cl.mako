## The parameters of cpu that depend on its passes, and on the sides `outer` (x, y) and `inner` (v, u) of these.
<%def name="of_passes(passes, outer, inner, rank)">\
% if len(passes) == 2:
, __global real_t *between, long between_size\
% endif
% for k, one in enumerate(passes):
, __global const real_t *roots${k}, __global const int *order${k}, long n${k}, long lanes${k}\
% if one.twisted:
, __global const real_t *fine${k}, __global const real_t *coarse${k}\
% endif
% endfor
% for name, side in (outer | inner).items():
, long ${name}_rows, long ${name}_row, long ${name}_lane, long ${name}_limit, long ${name}_limit_row\
% if side.stepped:
, long ${name}_limit_batch\
% endif
% endfor
, long y_first, long y_begin\
% if passes[-1].result.times:
, __global const real_t *t, long t_offset, long t_row, long t_lane,
    int t_conjugate${''.join(f', long t_batch{d}' for d in range(rank))}\
% endif
% for name, side in outer.items():
, __global ${"const " if name == "x" else ""}real_t *${name},
    long ${name}_offset${''.join(f', long {name}_batch{d}' for d in range(rank))}\
% if side.factor:
, __global const real_t *${name}_factor\
% endif
% endfor
${''.join(f', long batch{d}_size' for d in range(rank))}\
</%def>
