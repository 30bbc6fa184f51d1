## A part of cpu_backward: the probabilities and the gradients of scores of pairs of a query and a key, in place of the
## products from which they follow.  Row t of a block of pairs is that of row t0 + t of the other side; its columns l
## are the BQ own rows first + l, as NV vectors of V numbers:
##
##   st[t][l]   s = q k'         becomes  ds = p (f dp - delta), the gradient of the score
##   pt[t][l]   dp = grad v'      becomes  p f, if own rows are keys
##
## with p = exp(scale s + mask - sums), where sums has the log-sum-exp of each query's scores; f is the factor of
## dropout.  by_query: whether own rows are queries.  In scope: b, batch; h, head of the queries; st, pt; t; sums and
## delta of own queries.  In the text i is a query and n a key.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%def name="row(by_query)"><%
    T, I = vector(real, V), vector("long" if real == "double" else "int", V)
    own_row, other_row = f"min(first + l, {'queries' if by_query else 'keys'} - 1)", "t0 + t"
    query, key = (own_row, other_row) if by_query else (other_row, own_row)
    pair_of_lane = f"const uint i = {query}, n = {key};"
%>\
                ${T} *s = (${T} *)(st + t * ${BQ}), *p = (${T} *)(pt + t * ${BQ});
% if mask:
                for (uint l = 0; l < ${BQ}u; l++) {
                    ${pair_of_lane}
                    const ${mask.value} of_mask = ${mask.name}_load(mask_data
                        + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step));
                    ${real} *of_pair = st + (t * ${BQ} + l);
<% boolean, added = f"of_mask ? scale * *of_pair : -({real})INFINITY", "scale * *of_pair + of_mask" %>\
                    *of_pair = ${boolean if mask.boolean else added};
                }
% endif
% if drops:
                ${real} factors[${BQ}] __attribute__((aligned(64)));
                for (uint l = 0; l < ${BQ}u; l++) {
                    ${pair_of_lane}
                    factors[l] = ${dropout.factor()};
                }
% endif
% if not by_query:
                const uint i = t0 + t;
                const ${real} log_sum = shift_of(${wide.name}_load(sums_data
                    + (sums_offset + b * sums_batch + h * sums_head + i * sums_row)));
                const ${real} delta_of_i = ${wide.name}_load(delta_data
                    + (delta_offset + b * delta_batch + h * delta_head + i * delta_row));
% endif
% for v in range(NV):
                {
                ${T} score = ${"" if mask else "scale * "}s[${v}];
% if causal:
                const ${I} own = (${I})(first + ${v * V}) + (${I})(${", ".join(map(str, range(V)))});
                score = own ${"<" if by_query else ">"} (${I})(t0 + t) ? (${T})(-(${real})INFINITY) : score;
% endif
<%
    shift, delta = "log_sum", "delta_of_i"
    if by_query:
        shift, delta = f"((const {T} *)sums)[{v}]", f"((const {T} *)delta)[{v}]"
    factor = f"((const {T} *)factors)[{v}]"
%>\
                const ${T} probability = EXP(score - ${shift});
                s[${v}] = probability * (${f"{factor} * " if drops else ""}p[${v}] - ${delta});
% if not by_query:
                p[${v}] = probability${f" * {factor}" if drops else ""};
% endif
                }
% endfor
</%def>
