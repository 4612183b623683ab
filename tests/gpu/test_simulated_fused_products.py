"""Kernels of products with what surrounds them, compiled for a GPU and run on the CPU (tests/gpu/simulator.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from tests.compiling import IS_TILE
from tests.gpu import simulator
from tests.gpu.simulated_attention import Compiled, simulate_kernels
from torch_tile.frontend.products import launch
from torch_tile.frontend.products.blocks import Blocks
from torch_tile.frontend.products.prologue import inlined_operands
from torch_tile.frontend.products.region import find_regions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path(simulator.CLANG).exists() or not IS_TILE, reason="needs LLVM's clang, and kernels of this backend"
    ),
]


def gelu_linear(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(torch.addmm(b, x, w.t())), x


def gated(x: Any, w: Any, b: Any) -> Any:
    return torch.sigmoid(torch.mm(x, w.t())) * torch.mm(x, (w * 2 + 1).t()) + b


def of_few_bits(x: Any, w: Any, b: Any) -> Any:
    return torch.mm(x, (w * 10).to(torch.int8).to(x.dtype).t()) * b


def scaled(x: Any, w: Any, b: Any) -> Any:
    """Scales of columns, which do not depend on the terms, and of terms."""
    right = (w * 10).to(torch.int8).to(x.dtype) * b[:, None] * x[:1]
    return torch.mm(x, right.t())


def batched(x: Any, w: Any, b: Any) -> Any:
    left, right = torch.stack((x, -x)), torch.stack((w.t(), w.t() + 1))
    return torch.relu(torch.bmm(left, right)) - b


def _launched(function: Callable[..., Any], operands: list[torch.Tensor], blocks: Blocks, target: str) -> Any:
    """The graph with simulated kernels, and how many there are."""
    gm = make_fx(function, tracing_mode="fake")(*operands)
    count = 0
    with pytest.MonkeyPatch.context() as patch:
        insert = launch.insert_launch
        device = torch.device("cuda", 0)
        patch.setattr(launch, "insert_launch", lambda *args: insert(*args[:7], device, args[8]))
        for region in list(find_regions(gm.graph)):
            launch.launch_instead(gm, region, inlined_operands(region), blocks, {})
            count += 1
    gm.graph.eliminate_dead_code()
    gm.recompile()
    simulate_kernels(gm, Compiled(gm, target), target)
    return gm, count


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("function", [gelu_linear, gated, of_few_bits, scaled, batched])
@pytest.mark.parametrize(
    ("blocks", "sizes"),
    [
        (Blocks(64, 64, 32, 1, 4, 2), (70, 80, 72)),
        (Blocks(64, 64, 64, 1, 4, 3), (64, 192, 128)),
        (Blocks(16, 32, 64, 1, 2, 2), (1, 128, 40)),
    ],
)
def test_results(function: Callable[..., Any], blocks: Blocks, sizes: tuple[int, int, int], target: str) -> None:
    torch.manual_seed(0)
    rows, depth, columns = sizes
    operands = [torch.randn(*s).to(torch.bfloat16) for s in ((rows, depth), (columns, depth), (columns,))]
    gm, count = _launched(function, operands, blocks, target)
    assert count == 1
    results = [value[0] if isinstance(value, tuple) else value for value in (gm(*operands), function(*operands))]
    exact = function(*(o.double() for o in operands))
    exact = exact[0] if isinstance(exact, tuple) else exact
    unit = torch.finfo(torch.bfloat16).eps * exact.abs().max()
    found, eager = results
    assert (found.double() - exact).abs().max() <= 2 * (eager.double() - exact).abs().max() + unit


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_programs_share_the_terms_of_a_block(target: str) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(20, 640).to(torch.bfloat16), torch.randn(72, 640).to(torch.bfloat16)
    gm, _ = _launched(lambda x, w: torch.mm(x, w.t()) + 1, [x, w], Blocks(16, 64, 64, 4, 4, 2), target)
    exact = x.double() @ w.double().t() + 1
    eager = x @ w.t() + 1
    unit = torch.finfo(torch.bfloat16).eps * exact.abs().max()
    assert (gm(x, w).double() - exact).abs().max() <= 2 * (eager.double() - exact).abs().max() + unit
