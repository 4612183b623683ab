"""What AOTAutograd's pass that makes tensors of Python floats lacks (torch 2.13).

The pass computes what depends on sizes with tensors, too. Its table of operations has no remainder, so that a graph
with a size like `6 + i % 2` raised an AttributeError.
"""

from __future__ import annotations

import torch
from torch.utils._sympy.reference import TensorReferenceAnalysis


def add_remainders() -> None:
    """Python's remainder, with the sign of the divisor. A torch whose table has it is left alone."""
    if not hasattr(TensorReferenceAnalysis, "python_mod"):
        setattr(TensorReferenceAnalysis, "python_mod", staticmethod(torch.ops.aten.remainder.Tensor))  # noqa: B010
