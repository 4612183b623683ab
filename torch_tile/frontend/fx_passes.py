"""Passes on ATen graphs in FX form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def replace_random(gm: torch.fx.GraphModule) -> None:
    """Replace generators by ``philox_uniform`` of one seed per graph and device.

    Dropout masks, Bernoulli, uniform and normal numbers become functions of a seed and a position, so that fusion, partitioning and target do not change their bits.
    """
    nodes = [node for node in gm.graph.nodes if node.op == "call_function" and node.target in _REWRITES]
    if not nodes:
        return

    seeds: dict[torch.device, torch.fx.Node] = {}
    for salt, node in enumerate(nodes):
        device = _device_of(node)
        with gm.graph.inserting_before(node):
            if device not in seeds:
                first = next(n for n in gm.graph.nodes if n.op != "placeholder")
                with gm.graph.inserting_before(first):
                    seeds[device] = _call(gm, node, torch.ops.torch_tile.seed.default, device)
            rewriter = _Rewriter(gm, node, seeds[device], salt)
            replacement = _REWRITES[node.target](rewriter)
        _replace(gm, node, replacement)
    gm.graph.lint()
    gm.recompile()


def _value(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, torch.fx.Node) else node


def _device_of(node: torch.fx.Node) -> torch.device:
    value = node.meta["val"]
    return (value[0] if isinstance(value, (tuple, list)) else value).device


def _call(gm: torch.fx.GraphModule, like: torch.fx.Node, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
    """A new node with its fake value and the stack trace of ``like``."""
    node = gm.graph.call_function(target, args, kwargs)
    mode = torch._guards.detect_fake_mode([_value(n) for n in gm.graph.nodes if "val" in n.meta][:64])
    values = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
    if mode is not None:
        with mode:
            node.meta["val"] = target(*values[0], **values[1])
    else:
        node.meta["val"] = target(*values[0], **values[1])
    for key in ("stack_trace", "nn_module_stack", "partitioner_tag", "autograd_backward"):
        if key in like.meta:
            node.meta[key] = like.meta[key]
    return node


class _Rewriter:
    """Builds the replacement of one random op."""

    def __init__(self, gm: torch.fx.GraphModule, node: torch.fx.Node, seed: torch.fx.Node, salt: int) -> None:
        self.gm, self.node, self.seed, self.salt = gm, node, seed, salt

    def call(self, target: Any, *args: Any, **kwargs: Any) -> torch.fx.Node:
        return _call(self.gm, self.node, target, *args, **kwargs)

    def sizes(self, tensor: torch.fx.Node) -> list[Any]:
        """Sizes of a tensor as ints and nodes."""
        value = _value(tensor)
        return [
            size if isinstance(size, int) else self.call(aten.sym_size.int, tensor, dim)
            for dim, size in enumerate(value.shape)
        ]

    def uniform(self, sizes: Any, part: int = 0) -> torch.fx.Node:
        """float32 in [0, 1); ``part`` tells several draws of one op apart."""
        return self.call(
            torch.ops.torch_tile.philox_uniform.default, self.seed, 2 * self.salt + part, sizes, torch.float32
        )

    def cast(self, value: torch.fx.Node, dtype: torch.dtype) -> torch.fx.Node:
        return (
            value
            if _value(value).dtype == dtype
            else self.call(torch.ops.prims.convert_element_type.default, value, dtype)
        )

    def dtype(self) -> torch.dtype:
        value = self.node.meta["val"]
        dtype = (value[0] if isinstance(value, (tuple, list)) else value).dtype
        assert isinstance(dtype, torch.dtype)
        return dtype

    def normal(self, sizes: Any) -> torch.fx.Node:
        """Standard normal numbers by Box and Muller; 1 - u keeps the logarithm finite."""
        radius = self.call(aten.log1p.default, self.call(aten.neg.default, self.uniform(sizes)))
        radius = self.call(aten.sqrt.default, self.call(aten.mul.Tensor, radius, -2.0))
        angle = self.call(aten.mul.Tensor, self.uniform(sizes, 1), 6.283185307179586)
        return self.call(aten.mul.Tensor, radius, self.call(aten.cos.default, angle))


def _bernoulli(r: _Rewriter) -> Any:
    source = r.node.args[0]
    probability = r.node.args[1] if len(r.node.args) > 1 else source
    below = r.call(
        aten.lt.Tensor if isinstance(probability, torch.fx.Node) else aten.lt.Scalar,
        r.uniform(r.sizes(source)),
        probability,
    )
    return r.cast(below, r.dtype())


def _native_dropout(r: _Rewriter) -> Any:
    source, probability, train = (*r.node.args, None)[:3]
    if train is False or probability == 0:
        mask = r.call(aten.ones_like.default, source, dtype=torch.bool)
        return (source, mask)
    mask = r.call(aten.ge.Scalar, r.uniform(r.sizes(source)), probability)
    scale = 0.0 if probability == 1 else 1.0 / (1.0 - float(probability))
    kept = r.call(aten.mul.Tensor, source, r.cast(mask, r.dtype()))
    return (r.call(aten.mul.Tensor, kept, scale), mask)


def _rand(r: _Rewriter) -> Any:
    return r.cast(r.uniform(r.node.args[0]), r.dtype())


def _rand_like(r: _Rewriter) -> Any:
    return r.cast(r.uniform(r.sizes(r.node.args[0])), r.dtype())


def _randn(r: _Rewriter) -> Any:
    return r.cast(r.normal(r.node.args[0]), r.dtype())


def _randn_like(r: _Rewriter) -> Any:
    return r.cast(r.normal(r.sizes(r.node.args[0])), r.dtype())


def _uniform(r: _Rewriter) -> Any:
    low = r.node.args[1] if len(r.node.args) > 1 else r.node.kwargs.get("from", 0.0)
    high = r.node.args[2] if len(r.node.args) > 2 else r.node.kwargs.get("to", 1.0)
    scaled = r.call(aten.mul.Tensor, r.uniform(r.sizes(r.node.args[0])), high - low)
    return r.cast(r.call(aten.add.Tensor, scaled, low), r.dtype())


_REWRITES: dict[Any, Callable[[_Rewriter], Any]] = {
    aten.bernoulli.p: _bernoulli,
    aten.bernoulli.default: _bernoulli,
    aten.native_dropout.default: _native_dropout,
    aten.rand.default: _rand,
    aten.rand_like.default: _rand_like,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn_like,
    aten.uniform.default: _uniform,
}


def _replace(gm: torch.fx.GraphModule, node: torch.fx.Node, replacement: Any) -> None:
    """Puts a node, or one node for each item of a tuple, in the place of ``node``."""
    if isinstance(replacement, tuple):
        for item in list(node.users):
            item.replace_all_uses_with(replacement[item.args[1]])
            gm.graph.erase_node(item)
    else:
        node.replace_all_uses_with(replacement)
    gm.graph.erase_node(node)
