## X = L^-1 B of a stack of lower triangles, for few columns of B, in one launch: a work-group for each
## block of rows, `tall` times 64, and each column, in an order in which they become known.
##
##      +----+                   v = b - sum over known blocks of L x;   x = D^-1 v:  see _vector
##      | D  |
##      +----+----+              A group takes the next number when it begins, so that all that it waits
##      |    | D  |              for is of groups that began before.
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

def columns(h, k):
    return f"l + {64 * h} * l_row + 64l * {k} * l_col", "l_row", "l_col", f"(left - {64 * h})", "64"

def square():
    return "l + 64 * l_row + first_row * l_col", "l_row", "l_col", "(left - 64)", "64"

def known(k):
    return f"{e.name}_load(v + (64l * {k} + t) * v_row)"
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
<%include file="/subgroup/warp_barrier.cl.mako"/>

__kernel ${group.of_size(256)}
void vector(long n, long m, int blocks, uint groups\
% if separate:
${operands.parameters("c", e, rank)}\
% endif
${operands.parameters("l", e, rank)}${operands.parameters("v", e, rank, "")}, volatile __global uint *ready${operands.batch_parameters(rank)})
{
    ${parts.declare(along, tall)}
    __local uint number;
    __local int until;
    const int t = get_local_id(0);
    if (t == 0) number = atomic_inc(ready);
    barrier(CLK_LOCAL_MEM_FENCE);
    const long pairs = groups / blocks, pair = number % pairs, product = pair / m, column = pair % m;
    const int block = (int)(number / pairs), steps = ${tall} * block;
    const long first_row = ${64 * tall}l * block;
    const int left = (int)min(n - first_row, ${64 * tall}l);
    volatile __global uint *done = ready + 2 + pair * blocks;
${operands.locate((["c"] if separate else []) + ["l", "v"], rank, "product")}
    l += first_row * l_row;
    v += column * v_col;
    value_t own = (value_t)(0);
    int have = 0;
    if (t < left) own = ${e.name}_load(${f"c + column * c_col" if separate else "v"} + (first_row + t) * ${b}_row);
    ${parts.diagonals(e, along, tall, "l + first_row * l_col", "l_row", "l_col", "left", given, problem.unit)}
    ${parts.solve(e, along, tall, given, columns, square, known, "block")}
    if (t < left) ${e.name}_store(v + (first_row + t) * v_row, own);
    ${parts.tell("STORE_PUBLISHED(done + block, 1u);")}
}
