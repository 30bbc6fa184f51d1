"""Checks of results for all operations: inputs, expected values, bounds, edges.

inputs, edges ──▶ check          small cases: selftest, and the tuner's edge checks
operands ──▶ oracle              large random cases, before they are timed
"""
