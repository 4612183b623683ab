"""Higher-order operators in a form that the importer prints.

Branches, loops and shared regions become functions of the graph's text (runtime/fx/ImportControl.cpp). Here their
subgraphs are decomposed where nobody has done so, operators with effects become plain calls that keep their order, and
operators that write to arguments write in place where nobody can tell. `flex_attention` becomes operators of the graph.
"""

from __future__ import annotations

import contextlib
import logging
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from torch_tile.frontend.flex.call import is_flex_attention
from torch_tile.frontend.flex.lower import lower_flex_attention
from torch_tile.frontend.launches.embed_kernels import Rewriter, own_copy

log = logging.getLogger(__name__)
aten = torch.ops.aten

_CONTROL_FLOW = ("cond", "while_loop", "while_loop_stack_output", "scan", "map_impl", "invoke_subgraph")
_FUNCTIONALIZED = ("auto_functionalized", "auto_functionalized_v2")


class _CannotTell(Exception):
    """What keeps a call as it is: a call of Python."""


def prepare_higher_order(
    gm: GraphModule, decompositions: Callable[[], dict[Any, Any]], smaller: int = 0
) -> GraphModule:
    """The graph with its higher-order operators made ready; as it is if there are none.

    Args:
        smaller: how often to halve the blocks of kernels for `flex_attention`.
    """
    if not any(_name(node) for node in gm.graph.nodes):
        return gm
    return _Preparation(decompositions, smaller).run(gm)


def _name(node: Node) -> str:
    """Of the higher-order operator that a node calls, else nothing."""
    if node.op == "call_function" and isinstance(node.target, torch._ops.HigherOrderOperator):
        return str(node.target)
    return ""


class _Preparation:
    def __init__(self, decompositions: Callable[[], dict[Any, Any]], smaller: int) -> None:
        self.smaller = smaller
        self._make_decompositions = decompositions
        self._table: dict[Any, Any] | None = None
        self.prepared: dict[GraphModule, GraphModule] = {}

    @property
    def decompositions(self) -> dict[Any, Any]:
        if self._table is None:
            self._table = self._make_decompositions()
        return self._table

    def run(self, gm: GraphModule) -> GraphModule:
        gm = own_copy(gm)
        if any(is_flex_attention(node) for node in gm.graph.nodes):
            lower_flex_attention(gm, self.decompositions, self.smaller)
        _write_in_place(gm)
        remove_tokens(gm)
        for node in gm.graph.nodes:
            if _name(node) not in _CONTROL_FLOW:
                continue
            for argument in pytree.tree_leaves(node.args):
                if isinstance(argument, Node) and argument.op == "get_attr":
                    self._prepare_subgraph(gm, str(argument.target))
        return gm

    def _prepare_subgraph(self, gm: GraphModule, path: str) -> None:
        subgraph = gm.get_submodule(path) if "." not in path and hasattr(gm, path) else None
        if not isinstance(subgraph, GraphModule):
            return
        prepared = self.prepared.get(subgraph)
        if prepared is None:
            prepared = subgraph
            if any(n.op == "call_function" and n.target in self.decompositions for n in subgraph.graph.nodes):
                try:
                    prepared = _decompose(subgraph, self.decompositions)
                except Exception as error:
                    log.info("subgraph %s is taken as it is: %s", path, error)
            prepared = prepare_higher_order(prepared, lambda: self.decompositions, self.smaller)
            self.prepared[subgraph] = self.prepared[prepared] = prepared
        if prepared is not subgraph:
            setattr(gm, path, prepared)


@contextlib.contextmanager
def fake_mode(values: list[Any]) -> Iterator[None]:
    mode = detect_fake_mode(values)
    if mode is None:
        raise _CannotTell("its values are not fake tensors")
    with contextlib.ExitStack() as stack:
        stack.enter_context(mode)
        if mode.shape_env is not None:
            stack.enter_context(mode.shape_env.ignore_fresh_unbacked_symbols())
        stack.enter_context(torch.no_grad())
        yield


def _decompose(subgraph: GraphModule, decompositions: dict[Any, Any]) -> GraphModule:
    """A graph that AOTAutograd has cut out of a joint one holds operators as autograd recorded them."""
    from torch.fx.experimental.proxy_tensor import make_fx

    if any(n.op == "get_attr" for n in subgraph.graph.nodes):
        raise _CannotTell("it holds tensors or subgraphs")
    placeholders = subgraph.graph.find_nodes(op="placeholder")
    values = [node.meta["val"] for node in placeholders]
    # Below autograd, whose keys have decompositions of their own: of what is to be left whole, too.
    with fake_mode(values), torch._C._AutoDispatchBelowAutograd():
        traced: GraphModule = make_fx(subgraph.forward, decompositions)(*values)
    for new, old in zip(traced.graph.find_nodes(op="placeholder"), placeholders, strict=True):
        new.meta.setdefault("val", old.meta["val"])
    return traced


