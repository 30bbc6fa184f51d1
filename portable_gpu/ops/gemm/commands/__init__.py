"""Records and checks of matrix products, which only the commands import."""
