"""Triton's kernels on CPU: the backend that Triton finds by the entry point `triton.backends`.

Triton traces a `@triton.jit` function to its IR; from there on kernels are compiled and run by torch-tile. Nothing here
is imported unless Triton is.
"""
