"""Attention: no-op masks are removed; on CUDA it stays one call of the kernel that eager mode would choose.

Traced with fake tensors, torch decides for matrix products and a softmax. The choice depends on types, sizes and
strides only, so tensors without contents of the same kind are asked in their place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._python_dispatch import _disable_current_modes

from torch_tile.debug import faults
from torch_tile.frontend.attention_masks import meaning_of

log = logging.getLogger(__name__)
aten = torch.ops.aten

_NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
_TARGETS = (F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention)
# Elements that fill the 16 bytes of one access.
_ALIGNED = {torch.float32: 4, torch.bfloat16: 8, torch.float16: 8}
_MOST_ELEMENTS = 1 << 30
# torch.nn.attention.SDPBackend
_FLASH, _EFFICIENT, _CUDNN = 1, 2, 3


def _bias_of(mask: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """The mask as what is added to the scores: four dimensions, rows without gaps, 0 where it is true, else -inf.

    Where it is the same for all batches or heads, it stays so.
    """
    while mask.dim() < 4:
        mask = mask.unsqueeze(0)
    sizes = mask.shape
    for axis in (0, 1):
        if mask.stride(axis) == 0:
            mask = mask.narrow(axis, 0, 1)
    if mask.dtype is torch.bool:
        bias = torch.zeros(mask.shape, dtype=query.dtype, device=mask.device).masked_fill(~mask, float("-inf"))
    else:
        bias = mask if mask.stride(-1) == 1 else mask.contiguous()
    return bias.expand(sizes)


def _needs_gradient(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _flash(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):  # type: ignore[no-untyped-def]
    return aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, is_causal, False, scale=scale)[0]


def _efficient(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):  # type: ignore[no-untyped-def]
    bias = None
    if attn_mask is not None:
        bias = _bias_of(attn_mask, query)
        length = key.shape[-2]
        if excess := length % _ALIGNED[query.dtype]:  # rows of the bias start at aligned addresses
            bias = F.pad(bias, (0, _ALIGNED[query.dtype] - excess))[..., :length]
        bias = bias.expand(*query.shape[:-1], length)
    return aten._scaled_dot_product_efficient_attention(
        query, key, value, bias, _needs_gradient(query, key, value), dropout_p, is_causal, scale=scale
    )[0]


def _cudnn(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None):  # type: ignore[no-untyped-def]
    bias = None if attn_mask is None else _bias_of(attn_mask, query)
    return aten._scaled_dot_product_cudnn_attention(
        query, key, value, bias, _needs_gradient(query, key, value), dropout_p, is_causal, False, scale=scale
    )[0]


_FORMS: dict[int, Callable[..., torch.Tensor]] = {_FLASH: _flash, _EFFICIENT: _efficient, _CUDNN: _cudnn}


def _hint(size: Any) -> int:
    if isinstance(size, torch.SymInt):
        return int(size.node.hint) if size.node.has_hint() else -1
    return int(size)


def _stand_in(fake: torch.Tensor) -> torch.Tensor | None:
    """A tensor like `fake` with uninitialised memory; None if that is not possible."""
    sizes, strides = [_hint(s) for s in fake.shape], [_hint(s) for s in fake.stride()]
    extent = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1
    if min([*sizes, *strides, 1]) < 0 or 0 in sizes or extent > _MOST_ELEMENTS:
        return None
    made = torch.empty_strided(sizes, strides, dtype=fake.dtype, device=fake.device)
    return made.requires_grad_(fake.requires_grad and fake.is_floating_point())


def _choice(arguments: tuple[Any, ...], scale: float | None, is_dynamic: bool) -> int:
    """Eager's choice. Where sizes are not known, flash attention before cuDNN's, which compiles for each of them."""
    backends: Any = torch.backends.cuda
    if is_dynamic and backends.cudnn_sdp_enabled():
        backends.enable_cudnn_sdp(False)
        try:
            if (choice := int(torch._fused_sdp_choice(*arguments, scale=scale))) == _FLASH:
                return choice
        finally:
            backends.enable_cudnn_sdp(True)
    return int(torch._fused_sdp_choice(*arguments, scale=scale))


def _choose(given: dict[str, Any]) -> Callable[..., torch.Tensor] | None:
    """The form of attention that eager takes; None if it is not known to be a fused one."""
    values: dict[str, Any] = {n: v.meta.get("example_value") if isinstance(v, Node) else v for n, v in given.items()}
    operands: list[Any] = [values.get(name) for name in _NAMES[:4]]
    query, key, value, mask = operands
    tensors = [t for t in operands if t is not None]
    if values.get("enable_gqa") or not all(isinstance(t, torch.Tensor) and t.device.type == "cuda" for t in tensors):
        return None
    if query.dtype not in _ALIGNED or any(t.dim() != 4 or t.dtype != query.dtype for t in (query, key, value)):
        return None
    if any(not isinstance(t.shape[-1], int) or t.shape[-1] % 8 != 0 for t in (query, key, value)):
        return None
    if mask is not None and (mask.requires_grad or mask.dim() > 4 or not isinstance(key.shape[-2], int)):
        return None
    dropout, causal, scale = values.get("dropout_p", 0.0), values.get("is_causal", False), values.get("scale")
    if not isinstance(causal, bool) or not isinstance(dropout, (int, float)) or isinstance(scale, torch.SymFloat):
        return None
    try:
        with _disable_current_modes():
            made: list[Any] = [None if t is None else _stand_in(t) for t in operands]
            if any(m is None and t is not None for m, t in zip(made, operands, strict=True)):
                return None
            # Asked about what it will be given: of a mask with a stride of 0 along the keys it would take none.
            bias = None if made[3] is None else _bias_of(made[3], made[0])
            is_dynamic = any(isinstance(size, torch.SymInt) for t in tensors for size in t.shape)
            form = _FORMS.get(_choice((made[0], made[1], made[2], bias, float(dropout), causal), scale, is_dynamic))
            if form is None:
                return None
            # What a kernel asks for beyond that, it says when it is called; without dropout, which would draw numbers.
            result = form(*made, 0.0, causal, scale)
            if result.requires_grad:
                torch.autograd.grad(result, [t for t in made[:3] if t.requires_grad], torch.zeros_like(result))
    except Exception as error:  # whatever it is that this version of torch cannot do ahead of the call
        log.info("attention is not kept whole: %s", error)
        return None
    return form


def _kind_of(given: dict[str, Any]) -> str:
    """What the choice depends on: layers of a model ask the same."""
    values = (v.meta.get("example_value") if isinstance(v, Node) else v for v in given.values())
    described = [(v.shape, v.stride(), v.dtype, v.requires_grad) if isinstance(v, torch.Tensor) else v for v in values]
    return f"{list(given)} {described} {torch.is_grad_enabled()}"


def keep_attention(gm: GraphModule) -> Callable[[], None] | None:
    """Rewrites attention in a graph of Dynamo's; gives what takes that back, or None where there was nothing to do."""
    before: list[tuple[Node, Any, Any, Any]] = []

    def restore() -> None:
        for node, target, args, kwargs in before:
            node.target, node.args, node.kwargs = target, args, kwargs
        gm.recompile()

    try:
        _rewrite(gm, before)
    except Exception:
        restore()
        raise
    if not before:
        return None
    gm.recompile()
    return restore


