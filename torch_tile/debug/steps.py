"""The listing of a step program (`Program.steps`) as data: values, and the steps that read and write them."""

from __future__ import annotations

import dataclasses
import math
import re
from typing import Any

# Bytes of an element, by the listing's name of its type.
ELEMENT_BYTES = {
    "f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ui8": 1, "i1": 1, "ui16": 2,
    "ui32": 4, "ui64": 8, "complex<f16>": 4, "complex<f32>": 8, "complex<f64>": 16,
}  # fmt: skip

_SLOT = re.compile(r"%(\d+)")
_LAUNCH = re.compile(
    r"launch (\S+?)\((.*)\) programs (.+?), ns each (.+?), scratch .+?, moves (.+?) bytes(?:, writes (.*))?$"
)
_CALL = re.compile(r"(?:(.*?) = )?(extern|pycall) (\S+?)\((.*)\)$")
_CONTROL = re.compile(r"(?:(.*?) = )?((call|cond|while|while_stack|map|scan) @[^(]*)\((.*)\)$")
_VALUE = re.compile(r"(?:%(\d+) = alloc |input \d+: %(\d+) )(\S+) \[(.*?)\] strides")
_ALIAS = re.compile(r"%(\d+) = alias %(\d+) \[(.*?)\]")
_RESULT_TYPES = re.compile(r"!graph\.tensor<\[(.*?)\], ([^,>]+(?:<\w+>)?)")


@dataclasses.dataclass
class Value:
    """A tensor that steps hand on. `bytes` is None where a size is symbolic or the type is not known."""

    type: str = ""
    sizes: list[str] = dataclasses.field(default_factory=list)
    is_input: bool = False
    is_output: bool = False

    @property
    def bytes(self) -> int | None:
        if self.type not in ELEMENT_BYTES and not self.type.startswith("f8"):
            return None
        if not all(size.isdigit() for size in self.sizes):
            return None
        return math.prod(map(int, self.sizes)) * ELEMENT_BYTES.get(self.type, 1)

    def __str__(self) -> str:
        return f"{self.type}[{', '.join(self.sizes)}]"


@dataclasses.dataclass
class Step:
    """A launch of a kernel (`kernel`), a call of the dispatcher (`call`) or Python (`python`), or `control` flow."""

    kind: str
    name: str
    reads: list[int]
    writes: list[int]
    lines: list[int]
    bytes_moved: int | None = None
    predicted_ns: int | None = None
    """By the cost model, on one thread."""


@dataclasses.dataclass
class StepProgram:
    values: dict[int, Value]
    steps: list[Step]
    inputs: list[int]
    outputs: list[int]

    def as_json(self) -> dict[str, Any]:
        return {
            "values": {
                slot: {"text": str(value), "bytes": value.bytes, "input": value.is_input, "output": value.is_output}
                for slot, value in self.values.items()
            },
            "steps": [dataclasses.asdict(step) for step in self.steps],
        }


def _integer(text: str) -> int | None:
    return int(text) if text.lstrip("-").isdigit() else None


def _sizes(text: str) -> list[str]:
    """Splits a list of size expressions at its outer commas."""
    parts, depth = [""], 0
    for c in text:
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip().strip('"') for part in parts if part.strip()]


def result_types(graph_line: str) -> list[tuple[str, list[str]]]:
    """Type and sizes of the results of an operation of the graph dialect."""
    _, arrow, types = graph_line.rpartition(" -> ")
    return [(kind, _sizes(sizes)) for sizes, kind in _RESULT_TYPES.findall(types)] if arrow else []


def parse(listing: str, graph_text: str = "") -> StepProgram:
    """Reads what `Program.steps` prints.

    Args:
        listing: the text; what it does not know is left out.
        graph_text: the graph that the program was compiled from, which has the types of what calls return.
    """
    graph_lines = graph_text.splitlines()
    program = StepProgram({}, [], [], [])
    root: dict[int, int] = {}  # a slot that is a view, and whose memory it is
    for line in listing.splitlines():
        if line.startswith("body @"):
            break  # bodies have slots of their own
        text, _, comment = line.strip().partition("  // line ")
        lines = [int(n) for n in comment.split(", ") if n.isdigit()]
        if found := _VALUE.match(text):
            slot = int(found[1] or found[2])
            program.values[slot] = Value(found[3], _sizes(found[4]), is_input=found[1] is None)
            if found[1] is None:
                program.inputs.append(slot)
        elif found := _ALIAS.match(text):
            source = int(found[2])
            root[int(found[1])] = root.get(source, source)
        elif text.startswith("launch "):
            if step := _launch(text, lines):
                program.steps.append(step)
        elif found := _CALL.match(text):
            results, kind, name, arguments = found.groups()
            program.steps.append(_call(results, kind, name, arguments, lines, graph_lines, program))
        elif found := _CONTROL.match(text):
            results, name, _, arguments = found.groups()
            program.steps.append(_call(results, "control", name, arguments, lines, graph_lines, program))
        elif text.startswith("return"):
            program.outputs = [int(slot) for slot in _SLOT.findall(text)]
    written = set(program.inputs)
    for step in program.steps:
        step.writes = list(dict.fromkeys(root.get(slot, slot) for slot in step.writes))
        # Written in place: what was there before may be read as well.
        reads = [root.get(slot, slot) for slot in step.reads] + [slot for slot in step.writes if slot in written]
        step.reads = list(dict.fromkeys(reads))
        written.update(step.writes)
        if step.kind != "kernel":
            step.bytes_moved = _bytes_of({*step.reads, *step.writes}, program)
    for slot in program.outputs:
        if value := program.values.get(root.get(slot, slot)):
            value.is_output = True
    return program


def _bytes_of(slots: set[int], program: StepProgram) -> int | None:
    """Bytes of all of these values; None where one is not known."""
    sizes = [program.values[slot].bytes if slot in program.values else None for slot in slots]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def _launch(text: str, lines: list[int]) -> Step | None:
    found = _LAUNCH.match(text)
    if found is None:
        return None
    name, arguments, programs, ns, moved, written = found.groups()
    slots = [int(slot) for slot in _SLOT.findall(arguments.partition(";")[0])]
    writes = [int(slot) for slot in _SLOT.findall(written or "")]
    cost = (_integer(programs), _integer(ns))
    predicted = cost[0] * cost[1] if cost[0] is not None and cost[1] is not None else None
    reads = [slot for slot in slots if slot not in writes]
    return Step("kernel", name, reads, writes, lines, _integer(moved), predicted)


def _call(
    results: str | None,
    kind: str,
    name: str,
    arguments: str,
    lines: list[int],
    graph_lines: list[str],
    program: StepProgram,
) -> Step:
    writes = [int(slot) for slot in _SLOT.findall(results or "")]
    types = result_types(graph_lines[lines[-1] - 1]) if lines and lines[-1] <= len(graph_lines) else []
    # An unused result is printed as "_".
    places: list[str] = re.findall(r"%\d+|(?<![\w\]])_(?!\w)", results or "")
    for place, part in enumerate(places):
        if part.startswith("%"):
            type_, sizes = types[place] if len(types) == len(places) else ("", [])
            program.values[int(part[1:])] = Value(type_, sizes)
    reads = [int(slot) for slot in _SLOT.findall(arguments)]
    kind = {"extern": "call", "pycall": "python"}.get(kind, kind)
    return Step(kind, name, list(dict.fromkeys(reads)), writes, lines)
