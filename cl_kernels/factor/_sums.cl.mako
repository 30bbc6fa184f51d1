## The sums of a tile's products of real numbers, in registers: d for V, e for the second tile W of a pair.  They start
## with -C and end with -V.  mma: whether a matrix instruction computes them (_mma_products), else see _plain_products.
##
## declare()                    the positions of a work-item's sums
## sums(d)                      declare sums of 0
## input(source, d, s)          start the sums with -C of the tile in the rows whose name is s (see _tile's input)
## multiply(d, p, q)            add the products of 16 steps of k, whose panels are in local memory
## subtract_sums(v, d, has_input)    subtract the sums from v; has_input: whether v has C, else it is 0
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="plain" file="/factor/_plain_products.cl.mako"/>
<%def name="declare()">${(matrix if mma else plain).declare()}</%def>
<%def name="sums(d='d')">${(matrix if mma else plain).sums(d)}</%def>
<%def name="input(source, d='d', s='s')">${(matrix if mma else plain).input(source, d, s)}</%def>
<%def name="multiply(d='d', p='p_now', q='q_now')">${(matrix if mma else plain).multiply(d, p, q)}</%def>
<%def name="subtract_sums(v='v', d='d', has_input=False)">\
${(matrix if mma else plain).subtract_sums(v, d, has_input)}\
</%def>
