"""No compile takes without end: bodies, index expressions and code generation have budgets. What goes past one takes a
simpler form that gives the same values.
"""

from __future__ import annotations

import logging
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import torch_tile
from tests.backend.budget_programs import PROGRAMS, heavy
from tests.compiling import assert_same, compiled, compiler_seconds, count, fresh, run_python

# CPU seconds of the compiler for each node of an ATen graph, and for any graph: ten times what they take, and far below
# what a walk without memory or a body without bound takes.
SECONDS_PER_NODE, SECONDS = 0.02, 1.5


# Of hundreds of operations, which torch traces for up to half a minute if sizes are symbols.
LONG = {
    "cat_of_heavy", "gathers", "long_chain", "many_outputs", "polynomial", "select_scatters", "stack_of_heavy",
    "states_stacked", "sum_of_terms", "unrolled_cell", "where_chain", "where_tree",
}  # fmt: skip
CASES = [pytest.param(name, False, id=f"{name}-static") for name in PROGRAMS] + [
    pytest.param(name, True, id=f"{name}-dynamic", marks=[pytest.mark.slow] * (name in LONG)) for name in PROGRAMS
]


@pytest.mark.parametrize(("name", "dynamic"), CASES)
def test_compile_time_is_bounded(name: str, dynamic: bool) -> None:
    function, inputs = PROGRAMS[name]()
    fresh()
    with (
        compiler_seconds() as spent,
        torch._dynamo.config.patch(specialize_int=True),
        torch_tile.config.patch(cache=False),
    ):
        result = compiled(function, dynamic=dynamic)(*inputs)
    assert spent.seconds < SECONDS + SECONDS_PER_NODE * spent.nodes, spent
    assert_same(result, function(*inputs), rtol=2e-5, atol=2e-5, check_stride=False)


@pytest.mark.parametrize("operands, length", [(8, 5000), (12, 100), (32, 8), (12, 5000), (33, 2), (100, 300)])
@pytest.mark.parametrize("join", [torch.cat, torch.stack, lambda xs: torch.stack(xs, 1)], ids=["cat", "stack", "last"])
def test_elements_ask_few_operands(join: Any, operands: int, length: int) -> None:
    """Time per element of a kernel grows with the operands that its elements may come from. Operands that have several
    neighbours in memory are computed in their places instead, and up to 16 that have none are interleaved.
    """

    def function(*xs: torch.Tensor) -> torch.Tensor:
        joined: torch.Tensor = join([x + 1 for x in xs])
        return joined * 2

    xs = torch.rand(operands, length).unbind(0)
    fresh()
    with torch_tile.config.patch(cache=False):
        result = compiled(function)(*xs)
    assert_same(result, function(*xs))
    is_placed = join is torch.stack or (join is torch.cat and length >= 32)
    is_interleaved = not is_placed and operands <= 16 and length >= 64
    asks_few = operands <= 8 or (operands <= 32 and operands * result.numel() <= 32768)
    assert (count("externs") == 0) == (is_placed or is_interleaved or asks_few)


def test_time_per_operation_is_flat() -> None:
    """A body of 600 operations takes about as long for each of them as one of 40."""

    def chain(length: int) -> Any:
        def function(x: torch.Tensor) -> torch.Tensor:
            for k in range(length):
                x = x * 0.5 + 0.25 if k % 2 else torch.abs(x) - 0.5
            return x

        return function

    def seconds_per_node(length: int) -> float:
        best = float("inf")
        for _ in range(3):
            fresh()
            with compiler_seconds() as spent, torch_tile.config.patch(cache=False):
                compiled(chain(length))(torch.rand(64, 64))
            best = min(best, spent.seconds / spent.nodes)
        return best

    seconds_per_node(10)  # what only the first compile of a process does
    assert seconds_per_node(300) < 3 * seconds_per_node(20)


