## hold: keeps the device for `rounds` multiply-adds, each of which waits for the one before.
##
## Its sum is stored if it is NaN, which it is not, but the compiler does not know.
<%include file="/common/prelude.cl.mako"/>
__kernel void hold(__global float *restrict out, float factor, float term, long rounds)
{
    float sum = 0;
    for (long i = 0; i < rounds; ++i)
        sum = sum * factor + term;
    if (sum != sum)
        out[0] = sum;
}
