## A part of cpu_short_rows: the transposition of a square of elements in registers, by CPUs' shuffles of two operands.
##
##   a0 a1 | a2 a3        a0 a1 | c0 c1        a0 b0 | c0 d0      lanes of `near` elements (here 2; 16
##   b0 b1 | b2 b3   ->   b0 b1 | d0 d1   ->   a1 b1 | c1 d1      bytes) are exchanged, and then their
##   c0 c1 | c2 c3        a2 a3 | c2 c3        a2 b2 | c2 d2      elements are interleaved
##   d0 d1 | d2 d3        b2 b3 | d2 d3        a3 b3 | c3 d3
<%!
    from portable_gpu.codegen.operators import vector

    def transposed(ctype, name, width, near):
        """C declarations of the columns of the vectors `name`_0 ..., and the names of the columns."""
        lines, names = [], [f"{name}_{k}" for k in range(width)]

        # One shuffle of the vectors a and b; `lanes` are those of the result; `at`: its number within a stage.
        def declare(stage, at, a, b, lanes):
            new = f"{name}_{stage}_{at}"
            lanes = ", ".join(map(str, lanes))
            lines.append(f"const {vector(ctype, width)} {new} = __builtin_shufflevector({a}, {b}, {lanes});")
            return new

        # Lists of lanes for shuffles of two operands; the lanes of the second one count from `width` on.
        def swap_blocks(distance, high):
            """The lower, or upper, halves of both operands' blocks of 2 `distance` lanes, in turn."""
            offset = distance if high else 0
            return [(width if k & distance else 0) + (k & ~distance) + offset for k in range(width)]

        def interleave(high):
            """The elements of both operands in turn, from the lower or upper halves of blocks of `near` lanes."""
            half = near // 2 if high else 0
            return [k % 2 * width + k // near * near + half + k % near // 2 for k in range(width)]

        distance = width // 2
        while distance >= near:
            new = list(names)
            for k in range(width):
                if not k & distance:
                    a, b = names[k], names[k | distance]
                    new[k] = declare(f"distance{distance}", k, a, b, swap_blocks(distance, False))
                    new[k | distance] = declare(f"distance{distance}", k | distance, a, b, swap_blocks(distance, True))
            names, distance = new, distance // 2
        for stage in range(near.bit_length() - 1):
            new = []
            for begin in range(0, width, near):
                for k in range(begin, begin + near // 2):
                    a, b = names[k], names[k + near // 2]
                    new.append(declare(f"near{stage}", len(new), a, b, interleave(False)))
                    new.append(declare(f"near{stage}", len(new), a, b, interleave(True)))
            names = new
        return " ".join(lines), names
%>
