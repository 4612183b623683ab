"""Programs that draw numbers from `random.Random` objects."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from tests.compiling import fresh


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_of_a_generator_are_those_of_each_call(dtype: torch.dtype, dynamic: bool) -> None:
    """Which of them later calls get is Dynamo's choice, the same for each backend."""

    def make() -> Callable[[torch.Tensor], torch.Tensor]:
        generator = random.Random(3)
        return lambda x: x * generator.random() + generator.uniform(1, 2)

    eager, compiled, other = make(), make(), make()
    results = []
    for backend, function in (("tile", compiled), ("aot_eager", other)):
        fresh()
        call = torch.compile(function, backend=backend, dynamic=dynamic)
        results.append([call(torch.ones(size, dtype=dtype)) for size in (2, 5, 5)])
    torch.testing.assert_close(results[0][0], eager(torch.ones(2, dtype=dtype)))
    torch.testing.assert_close(results[0], results[1])


def test_gradients_of_products_with_drawn_numbers() -> None:
    generator, same = random.Random(5), random.Random(5)
    fresh()
    x = torch.ones(3, requires_grad=True)
    torch.compile(lambda x: (x.sin() * generator.random()).sum(), backend="tile")(x).backward()
    torch.testing.assert_close(x.grad, torch.ones(3).cos() * same.random())
