"""Cases of the operator suite as Inductor writes them for Triton; TORCH_TILE_INDUCTOR_STEP=1 runs them all."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch._inductor import config as inductor_config

from tests.compiling import assert_same
from tests.ops.cases import CASES
from tests.ops.inputs import Inputs

STEP = int(os.environ.get("TORCH_TILE_INDUCTOR_STEP", "41"))
# Additions of 16-bit floats by atomics round in the order in which they come.
PAIRS = [(c, d) for c in CASES for d in c.dtypes if not (d.itemsize < 4 and c.name.startswith("scatter_add"))]


@pytest.mark.parametrize("case, dtype", PAIRS[::STEP], ids=str)
def test_case(case: Any, dtype: torch.dtype) -> None:
    arguments = case.samples(Inputs(dtype))[0]

    def run(function: Any) -> Any:
        torch.manual_seed(0)
        return function(*[a.clone() if isinstance(a, torch.Tensor) else a for a in arguments])

    torch.compiler.reset()
    limit = 2e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-4
    with inductor_config.patch(cpu_backend="triton", force_disable_caches=True, compile_threads=1):
        result = run(torch.compile(case.function, backend="inductor", dynamic=False))
    assert_same(result, run(case.function), limit, limit, check_stride=False)
