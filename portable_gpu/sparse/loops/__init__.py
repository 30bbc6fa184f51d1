"""Loops over arrays: translated from Python to LLVM's text, and compiled for the processor."""
