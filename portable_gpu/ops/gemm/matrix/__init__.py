"""Products on matrix units."""
