"""Kernels inside torch.compile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import torch_tile
import torch_tile.language as tl
from tests import processes
from tests.language.conftest import has_compiler
from torch_tile.triton_compat.tools.tensor_descriptor import TensorDescriptor

pytestmark = pytest.mark.skipif(not has_compiler(), reason="this build has no launcher for single kernels")


@torch_tile.jit
def add(x_ptr, y_ptr, o_ptr, n, SCALE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    mask = i < n
    tl.store(o_ptr + i, SCALE * tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask), mask=mask)


@torch_tile.jit
def increment(x_ptr, n, amount, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    for _ in range(2):
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + amount, mask=i < n)


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tile", **options)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_between_other_operators(fullgraph: bool) -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        o = torch.empty_like(x)
        add[(torch_tile.cdiv(x.numel(), 64),)](x, y, o, x.numel(), SCALE=3.0, B=64)
        return o.relu() + 1

    run = compiled(function, fullgraph=fullgraph)
    for size in (100, 257, 1000):
        x, y = torch.randn(size), torch.randn(size)
        torch.testing.assert_close(run(x, y), (3 * x.sin() + y).relu() + 1)


def test_in_place_on_an_input() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        increment[lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)](x, x.numel(), 1.5, 32)
        return x * 2

    x = torch.zeros(70)
    assert torch.equal(compiled(function, fullgraph=True)(x), torch.full((70,), 6.0))
    assert torch.equal(x, torch.full((70,), 3.0))


def test_dynamic_sizes_compile_once() -> None:
    counts = []

    def backend(graph: Any, inputs: Any) -> Any:
        counts.append(1)
        return graph

    def function(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        add[(torch_tile.cdiv(x.numel(), 64),)](x, x, o, x.numel(), 1.0, 64)
        return o

    run = torch.compile(function, backend=backend, dynamic=True, fullgraph=True)
    for size in (65, 130, 777):
        x = torch.randn(size)
        assert torch.equal(run(x), 2 * x)
    assert len(counts) == 1


def test_training_through_a_custom_function() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            o = torch.empty_like(x)
            add[(torch_tile.cdiv(x.numel(), 64),)](x, x, o, x.numel(), 2.0, 64)
            return o

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
            grad = grad.contiguous()
            o = torch.empty_like(grad)
            add[(torch_tile.cdiv(grad.numel(), 64),)](grad, grad, o, grad.numel(), 2.0, 64)
            return o

    x = torch.randn(100, requires_grad=True)
    compiled(lambda x: Scale.apply(x).sum())(x).backward()
    assert torch.equal(x.grad, torch.full((100,), 3.0))


CONFIGS = [torch_tile.Config({"B": 32}), torch_tile.Config({"B": 64}, num_warps=8)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grid", ["function", "sizes"])
def test_autotuned_kernel(grid: str, dynamic: bool) -> None:
    tuned = torch_tile.autotune(configs=CONFIGS, key=["n"])(add)

    def function(x: torch.Tensor) -> torch.Tensor:
        x = x.cos()
        o = torch.empty_like(x)
        blocks = (lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)) if grid == "function" else (x.numel(),)
        tuned[blocks](x, x, o, x.numel(), SCALE=1.0)
        return o + 1

    run = compiled(function, fullgraph=True, dynamic=dynamic)
    for size in (100, 129, 1000):
        x = torch.randn(size)
        torch.testing.assert_close(run(x), 2 * x.cos() + 1)


@pytest.mark.parametrize("wrap", ["tuned", "heuristics", "both"])
def test_wrapped_kernels_in_place(wrap: str) -> None:
    def block(args: Any) -> int:
        return 32 if args["n"] > 64 else 64

    kernel: Any = increment
    if wrap != "tuned":
        kernel = torch_tile.heuristics({"B": block})(kernel)
    if wrap == "tuned":
        kernel = torch_tile.autotune(CONFIGS, key=["n"], restore_value=["x_ptr"])(kernel)
    if wrap == "both":
        kernel = torch_tile.autotune([torch_tile.Config({})], key=["n"])(kernel)

    def function(x: torch.Tensor) -> torch.Tensor:
        kernel[lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)](x, x.numel(), 1.5)
        return x * 2

    x = torch.zeros(70)
    assert torch.equal(compiled(function, fullgraph=True)(x), torch.full((70,), 6.0))
    assert torch.equal(x, torch.full((70,), 3.0))


def test_hooks_of_autotuning_run() -> None:
    seen = []

    @torch_tile.jit
    def count(x_ptr, o_ptr, n, B: tl.constexpr):
        i = tl.program_id(0) * B + tl.arange(0, B)
        tl.atomic_add(o_ptr + i * 0, tl.load(x_ptr + i, mask=i < n), mask=i < n)

    def hook(arguments: Any) -> None:
        arguments["o_ptr"].zero_()
        seen.append(arguments["B"])

    tuned = torch_tile.autotune([torch_tile.Config({"B": b}, pre_hook=hook) for b in (32, 64)], key=["n"])(count)

    def function(x: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        tuned[lambda meta: (torch_tile.cdiv(meta["n"], meta["B"]),)](x, o, x.numel())
        return o + 1

    o = torch.full((1,), 100.0)
    assert compiled(function, fullgraph=True)(torch.ones(70), o).item() == 71 and o.item() == 70
    assert {32, 64} <= set(seen)


@torch_tile.jit
def apply(x_ptr, n, FUNCTION: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, FUNCTION(tl.load(x_ptr + i, mask=i < n)), mask=i < n)


@torch_tile.jit
def square(v):
    return v * v


def cube(v: Any) -> Any:
    return v * v * v


@pytest.mark.parametrize("power", [2, 3, 4])
def test_a_function_as_argument(power: int) -> None:
    function_of_power = {2: square, 3: cube, 4: lambda v: v * v * v * v}[power]

    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        apply[(1,)](y, 100, function_of_power, 128)
        return y + 1

    x = torch.randn(100)
    torch.testing.assert_close(compiled(function, fullgraph=True)(x), (x + 1) ** power + 1)


def test_closures_are_told_apart() -> None:
    """Two functions of one source line with different values inside."""

    def scaled(factor: float) -> Any:
        return lambda v: v * factor

    x = torch.randn(100)
    for factor in (2.0, 5.0):
        times = scaled(factor)

        def function(x: torch.Tensor, times: Any = times) -> torch.Tensor:
            y = x + 0
            apply[(1,)](y, 100, times, 128)
            return y

        torch._dynamo.reset()
        torch.testing.assert_close(compiled(function)(x), x * factor)


class Pair(NamedTuple):
    source: Any
    sizes: Any


@torch_tile.jit
def copy_pair(pair, o_ptr, factors, B: tl.constexpr):
    rows, columns = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    mask = (rows < pair.sizes[0]) & (columns < pair.sizes[1])
    x = tl.load(pair.source + rows * pair.sizes[1] + columns, mask=mask)
    tl.store(o_ptr + rows * pair.sizes[1] + columns, x * factors[0] + factors[1], mask=mask)


@pytest.mark.parametrize("dynamic", [False, True])
def test_tuples_as_arguments(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x.sin()
        o = torch.empty_like(x)
        copy_pair[(1,)](Pair(x, (x.shape[0], x.shape[1])), o, (2.0, 3), B=32)
        return o - 3

    run = compiled(function, fullgraph=True, dynamic=dynamic)
    for shape in ((5, 7), (9, 30), (32, 3)):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x), 2 * x.sin())


@torch_tile.jit
def turn_blocks(x_desc, o_desc, B: tl.constexpr):
    row, column = tl.program_id(0) * B, tl.program_id(1) * B
    o_desc.store([column, row], x_desc.load([row, column]).T)


@pytest.mark.parametrize("dynamic", [False, True])
def test_descriptors_as_arguments(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        o = torch.empty(x.shape[1], x.shape[0])
        grid = (torch_tile.cdiv(x.shape[0], 16), torch_tile.cdiv(x.shape[1], 16))
        turn_blocks[grid](
            TensorDescriptor.from_tensor(x, [16, 16]),
            TensorDescriptor(o, o.shape, o.stride(), [16, 16]),
            B=16,
        )
        return o * 2

    run = compiled(function, fullgraph=True, dynamic=dynamic)
    for shape in ((33, 20), (40, 64), (5, 7)):
        x = torch.randn(shape)
        assert torch.equal(run(x), (x.T + 1) * 2)


@torch_tile.jit
def fill(x_ptr, value, flag, N, KIND: tl.constexpr, DTYPE: tl.constexpr, B: tl.constexpr):
    i = tl.arange(0, B)
    if flag:
        if KIND == "double":
            value = value * 2
        tl.store(x_ptr + i, tl.full([B], value, DTYPE), mask=i < N)


def test_views_and_every_kind_of_constant() -> None:
    def function(x: torch.Tensor, value: float, flag: bool) -> torch.Tensor:
        x = x.clone()
        fill[(1,)](x[3:], value, flag, 4, KIND="double", DTYPE=tl.float32, B=8)
        fill[(1,)](x[:2], value, True, N=2, KIND=None, DTYPE=torch.float64, B=8)
        return x

    run = compiled(function, fullgraph=True)
    for value, flag in ((1.5, True), (2.5, False), (3.5, True)):
        expected = torch.zeros(10)
        expected[3:7] = 2 * value if flag else 0
        expected[:2] = value
        assert torch.equal(run(torch.zeros(10), value, flag), expected)


def test_equal_bits_interpreted_and_compiled() -> None:
    x, y = torch.randn(300).bfloat16(), torch.randn(300).bfloat16()
    a, b = torch.empty_like(x), torch.empty_like(x)
    add[(5,)](x, y, a, 300, 3.0, 64)
    add.interpret[(5,)](x, y, b, 300, 3.0, 64)
    assert torch.equal(a, b) and torch.equal(a, 3.0 * x + y)


@torch_tile.jit
def row_sums(x_ptr, o_ptr, columns, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(x_ptr + tl.program_id(0) * columns + i, mask=i < columns, other=0)
    tl.store(o_ptr + tl.program_id(0), tl.sum(x))


def test_sizes_as_constants() -> None:
    """A constant that is computed from a dynamic size; one graph per value of it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty(x.shape[0])
        row_sums[(x.shape[0],)](x, o, x.shape[1], B=torch_tile.next_power_of_2(x.shape[1]))
        return o + 1

    run = compiled(function, fullgraph=True, dynamic=True)
    for shape in ((3, 5), (8, 30), (7, 31)):
        x = torch.randn(shape)
        torch.testing.assert_close(run(x), x.sum(1) + 1)


