"""What the commands need of transforms; imported by the commands alone."""
