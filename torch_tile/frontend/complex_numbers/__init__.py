"""Arithmetic of complex numbers on the CPU as arithmetic of their parts, which kernels have.

ATen's complex operators are library calls with a result in memory each, and the rotations of transformers that are
written with complex numbers, spectral layers and quantum circuits are chains of them. Here each value of a chain is a
pair of real tensors. They are read from complex memory as `view_as_real(x).select(-1, k)` and written to it as a stack
of the two, where something that takes complex numbers only (a transform, a product, the caller) wants the value.

The formulas are those of ATen's vectors (`ATen/cpu/vec`, `c10/util/complex.h`), so zeros, infinities and NaN come out
alike: numbers and real operands take part as complex numbers whose imaginary part is 0, and a sum is `a + alpha * b`.
"""

from torch_tile.frontend.complex_numbers.chains import replace_complex

__all__ = ["replace_complex"]
