"""Records and checks of matrix-vector products, which only the commands import."""
