## The matrix instruction of NVIDIA's warps in double precision (PTX ISA, mma.sync m16n8k16, or the eight m8n8k4 of
## which it is composed) on lines of 16 doubles in local memory (see _lines).  Lane 4 g + q of a warp is lane q of the
## g-th quad.  h numbers two rows, r four steps of k.
##
##   form_of(a, b, x)    a line is     what lane 4 g + q reads of a line            its four steps of k
##   across              a step of k   chunk g: rows 2g and 2g + 1                  2q, 2q + 1, 2q + 8, 2q + 9
##   along               row 2g + h    chunks q and q + 4                           the same
##   apart               row 2g + h    element q % 2 of chunks q / 2 + 0, 2, 4, 6   q, q + 4, q + 8, q + 12
##
## With the swizzle, lanes that read together access different banks.  Adjacent registers of A differ in h,
## so operands that both have k along the lines are read `apart`; otherwise registers would be moved.
##
## a, b, lines: portable_gpu.ops.gemm.matrix.lines.Lines, of A, of B, and of one of them, NAME.  form: one of the table.
## In scope: g and q; NAME_at, the pointer to the warp's first row (column) in the stage, in bytes; NAME_lane, the
## offset of the lane's first element from there, in bytes.
<%!
def form_of(a, b, lines):
    """The form in which lanes read an operand, a row of the table."""
    if lines.across:
        return "across"
    return "along" if a.across or b.across else "apart"

def swizzle(form, line):
    """The bits that are flipped in the numbers of a line's chunks."""
    return f"((({line}) & 2) << 1)" if form == "along" else f"(({line}) & 6)"

def lane(form):
    """The offset in bytes of a lane's first element in a square of 16 rows."""
    line, chunk = {"across": ("2 * q", "g"), "along": ("2 * g", "q"), "apart": ("2 * g", "q / 2")}[form]
    return f"128 * ({line}) + (({chunk} ^ {swizzle(form, line)}) << 4)" + (" + q % 2 * 8" if form == "apart" else "")
%>

## MMA(d0, d1, d2, d3, a, b) adds the product of the fragments with the names a and b to four sums: d0, d1 of row g,
## columns 2q and 2q + 1, and d2, d3 of row g + 8, in the numbering of PTX.  wide: whether the device has m16n8k16.
<%def name="instructions(wide)">
% if wide:
#define MMA(d0, d1, d2, d3, a, b) \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, " \
                 "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};" \
                 : "+d"(d0), "+d"(d1), "+d"(d2), "+d"(d3) \
                 : "d"(a##_0_0), "d"(a##_1_0), "d"(a##_0_1), "d"(a##_1_1), "d"(a##_0_2), "d"(a##_1_2), \
                   "d"(a##_0_3), "d"(a##_1_3), "d"(b##_0), "d"(b##_1), "d"(b##_2), "d"(b##_3))
% else:
#define MMA_SMALL(d0, d1, a, b) \
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" \
                 : "+d"(d0), "+d"(d1) : "d"(a), "d"(b))
#define MMA(d0, d1, d2, d3, a, b) do { \
% for r in range(4):
        MMA_SMALL(d0, d1, a##_0_${r}, b##_${r}); MMA_SMALL(d2, d3, a##_1_${r}, b##_${r}); \
% endfor
    } while (0)
% endif
</%def>

## Load a square of 16 rows of A (columns of B), from row `first` of the warp on.  NAME_h_r is the element of row 2g + h
## and of the r-th of the lane's four steps of k.
<%def name="fragment(lines, form, name, first)">
% if form == "across":
% for r in range(4):
                const double2 ${name}_${r} = ${at("double2", lines, 0, f"128 * ({first} + {r % 2 + r // 2 * 8})")};
% endfor
                const double ${", ".join(f"{name}_{h}_{r} = {name}_{r}.s{h}" for h in range(2) for r in range(4))};
% elif form == "along":
% for h in range(2):
% for c in range(2):
                const double2 ${name}_${h}${c} = ${at("double2", lines, 64 * c, f"128 * ({first} + {h})")};
% endfor
                const double ${", ".join(f"{name}_{h}_{r} = {name}_{h}{r // 2}.s{r % 2}" for r in range(4))};
% endfor
% else:
% for h in range(2):
% for r in range(4):
                const double ${name}_${h}_${r} = ${at("double", lines, 32 * r, f"128 * ({first} + {h})")};
% endfor
% endfor
% endif
</%def>
## An expression: an element of this lane, `ahead` bytes further than its first one, and in the chunk whose offset in
## the line differs in the bits `flipped`.
<%def name="at(type, lines, flipped, ahead)">\
*(const __local ${type} *)(${lines.name}_at + (${lines.name}_lane ^ ${flipped}) + ${ahead})\
</%def>

## Declare fragments as registers that `refill` fills (names as in `fragment`).
<%def name="declare(name)">
                double ${", ".join(f"{name}_{h}_{r}" for h in range(2) for r in range(4))};
</%def>
<%def name="refill(lines, form, name, first)">
                {
                    ${fragment(lines, form, "f", first)}
                    ${"; ".join(f"{name}_{h}_{r} = f_{h}_{r}" for h in range(2) for r in range(4))};
                }
</%def>

## Compute all products of a step: of block i of 16 rows with the j-th 8 columns, as sums d<i>_<j>_0 to d<i>_<j>_3.  The
## fragments of A are in a0 and a1 in turn, those of B in b0, b1 ...  The first ones are already loaded.  While the last
## block is multiplied, the first fragments of the next step replace these; `next`, statements, makes that step's lines
## current.  The number of blocks is even.
<%def name="step(policy, a, b, next)">
% for i in range(policy.blocks):
<% last, current, other = i + 1 == policy.blocks, f"a{i % 2}", f"a{1 - i % 2}" %>
                ${next if last else ""}
${refill(a, form_of(a, b, a), other, 0 if last else 16 * (i + 1))}
% for j in range(2 * policy.pairs):
                MMA(d${i}_${j}_0, d${i}_${j}_1, d${i}_${j}_2, d${i}_${j}_3, ${current}, b${j // 2}_${j % 2});
% if last and j % 2:
${refill(b, form_of(a, b, b), f"b{j // 2}", j // 2 * 16)}
% endif
% endfor
% endfor
</%def>
