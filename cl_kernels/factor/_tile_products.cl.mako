## The products V = C - P Q of a tile, in factor/tiles and in tiles, solve and update of fronts.  _tile has the
## variables in scope, _panels the panels of P and Q.
<%namespace name="waiting" file="/group/waiting.cl.mako"/>
<%namespace name="panel" file="/factor/_panels.cl.mako"/>
<%namespace name="sums" file="/factor/_sums.cl.mako"/>
<%namespace name="tile" file="/factor/_tile.cl.mako"/>
<%namespace name="tickets" file="/factor/_tickets.cl.mako"/>

## v -= P Q over k from `first` to `last`, C expressions.  The next panels are loaded to p0 ... p3 and q0 ... q3 while
## the current ones are multiplied.  In fronts, `last` may be within a panel.  p, q: defs that load panels, if not
## fetch_p and fetch_q of _panels.
<%def name="products(first, last, p=None, q=None)">\
<%
p, q = p or panel.fetch_p, q or panel.fetch_q

def left(k):
    """C text of how many steps exist from step k on; without fronts whole panels do, and no load needs it."""
    return f"{last} - ({k})" if in_fronts else ""
%>\
value_t p0, p1, p2, p3, q0, q1, q2, q3;
            ${p(first, left(first))}
            ${q(first, left(first))}
            for (long k = ${first}; k < ${last}; k += 16) {
                // With two panels of 16 * 68 elements, the previous one may be in use until the next barrier.
                __local value_t *p_now = p_part${" + 68 * (int)(k & 16)" if panels == 2 else ""};
                __local value_t *q_now = q_part${" + 68 * (int)(k & 16)" if panels == 2 else ""};
                ${panel.put("p", "p_now", p_along, "VALUE_OF_P")}
                ${panel.put("q", "q_now", q_along)}
                barrier(CLK_LOCAL_MEM_FENCE);
                if (k + 16 < ${last}) {
                    ${p("k + 16", left("k + 16"))}
                    ${q("k + 16", left("k + 16"))}
                }
% if not problem.elem.complex:
                ${sums.multiply()}
% if paired:
                if (has_diagonal) {
                    ${sums.multiply("sum_w", "q_now")}
                }
% endif
% else:
                ${panel.subtract("v", "p_now", "q_now", 16, unroll=4)}
% if paired:
                if (has_diagonal) {
                    ${panel.subtract("w", "q_now", "q_now", 16, "CONJ", 4)}
                }
% endif
% endif
% if panels == 1:
                barrier(CLK_LOCAL_MEM_FENCE);
% endif
            }
% if panels == 2:
            barrier(CLK_LOCAL_MEM_FENCE);
% endif
</%def>

## Start v, and for a pair w, or their sums, with C, which is read from `source`.
<%def name="input(source)">\
% if not problem.elem.complex:
${sums.declare()}
    ${sums.sums()}
% if paired:
    ${sums.sums("sum_w")}
    if (has_diagonal) {
        ${sums.input(source, "sum_w", "f")}
    }
    if (s >= 0)
% endif
    {
        ${sums.input(source)}
    }
% else:
% if paired:
if (has_diagonal) {
        ${tile.input(source, "w", "f")}
    }
    if (s >= 0)
% endif
    {
        ${tile.input(source)}
    }
% endif
</%def>

## v -= P Q over all k.  Each iteration waits for one step of 64 k, and computes all steps whose tiles are finished by
## then.  computed: the number of steps that are done.  below: whether to begin with the u rows below the columns of a
## front.  has_input: see _sums.
<%def name="all(below=False, has_input=False)">\
% if below:
    {
        ${products("0", "u", panel.fetch_p_below, panel.fetch_q_below)}
    }
% endif
    for (int computed = 0; computed < needed_steps;) {
        if (t == 0) ready_end = min(computed + 256, needed_steps);
        barrier(CLK_LOCAL_MEM_FENCE);
        if (computed + t < needed_steps) {
            // Work-item 0 waits for the next step; the others check whether further steps are done as well.
            ${waiting.wait(f"!({capture(tickets.is_done, '(computed + t)')})",
                "if (t) { atomic_min(&ready_end, computed + t); break; }")}\
            ${waiting.acquire()}
        }
        ${waiting.acquire_by_all()}\
        const int to = ready_end;
        if (to > computed) {
            ${products("64l * computed", "min(64l * to, (long)c)" if in_fronts else "64l * to")}
            computed = to;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
% if not problem.elem.complex:
    ${sums.subtract_sums(has_input=has_input)}
% endif
</%def>
