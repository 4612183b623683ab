"""Matrix products with what is computed of their results, point by point, as kernels of the tile language."""
