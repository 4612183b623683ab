"""Elements at quotients and remainders of an index, on processors with and without masks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.runtime.guard_pages import guarded_copy
from torch_tile.errors import OptionError

LENGTHS = (1, 31, 65, 130)
STEPS = (3, 7, 70)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int64, torch.bool)
TARGETS = ("host", "x86-64-v3", "x86-64-v2")
Function = Callable[..., "torch.Tensor | tuple[torch.Tensor, ...]"]


def check(f: Function, *args: torch.Tensor, target: str = "host", dynamic: bool = False) -> None:
    torch.compiler.reset()
    try:
        found = torch.compile(f, backend="tile", dynamic=dynamic, options={"target": target})(*args)
    except OptionError:
        pytest.skip(f"this processor does not run code for {target}")
    torch.testing.assert_close(found, f(*args), rtol=0, atol=0)


def numbers(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randint(-100, 100, sizes).to(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
def test_writes_of_every_nth_element(dtype: torch.dtype, target: str) -> None:
    for length in LENGTHS:
        for step in STEPS:

            def written(x: torch.Tensor, v: torch.Tensor, step: int = step) -> tuple[torch.Tensor, ...]:
                first, last = x.clone(), torch.zeros_like(x)
                first[:, ::step] = v
                last[:, (x.shape[1] - 1) % step :: step] = v
                return first, last

            check(written, numbers(3, length, dtype=dtype), numbers(3, -(-length // step), dtype=dtype), target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_indices_made_of_positions(target: str) -> None:
    for dtype in DTYPES:
        for length in (63, 100, 1000):
            for step in (3, 16, 33, 1000):

                def chosen(x: torch.Tensor, length: int = length, step: int = step) -> tuple[torch.Tensor, ...]:
                    at = torch.arange(length)
                    return x[:, at // step], x[:, at % step], x[:, (2 * at + 3) // step], x[:, (at + 5) % step]

                check(chosen, numbers(2, 1003, dtype=dtype), target=target)


@pytest.mark.parametrize("target", TARGETS)
def test_writes_behind_the_first_step(target: str) -> None:
    """Bounds of quotients: before the first position, and behind the last, elements of the source are read again."""
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        for length, start, end, step in ((130, 9, None, 7), (200, 4, 100, 3), (333, 70, 71, 3), (65, 3, 60, 5)):

            def written(x: torch.Tensor, v: torch.Tensor, place: slice = slice(start, end, step)) -> torch.Tensor:
                result = x.clone()
                result[:, place] = v
                return result

            count = len(range(*slice(start, end, step).indices(length)))
            source = guarded_copy(numbers(3, count, dtype=dtype), "end")
            check(written, numbers(3, length, dtype=dtype), source, target=target)


PARTS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "sum": lambda part, v: part + 2,
    "product": lambda part, v: part * v,
    "several": lambda part, v: torch.where(part > 0, part.sin(), part * v - v[:, :1]),
    "quotient": lambda part, v: 7 // (part + (part == 0)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("name", PARTS)
def test_parts_that_are_computed_of_themselves(name: str, dtype: torch.dtype) -> None:
    """Where the source is computed point by point of the part, kernels compute it of the whole tensor."""
    compute = PARTS[name]

    def written(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, third = x.clone(), x * 2, x.clone()
        first[:, 1::7] = compute(first[:, 1::7], y[:, 1::7])
        second[:, ::5] = compute(x[:, ::5], y[:, : second[:, ::5].shape[1]])
        third[1::2, ::3] = compute(third[1::2, ::3], y[1::2, ::3])
        return first, second, third

    torch.compiler.reset()
    x, y = numbers(6, 131, dtype=dtype), numbers(6, 131, dtype=dtype)
    x[:, 2::7] = 0
    found = torch.compile(written, backend="tile")(x, y)
    torch.testing.assert_close(found, written(x, y), rtol=0 if dtype is torch.int64 else 2e-2, atol=1e-5)


def test_sizes_that_are_dynamic() -> None:
    def written(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        result = x.clone()
        result[:, ::3] = v
        return result

    for length in (4, 65, 200):
        check(written, numbers(3, length), numbers(3, -(-length // 3)), dynamic=True)
