"""The text of kernels: Mako templates in, OpenCL C and ``-D`` options out.  No OpenCL."""
