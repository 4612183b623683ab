"""The functions that rewritten control flow calls. Conditions and bounds known in Python stay Python's."""

from __future__ import annotations

import builtins
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from torch_tile.language.arith import logical, logical_not
from torch_tile.language.carried import Carried
from torch_tile.language.casts import cast
from torch_tile.language.compile_time_values import _Variable, as_constant, constexpr, unwrap, variable
from torch_tile.language.core import Undefined, current, error, state, tensor
from torch_tile.language.dtypes import dtype, int1, int32
from torch_tile.language.values import as_int, as_tensor, describe, is_number

_COMPARISONS: dict[str, Any] = {
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


# Turns of a `while` that Python runs while a kernel is traced. Each adds its body to the kernel.
MOST_TURNS = 10_000


def _endless() -> Exception:
    return error(
        f"this `while` does not end: its condition is known when the kernel is compiled, and is still true after "
        f"{MOST_TURNS} turns; use a condition of run-time values, `for` over `range`, or `break`"
    )


class range:
    """Integers of a loop that the kernel runs: tl.range(start, end, step), or Python's range with the same arguments.

    Args:
        arg1, arg2, step: bounds; integers or scalars.
        num_stages, loop_unroll_factor, flatten, ...: hints for GPUs, without effect on the CPU.
    """

    section = "Loops"

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None, **hints: Any) -> None:
        start, end = (0, arg1) if unwrap(arg2) is None else (arg1, arg2)
        step = 1 if unwrap(step) is None else step
        self.start, self.end, self.step = (self._bound(v) for v in (start, end, step))
        if is_number(self.step) and self.step == 0:
            raise error("range expected a step other than 0, got 0")

    @staticmethod
    def _bound(value: Any) -> Any:
        value = unwrap(value)
        if isinstance(value, tensor):
            if value.dims or not value.dtype.is_int():
                raise error(f"range expected integer scalars as bounds, got {value.type}")
            return value
        if isinstance(value, Undefined):
            value._fail()
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise error(f"range expected integers as bounds, got {describe(value)}")
        return int(value)

    def values(self) -> tuple[Any, list[tensor]]:
        """Type of the loop variable, and the bounds in it."""
        from torch_tile.language.dtypes import dtype_of_number
        from torch_tile.language.values import promote

        bounds = (self.start, self.end, self.step)
        type_: Any = int32
        for bound in bounds:
            other = bound.dtype if isinstance(bound, tensor) else dtype_of_number(bound)
            type_ = promote(type_, False, other, False)
        return type_, [cast(as_tensor(b), type_) for b in bounds]

    def __iter__(self) -> Iterator[Any]:
        if current().tracing:
            raise error(
                "a loop with break, continue or return expected bounds known when the kernel is compiled; use a "
                "`while` with a condition instead"
            )
        type_, (start, end, step) = self.values()
        for number in builtins.range(int(start.value), int(end.value), int(step.value)):
            yield tensor(type_.carrier.type(number), type_)

    @property
    def is_static(self) -> bool:
        return all(isinstance(b, int) for b in (self.start, self.end, self.step))


class static_range:
    """Integers of a loop that Python runs when the kernel is compiled: its body is repeated.

    Raises:
        InvalidKernelError: a bound is known at run time only.
    """

    section = "Loops"

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        start, end = (0, arg1) if unwrap(arg2) is None else (arg1, arg2)
        self.numbers = builtins.range(
            as_int(start, "tl.static_range"),
            as_int(end, "tl.static_range"),
            as_int(1 if unwrap(step) is None else step, "tl.static_range"),
        )

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)


class condition:
    """A condition of a while loop with hints for GPUs, which have no effect on the CPU."""

    section = "Loops"

    def __new__(cls, arg1: Any, *args: Any, **hints: Any) -> Any:
        return unwrap(arg1)


def _extremum(function: Any, kind: str) -> Any:
    def call(*values: Any, **options: Any) -> Any:
        if not any(isinstance(unwrap(v), tensor) for v in values):
            return function(*values, **options)
        from torch_tile.language.ops import arithmetic

        result = values[0]
        for value in values[1:]:
            result = getattr(arithmetic, kind)(result, value)
        return result

    return call


