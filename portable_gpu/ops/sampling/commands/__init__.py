"""Records of sampling for the commands, which import them at their first use."""
