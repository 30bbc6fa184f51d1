## A part of wgmma: its tiles: barriers of their stages (see _lines), copies, and products.  In scope there: t, the
## local id; b, h: batch and head of the queries; first, the group's first query; end, the end of the keys that it
## needs; NAME_full, NAME_empty: the barriers, 8 bytes each; NAME_stage: the stage of k or v that is read next.
<%namespace name="lines" file="/attention/_lines.cl.mako"/>
<%namespace name="units" file="/attention/_warpgroup.cl.mako"/>
<%!
def tiles(DQ, DV):
    """The arrays with a row for each key: name, extent of a row, and the argument that is the extent."""
    return ("k", DQ, "dq"), ("v", DV, "dv")
%>

## All work-items arrive at a `full` barrier, and one lane of each warp at an `empty` one.
<%def name="start_barriers()"><% G = policy.group_size %>\
    if (t == 0) {
        barrier_init(local_address(q_full), ${G});
% for s in range(policy.stages):
        barrier_init(local_address(k_full + ${s}), ${G});
        barrier_init(local_address(v_full + ${s}), ${G});
        barrier_init(local_address(k_empty + ${s}), ${G // 32});
        barrier_init(local_address(v_empty + ${s}), ${G // 32});
% endfor
    }
</%def>

## Start the copies of q, of the first stages - 1 tiles of k, and of the first stages - 2 tiles of v.
<%def name="start_copies()"><% G, (k_tile, v_tile) = policy.group_size, tiles(DQ, DV) %>\
    q_data += q_offset + b * q_batch + h * q_head + first * q_row;
${lines.place("q", DQ, policy.queries, "dq", G)}\
${lines.copy("q", DQ, policy.queries, "dq", G, "queries - first")}\
    COPIES_ARRIVE(local_address(q_full));
% for name, D, extent in tiles(DQ, DV):
    ${name}_data += ${name}_offset + b * ${name}_batch + h / shared * ${name}_head;
${lines.place(name, D, policy.keys, extent, G)}\
    uint ${name}_next = 0, ${name}_fill = 0, ${name}_filled = 1;
% endfor
% for i in range(policy.stages - 1):
${refill(*k_tile)}\
% if i:
${refill(*v_tile)}\
% endif
% endfor
</%def>

## scores: start s = q k'.  results: start o += p v.  The copies of the tiles must have ended.  The last argument of
## DESCRIPTOR is explained in _warpgroup.
<%def name="scores()">\
        {
            const ulong at_k = DESCRIPTOR(k_base + k_stage * ${2 * policy.keys * DQ}u, 512);
${units.multiply_rows("s", "at_q", "at_k", DQ, policy.queries, policy.keys)}\
        }
</%def>
<%def name="results()">\
        {
            const ulong at_v = DESCRIPTOR(v_base + v_stage * ${2 * policy.keys * DV}u, ${8 * policy.keys});
${units.add_rows("o", "p", "at_v", policy.keys)}\
        }
</%def>

## Start the copies of the next tiles to stages that are no longer read.  Of each array, NAME_next is the first row of
## the next tile, NAME_fill its stage, and NAME_filled the phase of that stage's barriers, which changes when all stages
## have been filled.
<%def name="refills()">\
% for tile in tiles(DQ, DV):
${refill(*tile)}\
% endfor
</%def>
<%def name="refill(name, D, extent)"><% to = f" + {name}_fill * {2 * policy.keys * D}u" %>\
        if (${name}_next < max(end, 1u)) {
            barrier_wait(local_address(${name}_empty) + 8u * ${name}_fill, ${name}_filled);
${lines.copy(name, D, policy.keys, extent, policy.group_size, f"keys - {name}_next", to)}\
            COPIES_ARRIVE(local_address(${name}_full) + 8u * ${name}_fill);
            ${name}_next += ${policy.keys}u;
            if (++${name}_fill == ${policy.stages}u) { ${name}_fill = 0; ${name}_filled ^= 1u; }
        }
</%def>
