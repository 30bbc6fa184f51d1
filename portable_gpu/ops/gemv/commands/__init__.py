"""What the commands need of matrix-vector products; imported by the commands alone."""
