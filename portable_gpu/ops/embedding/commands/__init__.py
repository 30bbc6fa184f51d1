"""What the commands need of embeddings; imported by the commands alone."""
