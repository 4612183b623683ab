"""Dynamo guards no strides of what it reads through attributes, so a step of an optimizer meets gradients of others."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.compiling import BACKEND


def trained(optimizer: type[torch.optim.Optimizer], is_compiled: bool) -> list[torch.Tensor]:
    torch.compiler.reset()
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(31, 7)) for _ in range(2)]
    steps: Any = optimizer(parameters, lr=0.1)  # type: ignore[call-arg]

    def step() -> None:
        steps.step()

    call = torch.compile(step, backend=BACKEND) if is_compiled else step
    for turn in range(4):
        for parameter in parameters:
            parameter.grad = torch.randn(31, 7) if turn % 2 else torch.randn(7, 31).t()
        call()
    return [parameter.detach() for parameter in parameters]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_gradients_of_other_strides(optimizer: type[torch.optim.Optimizer]) -> None:
    torch.testing.assert_close(trained(optimizer, True), trained(optimizer, False))
