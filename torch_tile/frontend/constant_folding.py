"""Constants of a graph: frozen inputs, and folding of values that depend on constants alone."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from torch_tile.frontend.common_subexpressions import storage_of

# A constant that is this much larger than all it is made of is computed in each call: reading it would take longer.
_MOST_GROWTH = 2
_SMALL_BYTES = 1 << 20
_NAMESPACES = ("aten", "prims")
CASTS = frozenset((torch.ops.aten._to_copy.default, torch.ops.prims.convert_element_type.default))
"""Operators that give a value another dtype."""


@dataclasses.dataclass
class Report:
    """What freezing made of one graph."""

    num_frozen: int = 0
    """Parameters and buffers that are constants."""
    num_folded: int = 0
    """Operators computed once."""
    num_scaled: int = 0
    """Convolutions and products whose weights took in what followed."""
    num_channels_last: int = 0
    """Convolutions whose filters are stored with channels last."""
    kept: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    """Parameters that stay inputs, and why."""

    def lines(self) -> list[str]:
        """For `explain`."""
        counts = f"frozen: {self.num_frozen} parameters, {self.num_folded} operators computed once"
        if self.num_scaled:
            counts += f", {self.num_scaled} weights took in what followed"
        if self.num_channels_last:
            counts += f", {self.num_channels_last} convolutions with channels last"
        return [counts, *(f"not frozen {name}: {reason}" for name, reason in self.kept)]


@contextlib.contextmanager
def outside_of_tracing() -> Iterator[None]:
    """Operators compute values here, whatever the caller traces, records or casts."""
    with _disable_current_modes(), torch.inference_mode(False), torch.no_grad(), torch._C._DisableAutocast():
        yield


class Constants:
    """Gives a graph constants: attributes of its module, with fake tensors beside them."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        self.mode = detect_fake_mode([n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"])
        self._values: dict[Node, torch.Tensor] = {}
        self._number = 0

    def add(self, value: torch.Tensor, before: Node, meta: dict[str, Any] | None = None) -> Node:
        """A node for a tensor, which must never change."""
        while hasattr(self.gm, name := f"_frozen_{self._number}"):
            self._number += 1
        self.gm.register_buffer(name, value, persistent=False)
        with self.gm.graph.inserting_before(before):
            node = self.gm.graph.create_node("get_attr", name)
        node.meta.update({k: v for k, v in (meta or {}).items() if k not in ("val", "tensor_meta")})
        node.meta["val"] = self.fake(value)
        node.meta["is_frozen"] = True
        self._values[node] = value
        return node

    def fake(self, value: torch.Tensor) -> torch.Tensor:
        assert self.mode is not None, "graphs of AOTAutograd hold fake tensors"
        with self.mode, torch.no_grad():
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)

    def value(self, node: Any) -> torch.Tensor | None:
        return self._values.get(node) if isinstance(node, Node) else None

    def tensors(self) -> Iterable[torch.Tensor]:
        """Those that the graph still uses."""
        return [value for node, value in self._values.items() if node.users]

    def read_numbers(self) -> None:
        """Reads what graphs for GPU hold as numbers: constants of no dimension on the CPU. In graphs for the CPU they
        stay tensors, so that the text of the graph has nothing of their values."""
        made = (node.meta.get("val") for node in self.gm.graph.nodes)
        if all(value.device.type == "cpu" for value in made if isinstance(value, torch.Tensor)):
            return
        for node, value in self._values.items():
            if node.users and value.dim() == 0 and value.device.type == "cpu":
                value.item()

    def remove_unused(self) -> None:
        for node in [n for n in self._values if not n.users]:
            del self._values[node]
            delattr(self.gm, str(node.target))
            if not node._erased:
                node.graph.erase_node(node)


def _is_written(node: Node) -> bool:
    """Whether a user may write into it. Views of it are other nodes."""
    for user in node.users:
        if user.op == "output":
            continue
        if isinstance(user.target, torch._ops.HigherOrderOperator) or user.op != "call_function":
            return True
        if isinstance(user.target, torch._ops.OpOverload) and user.target._schema.is_mutable:
            schema = user.target._schema
            given = dict(zip((a.name for a in schema.arguments), user.args, strict=False)) | user.kwargs
            written = [
                given.get(a.name) for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write
            ]
            if any(n is node for n in pytree.tree_leaves(written)):
                return True
    return False


def _is_plain(value: torch.Tensor) -> bool:
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and value.layout is torch.strided
        and value.device.type in ("cpu", "cuda")
        and not value.is_conj()
        and not value.is_neg()
    )


