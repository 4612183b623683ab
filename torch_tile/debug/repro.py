"""A script that runs one graph again: its code, and inputs of the same shapes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch.fx import GraphModule

_TEMPLATE = '''"""Runs one graph under torch_tile, compares it with eager mode and ends with PASS or FAIL.

Arguments are those of the graph's first call where inputs.pt beside this file has them, else random ones of their
shapes.
"""
import argparse
import pathlib
import statistics
import sys
import time

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


def made_inputs():
    return [
{inputs}
    ]


needs_gradients = {gradients}
# Of the largest number of a result: how far apart two orders of rounding may be.
tolerances = {{torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2,
              torch.complex64: 1e-4, torch.complex128: 1e-10}}


def run(function, inputs):
    torch.manual_seed(1)
    arguments = [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]
    leaves = [arguments[i].requires_grad_() for i in needs_gradients]
    with torch.set_grad_enabled(bool(leaves)):
        results = [x for x in function(*arguments) if isinstance(x, torch.Tensor)]
        ends = [x for x in results if x.requires_grad and x.is_floating_point()]
        if ends:
            gradients = torch.autograd.grad(ends, leaves, [torch.ones_like(x) for x in ends], allow_unused=True)
            results += [x for x in gradients if x is not None]
    return results


def compare(expected, actual):
    wide = torch.complex128 if expected.is_complex() else torch.float64
    e, a = expected.detach().to(wide), actual.detach().to(wide)
    same = (e == a) | (e.isnan() & a.isnan())
    difference = torch.where(same, 0, (e - a).abs()).nan_to_num(torch.inf, torch.inf).max().item() if e.numel() else 0
    finite = e[e.isfinite()]
    largest = finite.abs().max().item() if finite.numel() else 0
    is_right = expected.dtype == actual.dtype and difference <= tolerances.get(expected.dtype, 0) * max(largest, 1)
    verdict = "" if is_right else "  <-- FAIL"
    print(tuple(e.shape), expected.dtype, "largest difference", difference, "of", largest, verdict)
    return is_right


def show_times(functions, inputs):
    taken = {{name: [] for name in functions}}
    for _ in range(20):
        for name, function in functions.items():
            start = time.perf_counter()
            run(function, inputs)
            taken[name].append(time.perf_counter() - start)
    for name, seconds in taken.items():
        print(f"{{name}}: {{statistics.median(seconds) * 1e3:.3f}} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true", help="also time both, the median of 20 calls in turns")
    parser.add_argument("--random", action="store_true", help="random arguments, even where real ones were kept")
    parser.add_argument("--explain", action="store_true", help="also print what it is compiled to")
    options = parser.parse_args()
    kept = pathlib.Path(__file__).with_name("inputs.pt")
    is_real = kept.exists() and not options.random
    inputs = torch.load(kept) if is_real else made_inputs()
    print("arguments:", "of the first call" if is_real else "random")
    compiled = torch.compile(module, backend="tile", fullgraph=True, dynamic={dynamic}, options={{"strict": True}})
    expected, actual = run(module, inputs), run(compiled, inputs)
    is_right = [compare(e, a) for e, a in zip(expected, actual)]
    if options.time:
        show_times({{"eager": module, "tile": compiled}}, inputs)
    if options.explain:
        print(torch_tile.explain(module, *inputs, verbose=True))
    print("PASS" if all(is_right) and len(expected) == len(actual) else "FAIL")
    return 0 if all(is_right) and len(expected) == len(actual) else 1


if __name__ == "__main__":
    sys.exit(main())
'''


def _hint(value: Any) -> int:
    if isinstance(value, int):
        return value
    hint = getattr(value.node, "hint", None)
    return int(hint) if hint is not None else 2


def _input(value: Any) -> str:
    if isinstance(value, torch.SymInt):
        return f"        {_hint(value)},"
    if not isinstance(value, torch.Tensor):
        return f"        {value!r},"
    sizes = tuple(_hint(n) for n in value.shape)
    strides = tuple(_hint(n) for n in value.stride())
    return f"        strided({sizes}, {strides}, {value.dtype}, {str(value.device)!r}),"


def _graphs_within(gm: torch.nn.Module, path: str, type_: str) -> list[str]:
    """Graphs that a graph calls: printed as classes within its class, whose names hide modules of these names."""
    lines = []
    for name, child in gm.named_children():
        if hasattr(child, "graph"):
            lines += [f"{path}.{name} = {type_}.{name}()\n", f"del {type_}.{name}\n"]
            lines += _graphs_within(child, f"{path}.{name}", f"type({path}.{name})")
    return lines


def _constants(gm: GraphModule) -> str:
    """Tensors that the graph holds, of zeros, and the graphs within it."""
    lines = _graphs_within(gm, "module", "GraphModule")
    for node in gm.graph.find_nodes(op="get_attr"):
        value = operator.attrgetter(str(node.target))(gm)
        if not isinstance(value, torch.Tensor):
            continue
        *modules, _ = str(node.target).split(".")
        for depth in range(1, len(modules) + 1):
            path = "module." + ".".join(modules[:depth])
            made = f"if not hasattr({path.rpartition('.')[0]}, {modules[depth - 1]!r}): {path} = torch.nn.Module()\n"
            lines += [made] * (made not in lines)
        lines.append(f"module.{node.target} = torch.zeros({tuple(value.shape)}, dtype={value.dtype})\n")
    return "".join(lines)


def runnable_script(gm: GraphModule, inputs: Sequence[Any] = ()) -> str:
    """Python text. Tensors the graph holds are replaced by random ones of their shapes.

    Args:
        gm: a graph of AOTAutograd or of Dynamo.
        inputs: what a graph of Dynamo's was captured with.
    """
    values = [n.meta.get("val") for n in gm.graph.nodes if n.op == "placeholder"]
    if len(inputs) == len(values) and any(value is None for value in values):
        values = list(inputs)
    code = gm.print_readable(print_output=False).strip()
    code = code.replace(code[: code.index("(torch.nn.Module)")], "class GraphModule", 1)
    is_dynamos = bool(inputs)
    return _TEMPLATE.format(
        code=code,
        constants=_constants(gm),
        inputs="\n".join(_input(v) for v in values),
        dynamic=any(isinstance(v, torch.SymInt) for v in values),
        gradients=[
            i
            for i, v in enumerate(values)
            if is_dynamos and isinstance(v, torch.Tensor) and v.requires_grad and torch.is_grad_enabled()
        ],
    )
