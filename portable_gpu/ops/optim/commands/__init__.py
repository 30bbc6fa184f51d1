"""Records of steps of optimisers for the commands, which alone import them."""
