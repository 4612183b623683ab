"""Passes over ATen graphs before they are partitioned or compiled.

Random numbers: every random op becomes arithmetic on `torch_tile::philox_uniform`, a pure function of one seed per
graph, the place of the op (its salt) and the logical index of the element. Fusion, vector width and recomputation in
the backward never change a bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch._guards import detect_fake_mode
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true

from torch_tile.config import Settings
from torch_tile.debug import limits
from torch_tile.frontend import stated_sizes
from torch_tile.frontend.channels_last_scatters import order_scatters
from torch_tile.frontend.complex_numbers import replace_complex
from torch_tile.frontend.decompositions.orders import order_of_iterator
from torch_tile.frontend.product_gradients import replace_product_gradients
from torch_tile.frontend.thin_products import replace_thin_products

aten = torch.ops.aten

# One short of the full range: the text of sizes has no -2**63.
_INT64_MIN, _INT64_MAX = -(2**63) + 1, 2**63 - 1
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF


def philox_uniform(seed: torch.Tensor, salt: int, size: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Uniform numbers in [0, 1), element by element.

    Word `index % 4` of Philox4x32-10 (Salmon et al. 2011) with counter (quarter low, quarter high, salt, 0), where
    quarter is `index // 4`, and key (seed low, seed high); its upper 24 bits times 2^-24. `index` is the row-major
    position of the element.

    Args:
        seed: int64, 0-d.
        salt: which of the graph's random ops this is.
        size: of the result.
        dtype: of the result; numbers are made in float32.
    """
    index = torch.arange(math.prod(size), dtype=torch.int64, device=seed.device)
    c0, c1 = (index >> 2) & _LOW, (index >> 34) & _LOW
    c2, c3 = torch.full_like(index, salt & _LOW), torch.zeros_like(index)
    k0, k1 = seed & _LOW, (seed >> 32) & _LOW
    for _ in range(10):
        # int64 products wrap, which keeps all 64 bits; the shift's sign bits are masked off.
        p0, p1 = c0 * _PHILOX_MULTIPLIERS[0], c2 * _PHILOX_MULTIPLIERS[1]
        c0, c1, c2, c3 = ((p1 >> 32) & _LOW) ^ c1 ^ k0, p1 & _LOW, ((p0 >> 32) & _LOW) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _PHILOX_WEYL[0]) & _LOW, (k1 + _PHILOX_WEYL[1]) & _LOW
    word = torch.stack((c0, c1, c2, c3), -1).gather(-1, (index & 3).unsqueeze(-1)).squeeze(-1)
    return ((word >> 8).to(torch.float32) * 2.0**-24).to(dtype).view(size)


_library = torch.library.Library("torch_tile", "DEF")  # type: ignore[no-untyped-call]
_library.define("philox_uniform(Tensor seed, int salt, SymInt[] size, ScalarType dtype) -> Tensor")  # type: ignore[no-untyped-call]
_library.impl("philox_uniform", philox_uniform, "CompositeExplicitAutograd")  # type: ignore[no-untyped-call]