def _enlarges(mask: Node, given: dict[str, Any]) -> bool:
    """Whether the mask may have batches or heads that the queries do not have."""
    query = given.get("query")
    values = [x.meta.get("example_value") if isinstance(x, Node) else x for x in (mask, query)]
    shapes = [value.shape[:-2] for value in values if isinstance(value, torch.Tensor)]
    if len(shapes) < 2:
        return True
    ours, queries = shapes
    return len(ours) > len(queries) or not all(
        statically_known_true(size == 1) or statically_known_true(size == other)
        for size, other in zip(reversed(ours), reversed(queries), strict=False)
    )


def _rewrite(gm: GraphModule, before: list[tuple[Node, Any, Any, Any]]) -> None:
    """Rewrites each attention that should be; `before` gets what each node was."""
    chosen: dict[str, Callable[..., torch.Tensor] | None] = {}
    meanings: dict[Node, str | None] = {}
    for node in gm.graph.nodes:
        if node.op != "call_function" or node.target not in _TARGETS:
            continue
        given = {**dict(zip(_NAMES, node.args, strict=False)), **node.kwargs}
        original = (node, node.target, node.args, node.kwargs)
        mask = given.get("attn_mask")
        if isinstance(mask, Node) and mask not in meanings:
            meanings[mask] = meaning_of(mask)
        meaning = meanings.get(mask) if isinstance(mask, Node) and not _enlarges(mask, given) else None
        if meaning is not None:
            before.append(original)
        if meaning is not None and not given.get("is_causal", False):
            given |= {"attn_mask": None, "is_causal": meaning == "causal"}
            node.args, node.kwargs = (), given
        kind = _kind_of(given)
        if kind not in chosen:
            chosen[kind] = _choose(given)
        if form := chosen[kind]:
            if meaning is None:
                before.append(original)
            arguments = {name: value for name, value in given.items() if name != "enable_gqa"}
            node.target, node.args, node.kwargs = form, (), arguments
        faults.point("keep_attention")
