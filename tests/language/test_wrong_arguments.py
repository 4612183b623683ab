"""Wrong arguments of launches: the message names the argument, what was expected, and the next step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import torch_tile
import torch_tile.language as tl


@torch_tile.jit
def kernel(x_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + n, mask=i < n)


@torch_tile.jit
def scale(x_ptr, factor):
    tl.store(x_ptr, tl.load(x_ptr) * factor)


X = torch.zeros(16)
# Arguments of `kernel`, and parts of the message.
OBJECTS: list[tuple[Any, Any, list[str]]] = [
    (None, 5, ["argument `x_ptr` is None, expected a tensor or a number"]),
    ([1.0], 5, ["argument `x_ptr` is of type list, expected a tensor or a number"]),
    ("x", 5, ["got 'x' of type str; argument `x_ptr` is of type str"]),
    (X, None, ["argument `n` is None, expected a tensor or a number"]),
    (X, {"a": 1}, ["argument `n` is of type dict"]),
    (X, torch.float32, ["got the type fp32; argument `n` is of type torch.dtype"]),
    (X, torch.tensor(5), ["argument `n` is a tensor, of which a kernel sees the address: `n.item()` passes its value"]),
]


@pytest.mark.parametrize(("x", "n", "parts"), OBJECTS)
def test_objects(launch: Callable[[Any], Any], x: Any, n: Any, parts: list[str]) -> None:
    with pytest.raises(torch_tile.InvalidKernelError, match="kernel kernel, line ") as caught:
        launch(kernel)[(1,)](x, n, B=16)
    for part in parts:
        assert part in str(caught.value)


def test_constants_are_not_blamed(launch: Callable[[Any], Any]) -> None:
    with pytest.raises(torch_tile.InvalidKernelError) as caught:
        launch(kernel)[(1,)](X, 5, B=None)
    assert str(caught.value).endswith("tl.arange: end expected an integer, got None of type NoneType")


def test_integers_that_are_too_large(launch: Callable[[Any], Any]) -> None:
    with pytest.raises(
        torch_tile.InvalidKernelError, match=f"kernel scale: argument `factor`: the integer {2**70} does"
    ):
        launch(scale)[(1,)](X, 2**70)


def test_elements_that_no_kernel_knows(launch: Callable[[Any], Any]) -> None:
    with pytest.raises(
        torch_tile.InvalidKernelError, match=r"kernel kernel: argument `x_ptr`: tensors of torch\.complex64 are not"
    ):
        launch(kernel)[(1,)](X.to(torch.complex64), 5, B=16)


def test_arrays(launch: Callable[[Any], Any]) -> None:
    with pytest.raises(
        TypeError, match=r"argument `x_ptr`: a kernel expected a tensor, got an array of numpy; pass `to"
    ):
        launch(kernel)[(1,)](np.zeros(16), 5, B=16)


def without_memory() -> torch.Tensor:
    x = torch.zeros(16)
    x.untyped_storage().resize_(0)
    return x


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.zeros(16)


# Tensors whose elements do not lie in memory as they are.
TENSORS: list[tuple[Callable[[], torch.Tensor], str]] = [
    (lambda: X.to_sparse(), "dense tensors, got `x_ptr`, one of layout torch.sparse_coo; pass `x_ptr.to_dense()`"),
    (lambda: X.to_mkldnn(), "dense tensors, got `x_ptr`, one of layout torch._mkldnn; pass `x_ptr.to_dense()`"),
    (lambda: torch._neg_view(X), "as they lie in memory, got `x_ptr`, a negative view; pass `x_ptr.resolve_neg()`"),
    (without_memory, "tensors with memory, got `x_ptr`, whose storage was resized to 0 bytes"),
    (fake, "tensors with memory, got `x_ptr`, a fake tensor"),
]


@pytest.mark.parametrize(("make", "text"), TENSORS, ids=["sparse", "mkldnn", "negative", "resized", "fake"])
def test_tensors(launch: Callable[[Any], Any], make: Callable[[], torch.Tensor], text: str) -> None:
    with pytest.raises(ValueError, match="expected ") as caught:
        launch(kernel)[(1,)](make(), 5, B=16)
    assert text in str(caught.value)


def test_tensors_without_elements_are_fine(launch: Callable[[Any], Any]) -> None:
    launch(kernel)[(1,)](torch.empty(0), 0, B=16)


def test_tensors_elsewhere(launch: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="expected CPU tensors, got `x_ptr` on meta"):
        launch(kernel)[(1,)](X.to("meta"), 5, B=16)
