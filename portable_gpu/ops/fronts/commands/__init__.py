"""Records and checks of fronts, which only the commands import."""
