"""How results are checked, whatever the operation: inputs, expected values, bounds, edges.

inputs, edges ──▶ check          small cases: selftest, and the tuner's edge checks
operands ──▶ oracle              large random ones, before anybody times them
"""