def _philox_uniform_fake(seed: torch.Tensor, salt: int, size: list[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(size, dtype=dtype, device=seed.device)


torch.library.register_fake("torch_tile::philox_uniform", _philox_uniform_fake, lib=_library)


class _Emitter:
    """Inserts calls before a random op, with fake results, and hands out the graph's seed and salts."""

    def __init__(self, gm: GraphModule) -> None:
        self.gm = gm
        mode = detect_fake_mode([n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"])
        assert mode is not None, "graphs of AOTAutograd hold fake tensors"
        self.mode = mode
        self.seeds: dict[torch.device, Node] = {}
        self.num_salts = 0
        self.replaced: Node | None = None

    def call(self, target: Callable[..., Any], *args: Any, **kwargs: Any) -> Node:
        node = self.gm.graph.call_function(target, args, kwargs)
        values, named = torch.fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        if self.replaced is not None:
            node.meta.update({k: v for k, v in self.replaced.meta.items() if k not in ("val", "tensor_meta")})
        with self.mode, torch.no_grad():
            node.meta["val"] = target(*values, **named)
        return node

    def seed(self, device: torch.device) -> Node:
        if device not in self.seeds:
            first = next(n for n in self.gm.graph.nodes if n.op != "placeholder")
            replaced, self.replaced = self.replaced, None
            with self.gm.graph.inserting_before(first):
                self.seeds[device] = self.call(
                    aten.randint.low, _INT64_MIN, _INT64_MAX, [], dtype=torch.int64, device=device
                )
            self.replaced = replaced
        return self.seeds[device]

    def uniform(self, like: torch.Tensor, node: Node) -> Node:
        """float32 in [0, 1) of the sizes of a fake tensor, the value of `node`."""
        sizes: list[Any] = []
        for dim, size in enumerate(like.shape):
            sizes.append(size if isinstance(size, int) else self._size(size, node, dim))
        salt = self.num_salts
        self.num_salts += 1
        return self.call(
            torch.ops.torch_tile.philox_uniform.default, self.seed(like.device), salt, sizes, torch.float32
        )

    def _size(self, size: torch.SymInt, node: Node, dim: int) -> Node:
        # The size of an operand, or an argument that already is one.
        for candidate in node.all_input_nodes:
            value = candidate.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr == size.node.expr:
                return candidate
            if isinstance(value, torch.Tensor) and value.dim() > dim:
                found: Any = value.shape[dim]
                if isinstance(found, torch.SymInt) and found.node.expr == size.node.expr:
                    return self.call(aten.sym_size.int, candidate, dim)
        raise LookupError("no node holds this size")

    def in_order(self, result: Node, value: torch.Tensor) -> Node:
        """The result, stored in the order of a fake tensor of its sizes."""
        strides = zip(value.shape, value.stride(), result.meta["val"].stride(), strict=True)
        if all(statically_known_true(a == b) or statically_known_true(size == 1) for size, a, b in strides):
            return result
        order = order_of_iterator(value.shape, [(value.shape, value.stride())])
        back = sorted(range(len(order)), key=order.__getitem__)
        copy = self.call(
            aten.clone.default, self.call(aten.permute.default, result, order), memory_format=torch.contiguous_format
        )
        return self.call(aten.permute.default, copy, back)


def _argument(node: Node, position: int, name: str, default: Any = None) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)


def _dropout(e: _Emitter, node: Node) -> tuple[Any, ...] | None:
    x, p = node.args[0], float(node.args[1])  # type: ignore[arg-type]
    if _argument(node, 2, "train", True) is False or not isinstance(x, Node) or not 0 <= p <= 1:
        return None
    value = x.meta["val"]
    keep = e.call(aten.lt.Scalar, e.uniform(value, node), 1.0 - p)
    scale = 0.0 if p == 1.0 else 1.0 / (1.0 - p)
    return e.call(aten.mul.Tensor, e.call(aten.mul.Tensor, x, keep), scale), keep


def _bernoulli(e: _Emitter, node: Node) -> Any:
    x = node.args[0]
    value = node.meta["val"]
    if node.target is aten.bernoulli.p:
        p = float(_argument(node, 1, "p", 0.5))
        if not 0 <= p <= 1:
            return None
        below = e.call(aten.lt.Scalar, e.uniform(value, node), p)
    else:
        is_inside = e.call(aten.logical_and.default, e.call(aten.ge.Scalar, x, 0), e.call(aten.le.Scalar, x, 1))
        message = "Expected p_in >= 0 && p_in <= 1 to be true, but got false."
        e.call(aten._assert_async.msg, e.call(aten.all.default, is_inside), message)
        below = e.call(aten.lt.Tensor, e.uniform(value, node), x)
    return e.call(torch.ops.prims.convert_element_type.default, below, value.dtype)


def _normal_numbers(e: _Emitter, node: Node) -> Node:
    # Box and Muller 1958; 1 - u is in (0, 1], so the logarithm is finite.
    value = node.meta["val"]
    u1, u2 = e.uniform(value, node), e.uniform(value, node)
    radius = e.call(
        aten.sqrt.default, e.call(aten.mul.Scalar, e.call(aten.log.default, e.call(aten.rsub.Scalar, u1, 1.0)), -2.0)
    )
    return e.call(aten.mul.Tensor, radius, e.call(aten.cos.default, e.call(aten.mul.Scalar, u2, 2.0 * math.pi)))


def _rand(e: _Emitter, node: Node) -> Any:
    return e.uniform(node.meta["val"], node)


def _randn(e: _Emitter, node: Node) -> Any:
    return e.call(torch.ops.prims.convert_element_type.default, _normal_numbers(e, node), node.meta["val"].dtype)


def _uniform(e: _Emitter, node: Node) -> Any:
    low, high = float(_argument(node, 1, "from", 0.0)), float(_argument(node, 2, "to", 1.0))
    if not 0 <= high - low <= torch.finfo(torch.float32).max:
        return None
    scaled = e.call(aten.mul.Scalar, e.uniform(node.meta["val"], node), high - low)
    return e.call(aten.add.Scalar, scaled, low)


def _normal(e: _Emitter, node: Node) -> Any:
    mean, std = float(_argument(node, 1, "mean", 0.0)), float(_argument(node, 2, "std", 1.0))
    scaled = e.call(aten.mul.Scalar, _normal_numbers(e, node), std)
    return e.call(
        torch.ops.prims.convert_element_type.default, e.call(aten.add.Scalar, scaled, mean), node.meta["val"].dtype
    )


# None of calls that ATen refuses: they are left to it.
_REPLACEMENTS: dict[Any, Callable[[_Emitter, Node], Any]] = {
    aten.native_dropout.default: _dropout,
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
    aten.rand.default: _rand,
    aten.rand_like.default: _rand,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn,
    aten.uniform.default: _uniform,
    aten.normal_functional.default: _normal,
}
# 24 bits in a wider or narrower type are not what eager mode gives: fewer values, or 1.0 after rounding.
_FLOAT32_ONLY = {aten.rand.default, aten.rand_like.default, aten.uniform.default}
# Normal numbers are made in float32, and in float64 eager mode's have more digits and longer tails.
_NOT_FLOAT64 = {aten.randn.default, aten.randn_like.default, aten.normal_functional.default}


def _may_replace(node: Node) -> bool:
    if node.target not in _REPLACEMENTS or node.kwargs.get("generator") is not None:
        return False
    value = node.meta["val"]
    first = value[0] if isinstance(value, (tuple, list)) else value
    if not isinstance(first, torch.Tensor) or not first.is_floating_point() or first.layout is not torch.strided:
        return False
    if node.target in _NOT_FLOAT64:
        return first.dtype is not torch.float64
    return node.target not in _FLOAT32_ONLY or first.dtype is torch.float32


def replace_random(gm: GraphModule) -> int:
    """Rewrite random ops of float tensors; returns how many."""
    nodes = [n for n in gm.graph.nodes if n.op == "call_function" and _may_replace(n)]
    if not nodes:
        return 0
    emitter = _Emitter(gm)
    count = 0
    for node in nodes:
        emitter.replaced = node
        with gm.graph.inserting_before(node):
            try:
                replacement = _REPLACEMENTS[node.target](emitter, node)
            except LookupError:
                continue  # stays a call outside
        if replacement is None:
            continue
        count += 1
        if isinstance(replacement, tuple):
            for user in list(node.users):
                user.replace_all_uses_with(replacement[user.args[1]])
                gm.graph.erase_node(user)
        else:
            with gm.graph.inserting_before(node):
                replacement = emitter.in_order(replacement, node.meta["val"])
            node.replace_all_uses_with(replacement)
        gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return count


def run_passes(gm: GraphModule, settings: Settings) -> None:
    """Everything done to a joint or inference graph."""
    stated_sizes.learn(gm)
    if limits.is_on(settings, "complex_numbers"):
        replace_complex(gm)
    if not settings["fallback_random"] and limits.is_on(settings, "random"):
        replace_random(gm)
    if limits.is_on(settings, "product_gradients"):
        replace_product_gradients(gm)
    if limits.is_on(settings, "channels_last_scatters"):
        order_scatters(gm)
    if limits.is_on(settings, "thin_products"):
        replace_thin_products(gm)
