"""What the commands need of matrix products; imported by the commands alone."""
