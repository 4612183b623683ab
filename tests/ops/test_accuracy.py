"""No result is further from float64 than twice eager's and one ulp. The figures: docs/generated/accuracy-*.md."""

from __future__ import annotations

import pytest
import torch

from tests.ops.accuracy import Case, is_close_enough, measure, pairs

ALL = [
    pytest.param(
        case,
        dtype,
        id=f"{case} {str(dtype).removeprefix('torch.')}",
        marks=[pytest.mark.slow] * case.slow,
    )
    for case, dtype in pairs("reductions")
]


@pytest.mark.parametrize(("case", "dtype"), ALL)
def test_error_is_eagers(case: Case, dtype: torch.dtype) -> None:
    ours, eagers = measure(case, dtype)
    assert is_close_enough(ours, eagers), f"{ours} ulp, eager {eagers}"
