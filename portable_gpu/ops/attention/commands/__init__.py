"""What the commands need of attention; imported by the commands alone."""
