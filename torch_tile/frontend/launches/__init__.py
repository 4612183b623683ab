"""Parts of `torch_tile.frontend.triton_kernels`."""
