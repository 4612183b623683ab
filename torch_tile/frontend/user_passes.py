"""The user's own passes on FX graphs: options pre_grad_pass, joint_pass, post_grad_pass and their `post` forms.

They take what Inductor's hooks take: a graph, a graph and whether it is of inference
(`CustomInferenceAwareGraphPass`), or a module (`CustomGraphModulePass`). Nodes that a pass adds get fake results here,
and so does what reads them.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.errors import InvalidKernelError

log = logging.getLogger(__name__)


def name_of(function: Any) -> str:
    """What messages call a pass."""
    return str(getattr(function, "__qualname__", None) or type(function).__qualname__)


def _call(function: Callable[..., Any], gm: GraphModule, is_inference: bool) -> Any:
    # Where nobody has imported it, nobody has made a class of it.
    module = sys.modules.get("torch._inductor.custom_graph_pass")
    if module is not None and isinstance(function, module.CustomGraphModulePass):
        return function(gm)
    aware = getattr(module, "CustomInferenceAwareGraphPass", None)
    if aware is not None and isinstance(function, aware):
        return function(gm.graph, is_inference)
    return function(gm.graph)


def run_user_passes(name: str, gm: GraphModule, settings: Settings, is_inference: bool = False) -> None:
    """Calls what an option holds, in order.

    Args:
        name: of the option.
        gm: a graph of Dynamo's for pre_grad_pass, of AOTAutograd's for all others.
        settings: of this torch.compile call.
        is_inference: whether the graph is compiled without a backward.

    Raises:
        InvalidKernelError: a pass raised, or left a graph that cannot run; names the pass.
    """
    for function in settings.passes(name) if limits.is_on(settings, "user_passes") else ():
        before = list(gm.graph.nodes)
        try:
            _call(function, gm, is_inference)
            gm.graph.lint()
            if name == "pre_grad_pass":
                _announce_tracing(gm, set(before))
            else:
                _complete(gm, set(before))
            gm.recompile()
        except Exception as error:
            text = f"{name_of(function)} (option {name!r}) raised {type(error).__name__}: {error}"
            raise InvalidKernelError("user pass", text) from error
        log.info("%s ran %s: %d nodes, %d before", name, name_of(function), len(gm.graph.nodes), len(before))


def _is_atomic(node: Node) -> bool:
    """Whether the importer takes the target as it is."""
    target = node.target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.HigherOrderOperator)):
        return True
    return getattr(target, "__module__", "") in ("_operator", "operator", "math") or target is torch.sym_sum


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    """Launches of kernels of the tile language become operators, as where Dynamo traces."""
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


def _announce_tracing(gm: GraphModule, known: set[Node]) -> None:
    """AOTAutograd calls what a graph of Dynamo's calls; functions that a pass has added may launch kernels."""
    for node in gm.graph.nodes:
        target = node.target
        is_new = node.op == "call_function" and node not in known and type(target).__name__ == "function"
        if is_new and getattr(target, "__module__", "").split(".")[0] != "torch":
            node.target = _while_tracing(target)


def _while_tracing(function: Any) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _tracing():
            return function(*args, **kwargs)

    return call


def _complete(gm: GraphModule, known: set[Node]) -> None:
    """Fake results for nodes that a pass has added, and for those behind them; Python functions become operators."""
    _expand(gm, known)
    mode = detect_fake_mode([n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"])
    assert mode is not None, "graphs of AOTAutograd hold fake tensors"
    changed: set[Node] = set()
    for node in gm.graph.nodes:
        if node.op != "call_function":
            if "val" not in node.meta and node.op == "get_attr":
                node.meta["val"] = _fake_attribute(gm, node, mode)
            continue
        if node in known and "val" in node.meta and not changed.intersection(node.all_input_nodes):
            continue
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        with mode, torch.no_grad():
            value = node.target(*args, **kwargs)
        if not _is_same(value, node.meta.get("val")):
            node.meta["val"] = value
            changed.add(node)


def _fake_attribute(gm: GraphModule, node: Node, mode: Any) -> Any:
    value: Any = gm
    for name in str(node.target).split("."):
        value = getattr(value, name)
    return mode.from_tensor(value) if isinstance(value, torch.Tensor) else value


def _is_same(value: Any, known: Any) -> bool:
    values, spec = pytree.tree_flatten(value)
    others, other_spec = pytree.tree_flatten(known)
    return spec == other_spec and all(
        isinstance(a, torch.Tensor)
        and isinstance(b, torch.Tensor)
        and (a.dtype, a.device, a.shape, a.stride()) == (b.dtype, b.device, b.shape, b.stride())
        for a, b in zip(values, others, strict=True)
    )


def _expand(gm: GraphModule, known: set[Node]) -> None:
    """A Python function that a pass calls, traced into the graph: launches of kernels become operators by it."""
    for node in list(gm.graph.nodes):
        if node.op != "call_function" or node in known or _is_atomic(node):
            continue
        args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        leaves, spec = pytree.tree_flatten((args, kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
        nodes = pytree.tree_flatten((node.args, node.kwargs))[0]

        def call(
            *tensors: Any,
            _target: Any = node.target,
            _leaves: list[Any] = leaves,
            _places: list[int] = places,
            _spec: Any = spec,
        ) -> Any:
            values = list(_leaves)
            for place, tensor in zip(_places, tensors, strict=True):
                values[place] = tensor
            inner_args, inner_kwargs = pytree.tree_unflatten(values, _spec)
            return _target(*inner_args, **inner_kwargs)

        mode = detect_fake_mode([leaves[place] for place in places])
        assert mode is not None, "graphs of AOTAutograd hold fake tensors"
        with _tracing(), torch.no_grad():
            traced = make_fx(dispatch_functionalize(call))(*[leaves[place] for place in places])
        traced.graph.eliminate_dead_code()  # results that are None, of operators that write
        _inline(gm, node, traced, [nodes[place] for place in places])


def _inline(gm: GraphModule, node: Node, traced: GraphModule, operands: list[Node]) -> None:
    environment: dict[Node, Any] = dict(zip(traced.graph.find_nodes(op="placeholder"), operands, strict=True))
    with gm.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                continue
            if inner.op == "output":
                result = torch.fx.map_arg(inner.args[0], environment.__getitem__)
                break
            if inner.op == "get_attr":
                name = f"{node.name}_{inner.target}".replace(".", "_")
                setattr(gm, name, getattr(traced, str(inner.target)))
                environment[inner] = gm.graph.get_attr(name)
            else:
                environment[inner] = gm.graph.node_copy(inner, environment.__getitem__)
            environment[inner].meta.update({k: v for k, v in node.meta.items() if k not in ("val", "tensor_meta")})
    if isinstance(result, Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(result[user.args[1]])
            gm.graph.erase_node(user)
    gm.graph.erase_node(node)
