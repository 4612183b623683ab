"""A script that runs one graph again: its code, its arguments and constants where files beside it hold them, else
random ones of the same shapes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._library.custom_ops import OPDEFS
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch.fx import GraphModule

_OWN_NAMESPACES = ("aten", "prims", "prim", "torch_tile")

_TEMPLATE = '''"""Runs one graph under torch_tile, compares it with eager mode and ends with PASS or FAIL.

Arguments are those of the graph's first call where inputs.pt beside this file has them, and tensors that the graph
holds are those of constants.pt; else both are random ones of their shapes. Results are compared, and what is written.
"""
import argparse
import copy
import pathlib
import statistics
import sys
import time

import torch
from torch import device, inf, nan, tensor
from torch.fx.experimental.proxy_tensor import make_fx

import torch_tile.frontend.fx_passes  # defines torch.ops.torch_tile

# IMPORT HERE the modules that define these operators, by operator with the place of its definition.
operators = {operators}


{code}

module = GraphModule()
{graphs}torch.manual_seed(0)


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


def made_constants():
    return {{
{constants}
    }}


kept_constants = pathlib.Path(__file__).with_name("constants.pt")


def set_constants():
    for name, value in (torch.load(kept_constants) if kept_constants.exists() else made_constants()).items():
        owner = module
        *path, last = name.split(".")
        for part in path:
            if not hasattr(owner, part):
                setattr(owner, part, torch.nn.Module())
            owner = getattr(owner, part)
        owner.register_buffer(last, value)


set_constants()
constants = copy.deepcopy(dict(module.named_buffers()))
needs_gradients = {gradients}
# Of the largest number of a result: how far apart two orders of rounding may be.
tolerances = {{torch.float64: 1e-10, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2,
              torch.complex64: 1e-4, torch.complex128: 1e-10}}


def prepared(inputs):
    """Arguments of one call, which share memory where `inputs` do, and constants as they were."""
    for name, value in module.named_buffers():
        if not is_same(value, constants[name]):
            value.copy_(constants[name])
    return copy.deepcopy(inputs)


def call(function, arguments):
    torch.manual_seed(1)
    leaves = [arguments[i].requires_grad_() for i in needs_gradients]
    with torch.set_grad_enabled(bool(leaves)):
        results = [x for x in function(*arguments) if isinstance(x, torch.Tensor)]
        ends = [x for x in results if x.requires_grad and x.is_floating_point()]
        if ends:
            gradients = torch.autograd.grad(ends, leaves, [torch.ones_like(x) for x in ends], allow_unused=True)
            results += [x for x in gradients if x is not None]
    return results


def run(function, inputs):
    """Results, arguments and constants after a call, by name."""
    arguments = prepared(inputs)
    results = call(function, arguments)
    found = {{f"result {{i}}": x for i, x in enumerate(results)}}
    found |= {{f"argument {{i}} after the call": x for i, x in enumerate(arguments) if isinstance(x, torch.Tensor)}}
    found |= {{f"constant {{name}} after the call": x.clone() for name, x in module.named_buffers()}}
    return found


def widened(x):
    return x.detach().to(torch.complex128 if x.is_complex() else torch.float64)


def is_same(a, b):
    a, b = widened(a), widened(b)
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def compare(name, expected, actual):
    e, a = widened(expected), widened(actual)
    same = (e == a) | (e.isnan() & a.isnan())
    difference = torch.where(same, 0, (e - a).abs()).nan_to_num(torch.inf, torch.inf).max().item() if e.numel() else 0
    finite = e[e.isfinite()]
    largest = finite.abs().max().item() if finite.numel() else 0
    is_right = expected.dtype == actual.dtype and difference <= tolerances.get(expected.dtype, 0) * max(largest, 1)
    verdict = "" if is_right else "  <-- FAIL"
    print(f"{{name}}:", tuple(e.shape), expected.dtype, "largest difference", difference, "of", largest, verdict)
    return is_right


def compare_all(inputs, expected, actual):
    """Results, and arguments and constants that eager mode or the compiled graph writes."""
    before = {{f"argument {{i}} after the call": x for i, x in enumerate(inputs)}}
    before |= {{f"constant {{name}} after the call": x for name, x in constants.items()}}
    is_right = expected.keys() == actual.keys()
    for name in [name for name in expected if name in actual]:
        is_written = name not in before or not all(is_same(x[name], before[name]) for x in (expected, actual))
        if is_written and not compare(name, expected[name], actual[name]):
            is_right = False
    return is_right


def show_times(functions, inputs):
    taken = {{name: [] for name in functions}}
    for _ in range(20):
        for name, function in functions.items():
            arguments = prepared(inputs)
            start = time.perf_counter()
            call(function, arguments)
            taken[name].append(time.perf_counter() - start)
    for name, seconds in taken.items():
        print(f"{{name}}: {{statistics.median(seconds) * 1e3:.3f}} ms")


def check_operators():
    missing = []
    for name, place in operators.items():
        namespace, _, operator = name.partition("::")
        if not hasattr(getattr(torch.ops, namespace), operator):
            missing.append(name + (f" ({{place}})" if place else ""))
    if missing:
        sys.exit(
            f"the graph calls operators that are not defined: {{', '.join(missing)}}; import the module that defines "
            f"them at the line of {{pathlib.Path(__file__).resolve()}} that says IMPORT HERE"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--time", action="store_true", help="also time both, the median of 20 calls in turns")
    parser.add_argument("--random", action="store_true", help="random arguments, even where real ones were kept")
    parser.add_argument("--explain", action="store_true", help="also print what it is compiled to")
    options = parser.parse_args()
    check_operators()
    kept = pathlib.Path(__file__).with_name("inputs.pt")
    is_real = kept.exists() and not options.random
    inputs = torch.load(kept) if is_real else made_inputs()
    print("arguments:", "of the first call" if is_real else "random, not those of the program")
    if constants:
        print("constants:", "of the graph" if kept_constants.exists() else "random, not those of the program")
    compiled = torch.compile(module, backend="tile", fullgraph=True, dynamic={dynamic}, options={options})
    is_right = compare_all(inputs, run(module, inputs), run(compiled, inputs))
    if options.time:
        show_times({{"eager": module, "tile": compiled}}, inputs)
    if options.explain:
        print(torch_tile.explain(module, *prepared(inputs), verbose=True))
    print("PASS" if is_right else "FAIL")
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
'''


def hint_of(value: Any) -> int:
    """A size as it was when the graph was captured."""
    if isinstance(value, int):
        return value
    hint = getattr(value.node, "hint", None)
    return int(hint) if hint is not None else 2


def _input(value: Any) -> str:
    if isinstance(value, torch.SymInt):
        return f"        {hint_of(value)},"
    if not isinstance(value, torch.Tensor):
        return f"        {value!r},"
    sizes = tuple(hint_of(n) for n in value.shape)
    strides = tuple(hint_of(n) for n in value.stride())
    return f"        strided({sizes}, {strides}, {value.dtype}, {str(value.device)!r}),"


def _graphs_within(gm: torch.nn.Module, path: str, type_: str) -> list[str]:
    """Graphs that a graph calls: printed as classes within its class, whose names hide modules of these names."""
    lines = []
    for name, child in gm.named_children():
        if hasattr(child, "graph"):
            lines += [f"{path}.{name} = {type_}.{name}()\n", f"del {type_}.{name}\n"]
            lines += _graphs_within(child, f"{path}.{name}", f"type({path}.{name})")
    return lines


def constants_of(gm: GraphModule) -> dict[str, torch.Tensor]:
    """Tensors that the graph holds, by name."""
    names = dict.fromkeys(str(node.target) for node in gm.graph.find_nodes(op="get_attr"))
    values = {name: operator.attrgetter(name)(gm) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def _operators_of(gm: GraphModule) -> dict[str, str]:
    """Operators that neither torch nor torch_tile has, and where they are defined, as far as torch knows."""
    graphs = [module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    named: dict[str, str] = {}
    for node in (node for graph in graphs for node in graph.nodes):
        for leaf in pytree.tree_leaves((node.target, node.args, node.kwargs)):
            if isinstance(leaf, torch._ops.OpOverload) and leaf.namespace not in _OWN_NAMESPACES:
                named[leaf._schema.name] = _place_of(leaf._schema.name)
    return named


def _place_of(name: str) -> str:
    """The file and line of a `torch.library.custom_op`."""
    code = getattr(getattr(OPDEFS.get(name), "_init_fn", None), "__code__", None)
    return "" if code is None else f"defined in {code.co_filename}, line {code.co_firstlineno}"


def runnable_script(gm: GraphModule, inputs: Sequence[Any] = ()) -> str:
    """Python text.

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
    constants = constants_of(gm)
    options = {"strict": True}
    if any(name.startswith("_frozen_") for name in constants):  # as frontend/constant_folding.py calls them
        options["freezing"] = True
    return _TEMPLATE.format(
        code=code,
        operators=_operators_of(gm),
        graphs="".join(_graphs_within(gm, "module", "GraphModule")),
        constants="\n".join(f"        {name!r}: {_input(value).strip()}" for name, value in constants.items()),
        inputs="\n".join(_input(v) for v in values),
        dynamic=any(isinstance(v, torch.SymInt) for v in values),
        options=options,
        gradients=[
            i
            for i, v in enumerate(values)
            if is_dynamos and isinstance(v, torch.Tensor) and v.requires_grad and torch.is_grad_enabled()
        ],
    )
