"""Runs one launch: the grid loop, and the services that operations use."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from torch_tile.errors import InvalidKernelError, RaceError
from torch_tile.interpreter import numerics
from torch_tile.interpreter.memory import Memory, Region
from torch_tile.interpreter.races import AccessLog

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
CHECKS = ("races", "division", "nan", "uninitialized")
_BITS = {1: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def _user_line() -> int:
    """Line of the innermost frame that is not this package's."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame.f_lineno if frame is not None else 0


class Interpreter:
    """What the operations of a kernel see while it is interpreted."""

    tracing = False

    def __init__(
        self,
        regions: list[Region],
        grid: tuple[int, int, int],
        checks: Iterable[str] = (),
        follows_triton: bool = False,
    ) -> None:
        self.follows_triton = follows_triton  # in conversions, where its kernels differ from those of the tile language
        self.memory = Memory(regions)
        self.sizes = tuple(np.int32(n) for n in grid)
        self.grid = grid
        self.ids: tuple[Any, ...] = (np.int32(0),) * 3
        self.checks = frozenset(checks)
        unknown = self.checks - set(CHECKS)
        if unknown:
            raise ValueError(f"unknown check {sorted(unknown)[0]!r}; known: {', '.join(CHECKS)}")
        self.checks_nan = "nan" in self.checks
        # By program, of a first run, where uninitialised elements are looked for.
        self.stored: dict[Any, list[Any]] | None = None
        self.step = 0
        self.junk = False
        self.arguments: dict[int, str] = {}

    @property
    def program(self) -> tuple[int, ...]:
        return tuple(int(i) for i in self.ids)

    # --- the grid --------------------------------------------------------------------------------------------------

    def run(self, body: Callable[[], None], programs: Iterable[Any] | None) -> None:
        if "uninitialized" in self.checks:
            programs = None if programs is None else list(programs)
            self._run_twice(body, programs)
        else:
            self._run_once(body, programs)

    def _run_once(self, body: Callable[[], None], programs: Iterable[Any] | None) -> None:
        log = self.memory.log = AccessLog() if "races" in self.checks else None
        x_size, y_size, z_size = self.grid
        if programs is None:
            order: Iterable[Any] = itertools.product(range(z_size), range(y_size), range(x_size))
        else:
            order = [self._program(p) for p in programs]
        for z, y, x in order:
            self.ids = (np.int32(x), np.int32(y), np.int32(z))
            if log is not None:
                log.begin((x, y, z))
            if self.stored is not None:
                self.step = 0
            body()
            if self.junk:
                self._check_number_of_stores()

    def _program(self, program: Any) -> tuple[int, int, int]:
        ids = (program,) if isinstance(program, int) else tuple(program)
        x, y, z = (*ids, 0, 0)[:3]
        if not (0 <= x < self.grid[0] and 0 <= y < self.grid[1] and 0 <= z < self.grid[2]) or len(ids) > 3:
            raise ValueError(f"programs: expected ids inside the grid {self.grid}, got {program}")
        return z, y, x

    def _run_twice(self, body: Callable[[], None], programs: Any) -> None:
        """Runs with 0 in elements that nothing initialised, then with junk: what is stored must not change."""
        before = [region.bytes.copy() for region in self.memory.regions]
        self.stored, self.junk = {}, False
        self._run_once(body, programs)
        for region, data in zip(self.memory.regions, before, strict=True):
            region.bytes[:] = data
        self.junk = True
        self._run_once(body, programs)
        self.stored = None

    # --- numbers ---------------------------------------------------------------------------------------------------

    def round(self, type_: Any, value: Any) -> Any:
        return numerics.round_narrow(type_.name, value)

    def convert(self, source: Any, to: Any, value: Any) -> Any:
        value = np.asarray(value)
        if to.is_floating():
            if to.is_narrow_float:
                # By way of float32, as compiled code and torch go: float64 and wide integers are rounded twice.
                wide = value.astype(np.float32)
                return numerics.round_narrow(
                    to.name, numerics.saturated(to.name, wide) if self.follows_triton else wide
                )
            return value.astype(to.carrier)[()]
        if value.dtype.kind == "f" and to.carrier.kind == "u":
            return value.astype(np.int64 if to.primitive_bitwidth < 64 else np.uint64).astype(to.carrier)[()]
        if value.dtype.kind == "f" and to.primitive_bitwidth < 32:
            return value.astype(np.int32).astype(to.carrier)[()]
        return value.astype(to.carrier)[()]

    def to_bits(self, type_: Any, value: Any) -> Any:
        bits = _BITS[type_.primitive_bitwidth]
        if type_.is_narrow_float:
            return np.ascontiguousarray(numerics.encode(type_.name, value)).view(bits).reshape(np.shape(value))
        return np.ascontiguousarray(value).view(bits).reshape(np.shape(value))

    def from_bits(self, type_: Any, bits: Any) -> Any:
        if type_.is_narrow_float:
            return numerics.decode(type_.name, bits)
        return np.asarray(bits).view(type_.carrier)[()]

    def check_divisor(self, divisor: Any, dims: Any, symbol: str) -> None:
        if "division" in self.checks and not np.all(divisor):
            zeros = np.asarray(divisor) == 0
            others = f" and {int(zeros.sum()) - 1} more" if zeros.sum() > 1 else ""
            lane = f", lane {', '.join(str(int(i)) for i in np.argwhere(zeros)[0])}{others}" if zeros.ndim else ""
            raise InvalidKernelError(
                "kernel",
                f"integer division by zero in program {self.program}{lane}: the divisor of `{symbol}`; where the "
                "result is not used, divide by tl.where(divisor == 0, 1, divisor)",
            )

    def check_nan(self, value: Any, operands: Any) -> None:
        born = np.isnan(value)
        if born.any():
            for operand in operands:
                born = born & ~np.isnan(operand)
            if np.any(born):
                at = np.argwhere(np.atleast_1d(born))[0]
                raise InvalidKernelError(
                    "kernel", f"NaN is born in program {self.program}, lane {', '.join(str(int(i)) for i in at)}"
                )

    # --- memory ----------------------------------------------------------------------------------------------------

    def _decode(self, element: Any, raw: Any) -> Any:
        if element.is_narrow_float:
            return numerics.decode(element.name, raw)
        return raw != 0 if element.name == "int1" else raw

    def _encode(self, element: Any, value: Any) -> Any:
        if element.is_narrow_float:
            return numerics.encode(element.name, value)
        return value.view(np.uint8) if element.name == "int1" and isinstance(value, np.ndarray) else value

    def _filler(self, element: Any) -> Any:
        """What masked-off elements hold: 0; junk where dependence on them is looked for."""
        if not self.junk:
            return element.carrier.type(0)
        return element.carrier.type(1 if element.name == "int1" else 77)

    def load(self, pointer: Any, mask: Any, other: Any) -> Any:
        element = pointer.dtype.element_ty
        m = None if mask is None else mask.value
        raw = self.memory.read(pointer.value, element.memory, pointer.origin, m, self.program)
        value = self._decode(element, raw)
        if m is None:
            return value
        return np.where(m, value, self._filler(element) if other is None else other.value)[()]

    def store(self, pointer: Any, value: Any, mask: Any) -> None:
        element = pointer.dtype.element_ty
        m = None if mask is None else mask.value
        if self.stored is not None:
            self._compare(pointer, value.value, m)
        raw = self._encode(element, value.value)
        self.memory.write(pointer.value, raw, element.memory, pointer.origin, m, self.program)

    def _compare(self, pointer: Any, value: Any, mask: Any) -> None:
        assert self.stored is not None
        mine = self.stored.setdefault(self.program, [])
        if not self.junk:
            place = (pointer.origin.name if pointer.origin is not None else None, _user_line())
            mine.append((np.array(value), np.array(pointer.value), None if mask is None else np.array(mask), place))
            return
        first = mine[self.step] if self.step < len(mine) else None
        self.step += 1
        shape = np.shape(pointer.value)
        active = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
        if first is None or first[1].shape != shape or first[0].dtype != np.asarray(value).dtype:
            raise RaceError("kernel", self._unread(f"which stores program {self.program} makes"))
        a, b = np.broadcast_to(first[0], shape), np.broadcast_to(value, shape)
        was_active = np.ones(shape, bool) if first[2] is None else np.broadcast_to(first[2], shape)
        equal = (a == b) | ((a != a) & (b != b))
        differs = (active != was_active) | (active & (~equal | (first[1] != pointer.value)))
        if not differs.any():
            return
        at = tuple(np.argwhere(np.atleast_1d(differs))[0])
        name, index = "memory", ""
        if pointer.origin is not None:
            name = f"`{pointer.origin.name}`"
            # Where the address itself depends on them, the first run's, which was made of 0, says more.
            address = int(np.atleast_1d(first[1])[at])
            index = f" at element {(address - pointer.origin.address) // pointer.dtype.element_ty.itemsize}"
        what = "what is stored to" if np.atleast_1d(active == was_active)[at] else "whether a store is made to"
        raise RaceError("kernel", self._unread(f"{what} {name}{index} in program {self.program}"))

    @staticmethod
    def _unread(subject: str) -> str:
        return (
            f"{subject} depends on elements that a masked tl.load did not read; give them a value with `other=`, or "
            "mask the store"
        )

    def _check_number_of_stores(self) -> None:
        """A program that stores less when unread elements change."""
        assert self.stored is not None
        first = self.stored.get(self.program, [])
        if self.step < len(first):
            name, line = first[self.step][3]
            target = f"to `{name}` " if name else ""
            error = RaceError(
                "kernel", self._unread(f"whether program {self.program} makes the store {target}in line {line}")
            )
            error.line = line
            raise error

    def atomic(self, kind: str, pointer: Any, value: Any, mask: Any, order: str, expected: Any = None) -> Any:
        """What memory held before. `order` says what the operation orders: acquire, release, acq_rel or relaxed."""
        element = pointer.dtype.element_ty
        dims = np.shape(pointer.value)
        m = None if mask is None else mask.value
        log, self.memory.log = self.memory.log, None
        try:
            old, written = self._atomic(kind, pointer, value, m, expected, element, dims)
        finally:
            self.memory.log = log
        if log is not None:
            flat = np.asarray(pointer.value).reshape(-1)
            active = np.ones(flat.shape, bool) if m is None else np.broadcast_to(m, dims).reshape(-1)
            for lanes, region in self.memory.lanes_by_region(pointer.value, element.itemsize, m, pointer.origin):
                log.atomic(region, flat[lanes], element.itemsize, active[lanes], written[lanes], order)
        return old

    def _atomic(self, kind: str, pointer: Any, value: Any, m: Any, expected: Any, element: Any, dims: Any) -> Any:
        """What memory held before, and the lanes that stored."""
        read, write, origin = self.memory.read, self.memory.write, pointer.origin
        what = f"atomic_{kind}"
        flat = np.asarray(pointer.value).reshape(-1)
        values = np.broadcast_to(value.value, dims).reshape(-1)
        active = np.ones(flat.shape, bool) if m is None else np.broadcast_to(m, dims).reshape(-1)
        # Errors speak of a mask only where there is one.
        shown = None if m is None else active
        wanted = None if expected is None else np.broadcast_to(expected.value, dims).reshape(-1)
        written = active.copy()
        chosen = flat[active]
        if chosen.size == np.unique(chosen).size:
            old = self._decode(element, read(flat, element.memory, origin, shown, self.program, what))
            new = self._update(kind, element, old, values, wanted)
            write(flat, self._encode(element, new), element.memory, origin, shown, self.program, what)
            if wanted is not None:
                written &= self._same(element, old, wanted)
            return np.where(active, old, element.carrier.type(0)).reshape(dims)[()], written
        result = np.zeros(flat.shape, element.carrier)
        for lane in np.flatnonzero(active):
            at = slice(lane, lane + 1)
            old = self._decode(element, read(flat[at], element.memory, origin, None, self.program, what))
            new = self._update(kind, element, old, values[at], None if wanted is None else wanted[at])
            write(flat[at], self._encode(element, new), element.memory, origin, None, self.program, what)
            if wanted is not None:
                written[at] = self._same(element, old, wanted[at])
            result[at] = old
        return result.reshape(dims)[()], written

    def _same(self, element: Any, a: Any, b: Any) -> Any:
        return self.to_bits(element, a) == self.to_bits(element, b)

    def _update(self, kind: str, element: Any, old: Any, value: Any, expected: Any) -> Any:
        if kind == "xchg":
            return value
        if kind == "cas":
            return np.where(self._same(element, old, expected), value, old)
        function = {
            "add": np.add,
            "max": np.fmax,
            "min": np.fmin,
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
        }[kind]
        new = function(old, value)
        return self.round(element, new) if element.is_narrow_float else new
