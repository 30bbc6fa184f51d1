"""Records of attention for the commands, which alone import them."""
