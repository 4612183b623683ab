"""Forward and gradients of many architectures against eager and float64, static and with changing lengths.

`TORCH_TILE_MODEL_COUNTS=file` appends a row of counts for each: kernels, calls outside, graph breaks.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils import _pytree as pytree

from tests.compiling import BACKEND, IS_TILE, count, fresh
from tests.models.architectures import ARCHITECTURES, Architecture

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

every = pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda a: a.name)


def _result(output: Any) -> torch.Tensor:
    for name in ("logits", "last_hidden_state", "logits_per_image"):
        if getattr(output, name, None) is not None:
            result: torch.Tensor = getattr(output, name)
            return result
    raise AssertionError(f"{type(output).__name__} holds no tensor that is known")


def _loss(model: Any, inputs: Any) -> torch.Tensor:
    result = _result(model(**inputs))
    weights = torch.linspace(-1, 1, result.numel(), dtype=torch.float64).to(result.dtype)
    return (result.flatten() * weights).sum()


def _error(result: torch.Tensor, exact: torch.Tensor) -> float:
    return ((result.double() - exact.double()).norm() / exact.double().norm().clamp_min(1e-30)).item()


def _wide(inputs: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda t: t.double() if t.is_floating_point() else t, inputs)


def _gradients(model: torch.nn.Module, call: Any, inputs: Any) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    _loss(call, inputs).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def _record(architecture: Architecture, what: str) -> None:
    if path := os.environ.get("TORCH_TILE_MODEL_COUNTS"):
        names = ("graphs", "kernels", "launches", "externs", "pycalls", "fallbacks")
        row = {"model": architecture.name, "kind": architecture.kind, "what": what, **{n: count(n) for n in names}}
        row["breaks"] = sum(counters["graph_break"].values())
        with open(path, "a") as file:
            file.write(json.dumps(row) + "\n")


def _check_counts(architecture: Architecture) -> None:
    assert sum(counters["graph_break"].values()) <= architecture.breaks, dict(counters["graph_break"])
    if IS_TILE:
        assert count("fallbacks") == 0 and count("kernels") > 0


@every
def test_inference(architecture: Architecture) -> None:
    model, inputs = architecture.build().eval(), architecture.inputs()
    with torch.no_grad():
        expected = _result(model(**inputs))
        fresh()
        result = _result(torch.compile(model, backend=BACKEND, dynamic=False)(**inputs))
    assert result.dtype == expected.dtype and result.shape == expected.shape
    assert _error(result, expected) < 2e-5
    _record(architecture, "inference")
    _check_counts(architecture)


@every
def test_gradients(architecture: Architecture) -> None:
    """As near to the gradients in float64 as eager's are."""
    model, inputs = architecture.build().eval(), architecture.inputs()
    eager, exact_model = copy.deepcopy(model), copy.deepcopy(model).double()
    rounded = _gradients(eager, eager, inputs)
    exact = _gradients(exact_model, exact_model, _wide(inputs)) if architecture.float64 else rounded
    fresh()
    result = _gradients(model, torch.compile(model, backend=BACKEND, dynamic=False), inputs)
    assert result.keys() == exact.keys()
    largest = max(g.norm().item() for g in exact.values())
    for name, expected in exact.items():
        if expected.norm() > 1e-6 * largest:
            assert _error(result[name], expected) < max(2e-4, 3 * _error(rounded[name], expected)), name
    _record(architecture, "gradients")
    _check_counts(architecture)


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a.dynamic], ids=lambda a: a.name)
def test_changing_lengths(architecture: Architecture) -> None:
    model = architecture.build().eval()
    fresh()
    program = torch.compile(model, backend=BACKEND, dynamic=True)
    with torch.no_grad():
        for batch, length in ((2, 12), (3, 9), (4, 17)):
            inputs = architecture.inputs(batch, length)
            assert _error(_result(program(**inputs)), _result(model(**inputs))) < 2e-5
    _record(architecture, "dynamic")
    _check_counts(architecture)
