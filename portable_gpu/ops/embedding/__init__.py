"""Gathers of rows by indices, and sums of rows by indices."""
