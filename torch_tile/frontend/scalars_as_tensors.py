"""What AOTAutograd's pass that makes tensors of Python floats lacks (torch 2.11 to 2.13).

The pass computes what depends on sizes with tensors, too. Its table of operations has no remainder, so that a graph
with a size like `6 + i % 2` raised an AttributeError.
"""

from __future__ import annotations

import torch
from torch.utils._sympy.reference import TensorReferenceAnalysis


def add_remainders() -> None:
    """Remainders with the sign of the divisor: Python's; those of C are made for operands that are not negative."""
    for name in ("python_mod", "mod"):
        setattr(TensorReferenceAnalysis, name, staticmethod(torch.ops.aten.remainder.Tensor))
