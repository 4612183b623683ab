"""Circular padding becomes concatenations: values, strides, gradients and errors as in eager mode."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import assert_same, compiled, count, fresh, gradients
from torch_tile.frontend import aot

CASES = [
    ((2, 3, 9), (1, 2)),
    ((2, 3, 9), (9, 0)),
    ((3, 9), (0, 0)),
    ((2, 3, 9, 7), (1, 2, 3, 4)),
    ((2, 3, 9, 7), (0, 0, 0, 9)),
    ((2, 2, 4, 5, 6), (6, 0, 5, 1, 0, 4)),
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("shape, pad", CASES, ids=lambda value: "x".join(map(str, value)))
def test_equals_eager(shape: tuple[int, ...], pad: tuple[int, ...], dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, pad, mode="circular")

    x = torch.randn(shape)
    inputs = (x.to(torch.int32), x.transpose(-1, -2).contiguous().transpose(-1, -2))
    for given in inputs[:1] if dynamic else inputs:  # torch takes up to 10 s to trace one with dynamic sizes
        result, expected = compiled(function, dynamic=dynamic)(given), function(given)
        assert_same(result, expected, exact=True)
        assert result.is_contiguous() and result.data_ptr() != given.data_ptr()
    for a, b in zip(gradients(compiled(function, dynamic=dynamic), [x]), gradients(function, [x]), strict=True):
        assert_same(a, b)


def test_is_part_of_what_reads_it() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        p = F.pad(x, (1, 1, 1, 1), mode="circular")
        return p[..., 1:-1, 2:] + p[..., 1:-1, :-2] + p[..., 2:, 1:-1] + p[..., :-2, 1:-1] - 4 * x

    x = torch.randn(2, 3, 16, 40)
    fresh()
    assert_same(compiled(function)(x), function(x), rtol=1e-5, atol=1e-5)
    assert count("externs") == 0 and count("kernels") <= 2  # ATen's copies are five


def test_script_of_a_failure_is_of_the_users_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would call what it does not import."""

    def fail(*args: Any) -> Any:
        raise RuntimeError("on purpose")

    monkeypatch.setattr(aot, "_compile", fail)
    x = torch.randn(2, 3, 8)
    with pytest.warns(UserWarning, match="on purpose") as warned:
        other = torch.compile(lambda x: F.pad(x, (1, 1), mode="circular"), backend="tile")
        assert_same(other(x), F.pad(x, (1, 1), mode="circular"), exact=True)
    script = re.search(r"it is (\S+90-run.py)", str(warned[0].message))
    assert script is not None
    text = Path(script[1]).read_text()
    assert "circular" in text and "circular_pads" not in text


def test_module() -> None:
    layer = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular")
    x = torch.randn(2, 3, 8, 8)
    assert_same(compiled(layer)(x), layer(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("pad", [(10, 0), (1, 2, 3), (1, 1, 1, 1, 1, 1)], ids=str)
def test_errors_are_torchs(pad: tuple[int, ...]) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, pad, mode="circular")

    with pytest.raises(RuntimeError):
        function(torch.randn(2, 3, 9))
    with pytest.raises(RuntimeError):
        compiled(function)(torch.randn(2, 3, 9))
