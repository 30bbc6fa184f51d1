## Which tile a group has, what it waits for, and how it tells that it is done: see tiles and fronts/tiles.
##
##   ready | next number | groups that are done | marks of each matrix's tiles ...

## The tile of number `task`: s and f; `done`: the marks of its matrix.
<%def name="tile()">\
% if factorise:
% if paired:
    // Group 0 has the first tile of the diagonal alone: it begins with none of column -1.
    int s = (int)task - 1, f = (int)task;
    if (task > 1) {
        int col = 0, i = (int)task - 2;
        while (i >= tiles_s - 1 - col) i -= tiles_s - 1 - col++;
        s = i == 1 ? col + 1 : col;
        f = i < 2 ? col + 2 : col + 1 + i;
    }
    const bool leads = f == s + 1;
% else:
    int s = 0;
    long before = 0;  // tiles of the columns before
    while (before + tiles_s - s <= task) before += tiles_s - s++;
    const int f = s + (int)(task - before);
% endif
    const uint marks = (uint)tiles_s * (tiles_s + 1) / 2;
% else:
    const int s = (int)(task / tiles_f), f = (int)(task % tiles_f);
    const uint marks = (uint)tiles_s * tiles_f;
% endif
    volatile __global uint *done = ready + 2 + product * marks;
    const uint groups = ${"(marks - (uint)tiles_s + 1u)" if paired else "marks"} * (uint)count, marked = marks * (uint)count;
    const int known_by = s;  // steps of 64 k
</%def>

## Whether the tiles that step k of V takes are there.
<%def name="is_done(k)">\
% if factorise:
LOAD_PUBLISHED(done + f * (f + 1) / 2 + ${k}) & LOAD_PUBLISHED(done + s * (s + 1) / 2 + ${k})\
% else:
LOAD_PUBLISHED(done + ${k} * tiles_f + f)\
% endif
</%def>

## The tile is done.  The last group of all leaves `ready` at 0.
<%def name="tell()">\
    GROUP_FENCE();
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
    if (t == 0) {
        DEVICE_FENCE();
% if factorise:
        if (s < f) {
            STORE_PUBLISHED(done + f * (f + 1) / 2 + s, 1u);
            DEVICE_FENCE();
        }
% else:
        STORE_PUBLISHED(done + s * tiles_f + f, 1u);
        DEVICE_FENCE();
% endif
        number = atomic_inc(ready + 1) == groups - 1u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (number)
        for (uint i = t; i < 2u + marked; i += 256u) STORE_PUBLISHED(ready + i, 0u);
</%def>
