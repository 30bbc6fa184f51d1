"""Products by register tiles, on SIMD units."""
