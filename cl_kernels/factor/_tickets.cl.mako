## The tile of a ticket, the flags for which its group waits, and the flag that it sets (see group/waiting), in
## factor/tiles, fronts/tiles and fronts/solve.  _tile has the variables in scope.
##
##   counters   | next ticket | groups that are done | flags of matrix 0 | flags of matrix 1 | ...
##
## Each tile of each matrix has a flag: tile (f, s) of a factor at f (f + 1) / 2 + s, tile (s, f) of a solution at
## s tiles_f + f.  s and f are the numbers of V's blocks of 64 rows and of 64 columns; V is the group's tile, and for a
## factor it is transposed: V(s, f) is L's tile (f, s).  tiles_s, tiles_f: numbers of tiles along s and along f.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>

## Declare s and f, the blocks of the tile of ticket `task` of matrix `product`; `done`, the flags of its matrix; groups
## and all_flags, the numbers of groups and of flags of the launch.  With pairs, tiles_s - 1 of the groups of a matrix
## have two tiles.
<%def name="tile()">\
% if factorise:
% if paired:
    // A pair is a tile of the diagonal and the tile at its left.  Group 0 has the first tile of the diagonal: s is -1.
    int s = (int)task - 1, f = (int)task;
    if (task > 1) {
        // i numbers the groups of block column col.  Their tiles (f, s) are, for i = 0: (col + 2, col); for i = 1, the
        // pair (col + 2, col + 1) and (col + 2, col + 2); from i = 2 on: (col + 1 + i, col).
        int col = 0, i = (int)task - 2;
        while (i >= tiles_s - 1 - col) i -= tiles_s - 1 - col++;
        s = i == 1 ? col + 1 : col;
        f = i < 2 ? col + 2 : col + 1 + i;
    }
    const bool has_diagonal = f == s + 1;
% else:
    int s = 0;
    long before = 0;  // the number of tiles in the columns left of s
    while (before + tiles_s - s <= task) before += tiles_s - s++;
    const int f = s + (int)(task - before);
% endif
    const uint flags = (uint)tiles_s * (tiles_s + 1) / 2;
% else:
    const int s = (int)(task / tiles_f), f = (int)(task % tiles_f);
    const uint flags = (uint)tiles_s * tiles_f;
% endif
    volatile __global uint *done = counters + 2 + product * flags;
    const uint groups = ${"(flags - (uint)tiles_s + 1u)" if paired else "flags"} * (uint)count,
        all_flags = flags * (uint)count;
    const int needed_steps = s;  // the steps of k, of 64 each, that V needs
</%def>

## An expression: whether the tiles that step k (64 columns of L) of the products of V reads are done.
<%def name="is_done(k)">\
% if factorise:
${waiting.flag(f"done + f * (f + 1) / 2 + {k}")} & ${waiting.flag(f"done + s * (s + 1) / 2 + {k}")}\
% else:
${waiting.flag(f"done + {k} * tiles_f + f")}\
% endif
</%def>

## Set the flag of the tile, unless it is a diagonal tile, whose flag _tile_factor has set, and count the group as done.
## The last group resets the counters; `ticket` then says whether this is it.
<%def name="finish()">\
    ${waiting.release()}\
    if (t == 0) {
% if factorise:
        if (s < f) {
            ${waiting.set("done + f * (f + 1) / 2 + s")}\
        }
% else:
        ${waiting.set("done + s * tiles_f + f")}\
% endif
        ${waiting.done("ticket", "groups")}\
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (ticket) ${waiting.reset("all_flags")}\
</%def>