#: with_effects


def remove_tokens(gm: GraphModule) -> None:
    """`with_effects(token, op, ...)` becomes `op(...)`, marked: the importer keeps such calls in order."""
    graph = gm.graph
    for node in list(graph.nodes):
        if _name(node) != "with_effects":
            continue
        token, target, *args = node.args
        if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
            continue
        value = node.meta["val"]
        numbers = [user.args[1] for user in node.users]
        if any(user.target is not operator.getitem for user in node.users):
            continue
        with graph.inserting_before(node):
            call = graph.call_function(target, tuple(args), dict(node.kwargs))
        call.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")})
        call.meta["has_effect"] = True
        num_returns = len(target._schema.returns)
        call.meta["val"] = None if num_returns == 0 else value[1] if num_returns == 1 else tuple(value[1:])
        for user, number in zip(list(node.users), numbers, strict=True):
            if number == 0:
                assert isinstance(token, Node)
                user.replace_all_uses_with(token)
                graph.erase_node(user)
            elif num_returns == 1:
                user.replace_all_uses_with(call)
                graph.erase_node(user)
            elif num_returns > 1:
                assert isinstance(number, int)
                user.update_arg(0, call)
                user.update_arg(1, number - 1)
        if not node.users:
            graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        target_name = str(node.target)
        is_token = "_make_token" in target_name or "_sink_tokens" in target_name
        if node.op == "call_function" and is_token and not node.users and not _takes_token(node):
            graph.erase_node(node)


def _takes_token(node: Node) -> bool:
    """Whether a token comes from a call that still orders effects by it."""
    return any("_make_token" not in str(source.target) for source in node.all_input_nodes)


#: auto_functionalized


