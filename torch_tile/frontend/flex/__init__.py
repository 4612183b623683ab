"""`flex_attention` and its gradient: kernels of the tile language on GPU, operators of the graph on the CPU."""
