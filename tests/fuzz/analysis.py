"""What of a program's results must be eager's bits, and how far the rest may lie from float64.

Eager runs line by line. A value is *exact* while every operation behind it is one that we do alike; then its bits are
compared. Any other value is compared with float64. Its *noise* says how much it moves where every operation's result
moves by half a unit in its last place: programs run again in float64 with such moves at random (stochastic arithmetic;
Parker, Monte Carlo arithmetic, 1997). An answer that jumps (a comparison, an index) of a value that is not exact is
*unknown*, as is all that follows; the generator makes none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

from tests.fuzz import custom  # noqa: F401  registers the operators
from tests.fuzz.program import ARITH, BITS, CHOICE, EXACT, FLOATS, ROUND, SUM, VIEW, Line

IS_EXACT, IS_INEXACT, IS_UNKNOWN = range(3)
LOW = (torch.bfloat16, torch.float16)
_FLOAT_NAMES = re.compile(r"torch\.(float32|bfloat16|float16)\b")


def root_of(value: torch.Tensor) -> int:
    return int(value.untyped_storage()._cdata)


def is_integral(value: torch.Tensor) -> bool:
    """Whether all its partial sums are integers that float32 holds."""
    if not value.is_floating_point():
        return not value.is_complex()
    wide = value.detach().double()
    return bool(wide.isfinite().all()) and bool((wide == wide.round()).all()) and float(wide.abs().sum()) < 2**24


class Eager:
    """Runs lines in eager mode and says of every storage how exact it is."""

    def __init__(self, inputs: list[torch.Tensor], emulate: bool) -> None:
        self.values: dict[str, torch.Tensor] = {f"x{i}": x for i, x in enumerate(inputs)}
        self.status: dict[int, int] = {root_of(x): IS_EXACT for x in inputs}
        self.pinned: set[int] = set()
        """Storages seen as another dtype: they have no counterpart in float64."""
        self.emulate = emulate
        self.kept: list[torch.UntypedStorage] = [x.untyped_storage() for x in inputs]

    def run(self, line: Line) -> None:
        """Raises what eager raises."""
        operands = [self.values[name] for name in line.operands]
        before = [self.status[root_of(x)] for x in operands]
        integral = line.rule != SUM or all(map(is_integral, operands))
        namespace: dict[str, Any] = {"torch": torch, **self.values}
        exec(line.text, namespace)
        names = line.targets or line.operands[:1]
        for name in names:
            value = namespace[name]
            if not isinstance(value, torch.Tensor):
                raise TypeError(f"{name} is no tensor")
            root, is_new = root_of(value), root_of(value) not in self.status
            status = self._status(line.rule, value, before, integral)
            if is_new:
                self.kept.append(value.untyped_storage())
                self.status[root] = status
            elif line.writes:
                self.status[root] = max(self.status[root], status)
            if line.rule == BITS:
                self.pinned.add(root)
            self.values[name] = value

    def _status(self, rule: str, value: torch.Tensor, before: list[int], integral: bool) -> int:
        worst = max(before, default=IS_EXACT)
        if worst == IS_UNKNOWN:
            return worst
        if rule in (CHOICE, BITS) or not (value.is_floating_point() or value.is_complex()):
            return IS_UNKNOWN if worst else IS_EXACT
        if rule in (VIEW, EXACT):
            return worst
        if rule == ARITH and (value.dtype not in LOW or self.emulate):
            return worst
        if rule == SUM and integral and not worst:
            return worst if value.dtype not in LOW or self.emulate or is_integral(value) else IS_INEXACT
        return IS_INEXACT

    def status_of(self, name: str) -> int:
        return self.status[root_of(self.values[name])]

    def names_in(self, root: int) -> list[str]:
        return [name for name, value in self.values.items() if root_of(value) == root]


def record(inputs: list[torch.Tensor], lines: tuple[Line, ...], emulate: bool) -> tuple[Eager, list[dict[str, Any]]]:
    """The run, and after every line the exact values that it changed."""
    eager = Eager(inputs, emulate)
    steps = []
    for line in lines:
        eager.run(line)
        changed = line.targets
        if line.writes:
            changed = eager.names_in(root_of(eager.values[line.operands[0]]))
        elif "_(" in line.text:  # it gives something and writes an operand
            changed = [*changed, *(n for o in line.operands for n in eager.names_in(root_of(eager.values[o])))]
        steps.append({n: eager.values[n].detach().clone() for n in changed if eager.status_of(n) == IS_EXACT})
    return eager, steps


def widened(value: torch.Tensor) -> torch.Tensor:
    if value.is_complex():
        return value.detach().to(torch.complex128)
    return value.detach().to(torch.float64) if value.is_floating_point() else value.detach().clone()


def wide_inputs(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs in float64, with their views and strides."""
    storages: dict[int, torch.Tensor] = {}
    result: list[torch.Tensor] = []
    for i, x in enumerate(inputs):
        same = next((result[k] for k in range(i) if inputs[k] is x), None)
        if same is not None:
            result.append(same)
            continue
        plain = x.detach()
        if plain.is_neg() or plain.is_conj():
            made = widened(plain.resolve_neg().resolve_conj().clone())
        else:
            count = plain.untyped_storage().nbytes() // plain.element_size()
            if root_of(x) not in storages:
                storages[root_of(x)] = widened(plain.as_strided((count,), (1,), 0)).clone()
            made = storages[root_of(x)].as_strided(plain.shape, plain.stride(), plain.storage_offset())
        result.append(made.requires_grad_(x.requires_grad) if x.requires_grad else made)
    return result