def _reason_to_keep(node: Node, value: torch.Tensor, written: set[Any], leaving: set[Any]) -> str | None:
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor) or not _is_plain(value):
        return "it is no plain tensor"
    if value.is_inference():
        return "it is an inference tensor, of which torch counts no writes"
    if value.device.type == "cpu" and value.is_shared():  # type: ignore[no-untyped-call]
        return "it is in shared memory, where other processes write unnoticed"
    if any(isinstance(n, torch.SymInt) for n in (*fake.shape, *fake.stride())):
        return "its sizes are dynamic"
    if fake.shape != value.shape or fake.stride() != value.stride() or fake.dtype is not value.dtype:
        return "it is not the input that was captured"
    if storage_of(fake) in written:
        return "the graph writes to it"
    if storage_of(fake) in leaving:
        return "the graph returns it"
    return None


def _leaving_storages(gm: GraphModule) -> set[Any]:
    outputs = gm.graph.output_node().all_input_nodes
    return {storage_of(n.meta["val"]) for n in outputs if isinstance(n.meta.get("val"), torch.Tensor)}


def freeze_inputs(
    constants: Constants, sources: Sequence[torch.Tensor | None], report: Report
) -> dict[int, torch.Tensor]:
    """Replaces inputs by constants.

    Args:
        constants: of the graph.
        sources: for each placeholder the parameter or buffer behind it, if it is one.
        report: counts are added here.

    Returns:
        Position and tensor of each placeholder that is no input any more.
    """
    graph = constants.gm.graph
    placeholders = [n for n in graph.nodes if n.op == "placeholder"]
    if len(placeholders) != len(sources):
        report.kept.append(("all", "inputs were merged or added"))
        return {}
    nodes = [n for n in graph.nodes if isinstance(n.meta.get("val"), torch.Tensor)]
    written = {storage_of(n.meta["val"]) for n in nodes if _is_written(n)}
    leaving = _leaving_storages(constants.gm)
    first = next(n for n in graph.nodes if n.op != "placeholder")
    frozen = {}
    for position, (node, value) in enumerate(zip(placeholders, sources, strict=True)):
        if value is None:
            continue
        if reason := _reason_to_keep(node, value, written, leaving):
            report.kept.append((node.name, reason))
            continue
        node.replace_all_uses_with(constants.add(value.detach(), first, node.meta))
        graph.erase_node(node)
        frozen[position] = value
    report.num_frozen = len(frozen)
    return frozen


def _is_pure(node: Node) -> bool:
    target = node.target
    if node.op != "call_function":
        return False
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", None) == "getitem"
    return (
        target.namespace in _NAMESPACES
        and not target._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and not node.is_impure()
    )


def _num_bytes(value: torch.Tensor) -> int:
    return value.numel() * value.element_size()


def _is_repeated(value: torch.Tensor) -> bool:
    return any(size > 1 and stride == 0 for size, stride in zip(value.shape, value.stride(), strict=True))


def fold(constants: Constants, report: Report) -> None:
    """Computes what depends on constants alone."""
    graph = constants.gm.graph
    # Callers may write to what they get, so results are made for each call.
    leaving = _leaving_storages(constants.gm)
    known: dict[Node, Any] = {}
    weight: dict[Node, int] = {}  # bytes of the constants behind a value
    for node in graph.nodes:
        if (value := constants.value(node)) is not None:
            known[node], weight[node] = value, _num_bytes(value)
        elif _is_pure(node) and node.all_input_nodes and all(n in known for n in node.all_input_nodes):
            args, kwargs = pytree.tree_map_only(Node, known.__getitem__, (node.args, node.kwargs))
            weight[node] = sum(weight[n] for n in node.all_input_nodes)
            try:
                value = node.target(*args, **kwargs)
            except Exception:  # raises where the user calls it, of whatever kind
                continue
            leaves = [v for v in pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]
            fakes = [v for v in pytree.tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]
            if any(storage_of(v) in leaving for v in fakes):
                continue
            grown = sum(_num_bytes(v) for v in leaves if not _is_repeated(v))
            if leaves and grown <= max(_SMALL_BYTES, _MOST_GROWTH * weight[node]):
                known[node] = value
    _replace(constants, known, report)


def _replace(constants: Constants, known: dict[Node, Any], report: Report) -> None:
    """Values that the rest of the graph reads become constants, if they are stored without repetition."""
    graph = constants.gm.graph
    for node in reversed(list(graph.nodes)):
        if node.op == "placeholder" or constants.value(node) is not None:
            continue
        if not node.users and node in known:
            graph.erase_node(node)
            report.num_folded += 1
            continue
        value = known.get(node)
        if isinstance(value, torch.Tensor) and _is_plain(value) and not _is_repeated(value):
            node.replace_all_uses_with(constants.add(value.detach(), node, node.meta))
            graph.erase_node(node)
            report.num_folded += 1
    constants.remove_unused()
