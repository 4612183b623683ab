"""Programs whose kernels, index expressions or graphs would grow without end if nothing bounded them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Program = tuple[Callable[..., Any], list[torch.Tensor]]
PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(make: Callable[[], Program]) -> Callable[[], Program]:
    PROGRAMS[make.__name__] = make
    return make


def heavy(x: torch.Tensor, count: int = 60) -> torch.Tensor:
    for k in range(count):
        x = torch.sin(x) + 0.1 if k % 3 == 0 else x * 0.75 - 0.25
    return x


def rand(*sizes: int) -> torch.Tensor:
    return torch.rand(*sizes, generator=torch.Generator().manual_seed(sum(sizes)))


# Index expressions


@program
def turned_and_reshaped() -> Program:
    def run(x: torch.Tensor) -> Any:
        for _ in range(40):
            x = x.t().reshape(x.shape)
        return x + 1

    return run, [rand(7, 11)]


@program
def turned_and_summed() -> Program:
    def run(x: torch.Tensor) -> Any:
        for _ in range(18):
            x = x.t().reshape(x.shape)
        return x.sum(0), x.sum()

    return run, [rand(7, 11)]


@program
def flipped_and_turned() -> Program:
    def run(x: torch.Tensor) -> Any:
        for _ in range(25):
            x = x.flip(0).t().reshape(x.shape)
        return x + 1

    return run, [rand(7, 11)]


@program
def rolled_and_turned() -> Program:
    def run(x: torch.Tensor) -> Any:
        for k in range(20):
            x = torch.roll(x, k + 1, 0).t().reshape(x.shape)
        return x + 1

    return run, [rand(7, 11)]


@program
def padded_and_cropped() -> Program:
    def run(x: torch.Tensor) -> Any:
        for _ in range(20):
            x = F.pad(x, (1, 1, 1, 0))[1:, 1:-1].t().reshape(x.shape)
        return x + 1

    return run, [rand(7, 11)]


@program
def indices_computed() -> Program:
    """Integers of axes alone become index expressions, which would double in each step."""

    def run(x: torch.Tensor) -> Any:
        i = torch.arange(x.shape[0])
        for k in range(40):
            i = i // 3 + (i * 5 + k) % 7
        return x[i % x.shape[0]] * 2

    return run, [rand(32, 8)]


@program
def fibonacci_of_views() -> Program:
    def run(x: torch.Tensor) -> Any:
        a = b = x
        for _ in range(25):
            a, b = b, (a.t() + b.flip(0)) * 0.5
        return b

    return run, [rand(24, 24)]


# Bodies


@program
def cat_of_heavy() -> Program:
    return lambda x: torch.cat([heavy(x[i]) for i in range(12)]), [rand(12, 64)]


@program
def stack_of_heavy() -> Program:
    return lambda x: torch.stack([heavy(x[i]) for i in range(12)], 1), [rand(12, 64)]


@program
def short_rows_stacked() -> Program:
    return lambda *xs: torch.stack([x + 1 for x in xs]) * 2, list(rand(120, 8).unbind(0))


@program
def states_stacked() -> Program:
    def run(x: torch.Tensor, z: torch.Tensor) -> Any:
        h, states = torch.zeros_like(x[0]), []
        for k in range(x.shape[0]):
            h = (1 - z[k]) * h + z[k] * x[k]
            states.append(h)
        return torch.stack(states, 1)

    return run, [rand(50, 4, 8), rand(50, 4, 8)]


@program
def where_chain() -> Program:
    def run(x: torch.Tensor) -> Any:
        y = x
        for k in range(40):
            y = torch.where(x > k * 0.02, heavy(x + k, 10), y)
        return y

    return run, [rand(24, 64)]


@program
def where_tree() -> Program:
    def run(x: torch.Tensor) -> Any:
        values = [torch.where(x > k * 0.01, x * k, x - k) for k in range(64)]
        while len(values) > 1:
            values = [torch.where(a > b, a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]

    return run, [rand(24, 64)]


@program
def select_scatters() -> Program:
    def run(x: torch.Tensor) -> Any:
        for k in range(24):
            x = x.select_scatter(heavy(x[k], 5), 0, k)
        return x

    return run, [rand(24, 64)]


@program
def rows_written() -> Program:
    def run(x: torch.Tensor) -> Any:
        x = x.clone()
        for k in range(23):
            x[k] = x[k + 1] * 2 + x[k]
        return x

    return run, [rand(24, 64)]


@program
def sum_of_terms() -> Program:
    def run(x: torch.Tensor) -> Any:
        return sum(heavy(x[k], 3) for k in range(150))

    return run, [rand(150, 32)]


@program
def long_chain() -> Program:
    def run(x: torch.Tensor) -> Any:
        for k in range(1000):
            x = x * 0.5 + 0.1 if k % 2 else x - 0.3
        return x

    return run, [rand(8, 64)]


@program
def polynomial() -> Program:
    def run(x: torch.Tensor) -> Any:
        y = torch.zeros_like(x)
        for k in range(200):
            y = y * x + k % 3
        return y

    return run, [rand(8, 64) * 0.5]


@program
def many_outputs() -> Program:
    def run(x: torch.Tensor) -> Any:
        y = torch.sin(x)
        return [y + k for k in range(200)]

    return run, [rand(8, 64)]


@program
def unrolled_cell() -> Program:
    def run(x: torch.Tensor) -> Any:
        h = c = torch.zeros_like(x[0])
        for k in range(40):
            i, g, o = torch.sigmoid(x[k] + h), torch.tanh(x[k] - h), torch.sigmoid(x[k] * h)
            c = torch.sigmoid(h) * c + i * g
            h = o * torch.tanh(c)
        return h

    return run, [rand(40, 8, 16)]


@program
def gathers() -> Program:
    generator = torch.Generator().manual_seed(1)
    indices = [torch.randint(0, 50, (40,), generator=generator) for _ in range(24)]

    def run(x: torch.Tensor, *indices: torch.Tensor) -> Any:
        return torch.cat([heavy(x[i], 5) for i in indices]), sum(x[i] * k for k, i in enumerate(indices))

    return run, [rand(50, 8), *indices]


@program
def gathers_of_gathers() -> Program:
    generator = torch.Generator().manual_seed(2)

    def run(x: torch.Tensor, i: torch.Tensor) -> Any:
        for _ in range(20):
            i = i[i]
            x = x[i] * 0.9
        return x

    return run, [rand(50, 8), torch.randint(0, 50, (50,), generator=generator)]


@program
def many_indices() -> Program:
    generator = torch.Generator().manual_seed(3)
    indices = [torch.randint(0, 3, (20,), generator=generator) for _ in range(7)]

    def run(x: torch.Tensor, *indices: torch.Tensor) -> Any:
        return x[tuple(indices)] + x[tuple(reversed(indices))]

    return run, [rand(3, 3, 3, 3, 3, 3, 3), *indices]


@program
def conditions_doubled() -> Program:
    """Each joins the one before with itself, into a sum that looks for an element chosen by index."""

    def run(x: torch.Tensor) -> Any:
        m = torch.arange(x.shape[1]) == 3
        for k in range(40):
            m = m & (m & (x[0] > -1 - k))
        return torch.where(m, x, 0).sum(1)

    return run, [rand(8, 64)]
