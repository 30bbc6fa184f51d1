"""Records and checks of transforms, which only the commands import."""
