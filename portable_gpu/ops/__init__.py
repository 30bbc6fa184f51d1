"""The host side of the kernels: a folder for each family of operations."""
