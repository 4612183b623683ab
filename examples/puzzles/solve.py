"""Runs the solutions in the interpreter, which checks every address, and compiled.

Run: python examples/puzzles/solve.py
"""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

import torch_tile


def mul_relu_backward(x: torch.Tensor, y: torch.Tensor, dz: torch.Tensor) -> torch.Tensor:
    return torch.where(x * y[:, None] > 0, y[:, None] * dz, 0.0)


def conv2d(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return F.conv2d(F.pad(x, (0, 3, 0, 3))[:, None], k[None, None])[:, 0]


def quantized_matmul(
    scale: torch.Tensor, offset: torch.Tensor, weight: torch.Tensor, activation: torch.Tensor
) -> torch.Tensor:
    bits = torch.arange(8) * 4
    weights, offsets = (weight[..., None] >> bits) & 15, (offset[:, None, None] >> bits[None, :, None]) & 15
    return (scale[..., None] * (weights - offsets)).flatten(1) @ activation


Puzzle = tuple[str, Callable[..., torch.Tensor], list[tuple[int, ...]], dict[str, int], dict[str, int]]
# Kernel, what it computes, sizes of its operands, other arguments, sizes of blocks.
PUZZLES: list[Puzzle] = [
    ("add", lambda x: x + 10, [(32,)], {"N0": 32}, {"B0": 32}),
    ("add_blocks", lambda x: x + 10, [(200,)], {"N0": 200}, {"B0": 32}),
    ("add_outer", lambda x, y: x + y[:, None], [(32,), (32,)], {"N0": 32, "N1": 32}, {"B0": 32, "B1": 32}),
    ("add_outer_blocks", lambda x, y: x + y[:, None], [(100,), (90,)], {"N0": 100, "N1": 90}, {"B0": 32, "B1": 32}),
    ("mul_relu", lambda x, y: (x * y[:, None]).relu(), [(100,), (90,)], {"N0": 100, "N1": 90}, {"B0": 32, "B1": 32}),
    (
        "mul_relu_backward",
        mul_relu_backward,
        [(90, 100), (90,), (90, 100)],
        {"N0": 100, "N1": 90},
        {"B0": 32, "B1": 32},
    ),
    ("long_sum", lambda x: x.sum(1), [(4, 200)], {"N0": 4, "N1": 32, "T": 200}, {"B0": 1, "B1": 32}),
    ("long_softmax", lambda x: x.softmax(1), [(4, 200)], {"N0": 4, "N1": 32, "T": 200}, {"B0": 1, "B1": 32}),
    (
        "scalar_attention",
        lambda q, k, v: (q[:, None] * k).softmax(1) @ v,
        [(200,), (200,), (200,)],
        {"N0": 200, "T": 200},
        {"B0": 64},
    ),
    ("conv2d", conv2d, [(4, 8, 8), (4, 4)], {"N0": 4, "H": 8, "W": 8}, {"KH": 4, "KW": 4, "B0": 1}),
    (
        "matmul",
        torch.matmul,
        [(4, 32, 32), (4, 32, 32)],
        {"N0": 32, "N1": 32, "N2": 4, "MID": 32},
        {"B0": 16, "B1": 16, "B2": 1, "B_MID": 16},
    ),
    (
        "quantized_matmul",
        quantized_matmul,
        [(32, 8), (32,), (32, 8), (64, 32)],
        {"N0": 32, "N1": 32, "MID": 64},
        {"B0": 16, "B1": 16, "B_MID": 64},
    ),
]


def operand(name: str, place: int, size: tuple[int, ...]) -> torch.Tensor:
    if name == "quantized_matmul" and place in (1, 2):
        return torch.randint(-100000, 100000, size, dtype=torch.int32)
    return torch.rand(size) - 0.5


def solve(puzzle: Puzzle, kernels: dict[str, Any]) -> None:
    name, expected, sizes, others, blocks = puzzle
    operands = [operand(name, place, size) for place, size in enumerate(sizes)]
    wanted = expected(*operands)
    grid = tuple(torch_tile.cdiv(others.get(f"N{k}", 1), blocks.get(f"B{k}", 1)) for k in range(3))
    if name in ("long_sum", "long_softmax"):
        grid = (4, 1, 1)
    for run in (kernels[name].interpret[grid], kernels[name][grid]):
        result = torch.full_like(wanted, float("nan"))
        run(*operands, result, **others, **blocks)
        torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-3)
    print(f"{name}: right")


def main() -> None:
    torch.manual_seed(0)
    kernels = runpy.run_path(str(Path(__file__).with_name("kernels.py")))
    for puzzle in PUZZLES:
        solve(puzzle, kernels)
    print(f"{len(PUZZLES)} of 12 puzzles solved")


if __name__ == "__main__":
    main()
