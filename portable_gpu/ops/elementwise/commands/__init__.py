"""What the commands need of expressions; imported by the commands alone."""