def _print(*values: Any, **options: Any) -> None:
    """Run-time values are printed at run time; a text before them is their prefix."""
    if not any(isinstance(v, tensor) for v in values):
        print(*values, **options)
        return
    from torch_tile.language.ops.programs import device_print

    texts = [str(unwrap(v)) for v in values if not isinstance(v, tensor)]
    device_print(" ".join(texts), *[v for v in values if isinstance(v, tensor)])


def _isinstance(value: Any, kinds: Any) -> bool:
    """Numbers that variables hold are scalars, constants are tl.constexpr."""
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        if kind is tensor and isinstance(value, _Variable):
            return True
        if kind is constexpr:
            if isinstance(value, (constexpr, int, float, str, type(None), dtype)) and not isinstance(value, _Variable):
                return True
        elif isinstance(value, kind):
            return True
    return False


_BUILTINS = {
    builtins.isinstance: _isinstance,
    builtins.min: _extremum(builtins.min, "minimum"),
    builtins.max: _extremum(builtins.max, "maximum"),
    builtins.print: _print,
}


class CheckedTurns:
    """The turns of a loop that the interpreter runs. Variables keep their shapes and types, as in a compiled loop."""

    def __init__(self, names: Any, values: Any) -> None:
        self.carried = Carried(names, values)
        self.is_compiled = False

    def iter(self, iterable: Any) -> Any:
        self.is_compiled = isinstance(iterable, range)
        return iterable

    def test(self, condition: Any) -> Any:
        self.is_compiled = isinstance(unwrap(condition), tensor)
        return condition

    def end(self, values: Any) -> None:
        if self.is_compiled:
            self.carried.settle(values, "loop")
            self.carried.initial()
            self.carried.results(values)


