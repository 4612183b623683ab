"""A random program: inputs, lines of plain PyTorch, outputs. It prints as a script that needs torch alone."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

import torch

NAME = re.compile(r"\b[xv]\d+\b")
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

# What `eager` and we do alike, from strict to loose; `analysis.py` says which values each rule leaves exact.
VIEW = "view"  # shares memory with its first operand, or moves elements
EXACT = "exact"  # moves, minima, integer arithmetic: the same bits, in every dtype
CHOICE = "choice"  # an answer that jumps: comparisons, rounding to integers, orders
ARITH = "arith"  # one IEEE operation; in low precision its rounding may be elided
SUM = "sum"  # any order of additions: exact only while all partial sums are integers that the dtype holds
ROUND = "round"  # anything else that is continuous
BITS = "bits"  # reads the bits of its operand as another dtype


@dataclasses.dataclass(frozen=True)
class Line:
    """One statement. Its targets are the names left of `=`, or the first name of a write in place."""

    text: str
    rule: str

    @property
    def targets(self) -> list[str]:
        left, equals, _ = self.text.partition(" = ")
        return NAME.findall(left) if equals and "[" not in left and "(" not in left else []

    @property
    def operands(self) -> list[str]:
        left, equals, right = self.text.partition(" = ")
        return NAME.findall(right if equals and "[" not in left and "(" not in left else self.text)

    @property
    def writes(self) -> bool:
        return not self.targets


@dataclasses.dataclass(frozen=True)
class Input:
    """A tensor argument over a base of its own, or in the memory of an earlier argument.

    Sizes are names of `Program.sizes`, so that the same program has inputs of other sizes.
    """

    dtype: torch.dtype
    shape: tuple[str, ...]
    layout: str = "contiguous"  # permuted, stepped, offset, expanded, overlapping, negative, conjugated
    values: str = "integers"  # eighths, uniform, special
    seed: int = 0
    shares: int | None = None
    """Lies in the memory of that argument: as `layout` says, one of same, tail, transposed, stepped, flat."""
    requires_grad: bool = False

    def base(self, shape: tuple[int, ...], device: str = "cpu") -> tuple[str, str]:
        """The expression that makes the memory, and the one that makes the argument of it."""
        if device != "cpu":
            filled, view = self.base(shape)
            return f"({filled}).to({device!r})", view
        if self.layout == "permuted" and len(shape) > 1:
            return self._filled(tuple(reversed(shape))), f".permute({', '.join(map(str, reversed(range(len(shape)))))})"
        if self.layout == "stepped" and shape:
            return self._filled((*shape[:-1], 2 * shape[-1] + 1)), "[..., 1::2]"
        if self.layout == "offset" and shape:
            return self._filled((shape[0] + 1, *shape[1:])), "[1:]"
        if self.layout == "expanded" and shape:
            return self._filled((1, *shape[1:])), f".expand({shape!r})"
        if self.layout == "overlapping" and len(shape) > 1 and 0 not in shape:
            strides = [1] * len(shape)
            count = sum(n - 1 for n in shape) + 1
            return self._filled((count,)), f".as_strided({shape!r}, {tuple(strides)!r})"
        if self.layout == "negative" and self.dtype.is_floating_point:
            return f"torch.complex({self._filled(shape, torch.float32)}, {self._filled(shape, torch.float32)})", (
                ".conj().imag"
            )
        if self.layout == "conjugated" and self.dtype.is_complex:
            return self._filled(shape), ".conj()"
        return self._filled(shape), ""

    def _filled(self, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> str:
        dtype = dtype or self.dtype
        draw = f"generator=torch.Generator().manual_seed({self.seed}), device='cpu'"
        if dtype.is_complex:
            part = torch.float64 if dtype == torch.complex128 else torch.float32
            return f"torch.complex({self._filled(shape, part)}, {self._filled(shape, part)} + 1)"
        if dtype == torch.bool:
            return f"torch.randint(0, 2, {shape!r}, {draw}).bool()"
        if dtype == torch.uint8:
            return f"torch.randint(0, {256 if self.values == 'special' else 9}, {shape!r}, {draw}).to({dtype})"
        if self.values == "special":
            listed = SPECIAL if dtype.is_floating_point else f"[{_extremes(dtype)}]"
            count = len(SPECIAL_VALUES) if dtype.is_floating_point else 8
            return f"torch.tensor({listed}, dtype={dtype}, device='cpu')[torch.randint(0, {count}, {shape!r}, {draw})]"
        if self.values == "uniform" and dtype.is_floating_point:
            return f"(torch.rand({shape!r}, {draw}) * 4 - 2).to({dtype})"
        scale = " / 8" if self.values == "eighths" and dtype.is_floating_point else ""
        return f"(torch.randint(-8, 9, {shape!r}, {draw}){scale}).to({dtype})"


SPECIAL_VALUES = (
    "inf", "-inf", "nan", "0.", "-0.", "1.", "-1.", "3e38", "-3e38", "1e-38", "-1e-45", ".1", "65504.",
    "-300.", "2.5", "7.",
)  # fmt: skip
SPECIAL = "[" + ", ".join(f"float('{v}')" if v[-1] in "fn" else v for v in SPECIAL_VALUES) + "]"


def _extremes(dtype: torch.dtype) -> str:
    info = torch.iinfo(dtype)
    return f"{info.min}, {info.max}, 0, 1, -1, 7, {info.max // 2 + 1}, -100"


_SHARED = {
    "tail": "{0}[{0}.shape[0] // 2:]",
    "transposed": "{0}.transpose(0, -1)",
    "stepped": "{0}[::2]",
    "flat": "{0}.as_strided(({0}.numel(),), (1,), {0}.storage_offset())",
    "head": "{0}[:1]",
}


@dataclasses.dataclass(frozen=True)
class Program:
    profile: str
    inputs: tuple[Input, ...]
    lines: tuple[Line, ...]
    outputs: tuple[str, ...]
    sizes: Mapping[str, int]
    other_sizes: Mapping[str, int]
    """Of the second call, where sizes are dynamic."""
    mode: str = "static"  # dynamic, marked
    training: bool = False
    emulate: bool = False
    retain: bool = False
    """Two backward passes of one graph, for which AOTAutograd may not donate its buffers."""
    device: str = "cpu"
    """Of the arguments, and of what the program makes."""

    def body(self) -> list[str]:
        return [
            *(line.text for line in self.lines),
            f"return {', '.join(self.outputs)}{',' * (len(self.outputs) == 1)}",
        ]

    def source(self) -> str:
        arguments = ", ".join(f"x{i}" for i in range(len(self.inputs)))
        return f"def f({arguments}):\n" + textwrap.indent("\n".join(self.body()), "    ") + "\n"

    def function(self) -> Callable[..., Any]:
        return _defined(self.source(), "f", {})

    def inputs_source(self, sizes: Mapping[str, int]) -> str:
        """A function that makes the arguments, and their storages as they lie in memory."""
        lines = []
        for i, each in enumerate(self.inputs):
            if each.shares is not None:
                other = f"x{each.shares}"
                text = other if each.layout == "same" else _SHARED[each.layout].format(other)
                lines.append(f"x{i} = {text}")
                continue
            base, view = each.base(tuple(int(s) if s.isdigit() else sizes[s] for s in each.shape), self.device)
            lines.append(f"x{i} = {base}{view}")
        lines += [f"x{i}.requires_grad_()" for i, each in enumerate(self.inputs) if each.requires_grad]
        lines.append(f"return [{', '.join(f'x{i}' for i in range(len(self.inputs)))}]")
        return "def inputs():\n" + textwrap.indent("\n".join(lines), "    ") + "\n"

    def make_inputs(self, sizes: Mapping[str, int] | None = None) -> list[torch.Tensor]:
        made: list[torch.Tensor] = _defined(self.inputs_source(sizes or self.sizes), "inputs", {})()
        return made

    def script(self, what: str) -> str:
        """A program of plain PyTorch that shows the finding."""
        custom = any("fuzz_" in line.text for line in self.lines)
        options = {"strict": True, **({"emulate_precision_casts": True} if self.emulate else {})}
        parts = [
            "\n".join(f"# {line}" for line in what.splitlines()[:12]),
            "import torch" + ("\nimport tests.fuzz.custom" if custom else ""),
            "torch._dynamo.config.capture_dynamic_output_shape_ops = True",
            *(["torch._functorch.config.donated_buffer = False"] if self.retain else []),
            self.source(),
            self.inputs_source(self.sizes),
        ]
        dynamic = "True" if self.mode == "dynamic" else "None" if self.mode == "marked" else "False"
        run = [f'compiled = torch.compile(f, backend="tile", dynamic={dynamic}, options={options})']
        calls = ["inputs"]
        if self.mode != "static":
            parts.append(self.inputs_source(self.other_sizes).replace("def inputs", "def other_inputs"))
            calls.append("other_inputs")
        for call in calls:
            mark = "; [torch._dynamo.maybe_mark_dynamic(t, d) for t in given for d in range(t.dim())]"
            run += [
                f"expected_inputs, given = {call}(), {call}()" + mark * (self.mode == "marked"),
                "expected, result = f(*expected_inputs), compiled(*given)",
                "for a, b in zip((*expected, *expected_inputs), (*result, *given)):",
                "    print('eager', a)\n    print('tile ', b)",
            ]
            if self.training:
                run += [
                    "for values, leaves in ((expected, expected_inputs), (result, given)):",
                    "    print(torch.autograd.grad([v.sum() for v in values if v.requires_grad],",
                    "        [t for t in leaves if t.requires_grad], allow_unused=True))",
                ]
        return "\n".join([*parts, *run]) + "\n"


_NEW = re.compile(r"\btorch\.(?:arange|tensor|zeros|ones|full|linspace|eye)\(")


def on_device(program: Program, device: str) -> Program:
    """The same program with its arguments, and what it makes of numbers alone, on that device."""
    if device == program.device:
        return program
    lines = tuple(Line(_located(line.text, device), line.rule) for line in program.lines)
    return dataclasses.replace(program, lines=lines, device=device)


def _located(text: str, device: str) -> str:
    begins = [found.end() for found in _NEW.finditer(text)]
    for begin in reversed(begins):
        depth, end = 1, begin
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        text = f"{text[: end - 1]}, device={device!r}{text[end - 1 :]}"
    return text


def _defined(source: str, name: str, namespace: dict[str, Any]) -> Any:
    import linecache

    from tests.fuzz import custom  # noqa: F401  registers the operators

    namespace["torch"] = torch
    filename = f"<fuzz {hash(source) & 0xFFFFFFFF:x}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), namespace)
    return namespace[name]
