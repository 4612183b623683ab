"""Writes artifact bytes (csrc/artifact/Serialize.cpp) from Python, so that runtime tests need no compiler."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

# fmt: off
ELEMENT_TYPES = [
    "f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "ui8", "i1",
    "f8e4m3", "f8e5m2", "c64", "c128", "ui16", "ui32", "ui64",
]
EXPR_OPS = [
    "Constant", "Symbol", "Add", "Mul", "FloorDiv", "Mod", "PythonMod", "CleanDiv", "TruncDiv", "Min", "Max", "CeilDiv",
]
VALUE_KINDS = [
    "None", "Tensor", "Int", "Float", "Bool", "String", "DType", "Device", "Layout", "MemoryFormat", "List",
]
# fmt: on
CONTROL_KINDS = ["Call", "Cond", "While", "WhileStack", "Map", "Scan"]
SYMBOL_KINDS = ["Scalar", "Size", "Stride", "ExternResult"]

Size = int | str | tuple  # a number, a symbol, or (op, a, b)


@dataclass(frozen=True)
class Slot:
    number: int


@dataclass(frozen=True)
class Torch:
    """A dtype, device, layout or memory format: Torch("DType", "float32")."""

    kind: str
    text: str


def uint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def sint(value: int) -> bytes:
    return uint((value << 1 ^ value >> 63) & (1 << 64) - 1)


def text(value: str) -> bytes:
    data = value.encode()
    return uint(len(data)) + data


def rows(items: Sequence[bytes]) -> bytes:
    return uint(len(items)) + b"".join(items)


def contiguous(sizes: Sequence[Size]) -> list[Size]:
    strides: list[Size] = [1]
    for size in reversed(sizes[1:]):
        last = strides[0]
        strides.insert(0, size * last if isinstance(size, int) and isinstance(last, int) else ("Mul", size, last))
    return strides if sizes else []


@dataclass
class Builder:
    version: int = 10
    symbols: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)
    exprs: list[bytes] = field(default_factory=list)
    inputs: list[bytes] = field(default_factory=list)
    kernels: list[bytes] = field(default_factory=list)
    steps: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    num_slots: int = 0
    shared: dict[int, list[int]] = field(default_factory=dict)

    def _source(self, symbol: tuple[str, int, int, int, int, int]) -> bytes:
        _, kind, index, dim, least, greatest = symbol
        ranges = sint(least) + sint(greatest) if self.version > 9 else b""
        return bytes([kind]) + uint(index) + uint(dim) + ranges

    def symbol(
        self, name: str, kind: str, index: int, dim: int = 0, least: int = -(2**63), greatest: int = 2**63 - 1
    ) -> str:
        self.symbols.append((name, SYMBOL_KINDS.index(kind), index, dim, least, greatest))
        return name

    def expr(self, size: Size) -> bytes:
        instructions: list[bytes] = []

        def walk(e: Size) -> None:
            if isinstance(e, int):
                instructions.append(b"\0" + sint(e))
            elif isinstance(e, str):
                instructions.append(b"\1" + sint([s[0] for s in self.symbols].index(e)))
            else:
                walk(e[1])
                walk(e[2])
                instructions.append(bytes([EXPR_OPS.index(e[0])]))

        walk(size)
        self.exprs.append(uint(len(instructions)) + b"".join(instructions))
        return uint(len(self.exprs) - 1)

    def exprs_of(self, sizes: Sequence[Size]) -> bytes:
        return uint(len(sizes)) + b"".join(self.expr(s) for s in sizes)

    def shape(self, sizes: Sequence[Size], strides: Sequence[Size] | None) -> bytes:
        return self.exprs_of(sizes) + self.exprs_of(contiguous(sizes) if strides is None else strides)

    def new_slot(self) -> Slot:
        self.num_slots += 1
        return Slot(self.num_slots - 1)

    def input(self, sizes: Sequence[Size], strides: Sequence[Size] | None = None, dtype: str = "f32") -> Slot:
        slot = self.new_slot()
        self.inputs.append(b"\0" + uint(slot.number) + bytes([ELEMENT_TYPES.index(dtype)]) + self.shape(sizes, strides))
        return slot

    def int_input(self) -> None:
        self.inputs.append(b"\1")

    def kernel(self, name: str, symbol: str, digest: bytes, code: bytes) -> int:
        self.kernels.append(
            text(name)
            + text(symbol)
            + text("cpu")
            + uint(0)
            + uint(1)
            + uint(0)
            + uint(0)
            + digest
            + uint(len(code))
            + code
            + uint(0)
        )
        return len(self.kernels) - 1

    def step(self, kind: int, data: bytes, lines: Sequence[int] = ()) -> None:
        self.steps.append(bytes([kind]) + data + uint(len(lines)) + b"".join(uint(line) for line in lines))

    def alloc(self, sizes: Sequence[Size], strides: Sequence[Size] | None = None, dtype: str = "f32") -> Slot:
        slot = self.new_slot()
        self.step(0, uint(slot.number) + bytes([ELEMENT_TYPES.index(dtype)]) + self.shape(sizes, strides))
        return slot

    def free(self, slot: Slot) -> None:
        self.step(1, uint(slot.number))

    def alias(self, source: Slot, sizes: Sequence[Size], strides: Sequence[Size], offset: Size = 0) -> Slot:
        slot = self.new_slot()
        shape = self.shape(sizes, strides)
        self.step(2, uint(slot.number) + uint(source.number) + shape + self.expr(offset))
        return slot

    def launch(
        self,
        kernel: int,
        pointers: Sequence[Slot],
        integers: Sequence[Size],
        programs: Size,
        cost_ns: Size = 1,
        scratch: Size = 0,
        moved: Size = 0,
        lines: Sequence[int] = (),
        written: Sequence[int] | None = None,
    ) -> None:
        """`written`: which of the pointers; without it the last one."""
        written = [len(pointers) - 1] if written is None else written
        data = uint(kernel) + uint(len(pointers)) + b"".join(uint(p.number) for p in pointers)
        data += uint(len(written)) + b"".join(uint(number) for number in written)
        data += self.exprs_of(integers)
        data += self.expr(programs) + uint(0) + self.expr(cost_ns) + self.expr(scratch) + self.expr(moved)
        self.step(3, data, lines)

    def value(self, value: Any) -> bytes:
        if value is None:
            return b"\0"
        if isinstance(value, Slot):
            return b"\1" + uint(value.number)
        if isinstance(value, bool):
            return bytes([4, value])
        if isinstance(value, (int, tuple)):
            return b"\2" + self.expr(value)
        if isinstance(value, float):
            return b"\3" + struct.pack("<d", value)
        if isinstance(value, Torch):
            return bytes([VALUE_KINDS.index(value.kind)]) + text(value.text)
        if isinstance(value, list):
            return b"\x0a" + uint(len(value)) + b"".join(self.value(v) for v in value)
        if value in [s[0] for s in self.symbols]:
            return b"\2" + self.expr(value)
        return b"\5" + text(value)

    def results(self, shapes: Sequence[Any]) -> tuple[bytes, list[Slot]]:
        """One shape per result: sizes, (sizes, strides), (sizes, strides, dtype), or None for one that is not used."""
        data, slots = uint(len(shapes)), []
        for shape in shapes:
            if shape is None:
                data += b"\0"
                continue
            slot = self.new_slot()
            slots.append(slot)
            sizes, strides, *dtypes = shape if isinstance(shape, tuple) else (shape, None)
            data += b"\1" + uint(slot.number) + self.shape(sizes, strides)
            data += bytes([1, ELEMENT_TYPES.index(dtypes[0])]) if dtypes else b"\0"
        return data, slots

    def extern(self, op: str, args: Sequence[Any], shapes: Sequence[Any], lines: Sequence[int] = ()) -> list[Slot]:
        name, _, overload = op.partition(".")
        data = text(name) + text(overload) + uint(len(args)) + b"".join(self.value(a) for a in args)
        results, slots = self.results(shapes)
        self.step(4, data + results, lines)
        return slots

    def pycall(self, number: int, args: Sequence[Any], shapes: Sequence[Any]) -> list[Slot]:
        data = uint(number) + uint(len(args)) + b"".join(self.value(a) for a in args)
        results, slots = self.results(shapes)
        self.step(5, data + results)
        return slots

    def check(self, condition: Size, message: str) -> None:
        self.step(6, self.expr(condition) + text(message))

    def share(self, slot: Slot, *places: int) -> None:
        """The pieces of memory, by number, in which a slot may lie; without it, it shares none."""
        self.shared[slot.number] = list(places)

    def output(self, value: Slot | Size | None) -> None:
        if value is None:
            self.outputs.append(b"\2")
        elif isinstance(value, Slot):
            self.outputs.append(b"\0" + uint(value.number))
        else:
            self.outputs.append(b"\1" + self.expr(value))

    def control(
        self,
        kind: str,
        bodies: Sequence[int],
        args: Sequence[Any],
        shapes: Sequence[Any],
        carried: int = 0,
        sliced: int = 0,
    ) -> list[Slot]:
        data = bytes([CONTROL_KINDS.index(kind)]) + uint(len(bodies)) + b"".join(uint(body) for body in bodies)
        data += uint(carried) + uint(sliced) + uint(len(args)) + b"".join(self.value(a) for a in args)
        results, slots = self.results(shapes)
        self.step(7, data + results)
        return slots

    def body(self, body: Builder) -> int:
        """Adds what control steps run."""
        self.bodies.append(body.own_bytes())
        return len(self.bodies) - 1

    def own_bytes(self) -> bytes:
        return b"".join(
            [
                rows([text(s[0]) for s in self.symbols]),
                rows([self._source(s) for s in self.symbols]),
                rows(self.exprs),
                uint(self.num_slots),
                rows([uint(slot) + rows([uint(p) for p in places]) for slot, places in self.shared.items()]),
                rows(self.inputs),
                rows(self.steps),
                rows(self.outputs),
            ]
        )

    def build(self) -> bytes:
        head = b"TTAF" + uint(self.version) + text("test") + text("cpu") + rows(self.kernels)
        return head + self.own_bytes() + rows(self.bodies)
