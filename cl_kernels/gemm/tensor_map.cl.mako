## The tensor map of an operand, for the copy engine of NVIDIA GPUs from Hopper on (PTX ISA, tensor map).  One group of
## 32 work-items makes it in local memory and copies it to `map`, once for all launches of a product.  Its address is 0:
## dimensions 2 and 3, with their strides of 16 and of 2^35 bytes, select the address of a matrix (see _boxes).
##
##   dimension   0         1         2      3
##   elements    extent    count     2^31   2^22
##   bytes       itemsize  pitch     16     2^35
##
## elem: the element.  The matrix has `count` lines of `extent` elements, which are `pitch` bytes apart.  A box has
## box_lines lines of `depth` elements.  The numbers of `fields` are PTX's codes: `rank` 3 means four dimensions, and
## `swizzle_mode` 3 the swizzle of 128 bytes.
<%include file="/common/prelude.cl.mako"/>
<%
elemtype = {"f16": 6, "bf16": 10, "f32": 7}[elem.name]
fields = [("rank", 3), ("elemtype", elemtype), ("interleave_layout", 0), ("swizzle_mode", 3), ("fill_mode", 0)]
%>
#define SET(field, bits, value) \
    asm volatile("//@sm_90a tensormap.replace.tile." field ".shared::cta.b1024.b" #bits " [%0], " value ";" \
        :: "r"(local_map) : "memory")
#define SET_TO(field, bits, ordinal, constraint, value) \
    asm volatile("//@sm_90a tensormap.replace.tile." field ".shared::cta.b1024.b" #bits " [%0], " ordinal "%1;" \
        :: "r"(local_map), constraint(value) : "memory")

static inline uint local_address(const __local void *p) { return (uint)(size_t)p; }

__kernel __attribute__((reqd_work_group_size(32, 1, 1)))
void ${kernel("tensor_map")}
{
    __local uint words[32] __attribute__((aligned(128)));
    const uint local_map = local_address(words);
    const int t = get_local_id(0);
    words[t] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    if (t == 0) {
        SET_TO("global_address", 64, "", "l", 0ul);
% for name, code in fields:
        SET("${name}", 32, "${code}");
% endfor
% for i, (size, box) in enumerate([("extent", depth), ("count", "box_lines"), ("1u << 31", 1), ("1u << 22", 1)]):
        SET_TO("global_dim", 32, "${i}, ", "r", (uint)(${size}));
        SET_TO("box_dim", 32, "${i}, ", "r", (uint)${box});
        SET_TO("element_stride", 32, "${i}, ", "r", 1u);
% endfor
% for i, bytes in enumerate(["(ulong)pitch", "16ul", "1ul << 35"]):
        SET_TO("global_stride", 64, "${i}, ", "l", ${bytes});
% endfor
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    asm volatile("//@sm_90a tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu\
.sync.aligned [%0], [%1], 128;"
        :: "l"(map), "r"(local_map) : "memory");
}
