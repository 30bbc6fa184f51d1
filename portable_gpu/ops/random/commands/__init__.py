"""Records of functions of random numbers for the commands, which alone import them."""
