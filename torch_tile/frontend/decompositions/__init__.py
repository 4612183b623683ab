"""Decompositions that AOTAutograd applies: operators in terms of simpler ones."""

from torch_tile.frontend.decompositions.table import decomposition_table

__all__ = ["decomposition_table"]
