"""Timings of the library, of other libraries, and of the device's limits.

From a case to a row, a file each::

    sizes, cases ──▶ operands ──▶ peers, ours, clblast ──▶ oracle ──▶ measure ──▶ report, plot
     what is timed    its data     calls bound to them     refuses     Row        JSON, pictures
                                                           wrong ones
    roofs: what the device can do;   ladder: successive optimisations of a kernel
"""
