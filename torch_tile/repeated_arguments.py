"""One tensor as two arguments of a program that was compiled for two tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def with_own_tensors(values: Iterable[Any]) -> list[Any]:
    """The values, with another tensor over the same memory where a tensor comes again: the runtime then sees that
    inputs share memory, and refuses those of which the program writes one."""
    seen, distinct = set[int](), list[Any]()
    for value in values:
        if id(value) in seen and isinstance(value, torch.Tensor) and value.layout is torch.strided:
            value = torch.ops.aten.alias.default(value)
        distinct.append(value)
        seen.add(id(value))
    return distinct
