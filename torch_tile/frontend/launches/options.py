"""What the module around a kernel of a graph says of its launch on a GPU; csrc/compiler/driver/Compile.cpp reads it."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import Node

from torch_tile.language.launch_options import LaunchOptions

# As for launches outside of graphs, csrc/compiler/driver/Options.h.
_DEFAULT_STAGES = 3


def attributes_on_gpu(arguments: list[Any], is_distinct: bool, options: LaunchOptions) -> list[str]:
    """Attributes of the module.

    Args:
        arguments: what the kernel takes, in its order: nodes, numbers, and strings for results, which are new memory.
        is_distinct: whether what the kernel writes shares no memory with its other arguments.
        options: of the launch.
    """
    # Tensors that are copied for a launch, to be aligned, share no memory any more.
    known = [_known_of(value, is_distinct) for value in arguments]
    attributes = [f"tile.argument_multiples = array<i64: {', '.join(map(str, known))}>"]
    attributes.append("tile.fast_arithmetic")
    num_stages = _DEFAULT_STAGES if options.num_stages is None else options.num_stages
    if num_stages > 1:
        attributes.append(f"tile.num_stages = {num_stages} : i64")
    if options.num_warps is not None:
        attributes.append(f"tile.wanted_threads = {32 * options.num_warps} : i64")
    if options.maxnreg is not None:
        attributes.append(f"tile.max_registers = {options.maxnreg} : i64")
    return attributes


def matmul_precision() -> str:
    """How `torch.backends.cuda.matmul` rounds operands of float32, as `input_precision` of `tl.dot`."""
    return "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"


def is_tensor(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, Node) and isinstance(value.meta["val"], torch.Tensor))


def _known_of(value: Any, is_distinct: bool) -> int:
    if isinstance(value, str):
        return 16
    if is_tensor(value):
        return 16 if is_distinct and _is_aligned(value.meta["val"]) else 0
    return _multiple_of(value)


def _multiple_of(value: Any) -> int:
    """What is known of a number: 1 if it is 1, 16 if it is divisible by 16, else 0; as outside of graphs."""
    if not isinstance(value, int):
        return 0
    return 1 if value == 1 else 16 if value % 16 == 0 else 0


def _is_aligned(value: torch.Tensor) -> bool:
    """Whether a tensor begins at a multiple of 16 bytes if its storage does."""
    offset = value.storage_offset()
    return isinstance(offset, int) and offset * value.dtype.itemsize % 16 == 0
