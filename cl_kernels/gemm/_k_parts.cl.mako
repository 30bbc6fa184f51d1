## The head of the loop of wgmma over the units of a group (here: tiles), if the products of the batch are over
## consecutive parts of one k (a ragged batch).  _units has the head for other products.
##
##   k_ranges | first element of k of product 0, number of elements | of product 1 | ...
##
## Products differ in length, and the longest are first.  Groups take units in the opposite order in every second turn,
## so that all groups have about the same number of steps.  Units of four groups:
##
##   group   0   1   2   3
##   turn 0  0   1   2   3       the distance from turn 0 to 1, 2 to 3 ... is 2 (groups - group) - 1,
##   turn 1  7   6   5   4       that from turn 1 to 2, 3 to 4 ... is 2 group + 1
##
## loop: declares first_row and first_col of a unit's tile; the pointers `names` to the operands of its product, of the
## C types `types`; steps, of `depth` elements of k; and, for the producer, k_first and length, the first element of k
## and their number (length only if it is read).  In scope: k_ranges, first_product, units (their number), tiles_m,
## tiles_n; tail, policy: as in wgmma.
<%namespace name="triangle" file="/gemm/_triangle.cl.mako"/>
<%namespace name="units" file="/gemm/_units.cl.mako"/>
<%def name="loop(policy, names, types, problem, depth)">
${units.pointers(names, types)}\
        const int groups = get_num_groups(0);
        for (int unit = get_group_id(0), distance = 2 * (groups - unit) - 1; unit < units;
            unit += distance, distance = 2 * groups - distance) {
            const int product = first_product + unit / (${triangle.area(problem)});
            const int tile = unit % (${triangle.area(problem)});
${units.place(policy, problem)}\
            const int2 range = k_ranges[product];
% if "a" in names:
            const long k_first = range.x;
% if tail and not policy.bulk:
            const long length = range.y;
% endif
% endif
            const int steps = (range.y + ${depth - 1}) / ${depth};
${units.begin(names, types, problem, "product")}
</%def>
