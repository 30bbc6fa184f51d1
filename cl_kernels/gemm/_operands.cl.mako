## Operands of a product as kernel parameters (portable_gpu.ops.gemm.operands.arguments is the
## host's side).  Offsets and strides count elements; any sign, zero too.
##
##   parameters("a", elem, rank)   , a, a_offset, a_row, a_col, a_batch0 ...; the reader's instead of strides (_gather)
##   of_product(problem)           those of A, B, C and the epilogue, alpha, beta and the extents of the batch axes
##   batch_parameters(rank)        , batch0_size, batch1_size ...     the extents of the batch axes
##   locate(names, rank, index)    a += a_offset + sum of (place on axis) * a_batchN, for each name
##   walk(names, rank, index)      the same without the offset
## rank: number of batch axes.  index: a C expression, the product's number in the batch.
<%namespace name="epilogue" file="/common/epilogue.cl.mako"/>
<%def name="parameters(name, elem, rank, access='const ', reader=None)">\
, __global ${access}${elem.name}_t *restrict ${name}, long ${name}_offset\
% if reader:
${local.get_namespace("/gemm/_gather.cl.mako").parameters(name, reader)}\
% else:
, long ${name}_row,
    long ${name}_col\
% endif
${''.join(f', long {name}_batch{d}' for d in range(rank))}\
</%def>

<%def name="of_product(problem)"><% rank = len(problem.batch) %>\
${parameters("a", problem.a.elem, rank, reader=problem.a.reader)}\
${parameters("b", problem.b.elem, rank, reader=problem.b.reader)}\
${parameters("c", problem.c.elem, rank, "", problem.c.reader)}\
${epilogue.parameters(problem)}, value_t alpha, value_t beta\
${batch_parameters(rank)}\
</%def>

<%def name="batch_parameters(rank)">${''.join(f', long batch{d}_size' for d in range(rank))}</%def>

<%def name="locate(names, rank, index)">
% for name in names:
    ${name} += ${name}_offset;
% endfor
${walk(names, rank, index)}
</%def>

<%def name="walk(names, rank, index)">
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
