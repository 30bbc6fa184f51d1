## The matrix instruction of warps in double precision (PTX ISA, mma.sync m16n8k16, or eight times
## m8n8k4, which it is made of) on lines of 16 doubles in local memory.  Of a line, lane q of a quad
## holds k = 2q, 2q + 1, 2q + 8 and 2q + 9.
##
##   k along the line:   line = row of A (column of B); a lane reads chunks q and q + 4 of 2g + h
##   k across the lines: line = step of k; a lane reads chunk g, rows 2g and 2g + 1, of its four k
## where the swizzle keeps eight lanes that read together in different banks.

<%def name="instructions(wide)">
#define SWIZZLE_ALONG(line, chunk) ((chunk) ^ ((line) & 2) << 1)
#define SWIZZLE_ACROSS(line, chunk) ((chunk) ^ (line) & 6)
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

## A square of 16 rows of A (columns of B) from line or row `first` on: NAME_h_r is row 2g + h at the
## r-th of the lane's four steps of k.
<%def name="fragment(lines, name, first)">
<% steps = [f"2 * q + {r % 2 + r // 2 * 8}" for r in range(4)] %>
% if lines.across:
% for r, step in enumerate(steps):
                const double2 ${name}_${r} = ${lines.name}_at[((${first}) / 16 * 16 + ${step}) * 8 + SWIZZLE_ACROSS(${step}, g)];
% endfor
                const double ${", ".join(f"{name}_{h}_{r} = {name}_{r}.s{h}" for h in range(2) for r in range(4))};
% else:
% for h in range(2):
% for c in range(2):
                const double2 ${name}_${h}${c} = ${lines.name}_at[(${first} + 2 * g + ${h}) * 8 + SWIZZLE_ALONG(2 * g, q + ${4 * c})];
% endfor
                const double ${", ".join(f"{name}_{h}_{r} = {name}_{h}{r // 2}.s{r % 2}" for r in range(4))};
% endfor
% endif
</%def>

## Fragments as registers of their own, to be filled by `refill` (names as of `fragment`).
<%def name="declare(name)">
                double ${", ".join(f"{name}_{h}_{r}" for h in range(2) for r in range(4))};
</%def>
<%def name="refill(lines, name, first)">
                {
                    ${fragment(lines, "f", first)}
                    ${"; ".join(f"{name}_{h}_{r} = f_{h}_{r}" for h in range(2) for r in range(4))};
                }
</%def>

## All products of a step whose first fragments are there, in a0 and b0, b1 ...  While the last block,
## of an even number, is multiplied, those of the next step take their places; `next` brings it into reach.
<%def name="step(policy, a, b, next)">
% for i in range(policy.blocks):
<% last, own, other = i + 1 == policy.blocks, f"a{i % 2}", f"a{1 - i % 2}" %>
                ${next if last else ""}
${refill(a, other, "rows_at" if last else f"rows_at + {16 * (i + 1)}")}
% for j in range(2 * policy.pairs):
                MMA(d${i}_${j}_0, d${i}_${j}_1, d${i}_${j}_2, d${i}_${j}_3, ${own}, b${j // 2}_${j % 2});
% if last and j % 2:
${refill(b, f"b{j // 2}", f"cols_at + {j // 2 * 16}")}
% endif
% endfor
% endfor
</%def>
