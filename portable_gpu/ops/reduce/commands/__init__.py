"""What the commands need of reductions; imported by the commands alone."""
