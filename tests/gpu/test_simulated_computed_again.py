"""Values that kernels for a GPU compute again in each reader, run on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.gpu import simulator
from tests.gpu.simulated_graphs import beside_eager, compile_for_gpu

pytestmark = pytest.mark.skipif(not Path(simulator.CLANG).exists(), reason="needs LLVM's clang")

Case = tuple[Callable[..., Any], list[torch.Tensor]]


def fluxes(t: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    flow = (t[1:] - t[:-1]) * 2 * k[1:] * k[:-1] / (k[1:] + k[:-1])
    return t + 0.1 * (F.pad(flow, (0, 0, 0, 1)) - F.pad(flow, (0, 0, 1, 0)))


def warp(image: torch.Tensor, flow: torch.Tensor) -> torch.Tensor:
    rows, columns = (torch.arange(size) * (2 / (size - 1)) - 1 for size in image.shape[2:])
    rows, columns = rows[:, None] + flow[:, 0], columns + flow[:, 1]
    return F.grid_sample(image, torch.stack([columns, rows], -1), align_corners=True)


def alibi(scores: torch.Tensor) -> torch.Tensor:
    heads, length = scores.shape[1], scores.shape[-1]
    slopes = 0.5 ** torch.arange(1, heads + 1)
    place = torch.arange(length)
    return (scores + slopes[:, None, None] * (place - place[:, None]).float()).softmax(-1)


def distances(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    apart = x[:, None] - y
    apart = apart - torch.round(apart / 3) * 3
    return apart.square().sum(-1).amin(1), (apart * apart.square().sum(-1, keepdim=True).rsqrt()).sum(1)


def upwind(u: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        left, right = torch.cat([u[-1:], u[:-1]]), torch.cat([u[1:], u[:1]])
        u = u - 0.1 * torch.where(u > 0, u * (u - left), u * (right - u))
    return u


def butterflies(x: torch.Tensor) -> torch.Tensor:
    for step in (1, 2, 4):
        pairs = x.unflatten(-1, (-1, 2, step))
        x = torch.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], -2).flatten(-3)
    return x


def mosaic(images: torch.Tensor, order: torch.Tensor, left: torch.Tensor) -> torch.Tensor:
    pair = images[order]
    wide = torch.cat([pair[:, 0], pair[:, 1]], 3)
    columns = left[:, None] + torch.arange(images.shape[3])
    return wide[torch.arange(len(order))[:, None], :, :, columns] * 2


CASES: dict[str, Callable[[], Case]] = {
    "fluxes": lambda: (fluxes, [torch.rand(40, 33), torch.rand(40, 33) + 0.5]),
    "warp": lambda: (warp, [torch.rand(2, 3, 20, 24), torch.randn(2, 2, 20, 24) / 8]),
    "ALiBi": lambda: (alibi, [torch.randn(3, 4, 24, 24)]),
    "distances": lambda: (distances, [torch.randn(50, 3), torch.randn(44, 3)]),
    "upwind": lambda: (upwind, [torch.randn(45, 37)]),
    "butterflies": lambda: (butterflies, [torch.randn(64, 16)]),
    "normalised vectors": lambda: (lambda v: v / v.square().sum(-1, keepdim=True).sqrt(), [torch.randn(333, 3)]),
    "windows of squares": lambda: (lambda x: (x * x).unfold(1, 12, 5).mean(-1), [torch.randn(6, 203)]),
    "windows of windows": lambda: (
        lambda x: x.abs().unfold(0, 4, 2).unfold(1, 3, 3).amax((2, 3)),
        [torch.randn(31, 20)],
    ),
    "a mask of all channels": lambda: (
        lambda x, m: torch.where((m.sigmoid() > 0.5) & (m < 1), x, x.flip(3)),
        [torch.randn(2, 3, 17, 19), torch.randn(2, 1, 17, 19)],
    ),
    "softmax over three": lambda: (lambda x: x.softmax(-1), [torch.randn(300, 3)]),
    "mosaic": lambda: (
        mosaic,
        [torch.rand(6, 3, 8, 10), torch.randint(0, 6, (5, 2)), torch.randint(0, 10, (5,))],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_equal_eager(name: str) -> None:
    torch.manual_seed(0)
    f, arguments = CASES[name]()
    files = compile_for_gpu(f, *arguments)
    found, expected = beside_eager(f, files, arguments)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
