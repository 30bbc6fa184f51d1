## A tree in local memory, one slot a work-item: lanes below d fold in the value of lane + d.
## SUBGROUP_SYNC orders the steps.  Lane 0 ends with the result; the last sync frees the slots.  acc, width, runs, slot:
## see subgroup.  qualifier: "volatile " where the device needs it, or "".
<%def name="define(acc, width, qualifier, runs)">
static inline ${acc.name} ${acc.name}_subgroup${width}(
    ${acc.name} v, __local ${acc.name} *slot${", uint lanes" if runs else ""})
{
% if width > 1:
    const uint lane = get_local_id(0) ${"& (lanes - 1u)" if runs else f"% {width}u"};
% endif
    ${qualifier}__local ${acc.name} *own = slot;
% for field in acc.fields:
    own->${field.name} = v.${field.name};
% endfor
    SUBGROUP_SYNC();
% for d in [width >> k for k in range(1, width.bit_length())]:
    if (lane < ${d}u${f" && {d}u < lanes" if runs else ""}) {
        ${acc.name} other;
% for field in acc.fields:
        other.${field.name} = own[${d}].${field.name};
% endfor
        v = ${acc.name}_combine(v, other);
% for field in acc.fields:
        own->${field.name} = v.${field.name};
% endfor
    }
    SUBGROUP_SYNC();
% endfor
    return v;
}
</%def>
