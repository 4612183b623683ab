"""What the arguments of a saved graph must be: a graph is right for the sizes that it was compiled for alone.

torch.compile guards a graph within Dynamo. A graph that is compiled and loaded by itself has these guards instead, as
text, for they are saved with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.source import LocalSource
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import SYMPY_INTERP, ShapeEnv

_OF_STRIDE = re.compile(r"L\['(\w+)'\]\.stride\(\)\[(\d+)\]")


def static(value: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A fake tensor without symbolic sizes, which is a leaf of autograd where the tensor is."""
    return mode.from_tensor(value, static_shapes=True)


def check_inputs(gm: GraphModule, inputs: Any) -> None:
    """Raise unless these can be inputs of the graph.

    Raises:
        ValueError: another number of inputs, or another value where the graph has a tensor.
    """
    placeholders = gm.graph.find_nodes(op="placeholder")
    is_list = isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes))
    if not is_list or len(placeholders) != len(inputs):
        names = ", ".join(str(node.target) for node in placeholders) or "none"
        got = len(inputs) if is_list else "a tensor" if isinstance(inputs, torch.Tensor) else type(inputs).__name__
        raise ValueError(f"example_inputs expected a list of {len(placeholders)} values ({names}), got {got}")
    for node, value in zip(placeholders, inputs, strict=True):
        if isinstance(_known(node), torch.Tensor) and not isinstance(value, torch.Tensor):
            raise ValueError(f"example input `{node.target}` expected a tensor, got {type(value).__name__}")


def _known(node: torch.fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


def fake_inputs(gm: GraphModule, inputs: Sequence[Any], mode: FakeTensorMode) -> list[Any]:
    """Inputs as the graph's own fake tensors have them: a size is dynamic where it is a symbol there."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    return [_fake_input(_known(node), value, mode) for node, value in zip(placeholders, inputs, strict=True)]


def _fake_input(known: Any, value: Any, mode: FakeTensorMode) -> Any:
    if isinstance(value, FakeTensor) or not isinstance(value, torch.Tensor):
        return known if isinstance(known, torch.SymInt) else value
    is_dynamic = isinstance(known, FakeTensor) and known.fake_mode is mode and known._has_symbolic_sizes_strides
    if not is_dynamic:
        return static(value, mode)
    if known.requires_grad == value.requires_grad:
        return known
    with mode:
        return known.detach().requires_grad_(value.requires_grad)


class ArgumentGuards:
    """Checks of the arguments of one graph. `data` is all of it, as JSON can say it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self._names: list[str] = data["names"]
        self._kinds: list[str] = data["kinds"]
        self._needs_grad: list[bool] = data["needs_grad"]
        self._conditions = [(text, *_compiled(text)) for text in data["conditions"]]

    @staticmethod
    def of(gm: GraphModule, inputs: Sequence[Any], shape_env: ShapeEnv | None) -> ArgumentGuards:
        """Of fake inputs, after all that asks for their sizes has been traced."""
        names = [str(node.target) for node in gm.graph.find_nodes(op="placeholder")]
        conditions = []
        for name, value in zip(names, inputs, strict=True):
            if isinstance(value, (int, float, str)) and math.isfinite(0 if isinstance(value, str) else value):
                conditions.append(f"L[{name!r}] == {value!r}")
            elif isinstance(value, torch.Tensor):
                conditions += _static_conditions(name, value)
        sized = [(n, v) for n, v in zip(names, inputs, strict=True) if isinstance(v, (FakeTensor, torch.SymInt))]
        symbols = list(_symbols(value for _, value in sized))
        if shape_env is not None and symbols:
            conditions += shape_env.produce_guards(
                [value for _, value in sized],
                [LocalSource(name) for name, _ in sized],
                guards=shape_env.get_pruned_guards(symbols),
            )
        return ArgumentGuards(
            {
                "names": names,
                "kinds": [_kind(value) for value in inputs],
                "needs_grad": [isinstance(value, torch.Tensor) and value.requires_grad for value in inputs],
                "conditions": list(dict.fromkeys(conditions)),
            }
        )

    def check(self, arguments: Sequence[Any]) -> None:
        """Raise unless the graph is right for these arguments.

        Raises:
            TypeError: another number of arguments, or one of another kind.
            ValueError: a size, stride or number that the graph was not compiled for; names the argument.
            RuntimeError: an argument needs a gradient that the graph does not compute.
        """
        if len(arguments) != len(self._names):
            raise TypeError(f"expected {len(self._names)} inputs ({', '.join(self._names)}), got {len(arguments)}")
        for name, kind, value in zip(self._names, self._kinds, arguments, strict=True):
            if _kind(value) != kind:
                raise TypeError(f"input `{name}` expected {kind}, got {_kind(value)}")
        values = dict(zip(self._names, arguments, strict=True))
        for text, code, stride in self._conditions:
            if stride is not None and values[stride[0]].dim() > stride[1] and values[stride[0]].shape[stride[1]] == 1:
                continue  # no element is at another place
            if not eval(code, SYMPY_INTERP, {"L": values}):
                raise ValueError(_broken(text, values))
        if not torch.is_grad_enabled():
            return
        for name, needs_grad, value in zip(self._names, self._needs_grad, arguments, strict=True):
            if isinstance(value, torch.Tensor) and value.requires_grad and not needs_grad:
                raise RuntimeError(
                    f"input `{name}` needs a gradient, and the graph was compiled without: call it under "
                    "torch.no_grad(), or compile it with an example input that needs one"
                )


def _compiled(text: str) -> tuple[Any, tuple[str, int] | None]:
    stride = _OF_STRIDE.match(text)
    return compile(text, "<guard>", "eval"), None if stride is None else (stride[1], int(stride[2]))


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        layout = "" if value.layout is torch.strided else f" and layout {value.layout}"
        return f"a tensor of {str(value.dtype).removeprefix('torch.')} with {value.dim()} dimensions{layout}"
    is_integer = isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool)
    return "an integer" if is_integer else type(value).__name__


def _static_conditions(name: str, value: torch.Tensor) -> Iterator[str]:
    for what, numbers in (("size", value.shape), ("stride", value.stride())):
        for dim, number in enumerate(numbers):
            if isinstance(number, int) and (what == "size" or value.numel() != 0):
                yield f"L[{name!r}].{what}()[{dim}] == {number}"


def _symbols(values: Iterator[Any]) -> Iterator[torch.SymInt]:
    for value in values:
        sizes = (*value.shape, *value.stride()) if isinstance(value, torch.Tensor) else (value,)
        yield from (size for size in sizes if isinstance(size, torch.SymInt))


def _broken(condition: str, values: dict[str, Any]) -> str:
    named = [name for name in values if f"L[{name!r}]" in condition]
    text = condition
    for name in named:
        text = text.replace(f"L[{name!r}]", name)
    found = [
        f"`{name}` is {list(values[name].shape)} with strides {list(values[name].stride())}"
        if isinstance(values[name], torch.Tensor)
        else f"`{name}` is {values[name]}"
        for name in named
    ]
    return f"the graph was compiled for inputs with {text}; {', '.join(found)}"
