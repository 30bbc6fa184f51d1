"""The device: this layer and those above it alone import pyopencl."""
