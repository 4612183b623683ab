"""Kernels of the tile language inside graphs become kernels of the graph's program, as Triton's do.

A launch is the operator `torch_tile::launch`, which AOTAutograd makes functional. What cannot be said as a kernel of
the program (autotuned kernels, views that are written, tensors on several devices) stays a call of that operator, which
copies what it writes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_tile import config
from torch_tile.errors import TileError
from torch_tile.frontend.launches.embed_kernels import Rewriter, own_copy
from torch_tile.frontend.launches.launch import NotNative
from torch_tile.frontend.launches.options import attributes_on_gpu, is_tensor
from torch_tile.language.launch_options import options_of

log = logging.getLogger(__name__)
# An integer that stands for one whose value is not known: kernels see int64.
_UNKNOWN = 1 << 40


def _is_launch(node: Node) -> bool:
    if node.op != "call_function" or "auto_functionalized_v2" not in str(node.target):
        return False
    return str(node.args[0]) == "torch_tile.launch.default"


class _Launch:
    """What a node says, in the form that `Rewriter` expects."""

    def __init__(self, node: Node) -> None:
        from torch_tile.language.graph import find

        self.node = node
        self.recorded: dict[str, Any] = dict(node.kwargs)
        self.kernel, self.templates, configs, hints = find(self.recorded["key"])
        self.options = options_of(hints)
        self.function_name = "".join(c if c.isalnum() and c.isascii() else "_" for c in self.kernel.fn.__name__)
        if config.get("interpret"):
            raise NotNative("kernels are interpreted")
        if configs is not None or hasattr(self.kernel, "kernel"):
            raise NotNative("constants that are chosen at the launch")
        bases: list[Node] = list(self.recorded["_all_bases"])
        values = node.meta["val"]
        self.base_of: dict[str, int] = {}
        self.written: list[str] = []
        self.arguments: dict[str, Any] = {}
        self.results: dict[str, torch.Tensor] = {}
        for k in range(self.recorded["_written_length"]):
            fields = {name for name in self.recorded if name.startswith(f"_written_{k}_")}
            index = self.recorded[f"_written_{k}_base_index"]
            if fields != {f"_written_{k}_base_index"} or index in self.base_of.values():
                raise NotNative("a view that is written")
            name = f"written {k}"
            self.written.append(name)
            self.base_of[name] = index
            self.arguments[name] = bases[index]
            self.results[name] = values[1 + index] if values is not None else bases[index].meta["val"]
        for kind in ("read", "integers", "floats"):
            for k, value in enumerate(self.recorded[kind]):
                self.arguments[f"{kind} {k}"] = value
        devices = set()
        for value in self.arguments.values():
            tensor = value.meta["val"] if isinstance(value, Node) else None
            if isinstance(tensor, torch.Tensor):
                devices.add(tensor.device)
            if isinstance(tensor, (float, torch.SymFloat)):
                raise NotNative("a float that depends on sizes")
        if len(devices) > 1 or any(device.type not in ("cpu", "cuda") for device in devices):
            raise NotNative(f"tensors on {', '.join(sorted(map(str, devices)))}, expected one CPU or CUDA device")
        self.device: torch.device | None = next((d for d in devices if d.type == "cuda"), None)

    def results_of(self, name: str) -> list[Node]:
        return [user for user in self.node.users if user.args[1] == 1 + self.base_of[name]]

    def trace(self) -> tuple[str, list[Any], list[Any], list[str]]:
        """Text of the kernel, its arguments, the grid, and the names of the arguments."""
        from torch_tile.language.compile import trace
        from torch_tile.language.graph import bind_named, flat_arguments, sample_arguments

        names: list[str] = []
        sources: dict[str, Iterator[str]] = {
            letter: iter([n for n in self.arguments if n.startswith(kind)])
            for letter, kind in (("w", "written"), ("r", "read"), ("i", "integers"), ("f", "floats"))
        }
        for template in self.templates.values():
            names += flat_arguments(template, sources)
        values = [self.arguments[n] for n in names]
        stand_ins = [
            torch.empty((), dtype=v.meta["val"].dtype)
            if isinstance(v, Node) and isinstance(v.meta["val"], torch.Tensor)
            else _UNKNOWN
            if isinstance(v, Node)
            else v
            for v in values
        ]
        bound = bind_named(self.kernel, sample_arguments(self.templates, iter(stand_ins)))
        text = trace(self.kernel, bound, self.device).text
        if self.device is not None:  # kernels of graphs for GPU take their pointers first
            order = sorted(range(len(values)), key=lambda k: not is_tensor(values[k]))
            values, names = [values[k] for k in order], [names[k] for k in order]
        return f"module {{\n{text}}}\n", values, list(self.recorded["grid"]), names

    def attributes(self, arguments: list[Any], is_distinct: bool) -> list[str]:
        """What the kernel's module says of this launch, for a GPU; see csrc/compiler/driver/Compile.cpp."""
        if self.device is None:
            return []
        return attributes_on_gpu(arguments, is_distinct, self.options)


class _Rewriter(Rewriter):
    def trace(self, launch: Any) -> Any:
        return launch.trace()

    def attributes(self, launch: Any, arguments: list[Any], is_distinct: bool) -> list[str]:
        found: list[str] = launch.attributes(arguments, is_distinct)
        return found


def replace_language_kernels(gm: GraphModule) -> GraphModule:
    """The graph with launches as kernels of its program, where that is possible; as it is if there are none."""
    nodes = [n for n in gm.graph.nodes if _is_launch(n)]
    if not nodes:
        return gm
    gm = own_copy(gm)
    rewriter = _Rewriter(gm)
    for node in reversed([n for n in gm.graph.nodes if _is_launch(n)]):
        try:
            launch: Any = _Launch(node)
            rewriter.rewrite(launch)
        except NotNative as reason:
            log.info("kernel %s is launched through Python: %s", node.kwargs["key"], reason)
        except TileError as error:
            # Other types than those of this trace may suit the kernel.
            log.info("kernel %s is launched through Python: %s", node.kwargs["key"], error)
    gm.recompile()
    return gm
