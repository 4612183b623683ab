"""Memory that a graph needs at most: as planned for our program, and as eager mode would take it."""

from __future__ import annotations

import dataclasses
import logging
import re
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_tile import _C
from torch_tile.debug.calls import hint_of

if TYPE_CHECKING:
    from torch.fx import GraphModule

log = logging.getLogger(__name__)
_SYMBOL = re.compile(r'#graph\.symbol<"(\w+)"[^>]*hint = (-?\d+)')


@dataclasses.dataclass
class Plan:
    """What one call of a program does, with sizes as they were when it was compiled."""

    peak_bytes: int
    """At most, beside arguments and parameters. A backward's begins with what its forward has saved."""
    kernel_bytes: dict[int, int]
    """By kernel: bytes that all its launches read and write, those of each body once."""
    has_uncertain: bool = False
    """Whether some launches are in branches or loops."""


class _Storages:
    """Bytes of storages that are held, by slot."""

    def __init__(self) -> None:
        self._storage_of: dict[int, int] = {}
        self._bytes: dict[int, int] = {}
        self._users: dict[int, int] = {}
        self._next = 0
        self.current = self.peak = 0

    def add(self, slot: int, num_bytes: int) -> None:
        self.free(slot)
        self._next += 1
        self._storage_of[slot], self._bytes[self._next], self._users[self._next] = self._next, num_bytes, 1
        self.current += num_bytes
        self.peak = max(self.peak, self.current)

    def share(self, slot: int, other: int) -> None:
        storage = self._storage_of.get(other)
        if storage is None or slot == other:
            return
        self._users[storage] += 1
        self.free(slot)
        self._storage_of[slot] = storage

    def has(self, slot: int) -> bool:
        return slot in self._storage_of

    def free(self, slot: int) -> None:
        storage = self._storage_of.pop(slot, None)
        if storage is None:
            return
        self._users[storage] -= 1
        if self._users[storage] == 0:
            self.current -= self._bytes.pop(storage)


def _item_sizes(gm: GraphModule, graph: Any, lines: Sequence[int]) -> list[int]:
    """Bytes of an element of each result of the call behind lines of the graph text."""
    nodes, names = {node.name: node for node in gm.graph.nodes}, dict(graph.lines)
    for line in lines:
        node = nodes.get(names.get(line, ""))
        if node is not None:
            values = pytree.tree_leaves(node.meta.get("val"))
            return [value.element_size() if isinstance(value, torch.Tensor) else 8 for value in values]
    return []


def planned_steps(graph: Any, program: Any) -> list[Any]:
    """What one call does, step by step, with the sizes that the graph was traced with."""
    return _C.planned_steps(program, {name: int(hint) for name, hint in _SYMBOL.findall(graph.text)})


def plan_of(gm: GraphModule, graph: Any, program: Any, kind: str) -> Plan:
    """The plan of a program, for the sizes it was traced with."""
    given = [node.name for node in gm.graph.find_nodes(op="placeholder")]
    storages, kernel_bytes, has_uncertain = _Storages(), dict[int, int](), False
    for what, step, slot, other, amount, position in planned_steps(graph, program):
        if what == "input":
            is_saved = kind == "backward" and step < len(given) and not given[step].startswith("primals")
            storages.add(slot, amount if is_saved else 0)
        elif what == "alloc":
            storages.add(slot, amount)
        elif what == "free":
            storages.free(slot)
        elif what == "alias":
            storages.share(slot, other)
        elif what in ("launch", "body_launch"):
            kernel_bytes[other] = kernel_bytes.get(other, 0) + amount
            has_uncertain |= what == "body_launch" and position == 1
        elif what == "result":
            sizes = _item_sizes(gm, graph, program.step_lines[step])
            if other != slot and storages.has(other):
                storages.share(slot, other)
            else:
                storages.add(slot, amount * (sizes[position] if position < len(sizes) else 4))
    return Plan(storages.peak, kernel_bytes, has_uncertain)


class _Tracker(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of storages that operators make, while they are held."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._known: dict[int, weakref.ref[Any]] = {}
        self.current = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in pytree.tree_leaves(result):
            if isinstance(value, torch.Tensor):
                self._note(value.untyped_storage())
        return result

    def exclude(self, storage: torch.UntypedStorage) -> None:
        """A storage of the caller's."""
        self._keep(storage, 0)

    def _note(self, storage: torch.UntypedStorage) -> None:
        if id(storage) not in self._known:
            self._keep(storage, storage.nbytes())

    def _keep(self, storage: torch.UntypedStorage, num_bytes: int) -> None:
        key = id(storage)

        def gone(_: Any) -> None:
            self._known.pop(key, None)
            self.current -= num_bytes

        self._known[key] = weakref.ref(storage, gone)
        self.current += num_bytes
        self.peak = max(self.peak, self.current)


def _imitated(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return hint_of(value) if isinstance(value, torch.SymInt) else value
    sizes, strides = ([hint_of(n) or 0 for n in ns] for ns in (value.shape, value.stride()))
    made = torch.empty_strided(sizes, strides, dtype=value.dtype, device=value.device)
    return made.requires_grad_(value.requires_grad)


@dataclasses.dataclass
class EagerMemory:
    """What eager mode takes for a graph of Dynamo's and its gradients, beside arguments and parameters."""

    peak_bytes: int
    result_bytes: int
    """Of what the graph returns, which is there while gradients are computed."""


def eager_memory(gm: GraphModule, inputs: Sequence[Any], is_training: bool) -> EagerMemory | None:
    """By running the graph with tensors that have no data; None where that fails. Values die at their last use, as
    those of a program without variables that are kept longer would."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    tracker = _Tracker()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), tracker, torch.set_grad_enabled(is_training):
            arguments = [_imitated(value) for value in inputs]
            for value in (*arguments, *gm.parameters(), *gm.buffers()):
                if isinstance(value, torch.Tensor):
                    tracker.exclude(value.untyped_storage())
            tracker.current = tracker.peak = 0
            results = torch.fx.Interpreter(gm, garbage_collect_values=True).run(*arguments)
            result_bytes = tracker.current
            ends = [x for x in pytree.tree_leaves(results) if isinstance(x, torch.Tensor) and x.requires_grad]
            leaves = [x for x in (*arguments, *gm.parameters()) if isinstance(x, torch.Tensor) and x.requires_grad]
            if is_training and ends and leaves:
                kept = {id(x.untyped_storage()): x.untyped_storage().nbytes() for x in ends}
                result_bytes = sum(kept.values())
                torch.autograd.grad(ends, leaves, [torch.ones_like(x) for x in ends], allow_unused=True)
            return EagerMemory(tracker.peak, result_bytes)
    except Exception as error:
        log.debug("eager's memory is not known: %r", error)
        return None
