"""Variables across loops and branches: which parts of their values a region yields, and how they are rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch_tile.language.aggregates import is_aggregate, rebuilt
from torch_tile.language.compile_time_values import unwrap
from torch_tile.language.core import Undefined, error, tensor
from torch_tile.language.dtypes import dtype_of_number
from torch_tile.language.values import constant, describe, is_number


def flatten(value: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """Leaves of tuples, lists, dicts, dataclasses and descriptors, and a function that rebuilds the value."""
    import dataclasses

    from torch_tile.language.ops.descriptors import block_pointer, tensor_descriptor

    value = unwrap(value)
    if isinstance(value, (tensor, Undefined)):
        return [value], lambda items: items[0]
    if isinstance(value, (block_pointer, tensor_descriptor)):
        return value.flatten(), value.unflatten
    if is_aggregate(value):
        names = list(type(value).__aggregate_fields__)
        inner, rebuild_fields = flatten([getattr(value, n) for n in names])
        whole = value
        return inner, lambda leaves: rebuilt(whole, dict(zip(names, rebuild_fields(leaves), strict=True)))
    if isinstance(value, dict):
        keys = list(value)
        parts, rebuild = flatten(list(value.values()))
        return parts, lambda leaves: dict(zip(keys, rebuild(leaves), strict=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value)]
        parts, rebuild = flatten([getattr(value, f) for f in fields])
        original = value

        def remake(leaves: list[Any]) -> Any:
            return dataclasses.replace(original, **dict(zip(fields, rebuild(leaves), strict=True)))

        return parts, remake
    if isinstance(value, (list, tuple)):
        pieces = [flatten(v) for v in value]
        leaves = [leaf for part, _ in pieces for leaf in part]
        sizes = [len(part) for part, _ in pieces]
        kind = type(value)

        def join(items: list[Any]) -> Any:
            made, at = [], 0
            for (_, rebuild), size in zip(pieces, sizes, strict=True):
                made.append(rebuild(items[at : at + size]))
                at += size
            return kind(*made) if hasattr(value, "_fields") else kind(made)

        return leaves, join
    return [value], lambda items: items[0]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, (tensor, Undefined)) or isinstance(b, (tensor, Undefined)):
        return isinstance(a, tensor) and isinstance(b, tensor) and a.value == b.value and a.dtype == b.dtype
    if isinstance(a, float) and isinstance(b, float) and a != a and b != b:
        return True
    try:
        return (type(a) is type(b) and bool(a == b)) or (
            is_number(a) and is_number(b) and a == b and _kind(a) == _kind(b)
        )
    except Exception:
        return False


def _kind(a: Any) -> int:
    return 0 if isinstance(a, bool) else 1 if isinstance(a, int) else 2


def _as_value(x: Any, type_: Any, name: str, dims: Any = None) -> tensor:
    if isinstance(x, tensor):
        return x
    if not is_number(x):
        raise error(f"variable `{name}` expected a value of the tile language, got {describe(x)}")
    return constant(x, type_ if type_ is not None else dtype_of_number(x))


class Carried:
    """Variables of a loop: those that change from one turn to the next are carried, the others stay what they are."""

    def __init__(self, names: Any, values: Any) -> None:
        self.names, self.values = names, list(values)
        self.parts = [flatten(v) for v in self.values]
        # Per variable and leaf: whether it is carried, and the type of a number that is.
        self.is_carried = [[isinstance(leaf, tensor) for leaf in leaves] for leaves, _ in self.parts]
        self.types: list[list[Any]] = [[None] * len(leaves) for leaves, _ in self.parts]
        self.lost = [isinstance(v, Undefined) for v in self.values]

    @property
    def needs_trial(self) -> bool:
        """Whether there are numbers of which it is not known that the loop changes them."""
        return any(
            not is_carried and not lost
            for flags, lost in zip(self.is_carried, self.lost, strict=True)
            for is_carried in flags
        )

    @property
    def num_carried(self) -> int:
        return sum(self.lost) + sum(sum(flags) for flags in self.is_carried)

    def settle(self, results: Any, where: str) -> None:
        """Learns from one turn which numbers change, and to which type."""
        for k, (name, result) in enumerate(zip(self.names, results, strict=True)):
            if self.lost[k]:
                continue
            leaves, _ = self.parts[k]
            after, _ = flatten(result)
            if len(after) != len(leaves):
                self._structure(name, self.values[k], result)
            for n, (old, new) in enumerate(zip(leaves, after, strict=True)):
                if isinstance(old, tensor) or _same(old, new):
                    continue
                if isinstance(new, Undefined):
                    self.lost[k] = True
                    break
                if not is_number(old) or not (is_number(new) or isinstance(new, tensor)):
                    raise error(
                        f"variable `{name}` carried by this {where} changes from {describe(old)} to "
                        f"{describe(new)}; only values of the tile language may change"
                    )
                self.is_carried[k][n] = True
                type_ = new.dtype if isinstance(new, tensor) else dtype_of_number(new)
                weak = dtype_of_number(old)
                if type_.is_ptr() or (weak.is_floating() and not type_.is_floating()):
                    self._type(name, weak, type_)
                self.types[k][n] = type_ if isinstance(new, tensor) or type_.weight >= weak.weight else weak

    def _structure(self, name: str, old: Any, new: Any) -> None:
        raise error(
            f"variable `{name}` carried by this loop expected to keep its structure, got {describe(old)} and then "
            f"{describe(new)}"
        )

    def _type(self, name: str, old: Any, new: Any) -> None:
        raise error(
            f"variable `{name}` carried by this loop changes type from {old} to {new}; start with a value of type "
            f"{new}, or convert what is assigned, `.to(...)`"
        )

    def initial(self) -> list[tensor]:
        made = []
        for k, (leaves, _) in enumerate(self.parts):
            if not self.lost[k]:
                made += [
                    _as_value(leaf, self.types[k][n], self.names[k])
                    for n, leaf in enumerate(leaves)
                    if self.is_carried[k][n]
                ]
        self.start = made
        return made

    def rebuild(self, arguments: list[tensor], is_after: bool = False) -> list[Any]:
        """Values of all variables, from those that are carried."""
        items = iter(arguments)
        made: list[Any] = []
        for k, (leaves, join) in enumerate(self.parts):
            if self.lost[k]:
                why = (
                    "is assigned inside a loop only, and read after it; give it a value before the loop"
                    if is_after
                    else ("is read before it is assigned in this turn of the loop; give it a value before the loop")
                )
                made.append(Undefined(self.names[k], why))
            else:
                made.append(join([next(items) if self.is_carried[k][n] else leaf for n, leaf in enumerate(leaves)]))
        return made

    def results(self, values: Any) -> list[tensor]:
        """What a turn yields, checked against what it started with."""
        made: list[tensor] = []
        start = iter(self.start)
        for k, (name, value) in enumerate(zip(self.names, values, strict=True)):
            if self.lost[k]:
                continue
            leaves, _ = self.parts[k]
            after, _ = flatten(value)
            if len(after) != len(leaves):
                self._structure(name, self.values[k], value)
            for n, (old, new) in enumerate(zip(leaves, after, strict=True)):
                if not self.is_carried[k][n]:
                    if not _same(old, new):
                        raise error(
                            f"variable `{name}` carried by this loop changes from {describe(old)} to "
                            f"{describe(new)}; only values of the tile language may change"
                        )
                    continue
                first = next(start)
                if isinstance(new, Undefined):
                    new._fail()
                if is_number(new):
                    if isinstance(new, float) and not first.dtype.is_floating():
                        self._type(name, first.dtype, dtype_of_number(new))
                    new = constant(new, first.dtype)
                if not isinstance(new, tensor):
                    raise error(f"variable `{name}` carried by this loop changes from {first.type} to {describe(new)}")
                if new.dtype != first.dtype:
                    self._type(name, first.dtype, new.dtype)
                if new.dims != first.dims:
                    raise error(
                        f"variable `{name}` carried by this loop changes shape from {list(first.dims)} to "
                        f"{list(new.dims)}; start with a value of the final shape, tl.zeros({list(new.dims)}, ...)"
                    )
                made.append(new)
        return made


class Joined:
    """Values after a branch: leaves that differ become results of the branch."""

    def __init__(self) -> None:
        self.left: list[Any] = []
        self.right: list[Any] = []
        self.labels: list[str] = []
        self.plan: list[Any] = []

    def _values(self, mine: list[Any], theirs: list[Any]) -> list[tensor]:
        made = []
        for value, other, name in zip(mine, theirs, self.labels, strict=True):
            if isinstance(value, tensor):
                made.append(value)
                continue
            type_ = other.dtype if isinstance(other, tensor) else None
            weak = dtype_of_number(value) if is_number(value) else None
            if type_ is None and is_number(other) and weak is not None:
                theirs_type = dtype_of_number(other)
                type_ = (
                    theirs_type
                    if (theirs_type.weight, theirs_type.primitive_bitwidth) > (weak.weight, weak.primitive_bitwidth)
                    else weak
                )
            if type_ is not None and weak is not None and (type_.is_ptr() or type_.weight < weak.weight):
                type_ = None
            made.append(_as_value(value, type_, name))
        return made

    def left_values(self) -> list[tensor]:
        return self._values(self.left, self.right)

    def right_values(self) -> list[tensor]:
        return self._values(self.right, self.left)

    def check(self, left: list[tensor], right: list[tensor]) -> list[Any]:
        types = []
        for a, b, name in zip(left, right, self.labels, strict=True):
            subject = name if " " in name else f"variable `{name}`"
            if a.dtype != b.dtype:
                raise error(
                    f"{subject} has type {a.dtype} after one branch of this `if` and {b.dtype} after the other; "
                    "convert one of them, `.to(...)`"
                )
            if a.dims != b.dims:
                raise error(
                    f"{subject} has shape {list(a.dims)} after one branch of this `if` and {list(b.dims)} after "
                    "the other; broadcast one of them"
                )
            types.append((a.dtype, a.dims))
        return types

    def rebuild(self, results: list[tensor]) -> Any:
        items = list(results)
        return tuple(make(items) for make in self.plan)


def join_branches(names: Any, left: Any, right: Any) -> Joined:
    joined = Joined()
    for name, a, b in zip(names, left, right, strict=True):
        if isinstance(a, Undefined) or isinstance(b, Undefined):
            why = "is assigned on one path only, and read after it; give it a value before the `if`"
            joined.plan.append(lambda items, name=name, why=why: Undefined(name, why))
            continue
        (a_leaves, rebuild), (b_leaves, _) = flatten(a), flatten(b)
        subject = name if " " in name else f"variable `{name}`"
        if len(a_leaves) != len(b_leaves):
            raise error(f"{subject} is {describe(a)} after one branch of this `if` and {describe(b)} after the other")
        sources: list[Any] = []
        for x, y in zip(a_leaves, b_leaves, strict=True):
            if _same(x, y):
                sources.append((None, x))
                continue
            for value in (x, y):
                if not isinstance(value, tensor) and not is_number(value):
                    raise error(
                        f"{subject} is {describe(x)} after one branch of this `if` and {describe(y)} after the other; "
                        "only values of the tile language may differ"
                    )
            sources.append((len(joined.labels), None))
            joined.labels.append(name)
            joined.left.append(x)
            joined.right.append(y)

        def make(items: list[tensor], rebuild: Any = rebuild, sources: Any = sources) -> Any:
            return rebuild([value if at is None else items[at] for at, value in sources])

        joined.plan.append(make)
    return joined
