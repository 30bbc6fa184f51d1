## A square of elements transposed in registers, for shuffles of two operands as CPUs have them.
##
##   a0 a1 | a2 a3        a0 a1 | c0 c1        a0 b0 | c0 d0      lanes of `near` elements (here 2; 16
##   b0 b1 | b2 b3   ->   b0 b1 | d0 d1   ->   a1 b1 | c1 d1      bytes) are exchanged, and then their
##   c0 c1 | c2 c3        a2 a3 | c2 c3        a2 b2 | c2 d2      elements are interleaved
##   d0 d1 | d2 d3        b2 b3 | d2 d3        a3 b3 | c3 d3
<%!
    from portable_gpu.codegen.operators import vector

    def transposed(ctype, name, width, near):
        """C declarations of the columns of the vectors `name`_0 ..., and what they are called."""
        lines, names = [], [f"{name}_{k}" for k in range(width)]

        def declare(stage, at, a, b, lanes):
            new = f"{name}_{stage}_{at}"
            lanes = ", ".join(map(str, lanes))
            lines.append(f"const {vector(ctype, width)} {new} = __builtin_shufflevector({a}, {b}, {lanes});")
            return new

        # Lanes of two vectors, those of the second one from `width` on.
        def trade(far, high):
            """The lanes at distance `far`: the lower ones of both, or the upper ones."""
            return [(width if k & far else 0) + (k & ~far) + (far if high else 0) for k in range(width)]

        def deal(high):
            """Elements of both in turn, from the lower or the upper half of each near lane."""
            half = near // 2 if high else 0
            return [k % 2 * width + k // near * near + half + k % near // 2 for k in range(width)]

        far = width // 2
        while far >= near:
            new = list(names)
            for k in range(width):
                if not k & far:
                    a, b = names[k], names[k | far]
                    new[k] = declare(f"far{far}", k, a, b, trade(far, False))
                    new[k | far] = declare(f"far{far}", k | far, a, b, trade(far, True))
            names, far = new, far // 2
        for stage in range(near.bit_length() - 1):
            new = []
            for begin in range(0, width, near):
                for k in range(begin, begin + near // 2):
                    a, b = names[k], names[k + near // 2]
                    new.append(declare(f"near{stage}", len(new), a, b, deal(False)))
                    new.append(declare(f"near{stage}", len(new), a, b, deal(True)))
            names = new
        return " ".join(lines), names
%>
