## The places of a product's operands, whose parameters portable_gpu.ops.gemm.operands declares.  Offsets and strides
## count elements, and may be negative or zero.
##
##   locate(names, rank, index)     a += a_offset + sum over batch axes N of (index along N) * a_batchN, for each name
##   advance(names, rank, index)    the same without a_offset
## rank: number of batch axes.  index: a C expression, the product's number in the batch.  `axes`
## (portable_gpu.codegen.axes) writes the index along each axis, and the offset, as C expressions.
<%def name="locate(names, rank, index)">
% for name in names:
    ${name} += ${name}_offset;
% endfor
${advance(names, rank, index)}
</%def>

<%def name="advance(names, rank, index)">
% if rank:
    {
        const long batch_item = ${index};
% for d, digit in enumerate(axes.digits("batch", rank, "batch_item")):
        const long batch_at${d} = ${digit};
% endfor
% for name in names:
        ${name} += ${axes.offset("batch", name, [f"batch_at{d}" for d in range(rank)])};
% endfor
    }
% endif
</%def>
