"""`flex_attention` and its gradient as launches of kernels of the tile language."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile import language, targets
from torch_tile.frontend.emit import emit_before
from torch_tile.frontend.flex import blocks
from torch_tile.frontend.flex.backward import flex_backward_keys, flex_backward_queries
from torch_tile.frontend.flex.call import BlockLists, FlexCall, OnTiles
from torch_tile.frontend.flex.forward import LOG2_E, flex_combine, flex_forward
from torch_tile.frontend.flex.numbers import Numbers
from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.launches.insert import Result, insert_launch
from torch_tile.frontend.launches.launch import NotNative
from torch_tile.frontend.launches.options import matmul_precision

aten = torch.ops.aten
# Its values are of types that Python does not see.
tl: Any = language


class Steps:
    """How the blocks that a list of the mask names are visited.

    Attributes:
        SIZE: keys (or rows) of a step.
        COUNT: steps of a block of the mask; 0 if the mask has one block, of any length.
    """

    def __init__(self, size: int, block: Any, length: Any) -> None:
        self.SIZE = size
        self.COUNT = 0 if isinstance(length, int) and block >= length else block // size


class Constants:
    """What a kernel is compiled for: see its uses in `forward.py` and `backward.py`."""

    def __init__(self, call: Any, chosen: blocks.Blocks, full: BlockLists | None, splits: int = 1) -> None:
        query, key, value = (node.meta["val"] for node in (call.query, call.key, call.value))
        batch, heads, q_length, kv_length = call.sizes()
        self.BLOCK_M, self.BLOCK_N = chosen.rows, chosen.keys
        self.SPLITS, self.SPLIT_LANES = splits, 1 << (splits - 1).bit_length()
        self.WIDTH, self.V_WIDTH = query.shape[3], value.shape[3]
        self.D, self.DV = blocks.padded(self.WIDTH), blocks.padded(self.V_WIDTH)
        self.GROUP = heads // key.shape[1]
        self.IS_BATCHED = int(key.shape[0] == query.shape[0])
        self.SUM, self.PRECISION = tl.float32, matmul_precision()
        self.SCALE, self.LOG2_E = float(call.scale), LOG2_E
        # By a positive factor the maximum of scores is scaled in place of the scores, among which masks put -inf.
        self.SCALES_LATE = call.score is None and float(call.scale) * LOG2_E >= torch.finfo(torch.float32).tiny
        self.KEYS = Steps(chosen.keys, call.block_keys, kv_length)
        self.ROWS = Steps(chosen.rows, call.block_rows, q_length)
        self.MASK_M, self.MASK_N = call.block_rows, call.block_keys
        self.EVEN_M = _is_multiple(q_length, chosen.rows if self.ROWS.COUNT == 0 else call.block_rows)
        self.EVEN_N = _is_multiple(kv_length, chosen.keys if self.KEYS.COUNT == 0 else call.block_keys)
        self.IS_DENSE = call.partial is None
        if call.partial is not None:
            self.MASK_BATCH, self.MASK_HEADS = call.partial.counts.meta["val"].shape[:2]
        self.ZERO_EMPTY = call.zeroes_empty_rows
        self.HAS_FULL = full is not None
        lengths = (q_length if self.EVEN_M else None, kv_length if self.EVEN_N else None)
        self.score, self.mask, self.gradient = (
            OnTiles(function, batch, heads, lengths) if function else None
            for function in (call.score, call.mask, call.joint)
        )


def _is_multiple(length: Any, size: int) -> bool:
    return isinstance(length, int) and length % size == 0


class Launcher:
    """Puts launches in the place of a node.

    Args:
        call: a `FlexCall`, or, for the forward alone, a `written.WrittenCall`.
    """

    def __init__(self, gm: GraphModule, call: Any, kernels: dict[str, GivenKernel], smaller: int = 0) -> None:
        self.gm, self.call, self.kernels, self.smaller = gm, call, kernels, smaller
        self.numbers = Numbers(gm, call.node)
        self.device: torch.device = call.query.meta["val"].device

    def emit(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A call of an operator before the node."""
        return emit_before(self.gm, self.call.node, target, *args, **kwargs)

    def rows_of(self, node: Node) -> Node:
        """The tensor, or a copy of it whose rows have neighbouring elements."""
        stride = node.meta["val"].stride(-1)
        is_dense = isinstance(stride, int) and stride == 1
        return node if is_dense else self.emit(aten.clone.default, node, memory_format=torch.contiguous_format)

    def contiguous(self, node: Node) -> Node:
        value = node.meta["val"]
        if value.is_contiguous():
            return node
        return self.emit(aten.clone.default, node, memory_format=torch.contiguous_format)

    def strides(self, value: torch.Tensor) -> tuple[Any, ...]:
        return tuple(self.numbers.of(stride) for stride in value.stride()[:3])

    def lists(self, lists: BlockLists | None) -> Any:
        if lists is None:
            return None
        counts, numbers = lists.counts.meta["val"], lists.numbers.meta["val"]
        if numbers.stride(-1) != 1:
            lists = BlockLists(lists.counts, self.contiguous(lists.numbers))
            numbers = lists.numbers.meta["val"]
        return lists.counts, lists.numbers, self.strides(counts), self.strides(numbers)

    def captured(self) -> tuple[Any, Any]:
        return tuple(
            tuple(self._captured(value) for value in values)
            for values in (self.call.score_captured, self.call.mask_captured)
        )  # type: ignore[return-value]

    def _captured(self, value: Any) -> Any:
        if isinstance(value, Node) and isinstance(tensor := value.meta["val"], torch.Tensor):
            sizes = tuple(self.numbers.of(size) for size in tensor.shape)
            return value, sizes, tuple(self.numbers.of(stride) for stride in tensor.stride())
        return value

    def launch(
        self, kernel: Any, values: dict[str, Any], programs: Any, chosen: blocks.Blocks, results: list[torch.Tensor]
    ) -> list[Node]:
        """A launch of the kernel before the node, and the nodes of its results."""
        grid = [programs, 1, 1]
        options, device, kernels = chosen.options(), self.device, self.kernels
        return insert_launch(self.gm, self.call.node, kernel, values, grid, options, results, device, kernels)

    def programs(self, length: Any, size: int, batch: Any, heads: int) -> Any:
        rounded = self.numbers.call(operator.add, self.numbers.of(length), size - 1)
        count = self.numbers.call(operator.floordiv, rounded, size)
        return self.numbers.product(count, self.numbers.of(batch), heads)

    def choose(self, kind: str) -> blocks.Blocks:
        call = self.call
        query, value = call.query.meta["val"], call.value.meta["val"]
        width = max(query.shape[3], value.shape[3])
        mask = (call.block_rows, call.block_keys)
        shared = None if self.device.type == "cpu" else targets.shared_bytes(str(self.device))
        is_long = call.score is not None and not call.score.is_short()
        return blocks.choose(
            kind, width, query.dtype, dict(call.options), mask, call.sizes()[2:], shared, self.smaller, is_long
        )

    def forward(self) -> dict[int, Node]:
        """Results of the operator that are used, by position."""
        call = self.call
        chosen = self.choose("forward")
        query, key, value = (self.rows_of(node) for node in (call.query, call.key, call.value))
        used = call.results()
        batch, heads, q_length, kv_length = call.sizes()
        splits = self._splits(chosen)
        wanted = used if splits == 1 else self._parts(used, splits)
        results = {k: Result(place, fake) for place, (k, fake) in enumerate(sorted(wanted.items()))}
        lengths = (self.numbers.of(q_length), self.numbers.of(kv_length), heads)
        constants = Constants(call, chosen, call.full, splits)
        strides = self.strides(used[0]) if splits == 1 else tuple(wanted[0].stride()[:4])
        values: dict[str, Any] = {
            "q_ptr": query, "k_ptr": key, "v_ptr": value, "out_ptr": results[0], "lse_ptr": results.get(1),
            "max_ptr": results.get(2), "partial": self.lists(call.partial), "full": self.lists(call.full),
            "captured": self.captured(), "lengths": lengths,
            "q_strides": self.strides(query.meta["val"]), "k_strides": self.strides(key.meta["val"]),
            "v_strides": self.strides(value.meta["val"]), "out_strides": strides, "C": constants,
        }  # fmt: skip
        programs = self.numbers.product(self.programs(q_length, chosen.rows, batch, heads), splits)
        made = self.launch(flex_forward, values, programs, chosen, [wanted[k] for k in sorted(wanted)])
        if splits > 1:
            made = self._combine(dict(zip(sorted(wanted), made, strict=True)), used, lengths, constants)
        return dict(zip(sorted(used), made, strict=True))

    def _splits(self, chosen: blocks.Blocks) -> int:
        """How many programs share the keys of a block of rows."""
        batch, heads, q_length, kv_length = self.call.sizes()
        if not isinstance(batch, int) or not isinstance(q_length, int):
            return 1
        programs = batch * heads * -(-q_length // chosen.rows)
        steps = -(-kv_length // chosen.keys) if isinstance(kv_length, int) else None
        return blocks.number_of_splits(programs, steps, multiprocessors(self.device))

    def _parts(self, used: dict[int, Any], splits: int) -> dict[int, torch.Tensor]:
        """Results for parts of the keys: values, sums of exponentials (base 2, log), and maxima if they are used."""
        batch, heads, q_length, _ = self.call.sizes()
        sums = used[0].new_empty((batch, heads, splits, q_length), dtype=torch.float32)
        parts = {0: sums.new_empty((*sums.shape, used[0].shape[3])), 1: sums}
        return parts | {2: torch.empty_like(sums)} if 2 in used else parts

    def _combine(
        self, parts: dict[int, Node], used: dict[int, Any], lengths: tuple[Any, ...], constants: Constants
    ) -> list[Node]:
        results = {k: Result(place, fake) for place, (k, fake) in enumerate(sorted(used.items()))}
        values: dict[str, Any] = {
            "part_ptr": parts[0], "sums_ptr": parts[1], "tops_ptr": parts.get(2), "out_ptr": results[0],
            "lse_ptr": results.get(1), "max_ptr": results.get(2), "lengths": lengths,
            "out_strides": self.strides(used[0]), "C": constants,
        }  # fmt: skip
        batch, heads, q_length, _ = self.call.sizes()
        one_row = blocks.Blocks(1, 1, 1 if constants.DV <= 128 else 4, 1)
        programs = self.programs(q_length, 1, batch, heads)
        return self.launch(flex_combine, values, programs, one_row, [used[k] for k in sorted(used)])

    def backward(self) -> dict[int, Node]:
        call = self.call
        if call.partial_rows is None:
            raise NotNative("a mask without lists of rows")
        query, key, value, grad = (self.rows_of(n) for n in (call.query, call.key, call.value, self._grad_out()))
        batch, heads, q_length, kv_length = call.sizes()
        shared: dict[str, Any] = {
            "q_ptr": query, "k_ptr": key, "v_ptr": value, "grad_ptr": grad, "lse_ptr": self.contiguous(call.lse),
            "delta_ptr": self._delta(), "captured": self.captured(),
            "lengths": (self.numbers.of(q_length), self.numbers.of(kv_length), heads),
            "q_strides": self.strides(query.meta["val"]), "k_strides": self.strides(key.meta["val"]),
            "v_strides": self.strides(value.meta["val"]), "grad_strides": self.strides(grad.meta["val"]),
        }  # fmt: skip
        found: dict[int, Node] = {}
        if (dq := call.result(0)) is not None:
            chosen = self.choose("queries")
            values = {
                **shared, "dq_ptr": Result(0, dq), "partial": self.lists(call.partial), "full": self.lists(call.full),
                "dq_strides": self.strides(dq), "C": Constants(call, chosen, call.full),
            }  # fmt: skip
            programs = self.programs(q_length, chosen.rows, batch, heads)
            found[0] = self.launch(flex_backward_queries, values, programs, chosen, [dq])[0]
        if call.result(1) is not None or call.result(2) is not None:
            found |= self._keys(shared)
        return found

    def _keys(self, shared: dict[str, Any]) -> dict[int, Node]:
        call = self.call
        batch, _, _, kv_length = call.sizes()
        chosen = self.choose("keys")
        fakes = [call.node.meta["val"][k] for k in (1, 2)]
        is_batched = fakes[0].shape[0] == batch
        if not is_batched:  # keys that all elements of the batch share: their gradients are summed behind the kernel
            fakes = [fake.new_empty((batch, *fake.shape[1:])) for fake in fakes]
        values = {
            **shared, "dk_ptr": Result(0, fakes[0]), "dv_ptr": Result(1, fakes[1]),
            "partial": self.lists(call.partial_rows), "full": self.lists(call.full_rows),
            "dk_strides": self.strides(fakes[0]), "dv_strides": self.strides(fakes[1]),
            "C": Constants(call, chosen, call.full_rows),
        }  # fmt: skip
        kv_heads = call.key.meta["val"].shape[1]
        programs = self.programs(kv_length, chosen.keys, batch, kv_heads)
        made = self.launch(flex_backward_keys, values, programs, chosen, fakes)
        if not is_batched:
            made = [self.emit(aten.sum.dim_IntList, node, [0], True) for node in made]
        return {1: made[0], 2: made[1]}

    def _grad_out(self) -> Node:
        if isinstance(self.call.grad_out, Node):
            return self.call.grad_out
        return self.emit(aten.zeros_like.default, self.call.out)

    def _delta(self) -> Node:
        """For each row the sum of out * gradient, less the gradient of the log-sum-exp in base 2 over log(2)."""
        call = self.call
        convert = torch.ops.prims.convert_element_type.default
        out, grad = (self.emit(convert, node, torch.float32) for node in (call.out, self._grad_out()))
        delta = self.emit(aten.sum.dim_IntList, self.emit(aten.mul.Tensor, out, grad), [-1])
        if isinstance(call.grad_lse, Node):
            delta = self.emit(aten.sub.Tensor, delta, self.emit(aten.mul.Tensor, call.grad_lse, LOG2_E))
        return self.contiguous(delta)


def multiprocessors(device: torch.device) -> int:
    """How many blocks a device runs side by side; 1 of a processor, whose programs gain nothing from being short."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def launch_instead(gm: GraphModule, node: Node, kernels: dict[str, GivenKernel], smaller: int = 0) -> None:
    """Replaces a call of `flex_attention`, or of its gradient, by launches.

    Args:
        kernels: of this graph so far, by their texts.
        smaller: how often to halve blocks, see `blocks.choose`.

    Raises:
        NotNative, UnsupportedFunctionError: what the kernels do not do; the graph computes what it did before.
    """
    call = FlexCall(gm, node)
    launcher = Launcher(gm, call, kernels, smaller)
    made = launcher.backward() if call.is_backward else launcher.forward()
    for user in list(node.users):
        found = made.get(int(user.args[1]))  # type: ignore[arg-type]
        if found is not None:
            user.replace_all_uses_with(found)
        for item in list(user.users):
            gm.graph.erase_node(item)  # of gradients of captured tensors, which nobody uses
        gm.graph.erase_node(user)
    gm.graph.erase_node(node)
