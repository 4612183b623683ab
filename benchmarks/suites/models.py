"""The five models of tests/models/zoo.py: inference in float32 and bfloat16, and a training step with AdamW."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import torch
from harness import Row, compiled, fill, time_rounds

from tests.models import zoo


def inference(entry: zoo.Entry, backend: str, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    model, inputs = zoo.cast(entry.build().eval(), entry.inference_inputs(), dtype)
    function = compiled(model, backend, dynamic=False)

    def call() -> torch.Tensor:
        with torch.no_grad():
            return function(**inputs).logits

    return call


def training(entry: zoo.Entry, backend: str, original: torch.nn.Module) -> Callable[[], torch.Tensor]:
    model, inputs = copy.deepcopy(original), entry.inputs()
    function = compiled(model, backend, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def call() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = function(**inputs).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def run(options: Any) -> list[Row]:
    rows = []
    for entry in zoo.ENTRIES:
        ways: dict[str, Callable[[str], Callable[[], torch.Tensor]]] = {
            "inference f32": lambda backend, entry=entry: inference(entry, backend, torch.float32),
            "inference bf16": lambda backend, entry=entry: inference(entry, backend, torch.bfloat16),
            "training step f32": lambda backend, entry=entry: training(entry, backend, entry.build().train()),
        }
        for way, make in ways.items():
            name = f"{entry.name} {way}"
            if options.selects(name):
                rows += options.report(run_one(name, make, options))
    return rows


def run_one(
    name: str, make: Callable[[str], Callable[[], torch.Tensor]], options: Any, suite: str = "models"
) -> list[Row]:
    torch.compiler.reset()
    expected = make("eager")()
    # What a whole model in bf16 may differ by is a matter of its depth; this only catches what is plainly wrong.
    tolerance = 0.1 if "bf16" in name else 1e-3
    rows, calls = {}, {}
    for backend in options.backends:
        row = rows[backend] = Row(suite, name, backend)
        start = time.perf_counter()
        try:
            call = make(backend)
            result = call()
        except Exception as error:  # a benchmark goes on with the other backends
            row.note = f"{type(error).__name__}: {error}".split("\n")[0][:160]
            continue
        row.first_call = time.perf_counter() - start
        error = (result - expected).abs().max().item()
        if error <= tolerance * max(1.0, expected.abs().max().item()):
            calls[backend] = call
        else:
            row.note = f"wrong result: off by {error:.3g}"
    for backend, seconds in time_rounds(calls, options.rounds, round_seconds=0.3).items():
        fill(rows[backend], seconds)
    return list(rows.values())
