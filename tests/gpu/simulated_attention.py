"""`flex_attention` with kernels for a GPU, run on the CPU (tests/gpu/simulator.py), forward and backward: launches of
its kernels in a graph call the simulator, other operators are torch's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as public
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule, Node

from tests.gpu import simulator
from torch_tile import _C, targets
from torch_tile.frontend import aot, compile
from torch_tile.frontend.flex import launches, lower
from torch_tile.frontend.launches.embed_kernels import GivenKernel

_simulated: dict[tuple[str, str], simulator.SimulatedKernel] = {}


class Compiled:
    """What became of one graph: its text, and the stages of its compilation."""

    def __init__(self, gm: GraphModule, target: str) -> None:
        self.text = _C.print_graph(gm).text
        self.files: dict[str, str] = {}
        self.kernels = [n for n in gm.graph.nodes if isinstance(n.target, GivenKernel)]
        options, compile_graph = {"target": target}, _C.compile_graph
        write = self.files.__setitem__
        if self.kernels:
            compile_graph(self.text, options, None, 0, write, [None] * 64, device="cuda:0", architecture=target)


def _simulating(node: Node, ir: str, target: str) -> Callable[..., Any]:
    """What runs a launch: its results are new tensors of the sizes that the node has for these arguments."""
    kernel: Any = node.target
    held = node.meta["val"]

    def launch(arguments: list[Any], grid: list[Any], _written: Any) -> tuple[torch.Tensor, ...]:
        if (target, ir) not in _simulated:
            _simulated[target, ir] = simulator.SimulatedKernel(ir, kernel.tile_text)
        symbols = _symbols(node, arguments)
        results = []
        for value in held:
            sizes, strides = ([_number(n, symbols) for n in each] for each in (value.shape, value.stride()))
            results.append(torch.empty_strided(sizes, strides, dtype=value.dtype).fill_(77))
        flat = [results[int(value)] if isinstance(value, str) else value for value in arguments]
        if all(n > 0 for n in grid):
            _simulated[target, ir].run(*(int(n) for n in grid), flat)
        return tuple(results)

    return launch


def _symbols(node: Node, arguments: list[Any]) -> dict[Any, int]:
    given: Any = node.args[0]
    found: dict[Any, int] = {}
    for each, actual in zip(given, arguments, strict=True):
        value = each.meta["val"] if isinstance(each, Node) else None
        if isinstance(value, torch.SymInt):
            found[value.node.expr] = actual
        elif isinstance(value, torch.Tensor):
            sizes: Any = value.shape
            found |= {s.node.expr: n for s, n in zip(sizes, actual.shape, strict=True) if isinstance(s, torch.SymInt)}
    return found


def _number(value: Any, symbols: dict[Any, int]) -> int:
    return value if isinstance(value, int) else int(value.node.expr.subs(symbols))


@contextlib.contextmanager
def without_check_of_devices() -> Iterator[None]:
    """torch refuses gradients on the CPU before any backend sees the graph; not while this lasts."""
    usual = public._validate_device
    public._validate_device = lambda *_: None
    try:
        yield
    finally:
        public._validate_device = usual


@contextlib.contextmanager
def simulated(target: str, num_multiprocessors: int = 1) -> Iterator[list[Compiled]]:
    """Compiles graphs for a target while it lasts, and runs their kernels in the simulator. Gives the graphs."""
    found: list[Compiled] = []

    def print_and_compile(gm: GraphModule, *_: Any) -> Any:
        return Compiled(gm, target)

    def compile_graph(gm: GraphModule, inputs: Any, kind: str, settings: Any) -> Any:
        gm, compiled = compile._prepare_and_compile(gm, kind, settings, None, {})
        found.append(compiled)  # type: ignore[arg-type]
        simulate_kernels(gm, found[-1], target)
        return make_boxed_func(gm.forward)

    init, shared_bytes = launches.Launcher.__init__, targets.shared_bytes

    def on_gpu(self: Any, *arguments: Any) -> None:
        init(self, *arguments)
        self.device = torch.device("cuda", 0)

    with pytest.MonkeyPatch.context() as patch, without_check_of_devices():
        patch.setattr(launches.Launcher, "__init__", on_gpu)
        patch.setattr(launches, "multiprocessors", lambda _: num_multiprocessors)
        patch.setattr(lower, "LEAST_ROWS", 0)  # that is for processors
        patch.setattr(targets, "shared_bytes", lambda _: shared_bytes(target))
        patch.setattr(lower, "KERNEL_DEVICES", {"cpu"})
        patch.setattr(aot, "compile_graph", compile_graph)
        patch.setattr(compile, "_print_and_compile", print_and_compile)
        torch.compiler.reset()
        yield found


def simulate_kernels(gm: GraphModule, compiled: Compiled, target: str) -> None:
    if not compiled.kernels:
        return
    pieces = re.split(r"^; (\w+) = tile_\w+\n", compiled.files["50-kernel.ll"], flags=re.M)
    codes = dict(zip(pieces[1::2], pieces[2::2], strict=True))
    for node in compiled.kernels:
        node.target = _simulating(node, codes[node.target.name], target)  # type: ignore[union-attr]
    gm.recompile()
