"""Sizes that depend on numbers in tensors, and gradients that get the sizes but not the numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.compiling import compiled, count, fresh

Function = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

FUNCTIONS: dict[str, Function] = {
    "pad": lambda x, n, k: F.pad(x, (n, k)),
    "reflect": lambda x, n, k: F.pad(x, (n, k), mode="reflect"),
    "pad_twice": lambda x, n, k: F.pad(F.pad(x, (n, 0)) * 2, (0, k), value=1.0),
    "one_side": lambda x, n, k: F.pad(x.sin(), (0, n, k, 0)),
    "pad_and_join": lambda x, n, k: torch.cat([F.pad(x, (n, k)).relu(), x], -1),
    "same_on_both_sides": lambda x, n, k: F.pad(x, (n, n)),
    "same_twice": lambda x, n, k: F.pad(F.pad(x, (n, k)).relu(), (k, n)),
    "twice_the_number": lambda x, n, k: F.pad(x, (0, 2 * n.item())),
    "maximum": lambda x, n, k: F.pad(x, (max(n.item(), 2), 0)) * 2,
    "repeat": lambda x, n, k: x.repeat_interleave(n.item(), 1).tanh(),
    "product": lambda x, n, k: x[..., None].expand(2, 3, 16, n.item()).reshape(6, -1).exp(),
    "narrow": lambda x, n, k: x[..., : n.item()] * 2 + x[..., k.item() : k.item() + n.item()],
    "expand": lambda x, n, k: x.unsqueeze(0).expand(n.item() + k.item(), 2, 3, 16).sigmoid(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_values_and_gradients(name: str, dynamic: bool | None) -> None:
    function = FUNCTIONS[name]
    fresh()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        call = compiled(function, dynamic=dynamic, fullgraph=False)
        for n, k in ((3, 2), (3, 2), (1, 4), (5, 5)):
            numbers = torch.tensor(n), torch.tensor(k)
            x = torch.randn(2, 3, 16, requires_grad=True)
            y = x.detach().clone().requires_grad_()
            result, expected = call(x, *numbers), function(y, *numbers)
            torch.testing.assert_close(result, expected)
            weight = torch.randn_like(expected)
            for each in (result, expected):
                (each * weight).sum().backward()
            torch.testing.assert_close(x.grad, y.grad)
    assert count("fallbacks") == 0
