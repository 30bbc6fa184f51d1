"""What the commands need of steps of optimisers; imported by the commands alone."""
