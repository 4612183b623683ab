"""Assignments to parts of tensors. In a graph without mutation `x[a:b] = y` is a `slice_scatter`: a whole tensor."""
