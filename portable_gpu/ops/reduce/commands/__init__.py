"""Records and checks of reductions, which only the commands import."""
