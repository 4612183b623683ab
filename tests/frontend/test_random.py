"""Random numbers: Philox against the published vectors, and the rewriting of random ops."""

from __future__ import annotations

import torch

from tests.compiling import compiled, tile_only

pytestmark = tile_only


def uniform(seed: int, salt: int, size: list[int]) -> torch.Tensor:
    import torch_tile.frontend.fx_passes  # noqa: F401

    return torch.ops.torch_tile.philox_uniform(torch.tensor(seed), salt, size, torch.float32)


def test_known_answer() -> None:
    # Random123's kat_vectors: counter and key all zero give 6627e8d5 as first word.
    assert uniform(0, 0, [1]).item() == (0x6627E8D5 >> 8) * 2.0**-24


def test_element_depends_on_its_index_only() -> None:
    assert torch.equal(uniform(7, 1, [6, 4]).flatten()[:5], uniform(7, 1, [5]))
    assert not torch.equal(uniform(7, 1, [5]), uniform(7, 2, [5]))


def test_dropout_of_compiled_code() -> None:
    f = compiled(lambda x: torch.nn.functional.dropout(x, 0.25))
    x = torch.ones(64, 100)
    torch.manual_seed(3)
    first = f(x)
    torch.manual_seed(3)
    assert torch.equal(first, f(x))
    assert not torch.equal(first, f(x))
    assert abs((first == 0).float().mean().item() - 0.25) < 0.03
    assert set(first.unique().tolist()) == {0.0, torch.tensor(1 / 0.75).item()}


def test_compiled_bits_are_those_of_the_eager_op() -> None:
    torch.manual_seed(5)
    result = compiled(lambda x: torch.rand_like(x))(torch.empty(33, 7))
    torch.manual_seed(5)
    seed = torch.randint(-(2**63) + 1, 2**63 - 1, [], dtype=torch.int64)
    assert torch.equal(result, uniform(int(seed), 0, [33, 7]))


def test_normal_numbers_of_float64_are_those_of_eager_mode() -> None:
    def draw(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.randn(1000, dtype=torch.float64), torch.randn_like(x), x.clone().normal_(1.0, 2.0)]

    x = torch.zeros(1000, dtype=torch.float64)
    torch.manual_seed(3)
    results = compiled(draw)(x)
    torch.manual_seed(3)
    for result, expected in zip(results, draw(x), strict=True):
        assert torch.equal(result, expected)
        assert (result != result.float().double()).float().mean() > 0.9
