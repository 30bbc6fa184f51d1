"""Attention by scaled products, in one pass over the keys."""
