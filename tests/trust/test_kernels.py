"""Kernels against plain loops: what a mutation check found untested."""
