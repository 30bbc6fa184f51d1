"""Records of embeddings for the commands, which alone import them."""
