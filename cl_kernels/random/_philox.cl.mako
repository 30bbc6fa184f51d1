## Philox4x32-10, a counter-based generator: random numbers that are functions of a counter and a key.
## Salmon, Moraes, Dror & Shaw, SC 2011; its test vectors are in tests/device/test_nn_dropout.py.
##
##   PHILOX_block(block, stream, key) -> uint4   four random words of 32 bits
##
## A random number for each element: element i has word i % 4 of block i / 4, whatever work-item computes it.
## key: the seed.  stream: the number of the draw with this key.  The constants are the paper's multipliers and Weyl
## steps.
<%def name="define()">
static inline uint4 philox_4x32_10(uint4 counter, uint2 key)
{
% for r in range(10):
    {
        const ulong of_x = (ulong)counter.x * 0xD2511F53u, of_z = (ulong)counter.z * 0xCD9E8D57u;
        counter = (uint4)((uint)(of_z >> 32) ^ counter.y ^ key.x, (uint)of_z, (uint)(of_x >> 32) ^ counter.w ^ key.y,
            (uint)of_x);
    }
% if r < 9:
    key += (uint2)(0x9E3779B9u, 0xBB67AE85u);
% endif
% endfor
    return counter;
}

static inline uint4 PHILOX_block(ulong block, ulong stream, ulong key)
{
    return philox_4x32_10((uint4)((uint)block, (uint)(block >> 32), (uint)stream, (uint)(stream >> 32)),
        (uint2)((uint)key, (uint)(key >> 32)));
}
</%def>
