"""Records and checks of expressions, which only the commands import."""
