## step: one step of an optimiser, in one pass over a parameter, its gradient and its state, of `size` elements each.
##
##   element     | V | V | ... | rest |     a work-item has `elements_each` adjacent elements, as vectors
##   work-item   |         0          |     of V and single ones; it reads gradient, parameter and state of an element
##                                          once and writes all but the gradient
##
## rule: sgd or adam.  elem: the element type of param and grad.  wide: that of all other arrays and of the computation.
## states: names of the state arrays.  master: whether the array `master` has the parameter in the type `wide`.
## flags: names of the rule's options that are on; the scalars of a rule are arguments (ops/optim/api.py computes them).
## V: elements of a vector.
## aligned: whether all addresses are multiples of a vector.  G: work-items of a group.
<%namespace name="element" file="/common/element.cl.mako"/>
<%namespace name="group" file="/group/group.cl.mako"/>
<%include file="/common/prelude.cl.mako"/>
<%
    written = {"param": elem, **{name: wide for name in states}, **({"master": wide} if master else {})}
    source = "master" if master else "param"
    real = wide.real
%>
% for e in {elem.name: elem, wide.name: wide}.values():
${element.scalar(e)}
${element.vector_load(e, V, aligned)}
${element.vector_store(e, V, aligned)}
% endfor

__kernel ${group.of_size(G)}
void ${kernel("optim_step")}
{
    const long begin = (long)get_global_id(0) * elements_each, end = min(size, begin + elements_each);
    __global const ${elem.name}_t *grad = grad_data + grad_data_offset;
% for name, e in written.items():
    __global ${e.name}_t *${name} = ${name}_data + ${name}_data_offset;
% endfor
    long i = begin;
    for (; i + ${V} <= end; i += ${V}) {
${update(V)}\
    }
    for (; i < end; i++) {
${update(1)}\
    }
}

## The update of w elements from i on.  g, p: gradient and parameter.  The variable of a state is the first letter of
## its name and `_`: b_ of `buffer`, a_ of `average`, s_ of the squares, l_ of the largest.
<%def name="update(w)">
<% t = vector(real, w); suffix = "" if w == 1 else w %>
        ${t} g = ${"-" if "maximize" in flags else ""}${elem.name}_load${suffix}(grad + i);
        ${t} p = ${written[source].name}_load${suffix}(${source} + i);
% for name in states:
        ${t} ${name[0]}_ = ${wide.name}_load${suffix}(${name} + i);
% endfor
${getattr(self, rule)(w)}\
% for name, e in written.items():
        ${e.name}_store${suffix}(${name} + i, ${f"{name[0]}_" if name in states else "p"});
% endfor
</%def>

## Stochastic gradient descent.  b_: the momentum (the state `buffer`).  carry and fresh are momentum and 1 - dampening;
## at the first step 0 and 1.  A factor of 0 leaves out what it would multiply, which may be infinite or NaN.
<%def name="sgd(w)">
        if (weight_decay != 0) g += weight_decay * p;
% if states:
        if (carry == 0) b_ = 0;
        b_ = carry * b_ + fresh * g;
        g = ${"g + momentum * b_" if "nesterov" in flags else "b_"};
% endif
        p -= lr * g;
</%def>

## Adam.  a_: the mean of gradients (`average`).  s_: the mean of their squares.  l_: the largest s_ so far.  At step t:
## first = 1 - beta1, second = 1 - beta2, step_size = lr / (1 - beta1^t), root = 1 / sqrt(1 - beta2^t), and decay is
## the weight decay, times lr if it is decoupled (AdamW).
<%def name="adam(w)">
% if "decoupled" in flags:
        if (decay != 0) p -= decay * p;
% else:
        if (decay != 0) g += decay * p;
% endif
        a_ += first * (g - a_);
        s_ = beta2 * s_ + second * g * g;
% if "amsgrad" in flags:
        l_ = l_ >= s_ ? l_ : s_;
% endif
        p -= step_size * a_ / (sqrt(${"l_" if "amsgrad" in flags else "s_"}) * root + eps);
</%def>
