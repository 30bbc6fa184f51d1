"""Records and checks of factors and triangular solves, which only the commands import."""
