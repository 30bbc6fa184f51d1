## X = L^-1 B of a stack of lower triangles, for few columns of B, in one launch: a work-group for each 64
## rows and each column, in an order in which they become known.
##
##      +----+                   v = b - sum over known blocks of L x;   x = D^-1 v
##      | D  |                   A group takes the next number when it begins, so that all that it waits
##      +----+----+              for is of groups that began before.
##      |    | D  |
##      +----+----+
## problem     SolveProblem, forwards; X in the place of B       separate   whether B is read elsewhere
## along       whether L's neighbours along a row are neighbours in memory
## ready       as of tiles
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="parts" file="/factor/_vector.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank = problem.elem, len(problem.batch)
given = "CONJ" if problem.l.conj else ""
b = "c" if separate else "v"
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
${tile.subtraction(e)}

__kernel ${group.of_size(256)}
void vector(long n, long m, int blocks, uint groups\
% if separate:
${operands.parameters("c", e, rank)}\
% endif
${operands.parameters("l", e, rank)}${operands.parameters("v", e, rank, "")}, volatile __global uint *ready${operands.batch_parameters(rank)})
{
    ${parts.declare(along)}
    __local uint number;
    __local int until;
    const int t = get_local_id(0);
    if (t == 0) number = atomic_inc(ready);
    barrier(CLK_LOCAL_MEM_FENCE);
    const long pairs = groups / blocks, pair = number % pairs, product = pair / m, column = pair % m;
    const int block = (int)(number / pairs), left = (int)min(n - 64l * block, 64l);
    volatile __global uint *done = ready + 2 + pair * blocks;
${operands.locate((["c"] if separate else []) + ["l", "v"], rank, "product")}
    l += 64l * block * l_row;
    v += column * v_col;
    value_t own = (value_t)(0);
    int have = 0;
    if (t < left) own = ${e.name}_load(${f"c + column * c_col" if separate else "v"} + (64l * block + t) * ${b}_row);
    ${parts.diagonal(e, along, "l + 64l * block * l_col", "l_row", "l_col", "left", given, problem.unit)}
    if (block > 0) ${fetch_tile("0")}
    for (int k = 0; k < block; ++k) {
        ${parts.wait("k", "block")}
        if (t < 64) xs[(k & 1) * 64 + t] = ${e.name}_load(v + (64l * k + t) * v_row);
        barrier(CLK_LOCAL_MEM_FENCE);
        ${parts.multiply(along, "(k & 1) * 64", given)}
        if (k + 1 < block) ${fetch_tile("k + 1")}
    }
    ${parts.subtract(along)}
    ${parts.substitute()}
    if (t < left) ${e.name}_store(v + (64l * block + t) * v_row, own);
    ${parts.tell("STORE_PUBLISHED(done + block, 1u);")}
}
<%def name="fetch_tile(k)">${parts.fetch(e, along, f"l + 64l * ({k}) * l_col", "l_row", "l_col", "left", "64")}</%def>
