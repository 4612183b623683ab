"""How the constants of a frozen graph are computed of its parameters: a program of its own, kept beside the graph.

Freezing computes with tensors in many places: folding, scaling of weights, orders of channels. All of that goes through
torch's dispatcher, so what it did is written down there, operator by operator. Run again with parameters of another
process, the prologue gives the constants without the graph it was made for.

Some of what freezing does depends on values (`if the scaled weight is finite`). Numbers that were read from tensors are
part of the prologue; where they come out differently it does not apply.
"""

from __future__ import annotations

import base64
import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses import FakeTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from torch_tile.frontend.constant_folding import outside_of_tracing

_NAMESPACES = ("aten", "prims")


class UnfitError(Exception):
    """The prologue was made for parameters that differ from these in more than their values."""


@dataclasses.dataclass(frozen=True)
class _Value:
    """A tensor of the prologue, by number."""

    number: int


@dataclasses.dataclass
class _Step:
    op: str
    overload: str
    args: Any
    kwargs: Any
    results: list[int]
    numbers: list[Any]
    """What was read from a tensor."""

    def target(self) -> Any:
        namespace, name = self.op.split("::")
        return getattr(getattr(getattr(torch.ops, namespace), name), self.overload)


def _facts(value: torch.Tensor) -> tuple[Any, ...]:
    return tuple(value.shape), value.stride(), value.dtype, value.device


def _is_fit(value: Any) -> bool:
    """What `constant_folding.freeze_inputs` asks of a parameter's own state."""
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)
        and value.layout is torch.strided
        and not value.is_conj()
        and not value.is_neg()
        and not value.is_inference()
        and not (value.device.type == "cpu" and value.is_shared())
    )


@dataclasses.dataclass
class Prologue:
    """Constants as functions of parameters."""

    parameters: dict[int, tuple[Any, ...]]
    """Dtype, sizes and so on by position among the arguments of the graph; numbers of their tensors are the same."""
    steps: list[_Step]
    results: list[int]

    def run(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """The constants.

        Raises:
            UnfitError: other dtypes, sizes or decisions than those it was made for.
        """
        values: dict[int, Any] = {}
        for place, facts in self.parameters.items():
            value = arguments[place]
            if not _is_fit(value) or _facts(value) != facts:
                raise UnfitError(f"parameter {place} is of another kind")
            values[place] = value
        last = {number: i for i, step in enumerate(self.steps) for number in _numbers_in((step.args, step.kwargs))}
        kept = set(self.results)
        with outside_of_tracing():
            for i, step in enumerate(self.steps):
                args, kwargs = pytree.tree_map_only(_Value, lambda v: values[v.number], (step.args, step.kwargs))
                result = step.target()(*args, **kwargs)
                leaves = pytree.tree_leaves(result)
                tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
                numbers = [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]
                if len(tensors) != len(step.results) or numbers != step.numbers:
                    raise UnfitError(f"{step.op} gave {numbers}, not {step.numbers}")
                values.update(zip(step.results, tensors, strict=True))
                for number in _numbers_in((step.args, step.kwargs)):
                    if last[number] == i and number not in kept:
                        values.pop(number, None)
        return [values[number] for number in self.results]

    def dumps(self) -> str:
        return base64.b64encode(pickle.dumps(self)).decode()

    @staticmethod
    def loads(text: str) -> Prologue:
        """Of an entry of our own cache, which is trusted as its code is."""
        loaded = pickle.loads(base64.b64decode(text))
        assert isinstance(loaded, Prologue)
        return loaded


def _numbers_in(tree: Any) -> set[int]:
    return {leaf.number for leaf in pytree.tree_leaves(tree) if isinstance(leaf, _Value)}


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down what is computed of the parameters while it is active."""

    def __init__(self, sources: Sequence[torch.Tensor | None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._parameters = {place: value for place, value in enumerate(sources) if value is not None}
        self._numbers: Any = WeakIdKeyDictionary()
        for place, value in self._parameters.items():
            self._numbers[value] = place
        self._next = len(sources)
        self._steps: list[_Step] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self._note(func, args, kwargs or {}, result)
        return result

    def _note(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        operands = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        leaves = pytree.tree_leaves(result)
        made = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        # Fake tensors stand for values of the graph, not for constants.
        if any(isinstance(t, FakeTensor) or t.is_meta for t in (*operands, *made)):
            return
        if not isinstance(func, torch._ops.OpOverload) or func.namespace not in _NAMESPACES:
            return
        if not all(operand in self._numbers for operand in operands):
            return
        encoded = pytree.tree_map_only(torch.Tensor, lambda t: _Value(self._numbers[t]), (args, kwargs))
        numbers = []
        for tensor in made:
            if tensor not in self._numbers:
                self._numbers[tensor] = self._next
                self._next += 1
            numbers.append(self._numbers[tensor])
        read = [leaf for leaf in leaves if not isinstance(leaf, torch.Tensor)]
        name, _, overload = str(func.name()).partition(".")  # type: ignore[no-untyped-call]
        self._steps.append(_Step(name, overload or "default", encoded[0], encoded[1], numbers, read))

    def finish(self, constants: Sequence[torch.Tensor], frozen: Sequence[int]) -> Prologue | None:
        """The prologue that gives these constants; None if one of them does not come from the parameters alone."""
        if not all(constant in self._numbers for constant in constants):
            return None
        results = [self._numbers[constant] for constant in constants]
        needed, steps = set(results), []
        for step in reversed(self._steps):
            written = set(step.results)
            if torch._C._get_schema(step.op, "" if step.overload == "default" else step.overload).is_mutable:
                written |= _numbers_in((step.args, step.kwargs))
            if step.numbers or written & needed:
                steps.append(step)
                needed |= _numbers_in((step.args, step.kwargs))
        used = {place for place in self._parameters if place in needed} | set(frozen)
        facts = {place: _facts(self._parameters[place]) for place in sorted(used)}
        return Prologue(facts, steps[::-1], results)
