"""What commands need of the sampling kernels; imported at their first use."""
