"""Whole graphs for a GPU, run on the CPU (tests/gpu/simulator.py): every kernel of a function, one after the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func

from tests.gpu import simulator
from tests.gpu.simulator_instructions import split
from torch_tile import _C

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "ui8": torch.uint8,
    "i1": torch.bool,
}
SIGNATURE = r"graph\.func @\w+\((.*?)\) (?:->|attributes) "
_TENSOR = r"(?:!graph\.tensor)?<\[(.*?)\], (\w+)(?:, \[(.*?)\])?>"


def compile_for_gpu(
    function: Callable[..., Any], *arguments: Any, dynamic: bool = False, alternative: int = 0
) -> dict[str, str]:
    """The stages of a function's compilation for a GPU, of which each tensor is taken to be there. `alternative`: the
    number of the schedules, of those that may be timed."""
    import torch_tile.frontend.aot as aot
    from torch_tile.frontend.decompositions import short_scans

    found: list[dict[str, str]] = []

    def compile_graph(gm: Any, inputs: Any, kind: str, settings: Any) -> Any:
        files: dict[str, str] = {}
        text = _C.print_graph(gm).text
        options = {"target": "sm_90", "schedules": ",".join([str(alternative)] * 8)}
        _C.compile_graph(text, options, None, 0, files.__setitem__, [None] * 64, device="cuda:0", architecture="sm_90")
        found.append(files)
        return make_boxed_func(gm.forward)

    torch.compiler.reset()
    # The tensors are traced on the CPU, where short scans are partial sums; a GPU gets scans.
    with mock.patch.object(aot, "compile_graph", compile_graph), mock.patch.object(short_scans, "_LONGEST", 0):
        torch.compile(function, backend="tile", fullgraph=True, dynamic=dynamic)(*arguments)
    (files,) = found
    return files


def schedules(files: dict[str, str]) -> list[str]:
    return re.findall(r'schedule = "(.*?)"', files["30-tile.mlir"])


class SimulatedGraph:
    """The kernels of a graph without library calls, and the order of their launches."""

    def __init__(self, files: dict[str, str]) -> None:
        self.tiles = files["30-tile.mlir"]
        pieces = re.split(r"^; (\w+) = tile_\w+\n", files["50-kernel.ll"], flags=re.M)
        self.kernels = {name: simulator.Simulated(ir) for name, ir in zip(pieces[1::2], pieces[2::2], strict=True)}
        bodies = {
            name: re.sub(r'lines = array<.*?>|schedule = ".*?"', "", body)
            for name, body in re.findall(r"tile\.kernel @(\w+)(.*?)\n  }", self.tiles, flags=re.S)
        }
        for name, body in bodies.items():  # equal kernels are one
            if name not in self.kernels:
                self.kernels[name] = next(self.kernels[k] for k, b in bodies.items() if b == body and k in self.kernels)
        self.parts: dict[str, torch.Tensor] = {}
        self.symbols: dict[str, Any] = {"Mod": lambda a, b: a % b, "Max": max, "Min": min}

    def sizes(self, text: str) -> list[int]:
        return [int(eval(part.strip(' "'), {}, self.symbols)) for part in split(text)]

    def run(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        signature = re.search(SIGNATURE, self.tiles)
        assert signature is not None and "graph.extern" not in self.tiles
        values: dict[str, Any] = {}
        for (name, sizes, _dtype, _), tensor in zip(
            re.findall(rf"(%arg\d+): {_TENSOR}", signature.group(1)), arguments, strict=True
        ):
            values[name] = tensor
            for part, size in zip(re.findall(r"[^, ]+", sizes), tensor.shape, strict=True):
                if symbol := re.fullmatch(r'"(\w+)"', part):
                    self.symbols[symbol.group(1)] = size
        for line in self.tiles.splitlines():
            if "graph.assemble" in line:
                self.make_room(line, values)
        for line in self.tiles.splitlines():
            if "graph.launch" in line:
                self.launch(line, values)
            elif "graph.alias" in line:
                self.alias(line, values)
            elif found := re.search(r"(%\w+) = graph\.size \{expr = #graph\.expr<(.*?)>\}", line):
                values[found.group(1)] = self.sizes(found.group(2))[0]
            elif found := re.search(r"(%\w+) = graph\.none", line):
                values[found.group(1)] = None
            elif "graph.return" in line:
                returned = re.search(r"graph\.return (?:\{.*?\} )?(%.*?) :", line)
                return tuple(values[name] for name in returned.group(1).split(", ")) if returned else ()
        raise AssertionError("nothing is returned")

    def make_room(self, line: str, values: dict[str, Any]) -> None:
        """The memory of a tensor of which launches compute the parts."""
        found = re.search(r"(%\w+) = graph\.assemble (%.*?) \{dim = (\d+) : i64\} : (.*) -> (.*)$", line)
        assert found is not None, line
        result, parts, dim, part_types, type_ = found.groups()
        values[result] = self.empty(type_)
        begin = 0
        for name, (sizes, _dtype, _) in zip(parts.split(", "), re.findall(_TENSOR, part_types), strict=True):
            length = self.sizes(sizes)[int(dim)]
            self.parts[name] = values[result].narrow(int(dim), begin, length)
            begin += length

    def empty(self, type_: str) -> torch.Tensor:
        ((sizes, dtype, strides),) = re.findall(_TENSOR, type_)
        shape = self.sizes(sizes)
        steps = self.sizes(strides) if strides else list(torch.empty(shape, device="meta").stride())
        return torch.empty_strided(shape, steps, dtype=DTYPES[dtype]).fill_(77 if dtype != "i1" else 1)

    def alias(self, line: str, values: dict[str, Any]) -> None:
        parts = re.search(r"(%\w+) = graph\.alias (%[\w#]+) \{offset = #graph\.expr<(.*?)>\} : .*? -> " + _TENSOR, line)
        assert parts is not None, line
        result, source, offset, sizes, _dtype, strides = parts.groups()
        shape = self.sizes(sizes)
        steps = self.sizes(strides) if strides else list(torch.empty(shape, device="meta").stride())
        first = values[source].storage_offset() + self.sizes(offset)[0]
        values[result] = values[source].as_strided(shape, steps, first)

    def launch(self, line: str, values: dict[str, Any]) -> None:
        parts = re.search(
            r"(%\w+)(?::\d+)? = graph\.launch @(\w+)\((.*?)\) integers \[(.*?)\] programs (\S+|\".*?\") cost .*?"
            r"writes \[(.*?)\] .*?: \(.*?\) -> (.*)$",
            line,
        )
        assert parts is not None, line
        result, kernel, inputs, integers, programs, writes, types = parts.groups()
        operands = [values[name] for name in inputs.split(", ") if name]
        results = []
        made = re.findall(r"!graph\.tensor<.*?>(?=, !|\)|$)", types)
        names = [result] if len(made) == 1 else [f"{result}#{k}" for k in range(len(made))]
        for name, write, type_ in zip(names, self.sizes(writes), made, strict=True):
            if write >= 0:
                results.append(operands[write])
            else:
                results.append(self.parts[name] if name in self.parts else self.empty(type_))
        new = [tensor for tensor, write in zip(results, self.sizes(writes), strict=True) if write < 0]
        numbers = [tensor.data_ptr() for tensor in (*operands, *new)] + self.sizes(integers)
        (count,) = self.sizes(programs)
        blocks = count
        text = self.tiles[self.tiles.index(f"tile.kernel @{kernel}(") :]
        header = text[: text.index("\n")] + text[text.index("attributes") : text.index("schedule")]
        if several := re.search(r"tile\.programs_per_block = (\d+)", header):
            numbers.append(count)
            blocks = -(-count // int(several.group(1)))
        if blocks > 0:
            self.kernels[kernel].run((blocks, 1, 1), numbers)
        values.update(zip(names, results, strict=True))


def in_order(files: dict[str, str], arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    """Arguments as the graph takes them; those of one shape and dtype stand in its order."""
    rest, found = list(arguments), []
    signature = files["30-tile.mlir"].split(") -> ")[0]
    for sizes, dtype in re.findall(r"!graph\.tensor<\[(.*?)\], (\w+)", signature):
        shape = [int(size) for size in sizes.split(", ") if size]
        match = next(k for k, a in enumerate(rest) if list(a.shape) == shape and a.dtype == DTYPES[dtype])
        found.append(rest.pop(match))
    assert not rest
    return found


def beside_eager(
    function: Callable[..., Any], files: dict[str, str], arguments: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The results of a function's kernels, and those of the function itself."""
    found = SimulatedGraph(files).run(*in_order(files, arguments))
    expected = function(*arguments)
    return list(found), [expected] if isinstance(expected, torch.Tensor) else list(expected)
