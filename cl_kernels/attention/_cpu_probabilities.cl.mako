## The step from products to probabilities in cpu_backward, whose names are used, for row t of a block of pairs: the BQ
## own rows first + l with row t0 + t of the other side.  by_query: whether own rows are queries.
##
##   st   s = q k'         becomes  e = p (f z - delta), the gradient of the score
##   pt   z = grad v'      becomes  p f, if own rows are keys
##
## with p = exp(scale s + mask - sums); f is the factor of dropout.  In the text i is a query and n a key.
<%namespace name="dropout" file="/attention/_dropout.cl.mako"/>
<%def name="row(by_query)"><%
    T, I = vector(real, V), vector("long" if real == "double" else "int", V)
    place = "const uint i = {}, n = {};".format(
        *(("min(first + l, queries - 1)", "t0 + t") if by_query else ("t0 + t", "min(first + l, keys - 1)")))
%>\
                ${T} *s = (${T} *)(st + t * ${BQ}), *p = (${T} *)(pt + t * ${BQ});
% if mask:
                for (uint l = 0; l < ${BQ}u; l++) {
                    ${place}
                    const ${mask.value} x = ${mask.name}_load(mask_in
                        + (mask_offset + b * mask_batch + h * mask_head + i * mask_row + n * mask_step));
                    ${real} *score = st + (t * ${BQ} + l);
                    *score = ${f"x ? scale * *score : -({real})INFINITY" if mask.boolean else "scale * *score + x"};
                }
% endif
% if drops:
                ${real} factors[${BQ}] __attribute__((aligned(64)));
                for (uint l = 0; l < ${BQ}u; l++) {
                    ${place}
                    factors[l] = ${dropout.factor()};
                }
% endif
% if not by_query:
                const uint i = t0 + t;
                const ${real} sum = shift_of(${wide.name}_load(sums_in
                    + (sums_offset + b * sums_batch + h * sums_head + i * sums_row)));
                const ${real} own_delta = ${wide.name}_load(delta_in
                    + (delta_offset + b * delta_batch + h * delta_head + i * delta_row));
% endif
% for j in range(NV):
                {
                ${T} score = ${"" if mask else "scale * "}s[${j}];
% if causal:
                const ${I} own = (${I})(first + ${j * V}) + (${I})(${", ".join(map(str, range(V)))});
                score = ${f"own {'<' if by_query else '>'} ({I})(t0 + t)"} ? (${T})(-(${real})INFINITY) : score;
% endif
<%
    shift, delta = (f"((const {T} *)sums)[{j}]", f"((const {T} *)delta)[{j}]") if by_query else ("sum", "own_delta")
    factor = f"((const {T} *)factors)[{j}]"
%>\
                const ${T} power = POWER(score - ${shift});
                s[${j}] = power * (${f"{factor} * " if drops else ""}p[${j}] - ${delta});
% if not by_query:
                p[${j}] = power${f" * {factor}" if drops else ""};
% endif
                }
% endfor
</%def>
