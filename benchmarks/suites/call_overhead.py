"""What a call costs beside the work: so little data that the kernels take no time."""

from __future__ import annotations

from typing import Any

import torch
from harness import Case, Row, run_case


def one_kernel(x):
    return x * 2 + 1


def many_arguments(*tensors):
    return [x + 1 for x in tensors]


def ten_layers(x, *weights):
    for weight in weights:
        x = torch.relu(x @ weight)
    return x


def small(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


CASES = [
    Case("one kernel, 16 elements", lambda: (one_kernel, [small(16)])),
    Case("one kernel, 16 elements, train", lambda: (one_kernel, [small(16).requires_grad_(True)]), grad=True),
    Case("32 inputs, 32 outputs", lambda: (many_arguments, [small(16, seed=i) for i in range(32)])),
    Case("ten matmul-relu layers", lambda: (ten_layers, [small(8, 16), *(small(16, 16, seed=i) for i in range(10))])),
]


def run(options: Any) -> list[Row]:
    rows = []
    for case in CASES:
        if options.selects(case.name):
            rows += options.report(run_case("call_overhead", case, options.backends, options.rounds))
    return rows
