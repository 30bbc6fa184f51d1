"""Several devices, and arrays that are larger than memory."""
