"""Policies of kernels: formulas and measured rows.  Nothing here imports OpenCL."""
