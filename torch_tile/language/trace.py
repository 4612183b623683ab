"""The tracer: runs a kernel on names of values and writes tile dialect text."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from torch_tile.interpreter import numerics
from torch_tile.language import traceback
from torch_tile.language.carried import Carried, join_branches
from torch_tile.language.casts import bitcast, cast
from torch_tile.language.control import range as loop_range
from torch_tile.language.core import Undefined, error, mlir_type, tensor
from torch_tile.language.dtypes import int64, pointer_type, tile_type
from torch_tile.language.places import Places
from torch_tile.language.values import as_tensor, broadcast_to_dims, constant

_FLOAT_BITS = {"fp32": ("<f", "<I"), "fp64": ("<d", "<Q")}


class Tracer:
    """What the operations of a kernel see while it is traced."""

    tracing = True
    follows_triton = False

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        # Values may be used in the region that makes them and in those inside it.
        self.region_of: dict[str, int] = {}
        self.open_regions = [0]
        self.num_regions = 0
        self.indent = "  "
        # Constants stand once, before everything else.
        self.prologue: list[str] = []
        self.constants: dict[Any, str] = {}
        self.literals: dict[str, str] = {}
        self.places = Places()
        self.names: dict[str, str] = {}  # of variables, by the value they hold
        # Pointer arguments through which the kernel writes; None: it may write through any.
        self.written: set[str] | None = set()

    # --- text --------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.count += 1
        name = f"%{self.count}"
        self.region_of[name] = self.open_regions[-1]
        return name

    def text(self, text: str) -> str:
        name = self.name()
        self.lines.append(f"{self.indent}{name} = {text}{self.places.mark()}")
        return name

    def effect(self, text: str) -> None:
        self.lines.append(f"{self.indent}{text}{self.places.mark()}")

    def opening(self, text: str) -> None:
        """The first line of an operation with regions; its place stands behind the last one."""
        self.lines.append(f"{self.indent}{text}")

    def closing(self) -> str:
        return f"{self.indent}}}{self.places.mark()}"

    def ref(self, x: tensor) -> str:
        name: str = x.value
        if self.region_of.get(name) in self.open_regions:
            return name
        if not isinstance(name, str):
            raise error("a value of an interpreted kernel is used in a compiled one")
        raise error(
            f"a value of type {x.type} made inside a loop, branch or combine function is used outside of it; assign it "
            "to a variable that exists before, not to an element of a list or an attribute"
        )

    def op(self, name: str, operands: list[tensor], types: str, after: str = "") -> str:
        return self.text(f"{name} {', '.join(self.ref(x) for x in operands)}{after} : {types}")

    def multi(self, name: str, operands: list[tensor], types: str, count: int) -> list[str]:
        return self.results(f"{name} {', '.join(self.ref(x) for x in operands)} : {types}", count)

    def results(self, text: str, count: int) -> list[str]:
        put = self.opening if text.endswith("{") else self.effect
        if not count:
            put(text)
            return []
        name = self.name()
        put(f"{name}{f':{count}' if count > 1 else ''} = {text}")
        if count == 1:
            return [name]
        names = [f"{name}#{k}" for k in range(count)]
        for part in names:
            self.region_of[part] = self.open_regions[-1]
        return names

    def binary(self, name: str, a: tensor, b: tensor, dims: Any, mark: str = "") -> str:
        if a.dims != dims:
            a = broadcast_to_dims(a, dims)
        if b.dims != dims:
            b = broadcast_to_dims(b, dims)
        return self.text(f"{name} {self.ref(a)}, {self.ref(b)}{mark} : {mlir_type(a)}")

    def cast(self, name: str, x: tensor, to: Any) -> str:
        return self.text(f"{name} {self.ref(x)} : {mlir_type(x)} to {tile_type(to, x.dims).mlir}")

    def constant(self, value: Any, type_: Any, dims: Any) -> str:
        if type_.is_ptr():
            raise error(f"expected a pointer, got the number {value}")
        return self.literal(self._literal(value, type_), type_, dims)

    def literal(self, literal: str, type_: Any, dims: Any) -> str:
        key = (literal, type_.mlir, dims)
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = f"%c{len(self.constants)}"
            self.region_of[found] = 0
            if not dims:
                self.literals[found] = literal
            if dims:
                text = f"dense<{literal}> : {tile_type(type_, dims).mlir}"
            else:
                text = literal if type_.name == "int1" else f"{literal} : {type_.mlir}"
            self.prologue.append(f"  {found} = arith.constant {text}")
        return found

    def _literal(self, value: Any, type_: Any) -> str:
        if type_.name == "int1":
            return "true" if value else "false"
        if type_.is_int():
            bits = type_.primitive_bitwidth
            wrapped = int(value) & ((1 << bits) - 1)
            return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)
        if type_.name in _FLOAT_BITS:
            pack, unpack = _FLOAT_BITS[type_.name]
            try:
                data = struct.pack(pack, float(value))
            except OverflowError:
                data = struct.pack(pack, float("inf") if value > 0 else -float("inf"))
            return f"0x{struct.unpack(unpack, data)[0]:0{type_.primitive_bitwidth // 4}X}"
        with np.errstate(all="ignore"):  # a number beyond the range is infinity, as in a conversion of a tile
            number = np.float64(value) if type_.name == "fp16" else np.float32(value)
            code = np.asarray(numerics.encode(type_.name, number)).view(f"u{type_.itemsize}")
        if type_.mlir == "i8":  # a format that the compiler knows as bytes
            return str(int(code.astype(np.uint8).view(np.int8).reshape(-1)[0]))
        return f"0x{int(code.reshape(-1)[0]):0{type_.primitive_bitwidth // 4}X}"

    def unsplat(self, x: tensor) -> str:
        """The only element of a tile, as a scalar."""
        flat = x
        if len(x.dims) != 1:
            flat = tensor(
                self.text(f"tile.reshape {self.ref(x)} : {mlir_type(x)} -> {tile_type(x.dtype, (1,)).mlir}"),
                x.dtype,
                (1,),
            )
        return str(self.region("tile.reduce", [flat], "axis 0", [x.dtype], (), lambda left, right: left)[0])

    # --- regions -----------------------------------------------------------------------------------------------------

    def capture(self, body: Callable[[], Any], region: int | None = None, lines: list[str] | None = None) -> Any:
        """Runs `body` in a region of its own: (its result, its lines, the region)."""
        if region is None:
            self.num_regions += 1
            region = self.num_regions
        outer_lines, outer_indent = self.lines, self.indent
        self.lines = [] if lines is None else lines
        self.indent = outer_indent + "  "
        self.open_regions.append(region)
        try:
            result = body()
            return result, self.lines, region
        finally:
            self.open_regions.pop()
            self.lines, self.indent = outer_lines, outer_indent

    def trial(self, body: Callable[[], Any]) -> Any:
        """Runs `body` for its result alone."""
        count = self.count
        result, _, _ = self.capture(body)
        self.count = count
        return result

    def argument(self, type_: Any, dims: Any = (), origin: Any = None) -> tensor:
        return tensor(self.name(), type_, dims, origin)

    def like(self, values: list[tensor]) -> list[tensor]:
        return [self.argument(v.dtype, v.dims, v.origin) for v in values]

    def writes(self, pointer: tensor) -> None:
        if pointer.origin is None:
            self.written = None
        elif self.written is not None:
            self.written |= pointer.origin

    def outputs(self, names: list[str], first: list[tensor], last: list[tensor]) -> list[tensor]:
        """What a loop leaves; pointers come from where they came from before and after a turn."""
        for a, b in zip(first, last, strict=True):
            if a.dtype.is_ptr() and a.origin != b.origin:
                self.written = None
        return [tensor(n, v.dtype, v.dims, v.origin) for n, v in zip(names, first, strict=True)]

    def block(self, arguments: list[tensor]) -> str:
        return f"{self.indent}^bb0({', '.join(f'{a.value}: {mlir_type(a)}' for a in arguments)}):"

    def close(self, lines: list[str], terminator: str, values: list[tensor], region: int) -> list[str]:
        names, _, _ = self.capture(lambda: [self.ref(v) for v in values], region, lines)
        types = ", ".join(mlir_type(v) for v in values)
        lines.append(f"{self.indent}  {terminator}{' ' + ', '.join(names) + ' : ' + types if values else ''}")
        return lines

    def region(
        self, name: str, tiles: list[tensor], where: str, types: list[Any], dims: Any, combine: Any
    ) -> list[str]:
        """A reduction or scan: an operation with a combining region of scalars."""

        def body() -> Any:
            left = [self.argument(t.dtype) for t in tiles]
            right = [self.argument(t.dtype) for t in tiles]
            return (left, right), combine(left, right)

        ((left, right), results), lines, region = self.capture(body)
        self.close(lines, "tile.yield", results, region)
        sources = ", ".join(mlir_type(t) for t in tiles)
        outputs = ", ".join(str(tile_type(t, dims).mlir) for t in types)
        outputs = f"({outputs})" if len(types) > 1 else outputs
        names = self.results(
            f"{name} ({', '.join(self.ref(t) for t in tiles)}) {where} : ({sources}) -> {outputs} {{", len(tiles)
        )
        self.lines += [self.block([*left, *right]), *lines, self.closing()]
        return names

    def map(self, tiles: list[tensor], pack: int, dims: Any, function: Any) -> Any:
        def body() -> Any:
            arguments = [self.argument(t.dtype) for t in tiles for _ in range(pack)]
            got = function(*arguments)
            return arguments, [as_tensor(r) for r in (got if isinstance(got, (list, tuple)) else [got])]

        (arguments, results), lines, region = self.capture(body)
        if len(results) % pack:
            raise error(f"tl.map_elementwise expected a multiple of {pack} results, got {len(results)}")
        self.close(lines, "tile.yield", results, region)
        types = [r.dtype for r in results[::pack]]
        sources = ", ".join(mlir_type(t) for t in tiles)
        outputs = ", ".join(str(tile_type(t, dims).mlir) for t in types)
        outputs = f"({outputs})" if len(types) > 1 else outputs
        text = f"tile.map ({', '.join(self.ref(t) for t in tiles)}) pack {pack} : ({sources}) -> {outputs} {{"
        names = self.results(text, len(types))
        self.lines += [self.block(arguments), *lines, self.closing()]
        made = [tensor(n, t, dims) for n, t in zip(names, types, strict=True)]
        return made[0] if len(made) == 1 else tuple(made)

    @property
    def is_inside_block(self) -> bool:
        """Whether what is traced belongs to a branch or loop of the kernel."""
        return len(self.indent) > 2

    # --- control flow ------------------------------------------------------------------------------------------------

    def branch(self, condition: tensor, then: Any, orelse: Any, names: Any) -> Any:
        left, left_lines, left_region = self.capture(then)
        right, right_lines, right_region = self.capture(orelse)
        joined = join_branches(names, left, right)
        left_values, _, _ = self.capture(joined.left_values, left_region, left_lines)
        right_values, _, _ = self.capture(joined.right_values, right_region, right_lines)
        types = joined.check(left_values, right_values)
        text = f"scf.if {self.ref(condition)}"
        if left_values:
            text += f" -> ({', '.join(mlir_type(v) for v in left_values)})"
        made = self.results(text + " {", len(left_values))
        if left_values:
            self.close(left_lines, "scf.yield", left_values, left_region)
            self.close(right_lines, "scf.yield", right_values, right_region)
        self.lines += [*left_lines, f"{self.indent}}} else {{", *right_lines, self.closing()]
        origins = [
            a.origin | b.origin if a.origin is not None and b.origin is not None else None
            for a, b in zip(left_values, right_values, strict=True)
        ]
        return joined.rebuild([tensor(n, t, d, o) for n, (t, d), o in zip(made, types, origins, strict=True)])

    def for_loop(self, bounds: loop_range, body: Any, names: Any, values: Any, targets: Any) -> Any:
        type_, (start, end, step) = bounds.values()
        backwards = isinstance(bounds.step, int) and bounds.step < 0
        if backwards:
            # The loop counts up to the number of steps.
            zero = constant(0, type_)
            steps = (start - end + (-bounds.step - 1)) // -bounds.step
            first, start, end, stride, step = start, zero, steps, step, constant(1, type_)
        carried = Carried(names, values)
        self.settle(carried, lambda inside: body(self.argument(type_), *inside)[: len(names)])
        initial = carried.initial()

        def run() -> Any:
            index = self.argument(type_)
            arguments = self.like(initial)
            item = first + index * stride if backwards else index
            got = body(item, *carried.rebuild(arguments))[: len(names)]
            return index, arguments, carried.results(got)

        (index, arguments, results), lines, region = self.capture(run)
        text = f"scf.for {index.value} = {self.ref(start)} to {self.ref(end)} step {self.ref(step)}"
        if initial:
            pairs = ", ".join(f"{a.value} = {self.ref(v)}" for a, v in zip(arguments, initial, strict=True))
            text += f" iter_args({pairs}) -> ({', '.join(mlir_type(v) for v in initial)})"
        made = self.results(f"{text} : {type_.mlir} {{", len(initial))
        if initial:
            self.close(lines, "scf.yield", results, region)
        self.lines += [*lines, self.closing()]
        outputs = carried.rebuild(self.outputs(made, initial, results), is_after=True)
        last = [Undefined(t, "is the variable of a loop, and read after it; assign it to another one") for t in targets]
        return (*outputs, *last)

    def settle(self, carried: Carried, turn: Callable[[list[Any]], Any]) -> None:
        """Finds the numbers that a loop changes. One that changes may change another in the next turn: `x += i`."""
        found = -1
        while carried.needs_trial and found != (found := carried.num_carried):
            carried.settle(self.trial(lambda: turn(carried.rebuild(self.like(carried.initial())))), "loop")

    def is_runtime_test(self, test: Any, values: Any) -> bool:
        return isinstance(self.trial(lambda: test(*values)), tensor)

    def while_loop(self, test: Any, body: Any, names: Any, values: Any) -> Any:
        carried = Carried(names, values)
        self.settle(carried, lambda inside: body(*inside))
        initial = carried.initial()

        def check() -> Any:
            arguments = self.like(initial)
            condition = test(*carried.rebuild(arguments))
            if isinstance(condition, tensor) and condition.dims:
                raise error(f"`while` expected a scalar condition, got {condition.type}; reduce it with tl.max")
            condition = cast(as_tensor(condition, "a condition"), _bool())
            return arguments, condition

        (arguments, condition), before, before_region = self.capture(check)

        def run() -> Any:
            inside = self.like(initial)
            return inside, carried.results(body(*carried.rebuild(inside)))

        (inside, results), after, after_region = self.capture(run)
        types = ", ".join(mlir_type(v) for v in initial)
        pairs = ", ".join(f"{a.value} = {self.ref(v)}" for a, v in zip(arguments, initial, strict=True))
        start = f" ({pairs})" if initial else ""
        made = self.results(f"scf.while{start} : ({types}) -> ({types}) {{", len(initial))
        (name, names_), _, _ = self.capture(
            lambda: (self.ref(condition), [self.ref(a) for a in arguments]), before_region
        )
        before.append(f"{self.indent}  scf.condition({name})" + (f" {', '.join(names_)} : {types}" if initial else ""))
        self.close(after, "scf.yield", results, after_region)
        self.lines += [*before, f"{self.indent}}} do {{", self.block(inside), *after, self.closing()]
        return carried.rebuild(self.outputs(made, initial, results), is_after=True)

    # --- memory and messages -----------------------------------------------------------------------------------------

    def load(self, pointer: tensor, mask: tensor | None, other: tensor | None) -> str:
        element = pointer.dtype.element_ty
        if element.is_ptr():  # pointers lie in memory as addresses
            addresses = bitcast(pointer, pointer_type(int64))
            fill = None if other is None else cast(other, int64)
            loaded = tensor(self.load(addresses, mask, fill), int64, pointer.dims)
            return str(cast(loaded, element).value)
        masked = f" mask {self.ref(mask)} : {mlir_type(mask)}" if mask is not None else ""
        if other is not None:
            masked += f" other {self.ref(other)} : {mlir_type(other)}"
        result = tile_type(element, pointer.dims).mlir
        return self.text(f"tile.gather {self.ref(pointer)}{masked} : {mlir_type(pointer)} -> {result}")

    def store(self, pointer: tensor, value: tensor, mask: tensor | None) -> None:
        self.writes(pointer)
        if value.dtype.is_ptr():
            pointer, value = bitcast(pointer, pointer_type(int64)), cast(value, int64)
        masked = f" mask {self.ref(mask)} : {mlir_type(mask)}" if mask is not None else ""
        self.effect(
            f"tile.scatter {self.ref(value)}, {self.ref(pointer)}{masked} : {mlir_type(value)}, {mlir_type(pointer)}"
        )

    def print(self, prefix: str, values: list[tensor], hex: bool) -> None:
        signs = ", ".join(
            "1" if v.dtype.is_ptr() or v.dtype.is_floating() or v.dtype.is_signed_number() else "0" for v in values
        )
        names = " ".join(["", ", ".join(self.ref(v) for v in values)]) if values else ""
        types = f" {{is_signed = array<i32: {signs}>}} : {', '.join(mlir_type(v) for v in values)}" if values else ""
        self.effect(f"tile.print {_quoted(prefix)}{names}{' hex' if hex else ''}{types}")

    def effect_assert(self, condition: tensor, message: str) -> None:
        where = _user_position()
        self.effect(f"tile.assert {self.ref(condition)}, {_quoted(f'{message} ({where})')} : {mlir_type(condition)}")


def _bool() -> Any:
    from torch_tile.language.dtypes import int1

    return int1


def _quoted(text: str) -> str:
    plain = "".join(
        c if 32 <= ord(c) < 127 and c not in '"\\' else "".join(f"\\{b:02X}" for b in c.encode()) for c in text
    )
    return f'"{plain}"'


def _user_position() -> str:
    frame: Any = sys._getframe(1)
    while frame is not None and traceback.is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown"
