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
        if isinstance(value, torch.Tensor) and id(value) in seen:
            value = value.detach()
        distinct.append(value)
        seen.add(id(value))
    return distinct
