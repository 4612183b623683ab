"""Descriptors of tensors that are made outside of kernels."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass
class TensorDescriptor:
    """A tensor of which a kernel loads and stores blocks: `desc.load([row, column])` inside it.

    Attributes:
        base: the tensor.
        shape, strides: its sizes and strides, in elements; the last stride is 1.
        block_shape: sizes of a block, powers of two. Hooks of autotuning may set it before a launch.
        padding: what elements outside read as: "zero" or "nan".
    """

    base: torch.Tensor
    shape: list[int]
    strides: list[int]
    block_shape: list[int]
    padding: str = "zero"

    def __post_init__(self) -> None:
        rank = len(self.shape)
        if not rank or len(self.strides) != rank or len(self.block_shape) != rank:
            raise ValueError(
                "a tensor descriptor expected as many strides and block sizes as sizes, got "
                f"{self.shape}, {self.strides} and {self.block_shape}"
            )
        if self.strides[-1] != 1:
            raise ValueError(f"a tensor descriptor expected 1 as last stride, got {self.strides[-1]}")

    @staticmethod
    def from_tensor(tensor: torch.Tensor, block_shape: list[int], padding: str = "zero") -> TensorDescriptor:
        """Describes a whole tensor."""
        return TensorDescriptor(tensor, list(tensor.shape), list(tensor.stride()), list(block_shape), padding)
