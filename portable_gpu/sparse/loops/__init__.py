"""Loops over arrays: translated from Python to LLVM IR, and compiled for the processor."""
