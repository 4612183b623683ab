"""Small modules that packages are tested with."""

from __future__ import annotations

from typing import Any

import torch


class Mixed(torch.nn.Module):
    """Library calls, kernels, a buffer that counts calls, an argument that is written, a structure of results."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 32)
        self.norm = torch.nn.BatchNorm1d(32)
        self.register_buffer("count", torch.zeros(1))
        self.tied = torch.nn.Linear(16, 32)
        self.tied.weight = self.linear.weight

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
        self.count.add_(1)
        y.mul_(2)
        scaled = torch.softmax(self.norm(self.linear(x)), -1) * self.count
        return {"scaled": scaled + self.tied(x), "sum": y + 1, "rows": x.shape[0], "none": None}


class Pointwise(torch.nn.Module):
    """No library call: runs without LibTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(24))
        self.register_buffer("shift", torch.randn(24))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        hidden = torch.nn.functional.gelu(x * self.weight + self.shift) + y
        normal = torch.nn.functional.layer_norm(hidden, (24,))
        return normal, hidden.sum(0), hidden[:, 4:8].sin()


class Counter(torch.nn.Module):
    """Keeps a sum over calls, without library calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return self.total * 2


class Equals(torch.nn.Module):
    """Buffers that are written and begin with equal bytes, as a parameter does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("first", torch.ones(4))
        self.register_buffer("second", torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.add_(1)
        self.second.mul_(self.first)
        return x * self.weight + self.first + 10 * self.second


class Branches(torch.nn.Module):
    """A branch on a value, with a parameter and a constant of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        return torch.cond(x.sum() > 0, lambda x: x.sin() * weight, lambda x: (x - x.sum(0)).cos(), (x,)) + 1


def export(model: torch.nn.Module, args: tuple[Any, ...], dynamic: Any = None) -> torch.export.ExportedProgram:
    with torch.no_grad():
        return torch.export.export(model.eval(), args, dynamic_shapes=dynamic, strict=False)


class Tied(torch.nn.Module):
    """One tensor under two names, which is written by one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.zeros(4))
        self.register_buffer("other", self.one)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.one.add_(1)
        return x + self.other
