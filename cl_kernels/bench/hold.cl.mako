## hold: keep the device busy for `rounds` multiply-adds, each of which depends on the one before.  One work-item.
##
## Its sum is stored only if it is NaN.  It never is, but the compiler cannot exclude that.
<%include file="/common/prelude.cl.mako"/>
__kernel void ${kernel("hold")}
{
    float sum = 0;
    for (long i = 0; i < rounds; ++i)
        sum = sum * factor + term;
    if (sum != sum)
        out[0] = sum;
}
