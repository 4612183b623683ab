"""Element types of products and convolutions to which the library adds what follows."""

from __future__ import annotations

import torch

from torch_tile import _C
from torch_tile.config import Settings


def fused_dtypes(settings: Settings) -> tuple[set[torch.dtype], set[torch.dtype]]:
    """Of products, and of convolutions: the processor's choice, which the key of a graph on disk holds."""
    has_onednn = bool(torch._C._has_mkldnn and torch._C._get_mkldnn_enabled())
    may_choose = has_onednn and settings["matmul_library"] != "aten"
    products = set()
    if may_choose and not settings["emulate_precision_casts"]:
        if torch.ops.mkldnn._is_mkldnn_bf16_supported():
            products.add(torch.bfloat16)
        if torch.ops.mkldnn._is_mkldnn_fp16_supported():
            products.add(torch.float16)
    convolutions = products | ({torch.float32} if has_onednn else set())
    if may_choose and _C.prefers_onednn(settings["matmul_library"]):
        products.add(torch.float32)
    return products, convolutions
