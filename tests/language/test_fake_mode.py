"""Kernels are traced while graphs are compiled, where torch may have fake tensors switched on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from torch_tile.interpreter import numerics
from torch_tile.language.ops.math import through_torch


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8e5", "fp8e4nv", "fp8e5b16", "fp8e4b8", "fp8e4b15"])
def test_numbers_are_rounded(name: str) -> None:
    values: Any = np.float32([0.0, 0.3, -1.7, 1.5])
    expected = numerics.round_narrow(name, values)
    numerics._tables.clear()
    with FakeTensorMode():
        np.testing.assert_array_equal(numerics.round_narrow(name, values), expected)


def test_functions_of_torch() -> None:
    expected = through_torch("erf")(np.float32(0.5))
    with FakeTensorMode():
        assert through_torch("erf")(np.float32(0.5)) == expected
