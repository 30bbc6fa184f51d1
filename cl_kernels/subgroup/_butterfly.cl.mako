## The fold by exchanges in a butterfly: for d = 1, 2, 4 ... each lane folds in the value of a lane in the other half of
## its 2d lanes, LANE_PARTNER(word, d).  All lanes of a half hold the same value by then, so any lane of the other half
## may be the partner.  Every lane ends with the result.  acc, width, runs: see subgroup; LANE_PARTNER exchanges words
## of 32 bits.
<%def name="define(acc, width, runs)">
static inline ${acc.name} ${acc.name}_subgroup${width}(
    ${acc.name} v, __local ${acc.name} *slot${", uint lanes" if runs else ""})
{
% if width > 1:
    ${acc.name} other;
% endif
% for d in [1 << k for k in range(width.bit_length() - 1)]:
% if runs:
    if (lanes <= ${d}u) return v;
% endif
% for field in acc.fields:
% if field.bytes == 8:
    {
        const uint2 words = as_uint2(v.${field.name});
        other.${field.name} = as_${field.ctype}((uint2)(LANE_PARTNER(words.x, ${d}), LANE_PARTNER(words.y, ${d})));
    }
% else:
    other.${field.name} = as_${field.ctype}(LANE_PARTNER(as_uint(v.${field.name}), ${d}));
% endif
% endfor
    v = ${acc.name}_combine(v, other);
% endfor
    return v;
}
</%def>
