"""What the commands need of softmax, normalisation and losses; imported by the commands alone."""
