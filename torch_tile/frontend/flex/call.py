"""What a node that calls `flex_attention`, or its gradient, says."""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile.frontend.flex.functions import Captured, ElementFunction
from torch_tile.frontend.launches.launch import NotNative

_REFERENCES = {"flex_attention": "sdpa_dense", "flex_attention_backward": "sdpa_dense_backward"}


def is_flex_attention(node: Node) -> bool:
    is_operator = node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator)
    return is_operator and str(node.target) in _REFERENCES


def reference_of(node: Node) -> str:
    """The name of torch's function that computes what the node says, operator by operator."""
    return _REFERENCES[str(node.target)]


def _constant(size: Any) -> int:
    """A size that kernels are made for. Where it is a symbol, a guard fixes it, as Inductor's does."""
    value = size.meta.get("val") if isinstance(size, Node) else size
    if isinstance(value, torch.SymInt):
        expression = value.node.expr
        if not expression.is_number and value.node.shape_env.frozen:
            raise NotNative("a size of blocks that is not constant, where no guard can be added")
        return int(value)
    if not isinstance(value, int):
        raise NotNative("a size of blocks that is not known")
    return value


class BlockLists:
    """Lists of a mask: for each block of rows (or keys) how many blocks of keys (or rows) it sees, and which."""

    def __init__(self, counts: Node, numbers: Node) -> None:
        self.counts, self.numbers = counts, numbers


def _lists(counts: Any, numbers: Any) -> BlockLists | None:
    return BlockLists(counts, numbers) if isinstance(counts, Node) and isinstance(numbers, Node) else None


class FlexCall:
    """The operands of a node.

    Attributes:
        query, key, value: nodes of 4-d tensors (batch, heads, length, width).
        score, mask: functions of elements; None for a score function that changes nothing, and a mask that is true.
        partial, full: blocks of keys that a block of rows sees, with and without the mask function.
        partial_rows, full_rows: blocks of rows that see a block of keys.
        zeroes_empty_rows: whether a row that sees no key gives 0, and not NaN.
        block_rows, block_keys: sizes of the mask's blocks.
    """

    zeroes_empty_rows = True

    def __init__(self, gm: GraphModule, node: Node) -> None:
        self.gm, self.node = gm, node
        self.is_backward = str(node.target) == "flex_attention_backward"
        args: tuple[Any, ...] = node.args
        if node.kwargs:
            raise NotNative("arguments by name")
        self.query, self.key, self.value = args[:3]
        self.joint: ElementFunction | None = None
        if self.is_backward:
            self.out, self.lse, self.grad_out, self.grad_lse, score, joint = args[3:9]
            if not isinstance(joint, Node):
                raise NotNative("a gradient without a graph of the score function")
            rest = args[9:]
        else:
            score, rest = args[3], args[4:]
        block_mask, self.scale, self.options, score_captured, mask_captured = rest
        self.score_captured, self.mask_captured = list(score_captured), list(mask_captured)
        self.partial = _lists(*block_mask[2:4])
        self.full = _lists(*block_mask[4:6])
        self.partial_rows = _lists(*block_mask[6:8])
        self.full_rows = _lists(*block_mask[8:10])
        if self.partial is None:
            raise NotNative("a mask without lists of blocks")
        block_rows, block_keys, mask = block_mask[-3:]
        self.block_rows, self.block_keys = _constant(block_rows), _constant(block_keys)
        score_function = ElementFunction(self._module(score), 5)
        self.score = None if score_function.is_identity() else score_function
        mask_function = ElementFunction(self._module(mask), 4)
        self.mask = None if mask_function.constant() is True else mask_function
        if self.is_backward:
            self.joint = ElementFunction(self._module(joint), 6)
            self._check_gradients_of_captured()
        self._check_operands()

    def _module(self, node: Any) -> GraphModule:
        module = getattr(self.gm, str(node.target), None)
        if not isinstance(module, GraphModule):
            raise NotNative("a function without a graph")
        return module

    def _check_operands(self) -> None:
        values = [node.meta["val"] for node in (self.query, self.key, self.value)]
        if len({value.dtype for value in values}) > 1:
            raise NotNative("operands of several types")
        if values[0].dtype is torch.float64:  # the operator says that sums of rows are float32, whatever the operands
            raise NotNative("operands of float64")
        if len({value.device for value in values}) > 1:
            raise NotNative("operands on several devices")
        if not all(isinstance(value.shape[3], int) for value in values):
            raise NotNative("a width that is not constant")
        if not all(isinstance(value.shape[1], int) for value in values):
            raise NotNative("a number of heads that is not constant")
        if not isinstance(self.scale, (int, float)):
            raise NotNative("a scale that is not constant")

    def _check_gradients_of_captured(self) -> None:
        for user in self.node.users:
            if user.args[1] == 3 and any(len(item.users) > 0 for item in user.users):
                raise NotNative("gradients of captured tensors")

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.query.meta["val"].dtype
        return dtype

    def sizes(self) -> tuple[Any, Any, Any, Any]:
        """Batch, heads and length of queries, length of keys."""
        batch, heads, length, _ = self.query.meta["val"].shape
        return batch, heads, length, self.key.meta["val"].shape[2]

    def results(self) -> dict[int, Any]:
        """Fake tensors of the forward's results that are used, and of the first, by position."""
        values = self.node.meta["val"]
        return {k: values[k] for k in range(len(values)) if k == 0 or self.result(k) is not None}

    def result(self, index: int) -> Any:
        """The fake tensor of a result that is used, else None."""
        used = any(user.args[1] == index and user.users for user in self.node.users)
        return self.node.meta["val"][index] if used else None


# Above all positions that 32 bits hold.
_UNBOUNDED = 1 << 31


class OnTiles:
    """A score or mask function as kernels call it: with positions first and what it captures last.

    Args:
        lengths: numbers that positions of rows and keys are below; None where blocks may begin outside of all of them.
    """

    def __init__(self, function: ElementFunction, batch: Any, heads: int, lengths: tuple[Any, Any]) -> None:
        self.function, self.batch, self.heads = function, batch, heads
        self.lengths = [length if isinstance(length, int) else _UNBOUNDED for length in lengths]

    def __call__(self, *values: Any) -> Any:
        """Values: (score), b, h, rows, keys, (gradient), captured; `captured` holds (pointer, sizes, strides) or a
        number for each."""
        *elements, captured = values
        first = 0 if self.function.num_values < 5 else 1
        b, h, rows, keys = elements[first : first + 4]
        bounds = {id(h): self.heads, id(rows): self.lengths[0], id(keys): self.lengths[1]}
        if isinstance(self.batch, int):
            bounds[id(b)] = self.batch
        tensors = [Captured(*each) if isinstance(each, tuple) else each for each in captured]
        return self.function(*elements, captured=tensors, bounds=bounds)
