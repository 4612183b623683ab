"""`F.affine_grid` with sides of one element, which torch's own decomposition and gradient cannot trace."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled, count, fresh


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("sizes", [(3, 1), (1, 4), (1, 1), (2, 1, 3), (1, 1, 1), (3, 4), (2, 3, 4)])
def test_values_and_gradients(sizes: tuple[int, ...], dynamic: bool, align_corners: bool) -> None:
    theta = torch.randn(2, len(sizes), len(sizes) + 1, requires_grad=True)

    def points(theta: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, [2, 3, *sizes], align_corners)

    fresh()
    result, expected = compiled(points, dynamic=dynamic)(theta), points(theta)
    assert result.stride() == expected.stride()
    torch.testing.assert_close(result, expected)
    weight = torch.randn_like(expected)
    torch.testing.assert_close(*(torch.autograd.grad((r * weight).sum(), theta)[0] for r in (result, expected)))
    assert count("fallbacks") == 0


@pytest.mark.parametrize("sizes", [(4, 1), (1, 4), (3, 1, 2), (3, 4)])
def test_sizes_of_another_tensor(sizes: tuple[int, ...]) -> None:
    def points(theta: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
        return F.affine_grid(theta, image.shape, align_corners=False)

    fresh()
    theta, image = torch.randn(2, len(sizes), len(sizes) + 1), torch.empty(2, 3, *sizes)
    torch.testing.assert_close(compiled(points, dynamic=True)(theta, image), points(theta, image))
    assert count("fallbacks") == 0


def test_a_batch_that_does_not_fit() -> None:
    with pytest.raises(RuntimeError):
        compiled(lambda theta: F.affine_grid(theta, [3, 1, 2, 1], False))(torch.randn(2, 2, 3))