def test_a_budget_is_said(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([heavy(x[i], 20) for i in range(8)])

    fresh()
    x = torch.rand(8, 16)
    with caplog.at_level(logging.INFO, logger="torch_tile"), torch_tile.config.patch(cache=False):
        assert_same(compiled(function, body_budget=40)(x), function(x), rtol=1e-5)
    said = [record.getMessage() for record in caplog.records if "in memory" in record.getMessage()]
    assert len(said) == 1 and "the body would grow beyond 40 operations" in said[0]
    assert count("kernels") > 1


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_view_past_the_budget_is_made_in_memory(dynamic: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = x.t().reshape(x.shape)
        return x.sum(1)

    x = torch.arange(77.0).reshape(7, 11)
    results = {}
    for budget in (20, 10_000):
        fresh()
        with torch_tile.config.patch(cache=False), torch._dynamo.config.patch(specialize_int=True):
            results[budget] = compiled(function, dynamic=dynamic, index_budget=budget)(x)
        assert_same(results[budget], function(x), exact=True)
    with torch_tile.config.patch(cache=False, index_budget=20):
        assert "an index would grow beyond 20 operations" in torch_tile.explain(function, x).details()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_code_past_the_time_budget_is_not_optimised(dtype: torch.dtype, caplog: pytest.LogCaptureFixture) -> None:
    """Kernels that LLVM does not optimise compute the same bits."""

    def function(x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> Any:
        z = x * 3 + y.t()
        return z, z.sum(0), z.amax(1), z[i], torch.cat([z, x]), F.pad(z, (1, 2)), z.cumsum(0), torch.where(z > 1, x, y)

    def make() -> torch.Tensor:
        return torch.randint(-40, 40, (37, 37), generator=torch.Generator().manual_seed(0)).to(dtype)

    arguments = make(), make() * 2, torch.tensor([0, 5, -1])
    results = []
    for budget in (3000, 0):
        fresh()
        with caplog.at_level(logging.INFO, logger="torch_tile"), torch_tile.config.patch(cache=False):
            results.append(compiled(function, kernel_budget_ms=budget)(*arguments))
        is_said = any("without optimisation" in record.getMessage() for record in caplog.records)
        assert is_said == (budget == 0)
    assert_same(results[1], results[0], exact=True)


def test_kernels_after_unoptimised_code_are_optimised(tmp_path: Path) -> None:
    """What one compile asks of LLVM ends with it: the threads that compile, and their code generators, stay. A process
    of its own, for other tests compile without optimisation too."""
    code = """
        from pathlib import Path

        import torch
        import torch_tile
        import torch_tile.language as tl
        from torch_tile.language import kernel_cache

        compile_text = kernel_cache._C.compile_kernel
        seen = []

        class Spy:
            def __getattr__(self, name):
                return getattr(torch_tile._C, name)

            def compile_kernel(self, text, options, dump, architecture):
                seen.append((text, options))
                return compile_text(text, options, dump, architecture)

        kernel_cache._C = Spy()

        @torch_tile.jit
        def double(x_ptr, n, B: tl.constexpr):
            i = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)

        with torch_tile.config.patch(cache=False):
            double[(2,)](torch.ones(100), 100, B=64)
        ((text, options),) = seen

        def code(budget_ms):
            return {compile_text(text, {**options, "kernel_budget_ms": str(budget_ms)}, None, "") for _ in range(4)}

        optimised = code(3000)
        print(len(optimised), code(0) == optimised, code(3000) == optimised)
    """
    script = tmp_path / "script.py"  # the language reads the sources of its kernels
    script.write_text(textwrap.dedent(code))
    assert run_python(f"import runpy; runpy.run_path({str(script)!r})") == "1 False True\n"


def test_equal_layers_with_gathers_share_kernels() -> None:
    """What a kernel says of a bad index does not tell where in the program it is."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.rand(13, 8))
            self.norm = torch.nn.LayerNorm(8)

        def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            return self.norm(x + self.table[places]) + F.embedding(places, self.table).tanh()

    layers = torch.nn.ModuleList(Layer() for _ in range(5))

    def run(count: int) -> Any:
        def function(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
            for layer in layers[:count]:
                x = torch.sort(layer(x, places), dim=0)[0]  # a call between layers
            return x

        return function

    kernels = {}
    x, places = torch.rand(32, 8), torch.randint(0, 13, (32,))
    for number in (1, 5):
        fresh()
        with torch.no_grad(), torch_tile.config.patch(cache=False):
            assert_same(compiled(run(number))(x, places), run(number)(x, places), rtol=1e-5, atol=1e-5)
        kernels[number] = count("kernels")
    assert kernels[5] == kernels[1]
    with pytest.raises(IndexError, match="index 13 is out of bounds for dimension 0 with size 13"), torch.no_grad():
        compiled(run(5))(x, places + 13 - places.max() + 0 * places)
