"""Arguments over one memory that no object shows: NumPy's, negatives of views, parameters that became the same one."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.compiling import assert_same


def add_and_read(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x + y


@pytest.mark.parametrize("dynamic", [None, True])
def test_two_storages_over_one_memory(dynamic: bool | None) -> None:
    compiled = torch.compile(add_and_read, backend="tile", dynamic=dynamic)
    compiled(torch.zeros(1000), torch.zeros(1000))
    memory = np.zeros(1000, np.float32)
    assert_same(compiled(torch.from_numpy(memory), torch.from_numpy(memory)), torch.full((1000,), 2.0))
    memory = np.zeros(1001, np.float32)
    assert_same(
        compiled(torch.from_numpy(memory[:-1]), torch.from_numpy(memory[1:])),
        torch.tensor([2.0] * 999 + [1.0]),
    )
    memory = np.zeros(2000, np.float32)  # halves lie apart
    assert_same(compiled(torch.from_numpy(memory[:1000]), torch.from_numpy(memory[1000:])), torch.ones(1000))


def test_negative_of_what_is_written() -> None:
    compiled = torch.compile(add_and_read, backend="tile")
    compiled(torch.zeros(1000), torch._neg_view(torch.ones(1000)))
    x = torch.zeros(1000)
    assert_same(compiled(x, torch._neg_view(x)), torch.zeros(1000))
    assert_same(x, torch.ones(1000))
    z = torch.zeros(1000, dtype=torch.complex64)
    assert torch.equal(compiled(z.imag, z.conj().imag), torch.zeros(1000))
    assert torch.equal(z.imag, torch.ones(1000))


def test_negatives_that_are_read_are_not_written() -> None:
    compiled = torch.compile(lambda x: x * 2, backend="tile")
    x = torch.ones(8)
    compiled(torch._neg_view(x))
    memory = np.ones(8, np.float32)
    memory.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        read_only = torch.from_numpy(memory)
    before = torch._neg_view(read_only)
    version = read_only._version
    assert_same(compiled(before), torch.full((8,), -2.0))
    assert read_only._version == version


def test_a_parameter_in_the_place_of_two() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = torch.nn.Parameter(torch.zeros(4))
            self.b = torch.nn.Parameter(torch.zeros(4))

        def forward(self) -> torch.Tensor:
            with torch.no_grad():
                self.a.add_(1)
                return self.a + self.b

    module = Module()
    compiled = torch.compile(module, backend="tile")
    with torch.no_grad():
        compiled()
        module.b = module.a
        assert_same(compiled(), torch.full((4,), 4.0))
