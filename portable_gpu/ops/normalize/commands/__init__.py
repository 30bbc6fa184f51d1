"""Records of softmax, normalisation and losses for the commands, which alone import them."""
