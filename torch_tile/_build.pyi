"""Written by CMake beside the extension."""

TORCH: str
"""The version of torch that the extension was built for."""
