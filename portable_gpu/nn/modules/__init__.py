"""Modules: layers that keep what their gradients need, by torch's names."""
