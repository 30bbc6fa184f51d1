## The sums of a tile's products while they are made, of real numbers: D of V, E of a pair's second tile W.
## They begin with -C.  By the matrix instruction where there is one.
##
## declare()                    where a work-item's sums are
## sums(d)                      sums of 0
## input(source, d, s)          -C, as _tile's input says: of which tile, by s
## multiply(d, p, q)            add the products of 16 steps of k, whose panels are in local memory
## subtract_sums(v, d, held)    v less the sums; held: whether v has C, and else it is 0
<%namespace name="matrix" file="/factor/_mma_products.cl.mako"/>
<%namespace name="plain" file="/factor/_plain_products.cl.mako"/>
<%def name="declare()">${(matrix if mma else plain).declare()}</%def>
<%def name="sums(d='d')">${(matrix if mma else plain).sums(d)}</%def>
<%def name="input(source, d='d', s='s')">${(matrix if mma else plain).input(source, d, s)}</%def>
<%def name="multiply(d='d', p='p_now', q='q_now')">${(matrix if mma else plain).multiply(d, p, q)}</%def>
<%def name="subtract_sums(v='v', d='d', held=False)">${(matrix if mma else plain).subtract_sums(v, d, held)}</%def>
