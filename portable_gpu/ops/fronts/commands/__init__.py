"""What the commands need of fronts; imported by the commands alone."""
