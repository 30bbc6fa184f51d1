"""Records of convolutions for the commands, which alone import them."""