def epsilon(dtype: torch.dtype) -> float:
    """Half a unit in the last place; of float64, which is moved in float64, the least that moves it."""
    if dtype in (torch.float64, torch.complex128):
        return 2.0**-52
    return torch.finfo(dtype).eps / 2 if dtype.is_floating_point or dtype.is_complex else 0.0


class Wide:
    """Runs the recorded lines in float64: exact values as eager has them, all others moved by `noise` roundings."""

    def __init__(self, eager: Eager, inputs: list[torch.Tensor], generator: torch.Generator | None) -> None:
        self.eager = eager
        self.inputs = wide_inputs(inputs)
        self.values: dict[str, Any] = {f"x{i}": x for i, x in enumerate(self.inputs)}
        self.generator = generator
        self.training = any(x.requires_grad for x in inputs)

    def moved(self, value: torch.Tensor, by: float) -> torch.Tensor:
        if self.generator is None or by == 0 or not (value.is_floating_point() or value.is_complex()):
            return value
        sign = torch.randint(0, 2, value.shape, generator=self.generator, device="cpu").double() * 2 - 1
        return value * (1 + by * sign.to(value.device))

    def run(self, line: Line, exact: Mapping[str, torch.Tensor]) -> None:
        targets = line.targets or line.operands[:1]
        pinned = any(root_of(self.eager.values[n]) in self.eager.pinned for n in (*targets, *line.operands))
        fresh = not line.writes and line.rule != VIEW
        if all(n in exact for n in targets) and (fresh or pinned) and not self.training:
            for name, value in exact.items():
                if name in targets or pinned:
                    self.values[name] = widened(value)
                else:
                    self.values[name].copy_(widened(value))
            return
        namespace: dict[str, Any] = {"torch": torch, **self.values}
        if line.rule in (SUM, ROUND) and not line.writes:  # additions round their operands' sums, too
            for name in set(line.operands):
                dtype = self.eager.values[name].dtype
                namespace[name] = self.moved(
                    self.values[name], max(epsilon(dtype), 2**-52) if dtype.itemsize >= 8 else 2**-24
                )
        exec(_FLOAT_NAMES.sub("torch.float64", line.text), namespace)
        for name in targets:
            value, by = namespace[name], epsilon(self.eager.values[name].dtype)
            self.values[name] = value
            if name in exact:
                self._replace(name, exact[name], line)
            elif line.writes:
                if self.generator is not None and value.is_floating_point() and not self.training:
                    value.copy_(self.moved(value, by))
            elif line.rule != VIEW:
                self.values[name] = self.moved(value, by)

    def _replace(self, name: str, exact: torch.Tensor, line: Line) -> None:
        value, wide = self.values[name], widened(exact)
        if not (value.is_floating_point() and value.requires_grad):
            if line.writes:
                value.copy_(wide)
            elif line.rule != VIEW:
                self.values[name] = wide
        elif not line.writes and line.rule != VIEW and bool(wide.isfinite().all() and value.isfinite().all()):
            self.values[name] = value + (wide - value).detach()


def wide_run(
    eager: Eager, inputs: list[torch.Tensor], lines: tuple[Line, ...], steps: list[dict[str, Any]], seed: int | None
) -> Wide:
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    wide = Wide(eager, inputs, generator)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        for line, exact in zip(lines, steps, strict=True):
            wide.run(line, exact)
    finally:
        torch.set_default_dtype(before)
    return wide


__all__ = ["FLOATS", "IS_EXACT", "IS_INEXACT", "IS_UNKNOWN", "Eager", "epsilon", "record", "root_of", "wide_run"]
