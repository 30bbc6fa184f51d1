"""How a kernel should use a device: policies (by formula) and measured rows.  No OpenCL."""
