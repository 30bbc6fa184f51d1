## Asynchronous copies of 4, 8 or 16 bytes from global to local memory (PTX ISA, cp.async), in groups:
## COPIES_WAIT(n) waits for all but this work-item's last n groups.
<%def name="define(sizes)">
% for size in sizes:
#define COPY_${size}(to, from) asm volatile("cp.async.${"cg" if size == 16 else "ca"}.shared.global [%0], [%1], ${size};" :: "r"((uint)(size_t)(to)), "l"(from) : "memory")
#define COPY_OR_ZERO_${size}(to, from, exists) asm volatile("cp.async.${"cg" if size == 16 else "ca"}.shared.global [%0], [%1], ${size}, %2;" :: "r"((uint)(size_t)(to)), "l"(from), "r"((exists) ? ${size} : 0) : "memory")
% endfor
#define COPIES_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPIES_WAIT(pending) asm volatile("cp.async.wait_group " #pending ";" ::: "memory")
</%def>
