"""Calls outside: which are library calls by choice, which want for a kernel, and how much memory each moves."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from torch_tile.debug import places

if TYPE_CHECKING:
    from torch.fx import GraphModule

_LIBRARY = {
    "matrix product": "mm addmm bmm baddbmm addbmm matmul linear mv addmv dot vdot _scaled_mm _int_mm "
    "_addmm_activation _linear_pointwise linear_pointwise _trilinear _weight_int4pack_mm _grouped_mm",
    "convolution": "convolution convolution_backward _convolution _convolution_pointwise _convolution_pointwise_ "
    "mkldnn_convolution conv_transpose2d",
    "attention": "_scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_flash_attention_backward "
    "_scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward "
    "_scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward "
    "_scaled_dot_product_fused_attention_overrideable scaled_dot_product_attention",
    "recurrent network": "mkldnn_rnn_layer _thnn_fused_lstm_cell lstm gru",
    "sorting": "sort argsort topk kthvalue median nanmedian mode unique_dim _unique2 unique_consecutive msort",
    "random numbers": "rand randn randint rand_like randn_like randint_like randperm multinomial bernoulli normal "
    "poisson binomial exponential geometric cauchy",
    "Fourier transform": "_fft_r2c _fft_c2c _fft_c2r",
}
_FAMILY = {name: family for family, names in _LIBRARY.items() for name in names.split()}
_NO_RULE = "there is no rule for this operator"
_OF_TORCH = ("aten", "prims", "prim", "mkldnn", "quantized", "torch_tile", "_c10d_functional", "c10d", "onednn")


@dataclasses.dataclass
class CallRecord:
    """One call outside: operator, why no kernel of ours does it, bytes of its operands and results (None where a size
    is not known beforehand), and the user's line."""

    operator: str
    why: str
    is_by_choice: bool
    """Whether it is a library call, which a kernel of ours would not better."""
    num_bytes: int | None
    place: str | None

    def line(self) -> str:
        return f"{self.operator}: {self.why}" + (f", from {places.shortened(self.place)}" if self.place else "")


def reason_of(operator: str, reason: str) -> tuple[str, bool]:
    """What to say of a call that the importer left outside for `reason`, and whether it is a library call by choice."""
    namespace, _, name = operator.rpartition("::")
    name = name.partition(".")[0]
    family = _FAMILY.get(name) or ("linear algebra" if name.startswith(("linalg_", "_linalg_")) else None)
    if namespace in ("aten", "mkldnn", "") and family and reason == _NO_RULE:
        return f"library call ({family})", True
    if reason != _NO_RULE:
        return f"no kernel for this case: {reason}", False
    if namespace and namespace not in _OF_TORCH:
        return f"operator of the library {namespace!r}, of which nothing is known here", True
    return "no kernel for this operator yet", False


def bytes_of(value: Any) -> int | None:
    """Of all tensors in a node's value; None where a size has no hint."""
    if isinstance(value, (list, tuple)):
        sizes = [bytes_of(item) for item in value]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    if not isinstance(value, torch.Tensor):
        return 0
    count = hint_of(value.numel())
    return None if count is None else count * value.element_size()


def hint_of(value: Any) -> int | None:
    """The number that a size had when it was traced."""
    if isinstance(value, int):
        return value
    hint = getattr(getattr(value, "node", None), "hint", None)
    return int(hint) if hint is not None else None


def call_records(gm: GraphModule, externs: list[tuple[str, str, str]]) -> list[CallRecord]:
    """Records of the nodes that the importer left to calls: node, operator, reason."""
    nodes = places.nodes_by_name(gm)
    records = []
    for name, operator, reason in externs:
        text, is_by_choice = reason_of(operator, reason)
        node = nodes.get(name)
        num_bytes, place = None, None
        if node is not None:
            values = [each.meta.get("val") for each in (*node.all_input_nodes, node)]
            num_bytes, place = bytes_of(values), places.source_line(node)
        records.append(CallRecord(operator, text, is_by_choice, num_bytes, place))
    return records
