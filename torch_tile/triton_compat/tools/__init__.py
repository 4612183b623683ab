"""Triton's `tools`: descriptors of tensors."""
