"""Arguments and results of a program that are neither tensors nor integers, and tensors that its graph holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_tile import _C


def _for_program(value: Any, kind: str) -> Any:
    if kind == "nested":
        return 2  # a length like any other; nothing is computed from it
    return int(value) if kind == "bool" else torch.tensor(value, dtype=torch.float64)


def as_torch_calls_it(program: _C.Program, graph: _C.GraphText) -> Callable[..., Any]:
    """Adds the tensors that the graph holds, and turns what is neither tensor nor integer into that and back."""
    constants, number_inputs, number_outputs = graph.constants, graph.number_inputs, graph.number_outputs
    if not constants and not number_inputs and not number_outputs:
        return program
    passed_on = {place: int(kind.split()[1]) for place, kind in number_outputs if kind.startswith("input ")}

    def call(inputs: list[Any]) -> Any:
        given = {place: inputs[source] for place, source in passed_on.items()}
        for place, kind in number_inputs:
            inputs[place] = _for_program(inputs[place], kind)
        inputs.extend(constants)
        outputs = program(inputs)
        if not number_outputs:
            return outputs
        results: list[Any] = list(outputs)
        for place, kind in number_outputs:
            value = results[place]
            results[place] = given[place] if place in given else bool(value) if kind == "bool" else value.item()
        return results

    call._boxed_call = True  # type: ignore[attr-defined]
    return call
