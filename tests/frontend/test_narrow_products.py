"""Products on GPU with operands of few bits, without timing (frontend/products/fuse.py): which become kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from torch_tile import config
from torch_tile.frontend.launches.embed_kernels import GivenKernel
from torch_tile.frontend.products import blocks, fuse


@pytest.fixture(autouse=True)
def h100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse, "_gpu_of", lambda device: blocks.Gpu(132, 227 << 10))
    monkeypatch.setattr("torch_tile.targets.compiler_options", lambda device: {"target": "sm_90a"})


def launches(function: Callable[..., Any], shapes: list[tuple[Any, torch.dtype]], **options: Any) -> int:
    """Kernels of products in the graph of a function of fake CUDA tensors."""
    with FakeTensorMode():
        operands = [torch.empty(shape, dtype=dtype, device="cuda") for shape, dtype in shapes]
        gm = make_fx(function)(*operands)
        changed, count = fuse.fuse_narrow_products(gm, config.resolve(options=options))
    found = sum(isinstance(node.target, GivenKernel) for node in changed.graph.nodes)
    assert found == count and (count > 0 or changed is gm)
    return count


def scaled(x: Any, weight: Any, scale: Any) -> Any:
    return F.linear(x, weight.to(x.dtype)) * scale


def converted(x: Any, weight: Any) -> Any:
    return F.linear(x, weight.to(x.dtype))


def gated(x: Any, gate: Any, up: Any) -> Any:
    return F.silu(F.linear(x, gate.to(x.dtype))) * F.linear(x, up.to(x.dtype))


def of(rows: int, columns: int, depth: int, dtype: torch.dtype) -> list[tuple[Any, torch.dtype]]:
    return [((rows, depth), torch.bfloat16), ((columns, depth), dtype)]


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.float8_e4m3fn])
@pytest.mark.parametrize("rows", [2, 16, 64])
def test_few_rows(rows: int, dtype: torch.dtype) -> None:
    assert launches(converted, of(rows, 8192, 8192, dtype)) == 1
    assert launches(scaled, [*of(rows, 8192, 8192, dtype), ((8192,), torch.bfloat16)]) == 1


def test_every_product() -> None:
    assert launches(gated, [*of(16, 8192, 4096, torch.int8), ((8192, 4096), torch.int8)]) == 2


@pytest.mark.parametrize(
    "shapes",
    [
        of(2048, 4096, 4096, torch.int8),  # the product takes longer than the conversion
        of(16, 256, 256, torch.int8),  # the beginning and the end of a kernel take longer
        of(16, 8192, 8188, torch.int8),  # rows of 8188 bytes: no loads of 16
        of(16, 8192, 8192, torch.bfloat16),  # nothing is computed
        of(16, 8192, 8192, torch.int32),  # of more bytes
    ],
)
def test_what_stays_the_library_s(shapes: Any) -> None:
    assert launches(converted, shapes) == 0


def test_options() -> None:
    shapes = of(16, 8192, 8192, torch.int8)
    for options in ({"max_autotune": True}, {"matmul_library": "aten"}, {"disable_passes": "narrow_products"}):
        assert launches(converted, shapes, **options) == 0