class _Call:
    """A functional call of an operator that writes, in the terms of `launches.embed_kernels`: bases by name."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.arguments: dict[str, Any] = {}
        self.results: dict[str, Any] = {}
        self.written: list[str] = []
        self.positions: dict[str, int] = {}

    def add(self, base: Node, position: int, value: Any) -> str:
        name = str(len(self.written))
        self.written.append(name)
        self.arguments[name] = base
        self.positions[name] = position
        self.results[name] = value
        return name

    def results_of(self, name: str) -> list[Node]:
        return [user for user in self.node.users if user.args[1] == self.positions[name]]


def _write_in_place(gm: GraphModule) -> None:
    """Functional calls of operators that write: into the tensor itself where nobody can tell, else into a copy."""
    nodes = [node for node in gm.graph.nodes if _name(node) in _FUNCTIONALIZED]
    if not nodes:
        return
    rewriter = Rewriter(gm)
    for node in reversed(nodes):
        try:
            _rewrite_call(gm, rewriter, node)
        except _CannotTell as reason:
            log.info("%s stays a call of Python: %s", node.name, reason)


def _schema_of(gm: GraphModule, target: Any, kwargs: dict[str, Any]) -> Any:
    if isinstance(target, torch._ops.OpOverload):
        return target._schema
    spec = kwargs.pop("_op_schema")
    if isinstance(spec, Node):
        spec = getattr(gm, str(spec.target))
    return pytree.tree_unflatten([], spec).schema


def _rewrite_call(gm: GraphModule, rewriter: Rewriter, node: Node) -> None:
    target: Any = node.args[0]
    kwargs = dict(node.kwargs)
    kwargs.pop("_only_clone_these_bases", None)
    kwargs.pop("_only_clone_these_tensors", None)
    schema = _schema_of(gm, target, kwargs)
    values = node.meta["val"]
    if any(user.target is not operator.getitem for user in node.users):
        raise _CannotTell("its results are used as a list")
    names = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    views: dict[str, Any] = {}
    if _name(node) == "auto_functionalized_v2":
        if "_all_bases" not in kwargs:
            raise _CannotTell("it makes the tensors it writes")
        bases = list(cast("Sequence[Any]", kwargs.pop("_all_bases")))
        for name in names:
            views[name] = _read_views(kwargs, name)
    else:
        bases = [kwargs[name] for name in names]
        views = {name: (k, None, ()) for k, name in enumerate(names)}
    if any(not isinstance(base, Node) for base in bases):
        raise _CannotTell("what it writes is no tensor of the graph")
    num_returns = len(values) - len(bases)
    call = _Call(node)
    for k, base in enumerate(bases):
        call.add(base, num_returns + k, values[num_returns + k])
    for name, value in kwargs.items():
        for k, leaf in enumerate(pytree.tree_leaves(value)):
            if isinstance(leaf, Node):
                call.arguments[f"{name}.{k}"] = leaf
    _check_bases(bases, views)
    buffers = {name: rewriter._buffer_in_place(call, name) for name in call.written}  # type: ignore[arg-type]
    with gm.graph.inserting_before(node):
        for name, buffer in buffers.items():
            if buffer is None:
                buffers[name] = _copy(gm, rewriter, node, call.arguments[name], call.results[name])
        written = [cast(Node, buffers[str(k)]) for k in range(len(bases))]  # copies were made above
        actual = {**kwargs, **{name: _make_views(gm, rewriter, node, written, view) for name, view in views.items()}}
        args, actual = _bind(target, schema, actual)
        result = gm.graph.call_function(target, args, actual)
    result.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")})
    returned = tuple(values[:num_returns])
    is_list = not isinstance(target, torch._ops.OpOverload) or len(schema.returns) > 1
    result.meta["val"] = returned if is_list else returned[0] if schema.returns else None
    rewriter.storages.position[result] = rewriter.storages.position[node]
    for user in list(node.users):
        number: Any = user.args[1]
        if number < num_returns:
            if is_list:
                user.update_arg(0, result)
            else:
                user.replace_all_uses_with(result)
                gm.graph.erase_node(user)
    for name in call.written:
        rewriter._replace_result(call, name, buffers[name], result)  # type: ignore[arg-type]
    gm.graph.erase_node(node)


def _check_bases(bases: list[Node], views: dict[str, Any]) -> None:
    for base in bases:
        value = base.meta["val"]
        if [str(s) for s in torch.empty_like(value).stride()] != [str(s) for s in value.stride()]:
            raise _CannotTell("it writes to a tensor that is not dense")
        if not isinstance(value.storage_offset(), int) or value.storage_offset() != 0:
            raise _CannotTell("it writes to a tensor that begins within its storage")


def _copy(gm: GraphModule, rewriter: Rewriter, node: Node, base: Node, value: Any) -> Node:
    clone = gm.graph.call_function(aten.clone.default, (base,))
    clone.meta.update({k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")})
    clone.meta["val"] = value
    rewriter.storages.add(clone, node, [])
    return clone


def _read_views(kwargs: dict[str, Any], name: str) -> Any:
    """(number of the base, operator, its arguments) of a written argument; a list of them, or None."""
    if f"_{name}_length" in kwargs:
        length = kwargs.pop(f"_{name}_length")
        return None if length is None else [_read_view(kwargs, f"_{name}_{k}") for k in range(length)]
    return _read_view(kwargs, f"_{name}")


def _read_view(kwargs: dict[str, Any], prefix: str) -> Any:
    base = kwargs.pop(f"{prefix}_base_index")
    if base is None:
        return None
    if f"{prefix}_alias" in kwargs:
        kwargs.pop(f"{prefix}_alias")
        return base, None, ()
    if f"{prefix}_storage_offset" in kwargs:
        return (
            base,
            aten.as_strided.default,
            tuple(kwargs.pop(f"{prefix}_{k}") for k in ("size", "stride", "storage_offset")),
        )
    if f"{prefix}_slice_dim" in kwargs:
        return base, aten.slice.Tensor, tuple(kwargs.pop(f"{prefix}_slice_{k}") for k in ("dim", "start", "end"))
    return base, None, ()


def _make_views(gm: GraphModule, rewriter: Rewriter, node: Node, buffers: list[Node], view: Any) -> Any:
    if view is None:
        return None
    if isinstance(view, list):
        return [_make_views(gm, rewriter, node, buffers, each) for each in view]
    base, target, arguments = view
    if target is None:
        return buffers[base]
    result = gm.graph.call_function(target, (buffers[base], *arguments))
    values = torch.fx.map_arg((buffers[base], *arguments), lambda n: n.meta["val"])
    with fake_mode([values[0]]):
        result.meta["val"] = target(*values)
    rewriter.storages.add(result, node, rewriter.storages.groups[buffers[base]])
    return result


def _bind(target: Any, schema: Any, actual: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(target, torch._ops.OpOverload) or schema.tree_spec is None:
        return (), actual
    flat = [actual[argument.name] for argument in schema.arguments]
    args, kwargs = pytree.tree_unflatten(flat, schema.tree_spec)
    kwargs.pop("mutated_arg_indices", None)  # the subgraph says it
    return tuple(args), kwargs
