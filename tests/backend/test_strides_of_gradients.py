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


def trained_in_other_format(optimizer: type[torch.optim.Optimizer], is_compiled: bool) -> list[torch.Tensor]:
    torch.compiler.reset()
    torch.manual_seed(0)
    model = torch.nn.Conv2d(3, 4, 3)
    steps: Any = optimizer(model.parameters(), lr=0.1)  # type: ignore[call-arg]

    def step() -> None:
        steps.step()

    call = torch.compile(step, backend=BACKEND) if is_compiled else step
    for turn in range(4):
        if turn == 2:
            model.to(memory_format=torch.channels_last)
        steps.zero_grad()
        model(torch.randn(2, 3, 8, 8)).square().sum().backward()
        call()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_parameters_of_other_strides(optimizer: type[torch.optim.Optimizer]) -> None:
    """What is written to a copy is written back."""
    own, eager = (trained_in_other_format(optimizer, is_compiled) for is_compiled in (True, False))
    torch.testing.assert_close(own, eager)
    assert own[0].stride() == eager[0].stride()
