"""Errors of pointwise functions: at most twice eager's and one unit in the last place more."""

from __future__ import annotations

import pytest
import torch

from tests.compiling import IS_TILE
from tests.ops import accuracy_pointwise as accuracy
from tests.ops.inputs import FLOATS

if not IS_TILE:
    pytest.skip("about the backend tile", allow_module_level=True)

CASES = [(dtype, names) for dtype in FLOATS for names in accuracy.groups(dtype)]


@pytest.mark.parametrize("dtype,names", CASES, ids=[f"{str(d)[6:]}-{n[0]}" for d, n in CASES])
def test_error(dtype: torch.dtype, names: list[str]) -> None:
    wrong = []
    for name, (mine, eager) in accuracy.errors(names, dtype).items():
        if not mine[0] <= 2 * eager[0] + 1:
            wrong.append(f"{name}: {mine[0]:.3g} at {mine[1]} (result {mine[2]}), eager {eager[0]:.3g}")
    assert not wrong, "\n".join(wrong)


def test_page_lists_every_function() -> None:
    page = accuracy.PAGE.read_text()
    assert [name for name in accuracy.FUNCTIONS if f"| `{name}` |" not in page] == []
