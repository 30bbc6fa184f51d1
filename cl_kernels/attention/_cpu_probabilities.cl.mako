## A part of cpu_backward: from products to probabilities, for row t of a block of pairs, that is for the pairs of the
## BQ own rows first + l, in the lanes l of NV vectors of V, with row t0 + t of the other side.  by_query: whether own
## rows are queries.  In scope there: b, batch; h, head of the queries; st, pt: see below, BQ numbers a row; sums and
## delta of own queries.
##
##   st   s = q k'         becomes  e = p (f z - delta), the gradient of the score
##   pt   z = grad v'      becomes  p f, if own rows are keys
##
## with p = exp(scale s + mask - sums), where sums has the log-sum-exp of each query's scores; f is the factor of
## dropout.  In the text i is a query and n a key; vector v of a row has the own rows first + v V + 0 .. V - 1.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%def name="row(by_query)"><%
    T, I = vector(real, V), vector("long" if real == "double" else "int", V)
    pair_of_lane = "const uint i = {}, n = {};".format(
        *(("min(first + l, queries - 1)", "t0 + t") if by_query else ("t0 + t", "min(first + l, keys - 1)")))
%>\
                ${T} *s = (${T} *)(st + t * ${BQ}), *p = (${T} *)(pt + t * ${BQ});
% if mask:
                for (uint l = 0; l < ${BQ}u; l++) {
                    ${pair_of_lane}
                    const ${mask.value} of_mask = ${mask.name}_load(mask_in
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
                const ${real} log_sum = shift_of(${wide.name}_load(sums_in
                    + (sums_offset + b * sums_batch + h * sums_head + i * sums_row)));
                const ${real} delta_of_i = ${wide.name}_load(delta_in
                    + (delta_offset + b * delta_batch + h * delta_head + i * delta_row));
% endif
% for v in range(NV):
                {
                ${T} score = ${"" if mask else "scale * "}s[${v}];
% if causal:
                const ${I} own = (${I})(first + ${v * V}) + (${I})(${", ".join(map(str, range(V)))});
                score = ${f"own {'<' if by_query else '>'} ({I})(t0 + t)"} ? (${T})(-(${real})INFINITY) : score;
% endif
<%
    shift, delta = \
        (f"((const {T} *)sums)[{v}]", f"((const {T} *)delta)[{v}]") if by_query else ("log_sum", "delta_of_i")
    factor = f"((const {T} *)factors)[{v}]"
%>\
                const ${T} probability = POWER(score - ${shift});
                s[${v}] = probability * (${f"{factor} * " if drops else ""}p[${v}] - ${delta});
% if not by_query:
                p[${v}] = probability${f" * {factor}" if drops else ""};
% endif
                }
% endfor
</%def>
