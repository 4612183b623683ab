"""What AOTAutograd writes with simpler ops before this package sees a graph."""

from torch_tile.frontend.decompositions.table import decomposition_table

__all__ = ["decomposition_table"]
