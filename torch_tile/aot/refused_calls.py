"""The checks of graphs of Dynamo's (`frontend/refused_calls.py`), of an exported program.

A copy of its graph has the names that the checks know, and the tensors of the example that it was exported with. Those
that share memory in eager mode share a storage there: a program that was read from a file does not tell which do.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node, map_arg
from torch.utils import _pytree as pytree

from torch_tile.aot.viewed_inputs import aliased, is_view
from torch_tile.errors import UnsupportedError
from torch_tile.frontend.refused_calls import check_calls
from torch_tile.frontend.storage_views import refuse_views_of_copies

# Positions of operands that a normalisation writes without saying so; functions of torch have them elsewhere.
_STATISTICS = {"running_mean": 3, "running_var": 4}
_NORMALISATIONS = ("batch_norm", "instance_norm")
# Calls that do not say that they write: the overloads of ATen that take what functions of torch with these names take.
_NAMES = {name: name for name in (*_NORMALISATIONS, "add", "as_strided", "hardshrink", "rsub", "sub", "subtract")}
_NAMES |= {name: name for name in ("multilabel_margin_loss_forward", "quantize_per_channel", "quantize_per_tensor")}
_NAMES |= {"cross_entropy_loss": "cross_entropy", "nll_loss_forward": "nll_loss", "nll_loss_nd": "nll_loss"}
_MEMORY_BYTES = 1 << 60  # no memory is allocated


class _Copy(GraphModule):
    """A graph that is read, and never run."""

    def recompile(self) -> Any:
        return None


def refuse_calls(exported: ExportedProgram) -> None:
    """
    Raises:
        UnsupportedError: eager mode refuses one of the calls, or computes something else than a package would.
    """
    for module in exported.graph_module.modules():
        if isinstance(module, GraphModule):
            try:
                with torch.no_grad():
                    copied = _as_of_dynamo(module.graph)
                    check_calls(copied)
                    refuse_views_of_copies(copied)
            except UnsupportedError as error:
                raise UnsupportedError("package", error.text) from error


def _as_of_dynamo(graph: Graph) -> GraphModule:
    """Placeholders and calls, in the same order."""
    made, copied = dict[Node, Node](), Graph()
    for node in graph.nodes:
        if node.op == "output":
            copied.output(None)
            continue
        args, kwargs = map_arg((node.args, node.kwargs), made.__getitem__)
        if node.op == "placeholder":
            made[node] = copied.placeholder(node.name)
        else:
            name = _name_of(node)
            if name in _NORMALISATIONS:
                places = _STATISTICS.items()
                kwargs = {key: kwargs.get(key, args[at] if at < len(args) else None) for key, at in places}
            made[node] = copied.create_node("call_method", name, args, kwargs)
        value = _value_of(node, args, kwargs)
        if value is not None:
            made[node].meta["example_value"] = value
    return _Copy(torch.nn.Module(), copied)


def _name_of(node: Node) -> str:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return str(target)
    name = target._schema.name.partition("::")[2]
    if not target._schema.is_mutable:
        return _NAMES.get(name, str(target))
    # `x &= y` is a call of `__iand__`.
    return f"{name.strip('_')}_" if name.startswith("__") else name


def _value_of(node: Node, args: Any, kwargs: Any) -> Any:
    """Numbers are those of the graph. A tensor of the meta device has the sizes of the example, a view of one its
    memory.

    Args:
        node: of the exported graph.
        args, kwargs: of its copy.
    """
    value = node.meta.get("val")
    if is_view(node):
        try:
            return _called(node.target, args, kwargs)
        except Exception:  # as of sizes that depend on data
            return _example(value, None)
    source = aliased(node) if node.op == "call_function" else None
    if not isinstance(source, Node):
        return _example(value, None)
    written = args[node.args.index(source)] if source in node.args else None
    written = written.meta.get("example_value") if isinstance(written, Node) else None
    is_changed = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.inplace_view in node.target.tags
    return _example(value, written) if is_changed or written is None else written


def _called(target: Any, args: Any, kwargs: Any) -> Any:
    def example_of(leaf: Any) -> Any:
        value = leaf.meta["example_value"] if isinstance(leaf, Node) else leaf
        if isinstance(value, torch.SymInt):
            return value.node.hint
        return torch.device("meta") if isinstance(value, torch.device) else value

    args, kwargs = pytree.tree_map(example_of, (args, kwargs))
    return target(*args, **kwargs)


def _example(value: Any, memory: torch.Tensor | None) -> Any:
    """Of a tensor one of the meta device, over a part of `memory` or over new memory."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout is not torch.strided:
        return None
    numbers = _hints([*value.shape, *value.stride(), value.storage_offset()])
    if numbers is None:
        return torch.empty([1] * value.dim(), dtype=value.dtype, device="meta")
    of = torch.empty(_MEMORY_BYTES, dtype=torch.uint8, device="meta") if memory is None else memory
    sizes, strides = numbers[: value.dim()], numbers[value.dim() : -1]
    return torch.empty(0, dtype=value.dtype, device="meta").set_(of.untyped_storage(), numbers[-1], sizes, strides)


def _hints(numbers: Iterable[Any]) -> list[int] | None:
    known = [number.node.hint if isinstance(number, torch.SymInt) else number for number in numbers]
    return known if all(isinstance(number, int) for number in known) else None
