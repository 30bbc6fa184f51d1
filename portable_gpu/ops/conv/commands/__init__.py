"""What the commands need of convolutions; imported by the commands alone."""