class Runtime:
    """One object, under the name `__tile__` in rewritten functions."""

    def get(self, name: str, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except NameError:
            return Undefined(name, "is read before it is assigned on this path")

    def assign(self, value: Any) -> Any:
        return value if type(value) is tensor else variable(value)

    def assign_named(self, value: Any, name: str) -> Any:
        if type(value) is tensor:
            run = state.run
            if run.tracing:
                run.names.setdefault(value.value, name)
            return value
        return variable(value)

    def constant(self, value: Any) -> Any:
        if isinstance(value, tensor):
            raise error(
                "a variable annotated tl.constexpr expected a value known when the kernel is compiled, got "
                f"{value.type}"
            )
        return as_constant(value)

    def value_of(self, x: Any) -> Any:
        return x if x is None or isinstance(x, bool) else x.value

    def loop(self, function: Any) -> Any:
        return range if function is builtins.range else function

    def builtin(self, function: Any) -> Any:
        return _BUILTINS.get(function, function) if isinstance(function, type(builtins.min)) else function

    def unrolled(self, iterable: Any) -> Any:
        if isinstance(iterable, range):
            if iterable.is_static:
                return builtins.range(iterable.start, iterable.end, iterable.step)
            return iter(iterable)
        return iterable

    def static_condition(self, condition: Any) -> bool:
        condition = unwrap(condition)
        if isinstance(condition, tensor):
            raise error(
                "a loop left by break, continue or return expected conditions known when the kernel is compiled, "
                "got a run-time value; put the condition into a `while`, or use tl.where"
            )
        return bool(condition)

    def turns(self) -> Iterator[int]:
        """Counts the turns of one loop that Python runs while a kernel is traced."""
        return itertools.count()

    def checked_turns(self, names: Any, values: Any) -> CheckedTurns:
        return CheckedTurns(names, values)

    def static_turn(self, condition: Any, turns: Iterator[int]) -> bool:
        """As `static_condition`, of a `while`: one that does not end is an error."""
        goes_on = self.static_condition(condition)
        if goes_on and next(turns) >= MOST_TURNS:
            raise _endless()
        return goes_on

    # --- conditions --------------------------------------------------------------------------------------------------

    def and_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        return self._connect("and", first, rest)

    def or_(self, first: Any, *rest: Callable[[], Any]) -> Any:
        return self._connect("or", first, rest)

    def _connect(self, kind: str, value: Any, rest: Any) -> Any:
        for delayed in rest:
            value = unwrap(value)
            if isinstance(value, Undefined):
                value._fail()
            if not isinstance(value, tensor):
                if bool(value) is (kind == "or"):
                    return value
                value = delayed()
                continue
            other = unwrap(delayed())
            if not isinstance(other, tensor) and other is None:
                other = False
            value = logical(kind, value, other if isinstance(other, tensor) else bool(other))
        return value

    def not_(self, value: Any) -> Any:
        value = unwrap(value)
        return logical_not(value) if isinstance(value, tensor) else not value

    def chain(self, left: Any, *links: Any) -> Any:
        result: Any = None
        for name, delayed in zip(links[::2], links[1::2], strict=True):
            right = delayed()
            part = _COMPARISONS[name](left, right)
            result = part if result is None else self._connect("and", result, (lambda part=part: part,))
            if not isinstance(result, tensor) and not result:
                return result
            left = right
        return result

    def assert_(self, condition: Any, message: Callable[[], Any]) -> None:
        from torch_tile.language.ops.programs import device_assert

        condition = unwrap(condition)
        if isinstance(condition, tensor):
            device_assert(condition, message() or "assertion failed")
        elif not condition:
            text = message()
            raise error(f"assertion failed: {text}" if text else "assertion failed")

    def raise_(self) -> None:
        """Before each `raise` of a kernel."""
        run = current()
        if run.tracing and run.is_inside_block:
            raise error(
                "`raise` in a branch or loop of run-time values is not supported: it would happen while the kernel is "
                "compiled, whatever the values; use tl.device_assert"
            )

    # --- blocks ------------------------------------------------------------------------------------------------------

    def _is_runtime(self, condition: Any) -> bool:
        if isinstance(condition, Undefined):
            condition._fail()
        return isinstance(condition, tensor) and current().tracing

    def _scalar_condition(self, condition: tensor, what: str) -> tensor:
        if condition.dims and condition.numel != 1:
            raise error(
                f"{what} expected a scalar condition, got {condition.type}; use tl.where for tiles, or reduce it "
                "with tl.max"
            )
        if condition.dims:
            from torch_tile.language.ops.shapes import reshape

            condition = reshape(condition, ())
        return cast(condition, int1)

    def choose(self, condition: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        condition = unwrap(condition)
        if not self._is_runtime(condition):
            return then() if condition else orelse()
        run = current()
        condition = self._scalar_condition(condition, "a conditional expression")
        results = run.branch(condition, lambda: (then(),), lambda: (orelse(),), ("the expression",))
        return results[0]

    def if_(self, condition: Any, then: Any, orelse: Any, names: Any, values: Any) -> Any:
        condition = unwrap(condition)
        if not self._is_runtime(condition):
            return then(*values) if condition else orelse(*values)
        condition = self._scalar_condition(condition, "`if`")
        return current().branch(condition, lambda: then(*values), lambda: orelse(*values), names)

    def return_if(self, condition: Any, then: Any, orelse: Any, then_values: Any, else_values: Any) -> Any:
        condition = unwrap(condition)
        if not self._is_runtime(condition):
            return then(*then_values) if condition else orelse(*else_values)
        condition = self._scalar_condition(condition, "`if`")
        results = current().branch(
            condition, lambda: (then(*then_values),), lambda: (orelse(*else_values),), ("the value that is returned",)
        )
        return results[0]

    def for_(self, iterable: Any, body: Any, names: Any, values: Any, targets: Any) -> Any:
        if isinstance(iterable, range) and current().tracing:
            return current().for_loop(iterable, body, names, values, targets)
        last: Any = tuple(Undefined(t, "is the variable of a loop that did not run") for t in targets)
        if isinstance(iterable, tensor):
            iter(iterable)
        for item in unwrap(iterable):
            results = body(item, *values)
            values, last = results[: len(names)], results[len(names) :]
        return (*values, *last)

    def while_(self, test: Any, body: Any, names: Any, values: Any) -> Any:
        for _ in builtins.range(MOST_TURNS):
            run = current()
            if run.tracing and run.is_runtime_test(test, values):
                return run.while_loop(test, body, names, values)
            if not test(*values):
                return values
            values = body(*values)
        raise _endless()


runtime = Runtime()
