"""`torch._foreach_*`, of which optimizers are made: one operation on each tensor of a list, fused like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _copy(destination: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> Any:
    return aten.copy.default(destination, source, non_blocking)


def _norm(x: torch.Tensor, order: float, dtype: torch.dtype | None) -> Any:
    return torch.linalg.vector_norm(x, order, dtype=dtype)


def _maximum(x: torch.Tensor, other: Any) -> torch.Tensor:
    return torch.maximum(x, other) if isinstance(other, torch.Tensor) else torch.clamp_min(x, other)


def _minimum(x: torch.Tensor, other: Any) -> torch.Tensor:
    return torch.minimum(x, other) if isinstance(other, torch.Tensor) else torch.clamp_max(x, other)


def _addcdiv(x: torch.Tensor, numerator: torch.Tensor, denominator: torch.Tensor, value: float) -> torch.Tensor:
    return torch.addcdiv(x, numerator, denominator, value=value)


def _addcmul(x: torch.Tensor, a: torch.Tensor, b: torch.Tensor, value: float) -> torch.Tensor:
    return torch.addcmul(x, a, b, value=value)


# What does not have the name and the arguments of a function of torch.
_ONE: dict[str, Callable[..., Any]] = {
    "addcdiv": _addcdiv,
    "addcmul": _addcmul,
    "clone": lambda x, memory_format: torch.clone(x, memory_format=memory_format or torch.preserve_format),
    "copy": _copy,
    "max": lambda x: torch.max(x),
    "maximum": _maximum,
    "minimum": _minimum,
    "norm": _norm,
    "zero": torch.zeros_like,
}
# Scalars in one tensor of the CPU, that eager reads before it begins.
_LEFT_OUTSIDE = frozenset(("_foreach_addcdiv.Tensor", "_foreach_addcmul.Tensor", "_foreach_powsum.Scalar"))


def _for_each(one: Callable[..., Any], schema: Any) -> Callable[..., list[torch.Tensor]]:
    arguments = schema.arguments
    is_list = [str(argument.type).startswith("List[") for argument in arguments]
    # Functions of torch know keywords only where the schema does.
    is_keyword = [argument.kwarg_only and argument.name != "memory_format" for argument in arguments]

    def decomposition(*given: Any, **keywords: Any) -> Any:
        values = list(given)
        for argument in arguments[len(values) :]:
            values.append(keywords.get(argument.name, argument.default_value))
        count = max(len(value) for value, many in zip(values, is_list, strict=True) if many)
        results = []
        for i in range(count):
            items = [value[i] if many else value for value, many in zip(values, is_list, strict=True)]
            positional = [item for item, keyword in zip(items, is_keyword, strict=True) if not keyword]
            named = {
                argument.name: item
                for argument, item, keyword in zip(arguments, items, is_keyword, strict=True)
                if keyword
            }
            results.append(one(*positional, **named))
        return results

    return decomposition


def foreach() -> dict[Any, Callable[..., Any]]:
    """Overload -> decomposition, for every functional `_foreach` operator that this torch has."""
    found: dict[Any, Callable[..., Any]] = {}
    for schema in torch._C._jit_get_all_schemas():
        name = schema.name.removeprefix("aten::")
        overload = schema.overload_name or "default"
        if not name.startswith("_foreach_") or name.endswith("_") or "out" in overload.split("_"):
            continue
        base = name.removeprefix("_foreach_")
        one = _ONE.get(base) or getattr(torch, base, None)
        if one is None or f"{name}.{overload}" in _LEFT_OUTSIDE:
            continue
        found[getattr(getattr(aten, name), overload)] = _for_each(one, schema)
    return found
