"""What the commands need of functions of random numbers; imported by the commands alone."""
