"""Long reductions whose length nothing divides: pieces of equal length, and a rest that comes with their results."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Function = Callable[[torch.Tensor], torch.Tensor]

# Primes, and twice a prime: no piece of a useful length divides them.
LENGTHS = (100_003, 524_309, 1_048_583, 2 * 524_309)

EXACT: dict[str, Function] = {
    "amax": lambda x: x.amax(-1),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "any": lambda x: (x > 3.9).any(-1),
    "count": lambda x: (x > 0).sum(-1),
    "whole numbers": lambda x: (x * 8).to(torch.int64).sum(-1),
    "where": lambda x: torch.where(x > 0, x, -x).amin(-1),
}
ROUNDED: dict[str, Function] = {
    "sum": lambda x: x.sum(-1),
    "mean of squares": lambda x: x.square().mean(-1),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=-1),
    "log-sum-exp": lambda x: x.logsumexp(-1),
    "product": lambda x: (1 + (x - 1) / 256).prod(-1),
}


def compiled(function: Function) -> Function:
    torch.compiler.reset()
    return torch.compile(function, backend="tile", fullgraph=True)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", EXACT)
def test_what_is_exact(name: str, length: int) -> None:
    x = torch.randn(2, length)
    x[0, -1], x[1, 0], x[1, -1] = 9, -9, 9  # the extremes lie in the rest, and at both ends
    function = EXACT[name]
    assert torch.equal(compiled(function)(x), function(x))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", ROUNDED)
def test_what_is_rounded(name: str, length: int) -> None:
    x = torch.randn(2, length) + 1
    function = ROUNDED[name]
    found, eager, exact = compiled(function)(x), function(x), function(x.double())
    # Roundings of the factors of a product add up as a random walk.
    share = 1.2e-7 * length**0.5 if name == "product" else 4e-7
    allowed = max(2 * (eager - exact).abs().max().item(), share * exact.abs().max().item())
    assert (found - exact).abs().max().item() <= allowed


@pytest.mark.parametrize("columns", [2, 17, 40])
def test_columns(columns: int) -> None:
    x = torch.randn(100_003, columns)
    x[-1] = 50
    found = compiled(lambda x: (x.amax(0), x.argmax(0), x.double().sum(0)))(x)  # type: ignore[arg-type,return-value]
    expected = (x.amax(0), x.argmax(0), x.double().sum(0))
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])
    torch.testing.assert_close(found[2], expected[2], rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("rows", range(1, 8))
@pytest.mark.parametrize("length", [400_009, 400_012, 600_013, 800_021])
def test_moments_of_equal_elements(rows: int, length: int) -> None:
    """Counts of 0 among those that are combined: one part of the moments is empty."""
    x = torch.ones(rows, length)
    variance, mean = compiled(lambda x: torch.var_mean(x, 1, correction=0))(x)  # type: ignore[arg-type,return-value]
    assert torch.equal(variance, torch.zeros(rows)) and torch.equal(mean, torch.ones(rows))


def test_equal_elements_give_the_first() -> None:
    x = torch.zeros(1_048_583)
    assert compiled(lambda x: x.argmax())(x) == 0
    x[-3:] = 1
    assert compiled(lambda x: x.argmax())(x) == len(x) - 3


def test_nan_in_the_rest() -> None:
    x = torch.randn(1_048_583)
    x[-1] = float("nan")
    assert compiled(lambda x: x.amax())(x).isnan() and compiled(lambda x: x.argmax())(x) == len(x) - 1


def test_indices_are_checked_in_the_rest() -> None:
    table, index = torch.randn(64), torch.randint(64, (1_048_583,))
    index[-1] = 64
    with pytest.raises(IndexError):
        compiled(lambda i: table[i].sum())(index)
    index[-1] = 63
    torch.testing.assert_close(compiled(lambda i: table[i].double().sum())(index), table[index].double().sum())


def test_what_other_reductions_need_is_not_written() -> None:
    """Two reductions of one product: a rest of their own would have it in memory."""
    x, y = torch.randn(1_048_583), torch.randn(1_048_583)

    def both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = torch.sin(x) * torch.exp(y)
        return product.sum(), product.amax()

    torch.compiler.reset()
    found = torch.compile(both, backend="tile")(x, y)
    torch.testing.assert_close(found, both(x, y), rtol=1e-4, atol=1e-3)


def test_threads_do_not_change_bits() -> None:
    x = torch.randn(1_048_583)
    function = compiled(lambda x: torch.stack([x.sum(), x.square().mean()]))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 7):
            torch.set_num_threads(threads)
            results.append(function(x))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(results[0], each) for each in results)
