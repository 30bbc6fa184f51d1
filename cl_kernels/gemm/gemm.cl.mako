## C = epilogue(alpha * A @ B + beta * C), by tiles in local memory and in registers, on GPUs.  Work-group (u, p)
## computes unit u, a tile or a part of one, of the p-th product of the launch.
##
##              n ->                      A work-group computes one tile of C (tile_m x tile_n).  It
##            +-----+-----+               walks along k in steps of tile_k: each panel of A and of B
##            |     |  B  | tile_k        goes from global memory through registers to local memory,
##            +-----+-----+               A transposed, so that fragments are vectors along m and n.
##   +-----+  +-----+-----+               Each work-item sums item_m x item_n elements in registers.
##   |     |  |     |     |
##   +-----+  +-----+-----+
## m |  A  |  |     |  C  | tile_m        Tiles are numbered down bands of `band` tile rows, so that
##   +-----+  +-----+-----+               groups that run together share panels in the cache.
##   tile_k           tile_n              Local memory: `buffers` panels of A, then as many of B (_panel).
##
## policy   GemmPolicy: register tiles, vectors, prefetch (the next panels are loaded while this one is used), buffers
##          (2: one barrier a step, not two), prefetch_local (the same for fragments in local memory)
## a, b     Panel: how the work-items move an operand; in the kernel, the pointers to the operands
## tile     RegisterTile: the sums of a work-item; in the kernel, the number of the group's tile of C
## split    whether k is split (_split_k): not of the first `unsplit` tiles, which are the first units, but of the other
##          ones, split_tiles of them, into `splits` parts of k_split elements.  Their units follow: part 0 of each of
##          these tiles, part 1 of each ...  Their short groups fill compute units that would wait for long groups
## tail     whether k, or a part of it, is not a multiple of a panel's depth: tile_k, or 2 tile_k for pairs (_pairs)
## stagger  GroupStagger: the step along k at which a group begins; it continues at step 0 after the last; or None
## contiguous  whether the columns of C are adjacent in memory
## widths   the widths of stores of C (1: element by element); of several the argument store_width selects one
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="mainloop" file="/gemm/_mainloop.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="output" file="/gemm/_output.cl.mako"/>
<%namespace name="pairs" file="/gemm/_pairs.cl.mako"/>
<%namespace name="panel" file="/gemm/_panel.cl.mako"/>
<%namespace name="split_k" file="/gemm/_split_k.cl.mako"/>
<%namespace name="registers" file="/gemm/_register_tile.cl.mako"/>
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
rank = len(problem.batch)
G, M, N, K = policy.group_size, policy.tile_m, policy.tile_n, a.steps
names = ["a", "b", "c"] + [f"e{i}" for i in range(len(problem.extras))]
%>
% for e in problem.elements:
${element.scalar(e)}
% endfor
% for e, width in loads:
${element.vector_load(e, width, aligned)}
% endfor
${epilogue.arithmetic(problem.compute)}
${panel.define(a, problem.compute)}
${panel.define(b, problem.compute)}
% if a.pairs:
${pairs.define(tile, target.forced)}
% endif
${epilogue.define(problem)}
${epilogue.result(problem)}
#define STORE(p, v) ${problem.c.elem.name}_store(p, v)
${triangle.define(problem, policy)}\
% if split:
${split_k.define()}
% endif

__kernel ${group.of_size(G)}
void ${kernel("gemm")}
{
    __local ${a.local_type} local_memory[${local_elements}] __attribute__((aligned(16)));
    __local ${a.local_type} *a_local = local_memory, *b_local = local_memory + ${a.local_elements};
    const int t = get_local_id(0), unit = get_group_id(0);
${choose_tile()}\
    const int k_steps = (int)((depth + ${K - 1}) / ${K});
% if tail:
    const int tail = (int)(depth - ${K}l * (k_steps - 1));
% endif
${operands.locate(names, rank, "first_product + get_group_id(1)")}
${panel.place(a, "first_row", "m", "k_first" if split else "0")}
${panel.place(b, "first_col", "n", "k_first" if split else "0")}
${registers.place(tile)}
% if stagger:
    // The step along k at which the group begins.
    const int start = (int)(${stagger.group}) % ${stagger.along.starts} * ${stagger.along.stride} % k_steps;
    a += ${K}l * start * a_col;
    b += ${K}l * start * b_row;
% endif
${mainloop.run()}
% if split:
    if (is_part) {
        ${split_k.add_parts(tile.reals(), "t", G, "((int)get_group_id(1) * split_tiles + tile - unsplit)", "part",
            "splits")}
    }
% endif
% if problem.c.reader:
${output.gathered(tile)}
% else:
${triangle.store(problem, policy, lambda: output.any_width(tile, widths), lambda: output.direct(tile, 1))}
% endif
}

## Declare the group's tile of C, and its share of k: `depth` elements, from k_first on.
<%def name="choose_tile()">\
% if split:
    __local uint is_last;
    const bool is_part = unit >= unsplit;
    const int split_tiles = ${"triangle_tiles" if problem.triangle else "tiles_m * tiles_n"} - unsplit;
    const int tile = is_part ? unsplit + (unit - unsplit) % split_tiles : unit,
        part = is_part ? (unit - unsplit) / split_tiles : 0;
    const long k_first = part * k_split, depth = is_part ? min(k_split, k - k_first) : k;
% else:
    const int tile = unit;
    const long depth = k;
% endif
% if problem.triangle:
${triangle.locate(problem, policy)}\
% else:
    const int band = tile / (${policy.band} * tiles_n), in_band = tile % (${policy.band} * tiles_n);
    const int rows = min(${policy.band}, tiles_m - band * ${policy.band});
    const long first_row = ${M}l * (band * ${policy.band} + in_band % rows);
    const long first_col = ${N}l * (in_band / rows);
% endif
</%def>
