## The sums of a tile's products of real numbers, in registers: sum_v for V, sum_w for the second tile W of a pair.
## They start with -C and end with -V.  mma: whether a matrix instruction computes them (_mma_products), else see
## _plain_products.  The sums of a work-item are not those of its elements v of V (_tile).
##
##   declare()                        declare the positions of a work-item's sums
##   sums(name)                       declare sums of 0, whose names begin with `name`
##   input(source, name, s)           start the sums with -C of the tile in the block of rows s or f (see _tile's input)
##   multiply(name, p, q)             add the products of 16 steps of k, whose panels p and q are in local memory
##   subtract_sums(v, name, has_input)    subtract the sums from v; has_input: whether v has C, else it is 0
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="plain" file="/factor/_plain_products.cl.mako"/>
<%def name="declare()">${(matrix if mma else plain).declare()}</%def>
<%def name="sums(name='sum_v')">${(matrix if mma else plain).sums(name)}</%def>
<%def name="input(source, name='sum_v', s='s')">${(matrix if mma else plain).input(source, name, s)}</%def>
<%def name="multiply(name='sum_v', p='p_now', q='q_now')">${(matrix if mma else plain).multiply(name, p, q)}</%def>
<%def name="subtract_sums(v='v', name='sum_v', has_input=False)">\
${(matrix if mma else plain).subtract_sums(v, name, has_input)}\
</%def>
