"""Sorts of short rows for a GPU, simulated: partners in a piece, a thread, a warp, and in another warp."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.backend.test_sorts import rows
from tests.gpu import simulator
from tests.language.conftest import has_compiler
from torch_tile.frontend.sorts.kernel import Shape, sort_rows

pytestmark = pytest.mark.skipif(
    not Path(simulator.CLANG).exists() or not has_compiler(), reason="needs a compiler and LLVM's clang"
)


@pytest.mark.parametrize("is_reversed", [False, True], ids=["in order", "reversed"])
@pytest.mark.parametrize("length", [2, 100, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8], ids=str)
def test_rows(dtype: torch.dtype, length: int, is_reversed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between barriers threads run one after the other, in both orders."""
    if is_reversed:
        monkeypatch.setenv("TORCH_TILE_SIMULATE_REVERSED", "1")
    x, kept = rows(dtype, 9, length), min(length, 5)
    width = 1 << (length - 1).bit_length()
    shape = Shape(length, width, kept, max(1, 512 // width), dtype, is_descending=True)
    values, places = x.new_empty(9, kept), torch.empty(9, kept, dtype=torch.int64)
    code = sort_rows.warmup(x, values, places, 9, shape, num_warps=4, target="sm_90")
    kernel = simulator.SimulatedKernel(code.asm["llir"], code.asm["tile"])
    kernel.run(-(-9 // shape.rows), 1, 1, [x, values, places, 9])
    expected = torch.sort(x, dim=-1, stable=True, descending=True)
    torch.testing.assert_close(values, expected.values[:, :kept], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(places, expected.indices[:, :kept])
