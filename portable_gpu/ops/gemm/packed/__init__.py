"""Products on CPUs, by packed panels."""
