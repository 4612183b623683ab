"""Models that are packaged for GPUs: exported on the CPU, as a machine without a device does it."""

from __future__ import annotations

from typing import Any

import torch

from tests.aot.models import Branches, Counter, Equals, Mixed, Pointwise

BATCH = torch.export.Dim("batch", min=2, max=64)
TARGETS = ["host", "sm_80", "sm_90", "sm_90a"]


def _convolution() -> torch.nn.Module:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    model[1].running_var.uniform_(0.5, 2)
    return model


# Name -> module and sizes of its arguments; the first size of each is dynamic.
MODELS: dict[str, tuple[Any, list[tuple[int, ...]]]] = {
    "pointwise": (Pointwise, [(6, 24), (6, 24)]),
    "mixed": (Mixed, [(8, 16), (8, 3)]),
    "counter": (Counter, [(2, 4)]),
    "equals": (Equals, [(2, 4)]),
    "branches": (Branches, [(4, 8)]),
    "convolution": (_convolution, [(2, 3, 16, 16)]),
}


def made(name: str) -> tuple[torch.nn.Module, list[torch.Tensor], torch.export.ExportedProgram]:
    """A model, arguments, and its export with a dynamic batch."""
    torch.manual_seed(0)
    make, shapes = MODELS[name]
    model = make().eval()
    arguments = [torch.randn(shape) for shape in shapes]
    sizes = tuple({0: BATCH} for _ in shapes)
    exported = torch.export.export(model, tuple(x.clone() for x in arguments), dynamic_shapes=sizes)
    return model, arguments, exported
