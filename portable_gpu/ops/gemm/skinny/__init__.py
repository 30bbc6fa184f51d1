"""Products of few rows or columns."""
