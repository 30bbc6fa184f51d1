"""What the commands need of factors and triangular solves; imported by the commands alone."""
