"""Convolutions along one to three axes, and the gradients of their inputs and weights."""
