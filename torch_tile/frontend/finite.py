"""Option `nan_asserts`: a graph that makes NaN or infinity of finite numbers stops the program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._functorch._aot_autograd.logging_utils import get_aot_graph_name


def _is_finite(values: Sequence[Any]) -> list[bool]:
    return [
        not isinstance(x, torch.Tensor)
        or not (x.is_floating_point() or x.is_complex())
        or bool(torch.isfinite(x.detach().float() if x.dtype.itemsize == 1 else x.detach()).all())
        for x in values
    ]


def asserts_finite(compiled: Callable[..., Any], kind: str, name: str | None = None) -> Callable[..., Any]:
    """A compiled graph whose results are looked at after each call. What takes in NaN or infinity may return it.

    Raises:
        AssertionError: by the function returned; names the graph and the result.
    """
    name = name or get_aot_graph_name()

    @functools.wraps(compiled)
    def call(inputs: list[Any]) -> Any:
        are_finite = all(_is_finite(inputs))
        results = compiled(inputs)
        if are_finite:
            for number, is_fine in enumerate(_is_finite(results)):
                if not is_fine:
                    raise AssertionError(
                        f"nan_asserts: result {number} of graph {name} ({kind}) holds NaN or infinity; no input does"
                    )
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
