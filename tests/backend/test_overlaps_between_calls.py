"""Arguments that overlap in one call in another way than in the first."""

from collections.abc import Callable

import pytest
import torch

from tests.compiling import compiled

Arguments = tuple[torch.Tensor, ...]

PAIRS: dict[str, Callable[[torch.Tensor], Arguments]] = {
    "the same": lambda q: (q[:4], q[:4].view(4)),
    "a view of another form": lambda q: (q[:4], q.view(2, 4)[0]),
    "overlapping": lambda q: (q[:4], q[2:6]),
    "overlapping, turned": lambda q: (q[2:6], q[:4]),
    "overlapping elsewhere": lambda q: (q[1:5], q[3:7]),
    "side by side": lambda q: (q[:4], q[4:]),
    "side by side, turned": lambda q: (q[4:], q[:4]),
    "woven": lambda q: (q[::2], q[1::2]),
    "woven and overlapping": lambda q: (q[::2], q[:4]),
    "apart": lambda q: (q[:4].clone(), q[4:].clone()),
}
TRIPLES: dict[str, Callable[[torch.Tensor], Arguments]] = {
    "apart": lambda q: (q[:4].clone(), q[2:6].clone(), q[4:].clone()),
    "first and second": lambda q: (q[:4], q[2:6], q[4:].clone()),
    "first and third": lambda q: (q[:4], q[2:6].clone(), q[1:5]),
    "second and third": lambda q: (q[:4].clone(), q[2:6], q[4:]),
    "all": lambda q: (q[:4], q[2:6], q[4:]),
}


def write_one(a: torch.Tensor, b: torch.Tensor) -> Arguments:
    a.mul_(2)
    return b.sum(), a + b.sum()


def write_two(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> Arguments:
    a.add_(1)
    c.mul_(b.sum())
    return (a.sum() + b.sum() * 10 + c.sum() * 100,)


def _check(
    function: Callable[..., Arguments], made: dict[str, Callable[[torch.Tensor], Arguments]], first: str, dynamic: bool
) -> None:
    call = compiled(function, dynamic=dynamic)
    for name in (first, *made, first):
        given, expected = made[name](torch.arange(8.0)), made[name](torch.arange(8.0))
        results, eager = call(*given), function(*expected)
        for one, other in zip((*results, *given), (*eager, *expected), strict=True):
            assert torch.equal(one, other), f"{name} after {first}"


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("first", PAIRS)
def test_two_of_which_one_is_written(first: str, dynamic: bool) -> None:
    _check(write_one, PAIRS, first, dynamic)


@pytest.mark.parametrize("first", TRIPLES)
def test_three_of_which_two_are_written(first: str) -> None:
    _check(write_two, TRIPLES, first, False)
