"""Triton kernels of the monitor, and their state on the device."""