# --- kernels of the program -------------------------------------------------------------------------------------------


def calls_outside(function: Any, *arguments: Any) -> float:
    """How many calls the graph of a function makes that are no kernels of its program."""
    torch._dynamo.reset()
    counters = torch_tile.counters
    before = counters["externs"] + counters["pycalls"]
    with torch_tile.config.patch(force_compile=True):
        compiled(function, fullgraph=True)(*arguments)
    return counters["externs"] + counters["pycalls"] - before


def test_launches_are_kernels_of_the_program() -> None:
    def plain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        add[(torch_tile.cdiv(x.numel(), 64),)](x.sin(), y, o, x.numel(), 3.0, 64)
        return o.relu()

    def in_place(x: torch.Tensor) -> torch.Tensor:
        increment[(torch_tile.cdiv(x.numel(), 64),)](x, x.numel(), 1.5, 64)
        increment[(torch_tile.cdiv(x.numel(), 64),)](x, x.numel(), 0.5, 64)
        return x * 2

    def with_tuple(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(x)
        copy_pair[(1,)](Pair(x, (x.shape[0], x.shape[1])), o, (2.0, 3), B=32)
        return o

    def with_descriptors(x: torch.Tensor) -> torch.Tensor:
        o = torch.empty(32, 32)
        blocks = [TensorDescriptor.from_tensor(t, [16, 16]) for t in (x, o)]
        turn_blocks[(2, 2)](blocks[0], blocks[1], B=16)
        return o

    assert calls_outside(plain, torch.randn(100), torch.randn(100)) == 0
    x = torch.zeros(100)
    assert calls_outside(in_place, x) == 0 and torch.equal(x, torch.full((100,), 4.0))
    assert calls_outside(with_tuple, torch.randn(5, 7)) == 0
    assert calls_outside(with_descriptors, torch.randn(32, 32)) == 0


def test_interpreted_kernels_stay_calls() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        increment[(2,)](x, x.numel(), 1.5, 64)
        return x * 2

    with torch_tile.config.patch(interpret=True):
        assert calls_outside(function, torch.zeros(100)) == 1


@torch_tile.jit
def shift(x_ptr, o_ptr, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)


@pytest.mark.parametrize("dynamic", [False, True])
def test_arguments_that_share_memory(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        before = y.clone()
        shift[(1,)](y[1:], y, x.numel() - 1, B=256)
        shift[(1,)](y, y[4:], 4, B=256)
        return before, y

    def expected(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2
        before = y.clone()
        y[:-1] = y[1:].clone() + 1
        y[4:8] = y[:4].clone() + 1
        return before, y

    run = compiled(function, fullgraph=True, dynamic=dynamic)
    for size in (100, 255):
        x = torch.randn(size)
        for a, b in zip(run(x), expected(x), strict=True):
            assert torch.equal(a, b)


def test_values_from_before_a_launch_are_kept() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x + 1
        doubled = y * 2
        increment[(2,)](y, y.numel(), 1.0, 64)
        return doubled, y, x + y

    x = torch.randn(100)
    doubled, y, both = compiled(function, fullgraph=True)(x)
    assert torch.equal(doubled, (x + 1) * 2)
    torch.testing.assert_close(y, x + 3)
    torch.testing.assert_close(both, 2 * x + 3)


def test_programs_with_kernels_come_from_disk(tmp_path: Path) -> None:
    """And are made anew when a function that the kernel calls changes."""
    source = """
import torch, torch_tile, torch_tile.language as tl

@torch_tile.jit
def helper(x):
    return x + {term}

@torch_tile.jit
def kernel(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i, helper(tl.load(x_ptr + i, mask=i < n)), mask=i < n)

def function(x):
    y = x * 2
    kernel[(2,)](y, y.numel(), B=64)
    return y

print(torch.compile(function, backend="tile", fullgraph=True)(torch.ones(100)).sum().item())
print(int(torch_tile.counters["graphs_from_disk"]), int(torch_tile.counters["externs"]))
"""
    path = tmp_path / "program.py"
    environment = {**os.environ, "TORCH_TILE_CACHE_DIR": str(tmp_path / "cache")}
    for term, expected in ((1, "300.0\n0 0\n"), (1, "300.0\n1 0\n"), (5, "700.0\n0 0\n")):
        path.write_text(source.format(term=term))
        done = processes.run(path, env=environment)
        assert done.stdout == expected, done.stderr


@torch_tile.jit
def sum_of_all(o_ptr, n, *sources, B: tl.constexpr = 64):
    i = tl.program_id(0) * B + tl.arange(0, B)
    total = tl.zeros([B], tl.float32)
    for source in tl.static_range(len(sources)):
        total += tl.load(sources[source] + i, mask=i < n)
    tl.store(o_ptr + i, total, mask=i < n)


@pytest.mark.parametrize("dynamic", [False, True])
def test_any_number_of_arguments(dynamic: bool) -> None:
    def function(*inputs: torch.Tensor) -> torch.Tensor:
        o = torch.empty_like(inputs[0])
        n = o.numel()
        sum_of_all[(torch_tile.cdiv(n, 32),)](o, n, *[x * 2 for x in inputs], B=32)
        return o + 1

    run = compiled(function, fullgraph=True, dynamic=dynamic)
    for count in (1, 3):
        for size in (100, 257):
            inputs = [torch.randn(size) for _ in range(count)]
            torch.testing.assert_close(run(*inputs), 2 * sum(inputs) + 1)
