"""cat and stack of operands that kernels compute in their places in the result."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torch_tile
from tests.compiling import fresh


def compare(function, *arguments, dynamic=False, kernels=None):
    fresh()
    compiled = torch.compile(function, backend="tile", fullgraph=True, dynamic=dynamic)
    expected_arguments = [a.clone() if torch.is_tensor(a) else a for a in arguments]
    expected = function(*expected_arguments)
    with torch_tile.expect(kernels=kernels, outside=0, fallbacks=0):
        result = compiled(*arguments)
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(arguments, tuple(expected_arguments))
    for ours, eager in zip(tensors(result), tensors(expected), strict=True):
        assert ours.stride() == eager.stride()
    storages = [t.untyped_storage().data_ptr() for t in tensors(result)]
    assert len(set(storages)) == len(storages)


def tensors(value):
    return [value] if torch.is_tensor(value) else list(value)


def recurrence(x, state):
    outputs = []
    for t in range(x.shape[0]):
        state = torch.tanh(state * 0.5 + x[t])
        outputs.append(state)
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("steps", [3, 8, 17])
@pytest.mark.parametrize("length", [64, 35])
def test_a_recurrence_is_one_kernel(steps, length, dynamic):
    compare(recurrence, torch.randn(steps, 5, length), torch.randn(5, length), dynamic=dynamic, kernels=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.uint8, torch.bool], ids=str)
def test_types(dtype):
    def function(x, y):
        parts = [(x + k) * y for k in range(5)] if dtype != torch.bool else [x & y, x | y, x ^ y, ~x & y]
        return torch.cat(parts, 1)

    x = (torch.randn(6, 32, 9) * 3).to(dtype)
    compare(function, x, x.flip(0).clone(), kernels=1)


def test_a_result_that_is_also_a_part():
    def function(x):
        y, z = x.softmax(-1), x.sin() * x.cos()
        return torch.cat([y, z, y + z, x]), y, z

    compare(function, torch.randn(20, 64))


def test_one_value_in_two_concatenations():
    def function(x):
        y, z = x.softmax(-1), x.sigmoid() * x.sin()
        return torch.cat([y, z, z.cos() * z]), torch.cat([z, y, y])

    compare(function, torch.randn(20, 64))


def test_a_concatenation_in_another():
    def function(x):
        y = torch.cat([x.softmax(-1), x.sigmoid() * x.sin(), x.cos() * x])
        return torch.cat([y, y.softmax(0), y * y.sigmoid(), x])

    compare(function, torch.randn(20, 64))


def test_reductions_as_parts():
    def function(x):
        return torch.cat([x.mean(0), x.std(0), x.amax(0), x.sum(0)])

    compare(function, torch.randn(100, 96))


def test_writes_into_the_result():
    def function(x):
        y = torch.stack([x.sin() * k + x.cos() for k in range(12)])
        y[3].mul_(2)
        y[:, 1:].add_(x[1:])
        z = y.sum(0)
        y[0].copy_(x)
        return y, z

    compare(function, torch.randn(20, 64))


def test_parts_are_read_after_writes_into_the_result():
    def function(x):
        parts = [x.sin() * k + x.cos() for k in range(4)]
        y = torch.cat(parts)
        y.mul_(2)
        return y, parts[2] + 1, parts[0].sum(0)

    compare(function, torch.randn(20, 64))


def test_a_write_into_an_input_that_parts_read():
    def function(x):
        parts = [x.sin() * k + x.cos() for k in range(4)]
        x.add_(1)
        return torch.cat([*parts, x.exp() * x])

    compare(function, torch.randn(20, 64))


def test_an_operand_without_elements():
    def function(x):
        return torch.cat([x.sin() * x, x[:0], x.softmax(-1), torch.empty(0)])

    compare(function, torch.randn(20, 64))


def test_an_argument_of_a_call():
    def function(x, w):
        return torch.cat([x.softmax(-1), x.sin() * x.cos(), x.tanh() * x]) @ w

    fresh()
    x, w = torch.randn(20, 64), torch.randn(64, 8)
    torch.testing.assert_close(torch.compile(function, backend="tile", fullgraph=True)(x, w), function(x, w))


def test_channels_last():
    def function(x):
        return torch.cat([x.sin() * x, x.softmax(1), x.exp() * x.cos(), x], 1)

    compare(function, torch.randn(2, 32, 5, 6).to(memory_format=torch.channels_last))


def test_gradients():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(32, 32)

        def forward(self, x):
            state, outputs = x.new_zeros(x.shape[1], 32), []
            for part in x:
                state = self.cell(part, state)
                outputs.append(state)
            return torch.stack(outputs)

    fresh()
    torch.manual_seed(0)
    model, x = Cell(), torch.randn(10, 4, 32)
    model(x).square().sum().backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    torch.compile(model, backend="tile", fullgraph=True)(x).square().sum().backward()
    torch.testing.assert_close({name: p.grad for name, p in model.named_parameters()}, expected, rtol=1e-4, atol=1e-4)


def test_other_sizes_with_the_same_program():
    def function(x, y):
        return torch.cat([x.softmax(-1), y.exp() * y, x * y.sum(0), y], 0)

    fresh()
    compiled = torch.compile(function, backend="tile", fullgraph=True, dynamic=True)
    for rows, more, length in [(4, 5, 64), (3, 9, 33), (1, 2, 100), (7, 2, 40)]:
        x, y = torch.randn(rows, length), torch.randn(more, length)
        torch.testing.assert_close(compiled(x, y), function(x, y))


def test_explain_names_the_decision():
    def function(x):
        return torch.cat([x.softmax(-1), x.sin() * x.cos(), x.tanh() * x])

    fresh()
    text = torch_tile.explain(function, torch.randn(20, 64), verbose=True)
    assert "computed in its part of the result" in str(text)


@pytest.mark.parametrize("dtype", [torch.float16, torch.uint8, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(70, 16, 2), (70, 16, 3), (33, 40, 2), (33, 24, 7), (9, 5, 2)], ids=str)
def test_parts_before_a_short_axis(shape, dtype):
    x = (torch.rand(shape) * 99).to(dtype)
    compare(lambda x: torch.cat([x, x.flip(2), x[:, :3]], 1), x, kernels=1)


@pytest.mark.parametrize("count", [7, 9, 11, 13, 15])
def test_stacks_of_bytes_with_equal_columns(count):
    """LLVM did not end on shuffles of 8 bytes that read one column several times."""

    def function(x):
        first = x[..., 0]
        columns = [first, x.sum(-1).to(x.dtype), *[first] * (count - 5), first * first, x[..., 2], first]
        return torch.stack(columns, -1)

    compare(function, torch.randint(-9, 9, (51, 5), dtype=torch.int8))
