"""A script that runs one graph again: its code, and inputs of the same shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import GraphModule

_TEMPLATE = '''"""Runs one graph through torch_tile and compares it with eager mode."""
import torch
from torch import device, inf, nan, tensor
from torch.fx.experimental.proxy_tensor import make_fx

import torch_tile.frontend.fx_passes  # defines torch.ops.torch_tile


{code}

module = GraphModule()
{constants}torch.manual_seed(0)


def strided(size, stride, dtype, device):
    storage = sum((n - 1) * s for n, s in zip(size, stride)) + 1 if all(size) else 0
    if dtype.is_floating_point or dtype.is_complex:
        flat = torch.randn(storage, dtype=torch.float32).to(dtype)
    else:
        flat = torch.zeros(storage, dtype=dtype)  # safe as an index
    return flat.to(device).as_strided(size, stride)


inputs = [
{inputs}
]

if __name__ == "__main__":
    torch.manual_seed(1)
    expected = module(*[x.clone() if isinstance(x, torch.Tensor) else x for x in inputs])
    compiled = torch.compile(module, backend="tile", fullgraph=True, dynamic={dynamic})
    torch.manual_seed(1)
    with torch.no_grad():
        actual = compiled(*inputs)
    for e, a in zip(expected, actual):
        if isinstance(e, torch.Tensor):
            difference = (e.double() - a.double()).abs().max().item() if e.numel() else 0
            print(tuple(e.shape), e.dtype, "largest difference", difference)
'''


def _hint(value: Any) -> int:
    if isinstance(value, int):
        return value
    hint = getattr(value.node, "hint", None)
    return int(hint) if hint is not None else 2


def _input(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"    {_hint(value)},"
    sizes = tuple(_hint(n) for n in value.shape)
    strides = tuple(_hint(n) for n in value.stride())
    return f"    strided({sizes}, {strides}, {value.dtype}, {str(value.device)!r}),"


def runnable_script(gm: GraphModule) -> str:
    """Python text. Tensors the graph holds are replaced by random ones of their shapes."""
    values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    code = gm.print_readable(print_output=False).strip()
    code = code.replace(code[: code.index("(torch.nn.Module)")], "class GraphModule", 1)
    constants = "".join(
        f"module.{node.target} = torch.zeros({tuple(value.shape)}, dtype={value.dtype})\n"
        for node in gm.graph.nodes
        if node.op == "get_attr" and isinstance(value := getattr(gm, str(node.target), None), torch.Tensor)
    )
    return _TEMPLATE.format(
        code=code,
        constants=constants,
        inputs="\n".join(_input(v) for v in values),
        dynamic=any(isinstance(v, torch.SymInt) for v in values),
    )
