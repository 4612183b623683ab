"""Modules with the names of Triton's, for scripts written for Triton. torch_tile itself needs none of them."""
