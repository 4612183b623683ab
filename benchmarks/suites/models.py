"""The five models of tests/models/zoo.py: inference in float32 and bfloat16, and a training step with AdamW."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from backends import compiled, enter
from harness import Row, failure, fill, time_rounds

from tests.models import zoo


@dataclasses.dataclass
class Timed:
    """A call that is timed, and what is compared of its first one: tensors, by name."""

    call: Callable[[], torch.Tensor]
    others: Callable[[], dict[str, torch.Tensor]] = dict

    def first(self) -> dict[str, torch.Tensor]:
        return {"result": self.call(), **self.others()}


def inference(entry: zoo.Entry, backend: str, dtype: torch.dtype, freezing: bool = False) -> Timed:
    model, inputs = zoo.cast(entry.build().eval(), entry.inference_inputs(), dtype)
    function = compiled(model, backend, freezing, dynamic=False)

    def call() -> torch.Tensor:
        with torch.no_grad():
            return function(**inputs).logits

    return Timed(call)


def training(entry: zoo.Entry, backend: str, original: torch.nn.Module, dtype: torch.dtype = torch.float32) -> Timed:
    """Loss and gradients of the first step are compared."""
    model, inputs = zoo.cast(copy.deepcopy(original), entry.inputs(), dtype)
    function = compiled(model, backend, dynamic=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)

    def call() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = function(**inputs).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    def gradients() -> dict[str, torch.Tensor]:
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    return Timed(call, gradients)


def run(options: Any) -> list[Row]:
    rows = []
    for entry in zoo.ENTRIES:
        # A backend, and the dtype where it is not that of the case: the reference is in float64.
        ways: dict[str, Callable[[str, torch.dtype | None], Timed]] = {
            "inference f32": lambda b, d, e=entry: inference(e, b, d or torch.float32),
            "inference bf16": lambda b, d, e=entry: inference(e, b, d or torch.bfloat16),
            "training step f32": lambda b, d, e=entry: training(e, b, e.build().train(), d or torch.float32),
        }
        for way, make in ways.items():
            name = f"{entry.name} {way}"
            if options.selects(name):
                rows += options.report(run_one(name, make, options))
    return rows


def _differs(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], tolerance: float) -> str:
    if actual.keys() != expected.keys():
        return f"wrong result: {sorted(actual.keys() ^ expected.keys())[:3]} are on one side alone"
    # A gradient of next to nothing is what is left of large ones: it is measured by the largest of all.
    largest = max((e.abs().max().item() for name, e in expected.items() if name != "result"), default=0.0)
    for name, wanted in expected.items():
        error = (actual[name].double() - wanted).abs().max().item()
        scale = max(1.0, wanted.abs().max().item()) if name == "result" else largest
        if not error <= tolerance * scale:
            return f"wrong result: {name} is off by {error:.3g}, of {scale:.3g}"
    return ""


def run_one(
    name: str, make: Callable[[str, torch.dtype | None], Timed], options: Any, suite: str = "models"
) -> list[Row]:
    """One model on all backends. What differs from float64 has a note and no time."""
    torch.compiler.reset()
    expected = make("eager", torch.float64).first()
    # What a whole model in bf16 may differ by is a matter of its depth; this only catches what is plainly wrong.
    tolerance = 0.1 if "bf16" in name else 1e-3
    rows, calls = {}, {}
    backends: Sequence[str] = options.backends
    for backend in backends:
        row = rows[backend] = Row(suite, name, backend)
        enter(backend)
        start = time.perf_counter()
        try:
            timed = make(backend, None)
            result = timed.first()
        except Exception as error:  # a benchmark goes on with the other backends
            row.note = failure(error)
            continue
        row.first_call = time.perf_counter() - start
        row.note = _differs(result, expected, tolerance)
        if not row.note:
            calls[backend] = timed.call
    for backend, seconds in time_rounds(calls, options.rounds, round_seconds=0.3).items():
        fill(rows[backend], seconds)
    return list(rows.values())
