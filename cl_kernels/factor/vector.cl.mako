## vector: X = L^-1 B of a stack of lower triangles, for few columns of B, in one launch, on a GPU.  There is a
## work-group of 256 for each block of 64 rows of each column, in an order of dependences.
##
##      +----+                   v = b - sum over known blocks of L x;   x = D^-1 v:  see _vector
##      | D  |
##      +----+----+              A group waits only for blocks of groups with lower tickets
##      |    | D  |              (group/waiting).
##      +----+----+
## problem     SolveProblem, forwards; X replaces B       separate   whether B is read from another array
## along       whether L's neighbours along a row are neighbours in memory
## n, m        rows and columns of B
## groups      those of the launch; a group's ticket is (block of rows) * (columns of all matrices) + column
## blocks      those of 64 rows of one column of B
## Names in the kernel: v_t, element t of v in work-item t < 64; steps, the number of the block, which is that of the
## blocks before it; first_row, its first row; left, its number of rows; column_of_all, the number of the column among
## those of all matrices; cell, the pointer to the column's cells.
<%namespace name="group" file="/group/group.cl.mako"/>
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%namespace name="operands" file="/gemm/_operands.cl.mako"/>
<%namespace name="numbers" file="/factor/_numbers.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="cells" file="/group/cells.cl.mako"/>
<%namespace name="diagonal" file="/factor/_vector_diagonal.cl.mako"/>
<%namespace name="parts" file="/factor/_vector.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
e, rank = problem.elem, len(problem.batch)
conj = "CONJ" if problem.l.conj else ""
source = "c" if separate else "v"  # the array from which B is read
words = e.itemsize // 4  # cells of an element

# For the defs of _vector: pointer, strides, rows and columns of the tile of L at column block k; the cell of this
# work-item's element of block k.
def tile_of(k):
    return f"l + 64l * {k} * l_col", "l_row", "l_col", "left", "64"

def cell(k):
    return f"cell + {words} * (64 * {k} + t)"
%>
${element.scalar(e)}
${epilogue.arithmetic(e)}
${numbers.reciprocal(e)}
${numbers.parts(e)}
${tile.subtraction(e)}
${cells.define(e)}
<%include file="/subgroup/warp_barrier.cl.mako"/>

__kernel ${group.of_size(256)}
void ${kernel("vector")}
{
    ${parts.declare(along)}
    __local uint ticket;
    const int t = get_local_id(0);
    if (t == 0) ticket = ${waiting.ticket()};
    barrier(CLK_LOCAL_MEM_FENCE);
    const long all_columns = groups / blocks, column_of_all = ticket % all_columns, column = column_of_all % m;
    const int steps = (int)(ticket / all_columns), first_row = 64 * steps, left = (int)min(n - first_row, 64l);
    volatile __global ulong *cell = ${cells.cell(f"{64 * words} * column_of_all * blocks")};
${operands.locate((["c"] if separate else []) + ["l", "v"], rank, "column_of_all / m")}
    l += first_row * l_row;
    v += column * v_col;
    if (t < left) v_t = ${e.name}_load(${f"c + column * c_col" if separate else "v"} + (first_row + t) * ${source}_row);
    ${diagonal.load_diagonal(e, along, "l + first_row * l_col", "l_row", "l_col", "left", conj, problem.unit)}
    ${parts.known(e, along, conj, tile_of, lambda k: "true", cell)}
    ${parts.subtract(along)}
    ${diagonal.substitute()}
% for h in range(2):
    if (t < 32 && t + ${32 * h} < left) {
        publish(${cell("steps")} + ${32 * h * words}, x_half${h});
        ${e.name}_store(v + (first_row + t + ${32 * h}) * v_row, x_half${h});
    }
% endfor
    ${cells.finish("ticket", "groups", "cells")}
}
