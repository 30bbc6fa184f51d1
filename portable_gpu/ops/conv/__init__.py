"""Convolutions along one to three axes, and their gradients by input and weights."""
