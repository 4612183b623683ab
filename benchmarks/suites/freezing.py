"""Inference with parameters as constants (`freezing` of both backends): the zoo's models, and residual networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from backends import compiled
from harness import Row
from torch import nn

from suites.models import Timed, inference, run_one
from tests.models import zoo


class Block(nn.Module):
    """Two convolutions with batch norm, and the image that went in."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.first_norm, self.second_norm = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(self.first_norm(self.first(x)))
        return torch.relu(self.second_norm(self.second(inner)) + x)


def residual_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), Block(32), Block(32),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), Block(64), Block(64),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    ).eval()  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 512), nn.SiLU(), nn.Linear(512, 512)).eval()


def of_tensor(build: Callable[[], nn.Module], x: torch.Tensor, backend: str, dtype: torch.dtype | None) -> Timed:
    torch.manual_seed(0)
    x = x.to(dtype or x.dtype)
    function = compiled(build().to(x.dtype), backend, freezing=True, dynamic=False)

    def call() -> torch.Tensor:
        with torch.no_grad():
            return function(x)  # type: ignore[no-any-return]

    return Timed(call)


def run(options: Any) -> list[Row]:
    ways: dict[str, Callable[[str, torch.dtype | None], Timed]] = {}
    for dtype, short in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
        for entry in zoo.ENTRIES:
            ways[f"{entry.name} frozen {short}"] = lambda b, d, e=entry, t=dtype: inference(e, b, d or t, freezing=True)
        torch.manual_seed(0)
        images = torch.randn(8, 3, 32, 32, dtype=dtype)
        ways[f"residual network frozen {short}"] = lambda b, d, x=images: of_tensor(residual_network, x, b, d)
        last = images.to(memory_format=torch.channels_last)
        ways[f"residual network channels_last frozen {short}"] = lambda b, d, x=last: of_tensor(
            residual_network, x, b, d
        )
        for rows in (4, 64, 1024):
            x = torch.randn(rows, 512, dtype=dtype)
            ways[f"perceptron of {rows} rows frozen {short}"] = lambda b, d, x=x: of_tensor(perceptron, x, b, d)
    found = []
    for name, make in ways.items():
        if options.selects(name):
            found += options.report(run_one(name, make, options, "freezing"))
    return found
